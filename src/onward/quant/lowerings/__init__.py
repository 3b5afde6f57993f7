"""The exact steps of evaluation in ONNX, by family as in `ops/`."""

from . import norms, pools, recurrent, tables, transposed, weights
from .core import dequantized, quantized

__all__ = ["dequantized", "norms", "pools", "quantized", "recurrent", "tables", "transposed", "weights"]
