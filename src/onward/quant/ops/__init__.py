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
)
from .recurrent import dynamic_lstm
from .weights import linear_blocks, stored

__all__ = [
    "binary",
    "centred",
    "conv",
    "dequantize",
    "dynamic_lstm",
    "kernels",
    "linear",
    "linear_blocks",
    "matmul",
    "quantize",
    "requantize",
    "rescale",
    "stored",
]
