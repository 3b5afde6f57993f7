"""Attributes as Python writes them, what schemas say of those left out, and the element types of values."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any

import onnx_ir as ir
import torch

from ..errors import BackendError
from ..lower.schemas import definition
from .values import to_torch


@functools.cache
def schema_defaults(domain: str, op_type: str, version: int) -> dict[str, ir.Attr]:
    schema = definition(op_type, version, domain)
    if schema is None:
        return {}
    return {
        name: ir.serde.deserialize_attribute(attribute.default_value)
        for name, attribute in schema.attributes.items()
        if attribute.default_value.name
    }


def tensor_value(tensor: Any, device: torch.device | str = "cpu") -> Any:
    return to_torch(tensor.numpy(), device)


def attribute_value(attribute: ir.Attr, device: torch.device | str = "cpu") -> Any:
    """An attribute as Python writes it."""
    if attribute.type == ir.AttributeType.TENSOR:
        return tensor_value(attribute.value, device)
    if attribute.type == ir.AttributeType.TENSORS:
        return [tensor_value(each, device) for each in attribute.value]
    if attribute.type in (ir.AttributeType.SPARSE_TENSOR, ir.AttributeType.SPARSE_TENSORS):
        raise BackendError(f"the attribute {attribute.name} is a sparse tensor, which is not implemented yet")
    value = attribute.value
    if attribute.type == ir.AttributeType.STRING and isinstance(value, bytes):
        return value.decode()
    return list(value) if isinstance(value, (tuple, list)) else value


def element_type(value: ir.Value) -> int:
    if value.const_value is not None:
        return int(value.const_value.dtype)
    dtype = value.dtype
    return int(dtype) if dtype is not None else 0


def type_of_result(op_type: str, attributes: Mapping[str, Any], types: Any) -> int:
    """The few operators that make types torch does not have: nobody else would remember them."""
    if op_type == "Cast":
        return int(attributes["to"])
    if op_type == "CastLike" and len(types) == 2:
        return int(types[1])
    if op_type in ("QuantizeLinear", "DequantizeLinear"):
        explicit = int(attributes.get("output_dtype") or 0)
        return explicit or (int(types[2]) if op_type == "QuantizeLinear" and len(types) > 2 else 0)
    if op_type in ("Identity", "Reshape", "Transpose", "Squeeze", "Unsqueeze", "Flatten", "Slice") and types:
        return int(types[0])
    return 0


def flat(items: Sequence[Any]) -> list[Any]:
    return [each for item in items for each in (flat(item) if isinstance(item, (list, tuple)) else [item])]
