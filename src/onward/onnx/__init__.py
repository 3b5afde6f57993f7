"""What scripts import from `torch.onnx`, under the same names: `import onward.onnx` in its place."""

from onward.api import export
from onward.capture.attempt.session import is_capturing as is_in_onnx_export
from onward.capture.frontends.model import select_model_mode_for_export, set_training
from onward.lower import register_custom_op_symbolic, unregister_custom_op_symbolic
from onward.options import OperatorExportTypes, TrainingMode
from onward.program import Program as ONNXProgram

from . import errors, operators, symbolic_helper, utils

__all__ = [
    "ONNXProgram",
    "OperatorExportTypes",
    "TrainingMode",
    "errors",
    "export",
    "is_in_onnx_export",
    "operators",
    "register_custom_op_symbolic",
    "select_model_mode_for_export",
    "set_training",
    "symbolic_helper",
    "unregister_custom_op_symbolic",
    "utils",
]
