"""Lists with one tensor for every turn of a loop: what `stack` and `cat` make of them is as long as the loop has turns.

A run has as many turns as the example, and so has the list. At the sizes of the other probes the list would be longer,
and what is computed with the result meets tensors that are longer there. So the result is given the length that the
loop has at each probe. This is a proposal: it says which sizes differ between probes, and no value of the example.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch

from ..tensor import Traced
from .items import Piece, Ref

if TYPE_CHECKING:
    from ..tracer import Tracer

aten = torch.ops.aten
_JOINS = (aten.stack.default, aten.cat.default, aten.concat.default)


class Lengths:
    """Which turn made which value, and how many turns the loops had."""

    def __init__(self) -> None:
        self._open: dict[int, int] = {}  # the loops that have not ended, and the number of the turn
        self._counts: dict[int, tuple[int, Any]] = {}  # by loop that has ended: its turns, and the size that says so
        self._made: dict[int, dict[int, int]] = {}  # by value: the turns that it was made in, by loop

    def turn(self, loop: int, number: int, count: Any, *, is_end: bool) -> None:
        """A turn begins, or there is none any more; loops inside of the turn before have been left."""
        while loop in self._open and next(reversed(self._open)) != loop:
            self._open.popitem()
        if is_end:
            self._open.pop(loop, None)
            self._counts[loop] = (number, count)
        else:
            self._open[loop] = number

    @property
    def turns(self) -> tuple[int, ...]:
        """The numbers of the turns that the run is in."""
        return tuple(self._open.values())

    def made(self, value: int) -> None:
        if self._open:
            self._made[value] = dict(self._open)

    def missing(self, leaves: Sequence[Any], counts: dict[int, Any]) -> tuple[int, Any] | None:
        """Where in a list there is one value of every turn, and how many more there are at other sizes.

        `counts` says how many pieces an operator gave.
        """
        for place, leaf in enumerate(leaves):
            if type(leaf) is Piece and isinstance(counts.get(leaf.pieces), torch.SymInt):
                pieces = [each.index for each in leaves if type(each) is Piece and each.pieces == leaf.pieces]
                count = counts[leaf.pieces]
                length = count.node.values[0]
                return (place, count - length) if sorted(pieces) == list(range(length)) else None
            for loop in self._turns_of(leaf):
                length, count = self._counts.get(loop, (0, None))
                if isinstance(count, torch.SymInt) and length > 1 and self._has_every_turn(leaves, loop, length):
                    return place, count - length
        return None

    def _turns_of(self, leaf: Any) -> dict[int, int]:
        return self._made.get(leaf.value, {}) if type(leaf) is Ref else {}

    def _has_every_turn(self, leaves: Sequence[Any], loop: int, length: int) -> bool:
        """One value of every turn, in order; what a turn found in place may have been made in the turn before."""
        turns = [self._turns_of(leaf).get(loop) for leaf in leaves]
        found = [turn for turn in turns if turn is not None]
        ordered = found if found[0] <= found[-1] else found[::-1]
        return ordered in (list(range(length)), list(range(length - 1))) and len(leaves) >= length


def as_long_as_the_loop(tracer: Tracer, op: Any, args: tuple, kwargs: dict[str, Any], result: Any, more: Any) -> Any:
    """The result of `stack` or `cat` with so many more parts, like the one at `more[0]`, where the loop is longer."""
    place, missing = more
    axis = args[1] if len(args) > 1 else kwargs.get("dim", 0)
    if not isinstance(result, Traced) or type(axis) is not int:
        return result
    each = 1 if op is aten.stack.default else args[0][place].size(axis)
    last = result.size(axis) - 1
    wanted = result.size(axis) + missing * each
    with tracer.model_again():
        return result.index_select(axis, torch.arange(wanted).clamp(max=last))


def list_joined(op: Any, template: tuple) -> list[Any] | None:
    """The list that `stack` or `cat` takes."""
    return template[0] if op in _JOINS and template and type(template[0]) is list else None
