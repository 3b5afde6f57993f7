"""The report: one page that a person reads after an export."""

from .artifacts import captured_text, write_artifacts
from .data import report_data
from .measure import Measuring, measured_data
from .page import measuring_of, render, write_page, write_report

__all__ = [
    "Measuring",
    "captured_text",
    "measured_data",
    "measuring_of",
    "render",
    "report_data",
    "write_artifacts",
    "write_page",
    "write_report",
]
