"""How long a list is that the turns of a loop have filled.

A run sees such a list with as many tensors as the loop had turns, and `torch.stack` of it has an axis of plain size.
Here that axis gets the size that follows the number of turns, so that what the model does with it later (`x + stacked`,
`for row in stacked`) is followed too. At every size that a program is checked at, the size must be the real one.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from ..ground.source import user_source
from ..memory.tensor import Traced, computed
from ..record.tracer import Tracer
from ..sizes.sizes import SYMBOLIC, size_lines

aten = torch.ops.aten
_JOINS = (aten.stack.default, aten.cat.default)


class Lengths:
    """The loops of one run, and which tensors their turns have made, or were made of those."""

    def __init__(self, tracer: Tracer) -> None:
        self._tracer = tracer
        self._counts: dict[Any, tuple[int, ...]] = {}  # by loop: how many turns it has, at all probes and points
        self._lines: dict[Any, frozenset[Any]] = {}  # by loop: where data was asked that says so
        self._turns: dict[Any, int] = {}  # of the loops that are going on: how many turns have begun
        self._ended: dict[Any, int] = {}  # of those that have ended: how many there were
        self._made: dict[int, dict[Any, frozenset[int]]] = {}  # by tensor: the loops, and their turns
        self._whole: dict[
            int, frozenset[Any]
        ] = {}  # by tensor: loops that were over when the turns of one came together

    def turn(self, loop: int, count: Any, *, is_end: bool) -> None:
        """A turn of a loop over a range or an axis begins, or there is none any more."""
        if not isinstance(count, SYMBOLIC):
            return
        self._counts[loop] = count.node.values
        self._lines[loop] = size_lines(count.node) if count.node.from_data else frozenset()
        self._count(loop, is_end)

    def asked(self, loop: Any, *, is_end: bool) -> None:
        """A loop goes on because the data says so, or ends."""
        self._count(loop, is_end)
        if is_end:
            turns, dims = self._ended[loop], self._tracer.dims
            values = (turns, *self._tracer.data_sizes.fresh(object(), turns, "turns"))
            self._counts[loop] = values if len(values) == dims.width else (*values, *dims.unlike_others())
            self._lines[loop] = frozenset((user_source(),))

    @property
    def turns(self) -> tuple[int, ...]:
        """The numbers of the turns that the run is in."""
        return tuple(self._turns.values())

    def _count(self, loop: Any, is_end: bool) -> None:
        while loop in self._turns and next(reversed(self._turns)) != loop:  # a loop inside of it has been left
            self._turns.popitem()
        if is_end:
            self._ended[loop] = self._turns.pop(loop, 0)
        else:
            self._turns[loop] = self._turns.get(loop, 0) + 1

    def made(self, tensor: Traced, args: Sequence[Any]) -> None:
        """A tensor is new, made of others."""
        if not self._turns and not self._ended:
            return
        found = {loop: frozenset((turn,)) for loop, turn in self._turns.items()}
        whole = self._whole.get(id(tensor), frozenset()).union(*(self._whole.get(id(each), ()) for each in args))
        if whole:
            self._whole[id(tensor)] = whole
        for each in args:
            for loop, turns in self._made.get(id(each), {}).items():
                if loop in self._ended and loop not in whole:
                    found[loop] = found.get(loop, frozenset()) | turns
        if found:
            self._made[id(tensor)] = found

    def followed(
        self, op: Any, args: Sequence[Any], kwargs: Mapping[str, Any], result: Any, pieces: torch.SymInt | None
    ) -> Any:
        """The result of `torch.stack` or `torch.cat`, with an axis that follows a loop's turns; others as they are.

        `pieces` is how many tensors there are in the list, where these are all pieces of one tensor.
        """
        if op not in _JOINS or not isinstance(result, Traced):
            return result
        axis = (args[1] if len(args) > 1 else kwargs.get("dim", 0)) % result.dim()
        if pieces is not None:
            lengths = {self._lengths(op, each, axis) for each in args[0]}
            if len(lengths) != 1:
                return result
            sizes = tuple(map(operator.mul, pieces.node.values, lengths.pop()))
            return self._sized(result, axis, sizes, frozenset())
        holds = {loop: [each for each in args[0] if loop in self._made.get(id(each), ())] for loop in self._ended}
        # The last loop first: what it has made of values of an earlier one counts its own turns.
        ages = {loop: -age for age, loop in enumerate(holds)}
        order = sorted(holds, key=lambda loop: (-len(holds[loop]), -self._ended[loop], ages[loop]))
        for loop, inside in ((each, holds[each]) for each in order):
            turns = self._ended[loop]
            outside = [each for each in args[0] if loop not in self._made.get(id(each), ())]
            each_turn = -(-len(inside) // turns) if turns else 0
            missing = each_turn * turns - len(inside)  # `out.append(h)` before h is new: the first is from before
            lengths = {self._lengths(op, each, axis) for each in inside}
            seen = frozenset[int]().union(*(self._made[id(each)][loop] for each in inside))
            if len(lengths) != 1 or missing > len(outside) or len(seen) < turns - missing:
                continue
            rest = [self._lengths(op, each, axis) for each in outside[missing:]]
            columns = (self._counts[loop], self._in_every_turn(loop, each_turn, holds), lengths.pop(), *rest)
            sizes = tuple(
                number * inner * length + sum(others) for number, inner, length, *others in zip(*columns, strict=True)
            )
            if sizes[0] == result.example.size(axis):
                sized = self._sized(result, axis, sizes, self._lines[loop])
                self._whole[id(sized)] = frozenset(self._ended)
                return sized
        return result

    def _in_every_turn(self, loop: Any, each_turn: int, holds: Mapping[Any, Sequence[Any]]) -> tuple[int, ...]:
        """How many tensors every turn of a loop has left: those of an inner loop, if each turn has gone through one."""
        inner = [each for each in holds if each != loop and len(holds[each]) == self._ended[each] == each_turn]
        counts = {self._counts[each] for each in inner}
        if len(inner) == self._ended[loop] and len(counts) == 1:
            return counts.pop()
        return (each_turn,) * self._tracer.dims.width

    def _lengths(self, op: Any, part: torch.Tensor, axis: int) -> tuple[int, ...]:
        """How long a part is, at all probes and points."""
        if op is aten.stack.default:
            dim: Any = 1
        elif isinstance(part, Traced):
            dim = part.fact.shape[axis] if part.fact.rank > axis else 0
        else:
            dim = part.size(axis) if part.dim() > axis else 0
        return (dim,) * self._tracer.dims.width if isinstance(dim, int) else dim.values

    def _sized(self, tensor: Traced, axis: int, sizes: tuple[int, ...], lines: frozenset[Any]) -> Traced:
        shape = list(tensor.fact.shape)
        shape[axis] = self._tracer.dims.dim(sizes, lines=lines)
        fact = type(tensor.fact)(tensor.fact.dtype, tuple(shape))
        tensor.node.meta["val"] = fact
        return computed(self._tracer, tensor.node, fact, tensor.example)
