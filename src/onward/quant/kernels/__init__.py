"""What onnxruntime 1.31 computes on x86-64 for quantised operators, element by element.

Pure functions of integer tensors and their grids. Each docstring names the ONNX pattern that it equals, what the
runtime's optimiser makes of it, and when.
"""

from .basic import clip, dequantize, quantize
from .conv import conv
from .elementwise import add, mul
from .linear import linear, matmul

__all__ = ["add", "clip", "conv", "dequantize", "linear", "matmul", "mul", "quantize"]
