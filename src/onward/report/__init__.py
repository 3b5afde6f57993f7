"""The report: one self-contained HTML page about an exported model."""

from .page import render, write_report

__all__ = ["render", "write_report"]
