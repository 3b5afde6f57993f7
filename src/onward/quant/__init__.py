"""Quantisation: models that are trained as before and exported to integers."""

from .analyse import analyse
from .analysis import Analysis
from .calibrate import calibration
from .caution import QuantizationWarning
from .config import Activations, Clamp, QuantConfig, Resolved, Rule, Weights
from .config_file import load_config, save_config
from .constrain import constrain, unconstrain
from .grid import Grid
from .initialise import initialise, is_initialised
from .layers import dump_layers, trace_layers
from .quantize import quantize
from .ranges import Observer, RangeError, register_calibrate_method, unregister_calibrate_method

__all__ = [
    "Activations",
    "Analysis",
    "Clamp",
    "Grid",
    "Observer",
    "QuantConfig",
    "QuantizationWarning",
    "RangeError",
    "Resolved",
    "Rule",
    "Weights",
    "analyse",
    "calibration",
    "constrain",
    "dump_layers",
    "initialise",
    "is_initialised",
    "load_config",
    "quantize",
    "register_calibrate_method",
    "save_config",
    "trace_layers",
    "unconstrain",
    "unregister_calibrate_method",
]
