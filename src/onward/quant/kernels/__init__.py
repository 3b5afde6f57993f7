"""What onnxruntime 1.31 computes on x86-64 for quantised operators, element by element.

Pure functions of integer tensors and their grids. Each docstring names the ONNX pattern that it equals, what the
runtime's optimiser makes of it, and when.
"""

from .basic import clip, dequantize, quantize, requantize, to_grid
from .conv import conv, conv_sums
from .elementwise import add, mul
from .linear import linear, linear_sums, matmul, matmul_sums

__all__ = [
    "add",
    "clip",
    "conv",
    "conv_sums",
    "dequantize",
    "linear",
    "linear_sums",
    "matmul",
    "matmul_sums",
    "mul",
    "quantize",
    "requantize",
    "to_grid",
]
