"""Work on any ONNX model, whoever wrote it."""

from .compat import Compatibility, check_target, compatibility
from .edit import infer_shapes, with_outputs
from .load import AnyModel, load
from .optimize import optimize
from .reweigh import apply_weights
from .summary import input_names, output_names, printable

__all__ = [
    "AnyModel",
    "Compatibility",
    "apply_weights",
    "check_target",
    "compatibility",
    "infer_shapes",
    "input_names",
    "load",
    "optimize",
    "output_names",
    "printable",
    "with_outputs",
]
