"""The public names of onward, all imported. `__init__` asks for this module when the first of them is used."""

from . import onnx, operators
from .api import export
from .capture import CaptureWarning
from .capture.model import select_model_mode_for_export, set_training
from .capture.session import is_capturing as is_in_onnx_export
from .errors import (
    CaptureError,
    ExportError,
    FrozenAxisError,
    InputError,
    LoweringError,
    MissingDependencyError,
    PassError,
    QuantizationError,
    UnsupportedOpError,
    VerifyError,
    WriteError,
)
from .files import apply_weights, infer_shapes, input_names, optimize, output_names, printable, with_outputs
from .lower import lowers, register_custom_op_symbolic, unregister_custom_op_symbolic
from .mismatch import find_mismatch
from .options import OperatorExportTypes, TrainingMode
from .program import Program
from .quant import (
    Activations,
    Clamp,
    QuantConfig,
    QuantizationWarning,
    Rule,
    Weights,
    analyse,
    calibration,
    constrain,
    dump_layers,
    load_config,
    quantize,
    register_calibrate_method,
    save_config,
    trace_layers,
    unconstrain,
    unregister_calibrate_method,
)
from .routing import init, restore

__all__ = [
    "Activations",
    "CaptureError",
    "CaptureWarning",
    "Clamp",
    "ExportError",
    "FrozenAxisError",
    "InputError",
    "LoweringError",
    "MissingDependencyError",
    "OperatorExportTypes",
    "PassError",
    "Program",
    "QuantConfig",
    "QuantizationError",
    "QuantizationWarning",
    "Rule",
    "TrainingMode",
    "UnsupportedOpError",
    "VerifyError",
    "Weights",
    "WriteError",
    "analyse",
    "apply_weights",
    "calibration",
    "constrain",
    "dump_layers",
    "export",
    "find_mismatch",
    "infer_shapes",
    "init",
    "input_names",
    "is_in_onnx_export",
    "load_config",
    "lowers",
    "onnx",
    "operators",
    "optimize",
    "output_names",
    "printable",
    "quantize",
    "register_calibrate_method",
    "register_custom_op_symbolic",
    "restore",
    "save_config",
    "select_model_mode_for_export",
    "set_training",
    "trace_layers",
    "unconstrain",
    "unregister_calibrate_method",
    "unregister_custom_op_symbolic",
    "with_outputs",
]
