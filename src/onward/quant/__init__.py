"""Quantization: models that are trained as before and exported to integers."""

from .config.checks import QuantizationWarning
from .config.files import load_config
from .config.settings import Activations, Clamp, QuantConfig, Resolved, Rule, Weights
from .grids.grid import Grid
from .grids.ranges import Observer, RangeError, register_calibrate_method, unregister_calibrate_method
from .setup.constrain import constrain, unconstrain
from .setup.initialize import initialise, is_initialised, save_config
from .tools.analyze import Analysis, analyse
from .tools.calibrate import calibration
from .tools.layers import dump_layers, trace_layers
from .tools.quantize import quantize

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
