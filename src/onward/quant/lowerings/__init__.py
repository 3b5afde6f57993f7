"""The exact steps of evaluation in ONNX, by family as in `ops/`."""

from . import pools, recurrent, tables, transposed, weights
from .core import dequantized, quantized

__all__ = ["dequantized", "pools", "quantized", "recurrent", "tables", "transposed", "weights"]
