"""Nodes that need not exist, found before they are made: those that only repeat an input, and pairs of transposes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import onnx_ir as ir

from onward.lower import dtypes
from onward.onnx_operators.propagation import propagate
from onward.onnx_operators.record import RECORDS
from onward.onnx_operators.seen_node import maker

if TYPE_CHECKING:
    from onward.lower.core import Core

Inputs = list[ir.Value | None]
_MOST_NUMBERS = 64  # in a constant that a rule may want to read


def simplify(g: Core, op: str, inputs: Inputs, attributes: dict[str, Any]) -> tuple[ir.Value] | None:
    """The value that the node would only repeat, or None."""
    record = RECORDS.get(("", op))
    if record is None or not record.may_repeat or not inputs:
        return None
    found = record.repeats(_UnmadeNode(g, op, inputs, attributes))
    if found is None and op == "Transpose":
        found = _merged_transposes(g, inputs[0], attributes.get("perm"))
    return None if found is None else (found,)


def _merged_transposes(g: Core, x: ir.Value | None, order: list[int] | None) -> ir.Value | None:
    """Two transposes in a row as one."""
    inner = maker(x, "Transpose")
    if order is None or inner is None or "perm" not in inner.attributes:
        return None
    first = inner.attributes["perm"].as_ints()
    return g.op.Transpose(inner.inputs[0], perm=[first[axis] for axis in order])


class _UnmadeNode:
    """A node that the emitter is about to make."""

    __slots__ = ("_attributes", "_g", "_op", "inputs")

    def __init__(self, g: Core, op: str, inputs: Inputs, attributes: dict[str, Any]) -> None:
        self._g, self._op, self._attributes = g, op, attributes
        self.inputs = inputs

    @property
    def opset(self) -> int:
        return self._g.opset

    def attribute(self, name: str) -> Any:
        return self._attributes.get(name)

    def numbers(self, value: ir.Value | None) -> list[Any] | None:
        tensor = self._g.value_of(value)
        if tensor is None or tensor.numel() > _MOST_NUMBERS or tensor.device.type == "meta":
            return None
        return tensor.reshape(-1).tolist()

    def element_type(self, value: ir.Value | None) -> int | None:
        dtype = self._g._session.dtypes.get(value) if value is not None else None
        return None if dtype is None or dtype.is_complex else int(dtypes.to_onnx(dtype))

    def dims(self, value: ir.Value | None) -> tuple[Any, ...] | None:
        return None if value is None else self._g.dims(value)

    def result_dims(self) -> tuple[Any, ...] | None:
        shapes = [self.dims(value) for value in self.inputs]
        constants = [self._g.value_of(value) for value in self.inputs]
        return propagate(self._op, shapes, constants, self._attributes, 1)[0]
