"""Types, shapes and operators of a file, in the words that a person reads everywhere."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import onnx_ir as ir

_NAMES = {"FLOAT": "float32", "DOUBLE": "float64"}


def dtype_name(dtype: ir.DataType | None) -> str:
    """As PyTorch and numpy have it, where ONNX has a name of its own: `float32`, `int64`, `float8e4m3fn`."""
    return "?" if dtype is None else _NAMES.get(dtype.name, dtype.name.lower())


def dimensions(shape: ir.Shape | None) -> list[int | str]:
    """Sizes and names of axes, `?` for one without either; nothing if the file does not say."""
    return [size if isinstance(size, int) else str(size.value or "?") for size in shape or ()]


def tensor_type(tensor: ir.TensorProtocol) -> str:
    """`int64[2, 3]`"""
    return f"{dtype_name(tensor.dtype)}{[int(size) for size in tensor.shape.numpy()]}"


def operator_name(node: ir.Node) -> str:
    """`Conv`, and `com.microsoft.QGemm` if it is not one of ONNX's own."""
    return f"{node.domain}.{node.op_type}" if node.domain else node.op_type


def finite(data: Any) -> Any:
    """Data for JSON, which has neither infinities nor NaN: they are words."""
    if isinstance(data, Mapping):
        return {key: finite(value) for key, value in data.items()}
    if isinstance(data, list | tuple):
        return [finite(value) for value in data]
    return str(data) if isinstance(data, float) and not math.isfinite(data) else data
