"""Rules that operators of several families share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import onnx_ir as ir

from .call_sizes import CallSizes
from .dimension_math import Operands
from .record import Record
from .seen_node import SeenNode

MAX_BYTES = 1 << 20  # a folded constant may be as large; beyond, it has to be a view or smaller than what it is made of


class Moves(Record):
    """Elements are moved, made or looked at: nothing is computed."""

    def flops(self, call: CallSizes) -> int | None:
        return 0


class Keeps(Record):
    """The first result has the sizes of the first input."""

    def dimensions(self, operands: Operands) -> Any:
        return [operands.shapes[0]]


class Counted:
    """FLOPs in proportion to the elements of the first result, or of the first input if `reads`."""

    def __init__(self, each: int | None = 1, *, reads: bool = False) -> None:
        self._each, self._reads = each, reads
        super().__init__()

    def flops(self, call: CallSizes) -> int | None:
        """So many for each element; None where nobody has counted them."""
        if self._each is None:
            return None
        return self._each * (call.read() if self._reads else call.given())


class KeepsSize(Counted, Keeps):
    """Operators whose first result has the sizes of the first input, and whose FLOPs go by its elements."""


class Steps(Counted, Record):
    """Operators of which only the FLOPs are known."""


class Rule(Record):
    """An operator of which only the FLOPs are known, by a function of the call."""

    def __init__(self, count: Callable[[CallSizes], int | None]) -> None:
        self._count = count
        super().__init__()

    def flops(self, call: CallSizes) -> int | None:
        return self._count(call)


def first_of_one(node: SeenNode) -> ir.Value | None:
    """The only input of an operator that takes any number of them."""
    return node.inputs[0] if len(node.inputs) == 1 else None


def keeps_dimensions(node: SeenNode) -> ir.Value | None:
    """The first input, if the result has its dimensions and its elements in their order."""
    before = node.dims(node.inputs[0])
    return node.inputs[0] if before is not None and node.result_dims() == before else None
