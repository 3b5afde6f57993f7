"""What onnxruntime 1.31 computes on x86-64 for quantised operators, element by element.

Pure functions of integer tensors and their grids. Each docstring names the ONNX pattern that it equals, what the
runtime's optimiser makes of it, and when.
"""

from .basic import clip, dequantize, quantize, requantize, to_grid
from .concat import concat, regrid, where
from .conv import conv, conv_sums
from .elementwise import add, mul, through_float
from .functions import hardsigmoid, hardswish, leaky_relu, lookup, runtime_function, sigmoid, silu, tanh
from .linear import linear, linear_sums, matmul, matmul_sums
from .norms import float_log_softmax, float_softmax, instance_norm, layer_norm
from .pool import average_pool, averaging_weights, global_average_pool, max_pool, mean
from .resize import resize_antialiased, resize_bilinear, resize_cubic, resize_linear
from .sampling import affine_grid, grid_sample
from .softmax import softmax
from .transposed import conv_transpose, conv_transpose_sums

__all__ = [
    "add",
    "affine_grid",
    "average_pool",
    "averaging_weights",
    "clip",
    "concat",
    "conv",
    "conv_sums",
    "conv_transpose",
    "conv_transpose_sums",
    "dequantize",
    "float_log_softmax",
    "float_softmax",
    "global_average_pool",
    "grid_sample",
    "hardsigmoid",
    "hardswish",
    "instance_norm",
    "layer_norm",
    "leaky_relu",
    "linear",
    "linear_sums",
    "lookup",
    "matmul",
    "matmul_sums",
    "max_pool",
    "mean",
    "mul",
    "quantize",
    "regrid",
    "requantize",
    "resize_antialiased",
    "resize_bilinear",
    "resize_cubic",
    "resize_linear",
    "runtime_function",
    "sigmoid",
    "silu",
    "softmax",
    "tanh",
    "through_float",
    "to_grid",
    "where",
]
