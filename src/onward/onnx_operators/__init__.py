"""What is known of ONNX operators: one record for each, in files by family."""

from . import (
    elementwise,
    indexing,
    making,
    normalization,
    pooling,
    products,
    quantization,
    random_numbers,
    rearranging,
    reductions,
)
from .record import RECORDS, Record, find

__all__ = [
    "RECORDS",
    "Record",
    "elementwise",
    "find",
    "indexing",
    "making",
    "normalization",
    "pooling",
    "products",
    "quantization",
    "random_numbers",
    "rearranging",
    "reductions",
]
