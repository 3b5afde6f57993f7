"""Answers about memory that differ between sizes, as conditions on sizes and as products of them.

A condition or a product is taken for an answer only if it gives the same at every probe and at every point.
"""

from __future__ import annotations

import functools
import itertools
import operator
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any, NamedTuple, Protocol

import torch

from ..sizes.sizes import MemoryOf, Size, SizeRecorder, SizeTrace, computed, constant, symbol
from .point_layouts import chain
from .tensor import Traced
from .tensor_queries import size_of

_MOST_FACTORS = 3  # of a product of sizes that a stride may be


class AskedRecorder(SizeRecorder, Protocol):
    """A run that is explored, and which tensors Python asks for something in it."""

    def asked(self, tensor: Traced) -> None:
        """The model asks a tensor for its sizes."""


class AskedTrace(SizeTrace, Protocol):
    """What questions about memory need of their trace."""

    @property
    def recorder(self) -> AskedRecorder | None: ...


def sizes_of(tracer: SizeTrace, tensor: Traced) -> list[Size]:
    """The sizes that differ between probes, of a tensor and of those that it is a view of, each once."""
    found: dict[tuple[Any, ...], Size] = {}
    for each in chain(tensor):
        for axis, dim in enumerate(each.fact.shape):
            if not isinstance(dim, int):
                found.setdefault(dim.values, size_of(tracer, each, axis))
    return list(found.values())


def asked_sizes(tracer: AskedTrace, tensor: Traced) -> list[Size]:
    """The same, where Python asks the tensor for something: a run that is explored notes which tensor was asked."""
    for each in chain(tensor):
        if tracer.recorder is not None:
            tracer.recorder.asked(each)
    return sizes_of(tracer, tensor)


def numbers_of(*tensors: Traced) -> set[int]:
    """The sizes of these tensors, and of those that they are views of, that are the same everywhere."""
    shapes = [each.fact.shape for each in itertools.chain.from_iterable(map(chain, tensors))]
    return {dim for shape in shapes for dim in shape if isinstance(dim, int)}


def truth(sizes: Sequence[Size], numbers: Collection[int], text: str, answers: Sequence[bool | None]) -> Size:
    """A yes or no as a condition on sizes. Where it is not known it counts as the other one than at the last probe:
    such sizes are then tried out. `text` stands for it where no condition is found."""
    tracer = sizes[0].tracer
    table = tracer.dims
    usual = answers[table.probes - 1]
    values = table.live(tuple(not usual if each is None else each for each in answers))
    if table.is_one(values):
        return constant(tracer, values[0])
    conditions = [
        _Condition(function, size, number)
        for size in sizes
        for number in sorted({0, 1, *numbers})
        for function in (operator.eq, operator.ne, operator.le, operator.gt)
    ]
    columns = [each.column() for each in conditions]
    for condition, column in zip(conditions, columns, strict=True):
        if table.live(column) == values:
            return condition.computed()
    small = [pair for pair in zip(conditions, columns, strict=True) if pair[0].second in (0, 1)]
    equal = [
        _Condition(function, first, second)
        for first, second in itertools.combinations(sizes, 2)
        for function in (operator.eq, operator.ne)
    ]
    small += [(each, each.column()) for each in equal]
    for (first, ones), (second, others) in itertools.combinations(small, 2):
        for join in (operator.or_, operator.and_):
            if table.live(tuple(map(join, ones, others))) == values:
                return computed(join, first.computed(), second.computed())
    return Size(tracer, values, MemoryOf(text))


class _Condition(NamedTuple):
    """A size compared with a number, or with another size."""

    function: Callable[[int, int], bool]
    first: Size
    second: Size | int

    def column(self) -> tuple[bool, ...]:
        """The answers at every probe and point."""
        second = itertools.repeat(self.second) if isinstance(self.second, int) else self.second.values
        return tuple(map(self.function, self.first.values, second))

    def computed(self) -> Size:
        second = constant(self.first.tracer, self.second) if isinstance(self.second, int) else self.second
        return computed(self.function, self.first, second)


def number(sizes: Sequence[Size], text: str, found: Sequence[int | None]) -> Any:
    """A number: a product of sizes where it is one everywhere. Where it is not known, whether a size is 1 is noted."""
    tracer = sizes[0].tracer
    table = tracer.dims
    if any(each is None for place, each in enumerate(found) if place not in table.dead):
        for size in sizes:
            note_ones(size)
    values = table.live(tuple(found[0] if each is None else each for each in found))
    if table.is_one(values):
        return values[0]
    for product in _products(sizes):
        scale = max(values[0] // max(product.values[0], 1), 1)
        if table.live(tuple(scale * each for each in product.values)) == values:
            made = product if scale == 1 else computed(operator.mul, constant(tracer, scale), product)
            return symbol(Size(tracer, made.values, made.origin))
    return symbol(Size(tracer, values, MemoryOf(text)))


def note_ones(size: Size) -> None:
    """Whether a size is 1 is a branch."""
    is_one = computed(operator.eq, size, constant(size.tracer, 1))
    if not is_one.is_uniform:
        is_one.commit()


def _products(sizes: Sequence[Size]) -> Iterator[Size]:
    """Products of some sizes, and of the same with 1 in place of 0, as strides are made of them."""
    one = constant(sizes[0].tracer, 1)
    for count in range(1, min(len(sizes), _MOST_FACTORS) + 1):
        for factors in itertools.combinations(sizes, count):
            yield functools.reduce(functools.partial(computed, operator.mul), factors)
            bounded = (computed(torch.sym_max, each, one) for each in factors)
            yield functools.reduce(functools.partial(computed, operator.mul), bounded)
