"""How large a size from data can be: no larger than what its elements were picked from.

A mask over 120 boxes is true at 0 to 120 places, whatever the data is. So `numel() > 4000` of the boxes that it picks
has one answer, and there is nothing to decide. Each size from data has an interval at every probe and point, and what
Python computes from it is computed with intervals. Slices, concatenations and the like hand the bounds on.
"""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch._ops import OpOverload

from ..memory.tensor import Traced
from ..program.facts import Dim, SymDim
from ..sizes.dims import DimTable
from ..sizes.shape_formulas import Column, Extent, formula_for
from ..sizes.sizes import SYMBOLIC, Computed, Size

aten = torch.ops.aten
Interval = tuple[Any, Any]

_PICKING = (aten.nonzero.default, aten._unique2.default, aten._unique.default)  # out of all elements
_PICKING_ROWS = frozenset({"torchvision::nms"})  # out of the rows of the first argument
# With all operands but one held, each of these only grows or only falls with that one (`/` and `//`: beside zero), so
# its extremes are at the ends of the intervals.
_MONOTONE = frozenset({
    operator.add, operator.sub, operator.mul, operator.neg, torch.sym_min, torch.sym_max, operator.lt, operator.le,
    operator.gt, operator.ge, torch.sym_not, torch.sym_int, torch.sym_float, math.floor, math.ceil, math.trunc,
})  # fmt: skip
_MONOTONE_OF_TRUTHS = frozenset({operator.and_, operator.or_})
_DIVIDING = frozenset({operator.floordiv, operator.truediv})


def _slice_grows(start: Any = None, end: Any = None, step: Any = 1) -> bool:
    """Whether a slice of a longer tensor is at least as long. `x[-3:5]` is not; the numbers must be plain ones."""
    plain = all(each is None or type(each) is int for each in (start, end, step))
    return plain and (start is None or start >= 0 or end is None)


def _reshape_grows(sizes: Sequence[Any]) -> bool:
    """Whether an axis of a reshaped larger tensor is at least as long: a quotient of sizes (-1) is only of numbers."""
    return -1 not in [each for each in sizes if type(each) is int] or all(type(each) is int for each in sizes)


# Operators whose results are at least as large for larger arguments, by what is behind the tensor among these.
_GROWING: dict[OpOverload, Callable[..., bool]] = {
    aten.slice.Tensor: lambda x, dim=0, *bounds: _slice_grows(*bounds),
    aten.narrow.default: lambda x, *args: True,
    aten.topk.default: lambda x, *args: True,
    aten.cat.default: lambda *args: True,
    aten.flatten.using_ints: lambda *args: True,
    aten.reshape.default: lambda x, sizes: _reshape_grows(sizes),
    aten.view.default: lambda x, sizes: _reshape_grows(sizes),
}


class _Unknown(Exception):
    """Nobody knows how large a size can be."""


class Bounds:
    """The largest values of the sizes from data of one trace."""

    def __init__(self, dims: DimTable) -> None:
        self._dims = dims
        self._largest: dict[Any, tuple[int, ...]] = {}  # by the key of a size: at all probes and points

    def note(self, values: tuple[int, ...], op: OpOverload, shape: Sequence[Dim]) -> None:
        """A size depends on data that an operator was given in a tensor of this shape."""
        if op in _PICKING:
            factors = [self._upper(dim) for dim in shape]
        elif op._name in _PICKING_ROWS and shape:
            factors = [self._upper(shape[0])]
        else:
            return
        if len(values) == self._dims.width and None not in factors:
            columns = zip(*factors, strict=True) if factors else [()] * len(values)
            self._largest[self._dims.key(values)] = tuple(map(math.prod, columns))

    def hand_on(self, op: OpOverload, args: tuple, results: Sequence[Sequence[Dim]]) -> None:
        """An operator has made dimensions of others: they are no larger than what it makes of the largest of those."""
        news = [dim for dims in results for dim in dims if isinstance(dim, SymDim) and self._is_open(dim)]
        formula = formula_for(op)
        if not news or formula is None or op not in _GROWING or not _GROWING[op](*args):
            return
        try:
            found = formula(*map(self._at_most, args))
        except (ArithmeticError, IndexError, TypeError, ValueError, _Unknown):
            return
        shapes = found if isinstance(found, list) else [found]
        for shape, dims in zip(shapes, results, strict=False):
            for column, dim in zip(shape or (), dims, strict=False):
                if isinstance(dim, SymDim) and self._is_open(dim):
                    self._keep(dim, column)

    def _is_open(self, dim: SymDim) -> bool:
        """Whether a dimension depends on data, and nobody knows yet how large it can be."""
        return self._dims.is_of_data(dim.values) and self._dims.key(dim.values) not in self._largest

    def _keep(self, dim: SymDim, column: Column) -> None:
        values = column if isinstance(column, tuple) else (column,) * self._dims.width
        alive = [
            pair for place, pair in enumerate(zip(values, dim.values, strict=True)) if place not in self._dims.dead
        ]
        if all(largest is not None for largest, _ in alive):
            self._largest[self._dims.key(dim.values)] = tuple(0 if each is None else each for each in values)

    def _at_most(self, value: Any) -> Any:
        """An argument of a formula with all sizes as large as they can be."""
        if isinstance(value, Traced):
            return Extent(tuple(map(self._known_upper, value.fact.shape)), value.example.dtype)
        if isinstance(value, torch.Tensor):
            return Extent(tuple(value.size()), value.dtype)
        if isinstance(value, SYMBOLIC):
            rows = self._intervals(value.node)
            if rows is None:
                raise _Unknown
            return tuple(high for _, high in rows)
        return [self._at_most(each) for each in value] if isinstance(value, (list, tuple)) else value

    def _known_upper(self, dim: Dim) -> Column:
        found = dim if isinstance(dim, int) else self._upper(dim)
        if found is None:
            raise _Unknown
        return found

    def answer(self, size: Size) -> bool | None:
        """The answer to a question about sizes from data that is the same for all data at all sizes; None otherwise."""
        rows = self._intervals(size)
        if rows is None:
            return None
        answers = {each for place, row in enumerate(rows) if place not in self._dims.dead for each in row}
        return bool(answers.pop()) if len(answers) == 1 else None

    def _upper(self, dim: Dim) -> tuple[int, ...] | None:
        """The largest value of a dimension at all probes and points; None if nobody knows."""
        dims = self._dims
        if isinstance(dim, int):
            return (dim,) * dims.width
        known = self._largest.get(dims.key(dim.values))
        if known is not None or dims.is_of_data(dim.values) or not dims.is_followed(dim.values):
            return known
        return dim.values

    def _intervals(self, size: Size) -> list[Interval] | None:
        """The smallest and the largest value at all probes and points; None if nobody knows."""
        if isinstance(size.origin, Computed):
            return self._computed(size.origin)
        largest = self._largest.get(self._dims.key(size.values))
        if largest is not None:
            return [(0, each) for each in largest]
        if size.from_data or self._dims.is_of_data(size.values) or not self._dims.is_followed(size.values):
            return None
        return [(each, each) for each in size.values]

    def _computed(self, origin: Computed) -> list[Interval] | None:
        operands = [self._intervals(each) for each in origin.operands]
        if any(each is None for each in operands):
            return None
        rows = [_image(origin.function, row) for row in zip(*operands, strict=True)]
        return None if any(each is None for each in rows) else rows  # type: ignore[return-value]


def _image(function: Callable[..., Any], intervals: Sequence[Interval]) -> Interval | None:
    """The interval that a function's values are in; None if its extremes are not known."""
    try:
        if all(low == high for low, high in intervals):
            value = function(*(low for low, _ in intervals))
            return value, value
        if function in (operator.eq, operator.ne):
            (low, high), (other_low, other_high) = intervals
            apart = high < other_low or other_high < low
            return (function is operator.ne,) * 2 if apart else (False, True)
        truths = function in _MONOTONE_OF_TRUTHS and all(type(end) is bool for each in intervals for end in each)
        divides = function in _DIVIDING and not intervals[1][0] <= 0 <= intervals[1][1]
        if function not in _MONOTONE and not truths and not divides:
            return None
        corners = [function(*corner) for corner in itertools.product(*intervals)]
    except (ArithmeticError, ValueError):  # the model fails there
        return None
    return min(corners), max(corners)
