"""The report: one page that a person reads after an export."""

from .artifacts import captured_text, write_artifacts
from .data import report_data
from .page import render, write_report

__all__ = ["captured_text", "render", "report_data", "write_artifacts", "write_report"]
