"""The exact steps of evaluation as operators of PyTorch (`torch.ops.onward`), by family."""

from .core import (
    binary,
    centred,
    conv,
    dequantize,
    kernels,
    linear,
    matmul,
    quantize,
    requantize,
    rescale,
    wide_values,
    widened,
)
from .norms import instance_norm, layer_norm
from .pools import average_pool, global_average_pool
from .recurrent import dynamic_lstm
from .tables import log_softmax, lookup, softmax, table_of
from .transposed import conv_transpose
from .weights import linear_blocks, stored

__all__ = [
    "average_pool",
    "binary",
    "centred",
    "conv",
    "conv_transpose",
    "dequantize",
    "dynamic_lstm",
    "global_average_pool",
    "instance_norm",
    "kernels",
    "layer_norm",
    "linear",
    "linear_blocks",
    "log_softmax",
    "lookup",
    "matmul",
    "quantize",
    "requantize",
    "rescale",
    "softmax",
    "stored",
    "table_of",
    "wide_values",
    "widened",
]
