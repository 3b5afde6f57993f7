"""Passes over the emitted graph, in one ordered list."""

from .expose_weights import expose_weights
from .pipeline import tidy

__all__ = ["expose_weights", "tidy"]
