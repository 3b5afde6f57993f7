"""Quantisation: models that are trained as before and exported to integers."""

from .calibrate import QuantizationWarning, calibration
from .config import Activations, QuantConfig, Resolved, Rule, Weights
from .grid import Grid
from .initialise import initialise, is_initialised
from .quantize import quantize
from .ranges import Observer, RangeError, register_calibrate_method, unregister_calibrate_method

__all__ = [
    "Activations",
    "Grid",
    "Observer",
    "QuantConfig",
    "QuantizationWarning",
    "RangeError",
    "Resolved",
    "Rule",
    "Weights",
    "calibration",
    "initialise",
    "is_initialised",
    "quantize",
    "register_calibrate_method",
    "unregister_calibrate_method",
]
