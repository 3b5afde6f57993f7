"""Attributes of nodes: checked against the schema, and in the forms that onnx_ir and keys need."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx_ir as ir
import torch

from onward.capture.program.facts import SymDim
from onward.lower import constants, dtypes, schemas


def checked_settings(op: str, attributes: Mapping[str, Any], schema: schemas.OpSchema | None) -> dict[str, Any]:
    """Attributes as plain Python values of the type the schema asks for; None means not given."""
    settings: dict[str, Any] = {}
    for name, value in attributes.items():
        if value is None:
            continue
        if schema is None:
            settings[name] = _plain(value)
        elif name not in schema.attributes:
            raise TypeError(
                f"{op} has no attribute {name} since opset {schema.since}; it has {sorted(schema.attributes)}"
            )
        else:
            settings[name] = _convert(op, name, value, schema.attributes[name])
    if schema is not None and not schema.required <= settings.keys():
        raise TypeError(f"{op} needs the attributes {sorted(schema.required - settings.keys())}")
    return settings


def _plain(value: Any) -> Any:
    if isinstance(value, torch.dtype):
        return int(dtypes.to_onnx(value))
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, np.ndarray):
        return torch.from_numpy(value)
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return value


def _convert(op: str, name: str, value: Any, kind: str) -> Any:
    plain = _plain(value)
    try:
        if kind == "INT":
            return _integer(plain)
        if kind == "FLOAT":
            return float(plain)
        if kind == "INTS":
            return [_integer(item) for item in plain]
        if kind == "FLOATS":
            return [float(item) for item in plain]
    except (TypeError, ValueError):
        raise TypeError(f"{op}: attribute {name} has to be {kind}, not {value!r}") from None
    expected = {"STRING": str, "TENSOR": torch.Tensor, "GRAPH": ir.Graph}.get(kind)
    if expected is not None and not isinstance(plain, expected):
        raise TypeError(f"{op}: attribute {name} has to be {kind}, not {value!r}")
    return plain


def _integer(value: Any) -> int:
    if isinstance(value, (float, SymDim)) or not hasattr(value, "__index__"):
        raise TypeError(value)
    return int(value)


def as_attributes(settings: dict[str, Any]) -> list[ir.Attr]:
    return [_attribute(name, value) for name, value in settings.items()]


def _attribute(name: str, value: Any) -> ir.Attr:
    if isinstance(value, torch.Tensor):
        return ir.AttrTensor(name, constants.ConstantTensor(value))
    if isinstance(value, int):
        return ir.AttrInt64(name, int(value))
    if isinstance(value, float):
        return ir.AttrFloat32(name, value)
    if isinstance(value, str):
        return ir.AttrString(name, value)
    if isinstance(value, ir.Graph):
        return ir.AttrGraph(name, value)
    if isinstance(value, list):
        if all(isinstance(item, int) for item in value):
            return ir.AttrInt64s(name, value)
        if all(isinstance(item, (int, float)) for item in value):
            return ir.AttrFloat32s(name, [float(item) for item in value])
        if all(isinstance(item, str) for item in value):
            return ir.AttrStrings(name, value)
    raise TypeError(f"attribute {name}: ONNX has no attribute type for {value!r}")


def as_key(settings: dict[str, Any]) -> tuple[Any, ...]:
    """Attributes as part of a key. Floats by their text, since 0.0 == -0.0 and 1 == 1.0 and nan != nan."""
    frozen: list[Any] = []
    for name in sorted(settings):
        value = settings[name]
        if isinstance(value, torch.Tensor):
            frozen.append((name, constants.share_key(value) or id(value)))
        else:
            frozen.append((name, repr(value)))
    return tuple(frozen)
