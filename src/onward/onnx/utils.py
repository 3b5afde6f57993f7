"""The names that scripts took from `torch.onnx.utils`."""

from onward.api import export
from onward.capture.model import select_model_mode_for_export, set_training
from onward.capture.session import is_capturing as is_in_onnx_export

__all__ = [
    "export",
    "is_in_onnx_export",
    "select_model_mode_for_export",
    "set_training",
]
