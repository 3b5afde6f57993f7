"""Quantisation: models that are trained as before and exported to integers."""

from .config import Activations, QuantConfig, Resolved, Rule, Weights
from .grid import Grid
from .ranges import Observer, RangeError, register_calibrate_method, unregister_calibrate_method

__all__ = [
    "Activations",
    "Grid",
    "Observer",
    "QuantConfig",
    "RangeError",
    "Resolved",
    "Rule",
    "Weights",
    "register_calibrate_method",
    "unregister_calibrate_method",
]
