"""What makes a quantised file fast in onnxruntime, and changes no integer of its results."""

from .pipeline import for_onnxruntime, register

__all__ = ["for_onnxruntime", "register"]
