"""The names that scripts took from `torch.onnx.utils`."""

from onward.api import export
from onward.capture.attempt.session import is_capturing as is_in_onnx_export
from onward.capture.frontends.model import select_model_mode_for_export, set_training
from onward.lower import register_custom_op_symbolic, unregister_custom_op_symbolic

__all__ = [
    "export",
    "is_in_onnx_export",
    "register_custom_op_symbolic",
    "select_model_mode_for_export",
    "set_training",
    "unregister_custom_op_symbolic",
]
