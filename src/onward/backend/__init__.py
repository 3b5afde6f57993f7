"""Run any ONNX model on PyTorch: the interface of `onnx.backend.base`, and the model as an `nn.Module`."""

from ..errors import BackendError
from .api import Backend, Rep, is_compatible, prepare, run_model, run_node, supports_device
from .limits import Limits
from .module import OnnxModule
from .registry import implements

__all__ = [
    "Backend",
    "BackendError",
    "Limits",
    "OnnxModule",
    "Rep",
    "implements",
    "is_compatible",
    "prepare",
    "run_model",
    "run_node",
    "supports_device",
]
