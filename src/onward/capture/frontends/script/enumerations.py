"""Dtypes, layouts and memory formats in scripts: TorchScript has a number for each, and compares numbers."""

from __future__ import annotations

from typing import Any

import torch

# In the order of c10::ScalarType, so that the place of a name is TorchScript's number.
_DTYPE_NAMES = (
    "uint8", "int8", "int16", "int32", "int64", "float16", "float32", "float64", "complex32", "complex64", "complex128",
    "bool", "qint8", "quint8", "qint32", "bfloat16", "quint4x2", "quint2x4", "bits1x8", "bits2x4", "bits4x2", "bits8",
    "bits16", "float8_e5m2", "float8_e4m3fn", "float8_e5m2fnuz", "float8_e4m3fnuz", "uint16", "uint32", "uint64",
    "uint1", "uint2", "uint3", "uint4", "uint5", "uint6", "uint7", "int1", "int2", "int3", "int4", "int5", "int6",
    "int7", "float8_e8m0fnu", "float4_e2m1fn_x2",
)  # fmt: skip
_LAYOUT_NAMES = ("strided", "sparse_coo", "sparse_csr", "_mkldnn", "sparse_csc", "sparse_bsr", "sparse_bsc", "jagged")
_FORMAT_NAMES = ("contiguous_format", "preserve_format", "channels_last", "channels_last_3d")

_DTYPES: dict[int, torch.dtype] = {
    number: getattr(torch, name) for number, name in enumerate(_DTYPE_NAMES) if hasattr(torch, name)
}
_FORMATS: dict[int, torch.memory_format] = {number: getattr(torch, name) for number, name in enumerate(_FORMAT_NAMES)}
_NUMBERS: dict[Any, int] = {
    **{dtype: number for number, dtype in _DTYPES.items()},
    **{getattr(torch, name): number for number, name in enumerate(_LAYOUT_NAMES) if hasattr(torch, name)},
    **{each: number for number, each in _FORMATS.items()},
}


def number_of(value: torch.dtype | torch.layout | torch.memory_format) -> int:
    """TorchScript's number for one of PyTorch's."""
    return _NUMBERS[value]


def dtype_of(value: torch.dtype | int | None) -> torch.dtype | None:
    """PyTorch's dtype for a number of TorchScript's."""
    return _DTYPES[value] if isinstance(value, int) else value


def format_of(value: torch.memory_format | int) -> torch.memory_format:
    """PyTorch's memory format for a number of TorchScript's."""
    return _FORMATS[value] if isinstance(value, int) else value


ENUMERATED = (torch.dtype, torch.layout, torch.memory_format)
