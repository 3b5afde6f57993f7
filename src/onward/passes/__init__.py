"""Passes over the emitted graph, in one ordered list."""

from .pipeline import tidy

__all__ = ["tidy"]
