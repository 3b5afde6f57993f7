"""The sizes of what one call of a node reads and gives: what its FLOPs are counted from."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import onnx_ir as ir

Sizes = tuple[int, ...]


class UnknownSize(Exception):
    """A count needs a shape that is not known."""


class CallSizes:
    """One call of a node. A shape that a count asks for and that is not known is an `UnknownSize`."""

    def __init__(self, node: ir.Node, sizes: Mapping[ir.Value, Sizes]) -> None:
        self.node, self._sizes = node, sizes

    def has(self, place: int) -> bool:
        """Whether the call has an input at this place."""
        return place < len(self.node.inputs) and self.node.inputs[place] is not None

    def x(self, place: int = 0) -> Sizes:
        """The shape of an input."""
        value = self.node.inputs[place] if place < len(self.node.inputs) else None
        return self._of(value)

    def y(self, place: int = 0) -> Sizes:
        """The shape of a result."""
        return self._of(self.node.outputs[place])

    def read(self, place: int = 0) -> int:
        """The elements of an input."""
        return math.prod(self.x(place))

    def given(self) -> int:
        """The elements of the first result."""
        return math.prod(self.y())

    def _of(self, value: ir.Value | None) -> Sizes:
        if value is None or value not in self._sizes:
            raise UnknownSize
        return self._sizes[value]

    def number(self, name: str, default: int) -> int:
        return self.node.attributes.get_int(name, default)

    def numbers(self, name: str) -> Sequence[int]:
        return self.node.attributes.get_ints(name, ())

    def text(self, name: str, default: str) -> str:
        return self.node.attributes.get_string(name, default)
