"""What a rule about nodes that only repeat an input gets to see of a node.

The emitter asks before it makes a node, and passes ask about nodes of a graph. Both answer the same questions.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import onnx_ir as ir

TO_THE_END = 2**31 - 1  # an `end` of a Slice from here on is behind the last element


class SeenNode(Protocol):
    """A node that may be about to be made."""

    @property
    def inputs(self) -> Sequence[ir.Value | None]: ...

    @property
    def opset(self) -> int: ...

    def attribute(self, name: str) -> Any:
        """An attribute as a plain value; None if it is not given."""

    def numbers(self, value: ir.Value | None) -> list[Any] | None:
        """The elements of a short constant of numbers."""

    def element_type(self, value: ir.Value | None) -> int | None:
        """The element type as ONNX numbers it; None if it is not known."""

    def dims(self, value: ir.Value | None) -> tuple[Any, ...] | None:
        """The dimensions of a value. Two are equal only if they are the same at every run."""

    def result_dims(self) -> tuple[Any, ...] | None:
        """The dimensions of the node's first result."""


def maker(value: ir.Value | None, *ops: str) -> ir.Node | None:
    """The node that makes a value, if it is one of these operators of ONNX's own."""
    node = value.producer() if value is not None else None
    return node if node is not None and node.op_type in ops and node.domain == "" else None
