"""Passes over the emitted graph, in one ordered list."""

from .expose_weights import expose_weights
from .modules_to_functions import modules_to_functions
from .pipeline import tidy, tidy_file

__all__ = ["expose_weights", "modules_to_functions", "tidy", "tidy_file"]
