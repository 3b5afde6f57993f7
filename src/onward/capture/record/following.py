"""Which dimensions an operator's results have, at the points too.

Most operators hand sizes on: a dimension of the result is one of the arguments', and it is known by its values at the
probes. Where several fit, and for operators that compute sizes, the values at the points are computed: by a formula
(`extents.py`), or by asking the operator's kernel at every point. A point that the operator refuses is dead: the model
refuses its sizes.
"""

from __future__ import annotations

import contextlib
import functools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch._ops import OpOverload

from ..functions.autograd_functions import function_layouts
from ..memory.point_layouts import tensors_elsewhere
from ..memory.tensor import Traced
from ..program.facts import Dim, FunctionCall, SymDim
from ..sizes.extents import Column, Extent, Shape, broadcast, formula_for, hands_on
from ..sizes.layouts import Layout, LayoutKernels, ProbeFailure
from ..sizes.rules import rule_for
from ..sizes.sizes import SYMBOLIC

if TYPE_CHECKING:
    from .tracer import Tracer

_MOST_ASKED = 40  # points, the smallest ones, at which a kernel is asked for sizes that nobody else knows
_SCOUTS = 10  # points at which a kernel is asked whether a size is what it seems to be
_LARGEST_REAL_PROBE = 1 << 14  # elements: a kernel that needs data is asked at small points alone


class Formulas:
    """The dimensions of results in one trace."""

    def __init__(self, tracer: Tracer, kernels: LayoutKernels) -> None:
        self._tracer, self._kernels = tracer, kernels
        self._known: dict[Any, list[Shape] | None] = {}

    def dims(
        self, op: OpOverload, args: tuple, kwargs: dict[str, Any], out: Any, layouts: tuple[Any, ...]
    ) -> list[tuple[Dim, ...]] | None:
        """The dimensions of each result; None where the probes alone say them."""
        table = self._tracer.dims
        if table.width == table.probes:
            return None
        given: list[SymDim] = []
        _add_given(given, self._tracer, (args, tuple(kwargs.values())) if kwargs else args)
        if not given:
            return None
        outs = [out] if isinstance(out, torch.Tensor) else list(out) if isinstance(out, (list, tuple)) else []
        if not outs or not all(isinstance(each, torch.Tensor) for each in outs):
            return None
        others = [[layout] for layout in layouts] if isinstance(out, torch.Tensor) else layouts
        seen = [
            list(zip(each.size(), *(layout[place].size for layout in others), strict=True))
            for place, each in enumerate(outs)
        ]
        is_handed_on = hands_on(op)
        plain = functools.cache(lambda: set(_plain((args, tuple(kwargs.values()))))) if is_handed_on else None
        likely = self._by_probes(seen, given, plain)
        if likely is not None and is_handed_on:
            return likely
        numbers = [(number,) * table.width for number in plain()] if plain is not None else []
        known = [*(dim.values for dim in given), *numbers] if is_handed_on else []
        shapes = self._computed(op, args, kwargs, seen, likely, known)
        if shapes is None:
            return likely
        made_from = list(dict.fromkeys(given))
        results = [tuple(self._dim(column, made_from) for column in shape) for shape in shapes]
        if not kwargs:
            self._tracer.decisions.bounds.hand_on(op, args, results)
        return results

    def accepting(self, op: OpOverload, args: tuple, kwargs: dict[str, Any]) -> list[int]:
        """The probes and points at which an operator takes what it refuses in the example."""
        table = self._tracer.dims
        extents = (
            _laid_out(self._tracer, list(args)),
            {name: _laid_out(self._tracer, each) for name, each in kwargs.items()},
        )
        alive = sorted((place for place in range(1, table.width) if place not in table.dead), key=table.extent)
        found = []
        for place in alive[:_MOST_ASKED]:
            at_place = tuple(_at(extents[0], place)), {name: _at(value, place) for name, value in extents[1].items()}
            with contextlib.suppress(ProbeFailure, OverflowError, MemoryError):
                self._kernels.run(op, *at_place, largest=_LARGEST_REAL_PROBE)
                found.append(place)
        return found

    def _by_probes(
        self, seen: list[list[tuple[int, ...]]], given: list[SymDim], plain: Callable[[], set[int]] | None
    ) -> list[tuple[Dim, ...]] | None:
        """The dimensions that the results seem to have; None where several fit, or none does.

        A dimension that is 20 at all probes (`min(n, 20)`) may be a plain 20, unless the operator only hands sizes on
        and `plain`, the numbers that it was given, has no 20.
        """
        probes = self._tracer.dims.probes
        by_values: dict[tuple[int, ...], SymDim | None] = {}
        for dim in given:
            values = dim.values[:probes]
            if by_values.setdefault(values, dim) != dim:
                by_values[values] = None
        results = []
        for columns in seen:
            dims: list[Dim] = []
            for values in columns:
                is_one = values.count(values[0]) == probes
                if values in by_values:
                    found = by_values[values]
                    if found is None or (is_one and (plain is None or values[0] in plain())):
                        return None
                    dims.append(found)
                elif is_one:
                    dims.append(values[0])
                else:
                    return None
            results.append(tuple(dims))
        return results

    def _dim(self, column: Column, made_from: Sequence[Dim]) -> Dim:
        return column if isinstance(column, int) else self._tracer.dims.dim(column, made_from)

    # --- what results are at the points ------------------------------------------------------------------------------
    def _computed(
        self,
        op: OpOverload,
        args: tuple,
        kwargs: dict[str, Any],
        seen: Any,
        likely: list[tuple[Dim, ...]] | None,
        known: Sequence[tuple[int, ...]],
    ) -> list[Shape] | None:
        """The columns of all results; None where they are what they seem to be, or nobody can tell. An operator that
        only hands sizes on has no others than those that are `known`."""
        extents = _extents(args), {name: _extents(value) for name, value in kwargs.items()}
        try:
            named = tuple((name, _hashable(each)) for name, each in extents[1].items())
            key: Any = (op, self._tracer.dims.revivals, _hashable(extents[0]), named)
            if key in self._known:
                return self._alive(self._known[key])
        except TypeError:  # an argument that cannot be remembered by
            key = None
        shapes = self._by_formula(op, extents, seen)
        if shapes is None:
            shapes = self._by_kernels(op, (args, *extents), seen, likely, known)
        if key is not None:
            self._known[key] = shapes
        return self._alive(shapes)

    def _alive(self, shapes: list[Shape] | None) -> list[Shape] | None:
        """The same, with points dead at which some size is not defined."""
        refused = {
            place
            for shape in shapes or ()
            for column in shape
            if isinstance(column, tuple) and None in column
            for place, value in enumerate(column)
            if value is None
        }
        if not refused:
            return shapes
        assert shapes is not None
        self._tracer.dims.refuse(refused)
        return [
            tuple(
                tuple(column[0] if value is None else value for value in column)
                if isinstance(column, tuple)
                else column
                for column in shape
            )
            for shape in shapes
        ]

    def _by_formula(self, op: OpOverload, extents: tuple[list[Any], dict[str, Any]], seen: Any) -> list[Shape] | None:
        formula = formula_for(op) or (broadcast if torch.Tag.pointwise in getattr(op, "tags", ()) else None)
        if formula is None:
            return None
        try:
            found = formula(*extents[0], **extents[1])
        except (ArithmeticError, IndexError, TypeError, ValueError):  # arguments that the formula was not made for
            return None
        if found is None:
            return None
        shapes = found if isinstance(found, list) else [found]
        probes = self._tracer.dims.probes
        if len(shapes) != len(seen):
            return None
        for shape, columns in zip(shapes, seen, strict=True):
            if len(shape) != len(columns):
                return None
            for column, values in zip(shape, columns, strict=True):
                first = column[:probes] if isinstance(column, tuple) else (column,) * probes
                if first != values:
                    return None
        return shapes

    def _by_kernels(
        self,
        op: OpOverload,
        extents: tuple[tuple, list[Any], dict[str, Any]],
        seen: Any,
        likely: Any,
        known: Sequence[tuple[int, ...]],
    ) -> list[Shape] | None:
        """The sizes as the operator's kernel gives them at the points: at a few of them where they seem to be known,
        or where one size alone of those known is what the kernel gives."""
        table = self._tracer.dims
        alive = [place for place in range(table.probes, table.width) if place not in table.dead]
        if likely is not None:
            few = sorted(alive[: 4 * _SCOUTS], key=table.extent)[:_SCOUTS]
            scouts = {place: self._asked(op, extents, place, seen) for place in few}
            if all(found is None or _fits(found, likely, place) for place, found in scouts.items()):
                refused = [place for place, found in scouts.items() if found is None]
                if len(refused) < len(scouts) or not scouts:
                    self._tracer.dims.refuse(refused)
                    return None
        alive.sort(key=table.extent)
        found_at = {place: self._asked(op, extents, place, seen) for place in alive[:_MOST_ASKED]}

        def column(result: int, axis: int, values: tuple[int, ...]) -> Column:
            at_place = dict(enumerate(values))
            at_place |= {place: found[result][axis] for place, found in found_at.items() if found is not None}
            fitting = {each for each in known if all(each[place] == size for place, size in at_place.items())}
            if len(fitting) == 1:
                (others,) = fitting
                at_place |= {place: others[place] for place in alive[_MOST_ASKED:]}
            at_place |= dict.fromkeys(table.dead, values[0])
            return tuple(at_place.get(place) for place in range(table.width))

        return [
            tuple(column(result, axis, values) for axis, values in enumerate(columns))
            for result, columns in enumerate(seen)
        ]

    def _asked(self, op: OpOverload, extents: Any, place: int, seen: Any) -> list[tuple[int, ...]] | None:
        """The sizes of the results at a point; None where the operator refuses it, or gives other results."""
        values, *at_point = extents
        args = tuple(_at(value, place) for value in at_point[0])
        kwargs = {name: _at(value, place) for name, value in at_point[1].items()}
        try:
            rule = None if isinstance(op, FunctionCall) else rule_for(op)
            sizes = None if rule is None else rule(*args, **kwargs)
            if sizes is None:
                found = (
                    function_layouts(op, values, list(args), largest=_LARGEST_REAL_PROBE)
                    if isinstance(op, FunctionCall)
                    else self._kernels.run(op, args, kwargs, largest=_LARGEST_REAL_PROBE)
                )
                found = [found] if isinstance(found, Layout) else found
                sizes = [each.size for each in found]
        except (ProbeFailure, OverflowError, MemoryError):
            return None
        sizes = sizes if isinstance(sizes, list) else [sizes]
        if len(sizes) != len(seen) or any(len(a) != len(b) for a, b in zip(sizes, seen, strict=True)):
            return None
        return sizes


def _add_given(found: list[SymDim], tracer: Tracer, value: Any) -> None:
    """Add the dimensions that an operator is given: those of tensors, and numbers."""
    kind = type(value)
    if kind is Traced:
        found += [dim for dim in value.fact.shape if type(dim) is SymDim]
    elif kind is torch.SymInt:
        dim = tracer.dims.dim(value.node.values)
        if isinstance(dim, SymDim):
            found.append(dim)
    elif isinstance(value, (list, tuple)):
        for each in value:
            _add_given(found, tracer, each)


def _plain(value: Any) -> Iterator[int]:
    """The plain numbers that an operator may make a size of: 1, those that it is given, and sizes of tensors; twice
    these, as recurrent layers in two directions do; and how many tensors there are in a list."""
    if isinstance(value, torch.Tensor):
        shape = value.fact.shape if isinstance(value, Traced) else value.size()
        yield from (factor * each for each in shape if isinstance(each, int) for factor in (1, 2))
    elif isinstance(value, int):
        yield value
    elif isinstance(value, (list, tuple)):
        yield len(value)
        for each in value:
            yield from _plain(each)
    yield 1


def _extents(value: Any) -> Any:
    if isinstance(value, Traced):
        return Extent(tuple(d.values if isinstance(d, SymDim) else d for d in value.fact.shape), value.example.dtype)
    if isinstance(value, torch.Tensor):
        return Extent(tuple(value.size()), value.dtype)
    if isinstance(value, SYMBOLIC):
        return value.node.values
    if isinstance(value, (list, tuple)):
        return [_extents(each) for each in value]
    return value


class _Everywhere(NamedTuple):
    """The layouts of a tensor at all probes and points."""

    layouts: tuple[Layout, ...]


def _laid_out(tracer: Tracer, value: Any) -> Any:
    """Arguments with tensors as they lie in memory: whether `view` works depends on it."""
    if isinstance(value, Traced):
        found = tensors_elsewhere(tracer, value)
        plain = _extents(value)
        if found is None:
            return plain
        layouts = (_at(plain, p) if each is None else Layout.of(each) for p, each in enumerate(found))
        return _Everywhere(tuple(layouts))
    return [_laid_out(tracer, each) for each in value] if isinstance(value, (list, tuple)) else _extents(value)


def _at(value: Any, place: int) -> Any:
    """An argument at a point."""
    if isinstance(value, _Everywhere):
        return value.layouts[place]
    if isinstance(value, Extent):
        size = tuple(column[place] if isinstance(column, tuple) else column for column in value.size)
        stride = tuple(math.prod(max(n, 1) for n in size[axis + 1 :]) for axis in range(len(size)))
        return Layout(size, stride, value.dtype)
    if isinstance(value, tuple):
        return value[place]
    return [_at(each, place) for each in value] if isinstance(value, list) else value


def _fits(found: list[tuple[int, ...]], likely: list[tuple[Dim, ...]], place: int) -> bool:
    return all(
        size == (dim.values[place] if isinstance(dim, SymDim) else dim)
        for sizes, dims in zip(found, likely, strict=True)
        for size, dim in zip(sizes, dims, strict=True)
    )


def _hashable(value: Any) -> Any:
    if isinstance(value, list):
        return tuple(map(_hashable, value))
    return (type(value), value) if isinstance(value, (float, bool)) else value
