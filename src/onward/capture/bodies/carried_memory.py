"""The memory that the values of a loop may be, from turn to turn and after the last one."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from typing import Any

from ..memory.graph_levels import GraphTrace
from ..memory.tensor import Cell, Origin, Traced
from .sides import Leaf, Side


def origins_of(leaf: Leaf) -> set[Origin]:
    return leaf.memory.origins if leaf.memory is not None else set()


def note_origins(value: Any, origins: Iterable[Origin]) -> None:
    if isinstance(value, Traced):
        value.cell.may_be(origins)


class CarriedMemory:
    """The memory that each carried value may be at the beginning of a turn."""

    def __init__(self, initial: Sequence[Leaf]) -> None:
        self._origins = [set(origins_of(leaf)) for leaf in initial]
        self._inputs: Sequence[Any] = ()

    def enter(self, inputs: Sequence[Any]) -> None:
        """A turn begins with these values."""
        self._inputs = inputs
        for value, origins in zip(inputs, self._origins, strict=True):
            note_origins(value, origins)

    def grows(self, tracer: GraphTrace, leaves: Sequence[Leaf]) -> bool:
        """Add what the values may be after a turn; whether anything came to it."""
        before = sum(map(len, self._origins))
        found = [origins_of(leaf) for leaf in leaves]
        for mine, origins in zip(self._origins, found, strict=True):
            mine |= {each for each in origins if any(each.level is level for level in tracer.levels)}
        for one, other in itertools.combinations(range(len(found)), 2):
            if not found[one].isdisjoint(found[other]) and self._origins[one].isdisjoint(self._origins[other]):
                shared = Origin(Cell(tracer.levels[-1]))
                self._origins[one].add(shared)
                self._origins[other].add(shared)
        return sum(map(len, self._origins)) > before

    def note_slices(
        self, tracer: GraphTrace, side: Side, stacked: Sequence[Any], leaves: Sequence[Leaf], at: int
    ) -> None:
        """After a loop: what its turns have left, stacked, may be written to by other names; `leaves` is what a turn
        gives, the slices from `at` on."""
        written = {each for base, _, _ in side.writes.values() for each in base.cell.origins}
        for value, leaf in zip(self._inputs, leaves, strict=False):
            if isinstance(value, Traced) and value.cell.version:
                written |= value.cell.origins | origins_of(leaf)  # the next turn writes to what this one leaves
        written |= {each for cell, _ in side.doubts for each in cell.origins}
        for value, leaf in zip(stacked, leaves[at:], strict=True):
            note_origins(value, origins_of(leaf))
            if isinstance(value, Traced) and not written.isdisjoint(origins_of(leaf)):
                value.cell.doubt = next((where for _, where in side.doubts), tracer.where() or "an unknown line")
