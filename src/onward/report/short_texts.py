"""Attributes and constants as short texts: a page must not grow by what the model weighs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import onnx_ir as ir

from onward.write.type_texts import dtype_name, tensor_type

_SHOWN = 8  # elements of a list or of a constant that are written out
_LONGEST = 200  # characters of a string
_GRAPHS = (ir.AttributeType.GRAPH, ir.AttributeType.GRAPHS)


def type_name(value: ir.Value) -> str:
    """`float32`, `list of int64`, `optional float32`."""
    kind, words = value.type, []
    while isinstance(kind, (ir.SequenceType, ir.OptionalType)):
        words.append("list of" if isinstance(kind, ir.SequenceType) else "optional")
        kind = kind.elem_type
    if isinstance(kind, ir.SparseTensorType):
        words.append("sparse")
    return " ".join([*words, dtype_name(kind.dtype if kind is not None else None)])


def settings(node: ir.Node) -> list[list[str]]:
    """The attributes of a node in words, without the graphs that it holds."""
    return [
        [name, setting(each)] for name, each in sorted(node.attributes.items()) if each.is_ref() or not _is_graph(each)
    ]


def setting(attribute: ir.Attr) -> str:
    if attribute.is_ref():
        return f"@{attribute.ref_attr_name}"
    value = attribute.value
    if attribute.type == ir.AttributeType.TENSOR:
        return tensor_text(value)
    if attribute.type == ir.AttributeType.INT and attribute.name in ("to", "dtype", "output_dtype", "stash_type"):
        return _dtype_of(value)
    if isinstance(value, str):
        return _short(repr(value))
    if isinstance(value, (list, tuple)):
        return _list(value)
    return _number(value)


def tensor_text(tensor: ir.TensorProtocol) -> str:
    """`int64[2] = {1, 64}`, with the first few elements of a longer one."""
    items = elements(tensor)
    return tensor_type(tensor) if items is None else f"{tensor_type(tensor)} = {{{items}}}"


def preview(tensor: ir.TensorProtocol) -> str | None:
    """The elements of a constant with few of them."""
    if math.prod(int(size) for size in tensor.shape.numpy()) > _SHOWN:
        return None
    return elements(tensor)


def elements(tensor: ir.TensorProtocol) -> str | None:
    """The first few; None of what is not at hand."""
    if isinstance(tensor, ir.LazyTensor):
        if tensor.nbytes > 4096:
            return None  # it would be computed for eight numbers
        tensor = tensor.raw()
    if isinstance(tensor, ir.ExternalTensor) and not tensor.base_dir:
        return None
    if getattr(getattr(tensor, "raw", None), "is_meta", False):
        return None
    flat = tensor.numpy().reshape(-1)
    shown = [_number(item) for item in flat[:_SHOWN].tolist()]
    return ", ".join([*shown, *(["..."] if flat.size > _SHOWN else [])])


def _list(items: Sequence[Any]) -> str:
    shown = [tensor_text(each) if isinstance(each, ir.TensorProtocol) else _number(each) for each in items[:_SHOWN]]
    more = [f"... {len(items)} in all"] if len(items) > _SHOWN else []
    return f"[{', '.join(shown + more)}]"


def _dtype_of(number: Any) -> str:
    try:
        return dtype_name(ir.DataType(number))
    except ValueError:  # not a type of ONNX
        return str(number)


def _number(value: Any) -> str:
    if isinstance(value, (bytes, str)):
        return _short(repr(value.decode(errors="replace") if isinstance(value, bytes) else value))
    return f"{value:.6g}" if isinstance(value, float) else _short(str(value))


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."


def _is_graph(attribute: ir.Attr) -> bool:
    return attribute.type in _GRAPHS
