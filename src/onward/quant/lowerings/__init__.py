"""The exact steps of evaluation in ONNX, by family as in `ops/`."""

from .core import dequantized, quantized

__all__ = ["dequantized", "quantized"]
