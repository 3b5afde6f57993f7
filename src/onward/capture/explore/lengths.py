"""How long a list is that the turns of a loop have filled.

A run sees such a list with as many tensors as the loop had turns, and `torch.stack` of it has an axis of plain size.
Here that axis gets the size that follows the number of turns, so that what the model does with it later (`x + stacked`,
`for row in stacked`) is followed too. At every size that a program is checked at, the size must be the real one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch

from ..sizes import SYMBOLIC, Size, size_lines
from ..tensor import Traced, computed

if TYPE_CHECKING:
    from ..tracer import Tracer

aten = torch.ops.aten
_JOINS = (aten.stack.default, aten.cat.default)


class Lengths:
    """The loops of one run, and which tensors their turns have made."""

    def __init__(self, tracer: Tracer) -> None:
        self._tracer = tracer
        self._counts: dict[int, Size] = {}  # by loop: how many turns it has, if that varies
        self._turns: dict[int, int] = {}  # of the loops that are going on: how many turns have begun
        self._ended: dict[int, int] = {}  # of those that have ended: how many there were
        self._made: dict[int, tuple[int, ...]] = {}  # by tensor: the loops in whose turns it was made, inner ones last

    def turn(self, loop: int, count: Any, *, is_end: bool) -> None:
        """A turn of a loop begins, or there is none any more."""
        if not isinstance(count, SYMBOLIC):
            return
        self._counts[loop] = count.node
        if is_end:
            self._ended[loop] = self._turns.pop(loop, 0)
        else:
            self._turns[loop] = self._turns.get(loop, 0) + 1

    def made(self, tensor: Traced) -> None:
        """A tensor is new."""
        if self._turns:
            self._made[id(tensor)] = tuple(self._turns)

    def followed(self, op: Any, args: Sequence[Any], kwargs: Mapping[str, Any], result: Any) -> Any:
        """The result of `torch.stack` or `torch.cat`, with an axis that follows a loop's turns; others as they are."""
        if op not in _JOINS or not isinstance(result, Traced):
            return result
        axis = (args[1] if len(args) > 1 else kwargs.get("dim", 0)) % result.dim()
        for loop, turns in self._ended.items():
            inside = [each for each in args[0] if loop in self._made.get(id(each), ())]
            outside = [each for each in args[0] if loop not in self._made.get(id(each), ())]
            each_turn = -(-len(inside) // turns) if turns else 0
            missing = each_turn * turns - len(inside)  # `out.append(h)` before h is new: the first is from before
            lengths = {self._lengths(op, each, axis) for each in inside}
            if len(lengths) != 1 or missing > len(outside):
                continue
            rest = [self._lengths(op, each, axis) for each in outside[missing:]]
            sizes = tuple(
                each_turn * number * length + sum(others)
                for number, length, *others in zip(self._counts[loop].values, lengths.pop(), *rest, strict=True)
            )
            if sizes[0] == result.example.size(axis):
                return self._sized(result, axis, sizes, self._counts[loop])
        return result

    def _lengths(self, op: Any, part: torch.Tensor, axis: int) -> tuple[int, ...]:
        """How long a part is, at all probes and points."""
        if op is aten.stack.default:
            dim: Any = 1
        elif isinstance(part, Traced):
            dim = part.fact.shape[axis] if part.fact.rank > axis else 0
        else:
            dim = part.size(axis) if part.dim() > axis else 0
        return (dim,) * self._tracer.dims.width if isinstance(dim, int) else dim.values

    def _sized(self, tensor: Traced, axis: int, sizes: tuple[int, ...], count: Size) -> Traced:
        lines = frozenset(size_lines(count)) if count.from_data else frozenset()
        shape = list(tensor.fact.shape)
        shape[axis] = self._tracer.dims.dim(sizes, lines=lines)
        fact = type(tensor.fact)(tensor.fact.dtype, tuple(shape))
        tensor.node.meta["val"] = fact
        return computed(self._tracer, tensor.node, fact, tensor.example)
