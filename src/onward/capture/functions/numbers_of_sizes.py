"""Sizes as Python's own numbers, for code that takes nothing else.

A `torch.SymInt` is no key of a dict or of `functools.lru_cache`, JSON cannot write it, and numpy knows little of it.
A model that fails on one is run with these instead: an `int` is what it is, and remembers its formula beside. PyTorch
takes the plain number out of it, which is then thawed (`thaw.py`), and found at once: every such number is known.

As a key it is like no other. What a model keeps by size is made anew, at the example's size as at all others, and
nobody who asks for 14 later is given what was made here.
"""

from __future__ import annotations

import functools
import math
import operator
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import torch

from ...tables import registrar
from ..memory.tensor import Traced
from ..program.facts import bit_length
from ..sizes.queries import size_of
from ..sizes.sizes import Computed, Function, Size, computed, constant, extremes
from .intercepts import Intercept

if TYPE_CHECKING:
    from ..record.tracer import Tracer

INTERCEPTS: dict[Any, Intercept] = {}
intercepts = registrar(INTERCEPTS)


@intercepts(torch.Tensor.shape.__get__, torch.Tensor.size, torch.Tensor.numel)  # type: ignore[attr-defined]
def shape(tracer: Tracer, func: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
    """`x.shape`, `x.size()`, `x.size(0)` and `x.numel()` where sizes are to be plain numbers."""
    tensor = args[0]
    if not tracer.sizes_as_numbers or not isinstance(tensor, Traced):
        return NotImplemented
    sizes = [number_of(size_of(tracer, tensor, axis)) for axis in range(tensor.fact.rank)]
    if func is torch.Tensor.numel:
        return math.prod(sizes)
    axis = args[1] if len(args) > 1 else kwargs.get("dim")
    return torch.Size(sizes) if axis is None else sizes[axis]


class _Number:
    """What both kinds have; arithmetic and comparisons are added below."""

    size: Size

    def __hash__(self) -> int:
        self.size.tracer.decisions.keys.note(self.size, sys._getframe(1))
        return hash((id(self.size.tracer), self.size.values))

    def __eq__(self, other: object) -> Any:
        if self._is_compared():
            return _computed(operator.eq, self, other)
        return (
            isinstance(other, _Number)
            and self.size.tracer is other.size.tracer
            and self.size.values == other.size.values
        )

    def __ne__(self, other: object) -> Any:
        return _computed(operator.ne, self, other)

    def _is_compared(self) -> bool:
        """Whether the model compares. A dict compares its keys too, and that is nobody's branch."""
        return not self.size.tracer.decisions.keys.is_lookup(sys._getframe(2))

    def __bool__(self) -> bool:
        return bool(_computed(operator.ne, self, 0))

    def __round__(self, digits: int | None = None) -> Any:
        return _computed(round, self) if digits is None else _computed(round, self, digits)

    def __divmod__(self, other: Any) -> Any:
        return self // other, self % other


class WholeNumber(_Number, int):  # type: ignore[misc]
    """An `int` with a formula."""

    def bit_length(self) -> Any:
        return _computed(bit_length, self)


class RealNumber(_Number, float):  # type: ignore[misc]
    """A `float` with a formula."""


def number_of(size: Size) -> Any:
    """The example's number, with its formula."""
    first = size.values[0]
    if type(first) not in (int, float):
        return size.tracer.decisions.commit(size) if type(first) is bool else first
    result: Any = WholeNumber(first) if type(first) is int else RealNumber(first)
    result.size = size
    size.tracer.decisions.offer(size)
    if type(first) is float and all(map(math.isfinite, size.values)):  # `int(number)` does not come to us
        values = tuple(map(int, size.values))
        size.tracer.decisions.offer(Size(size.tracer, values, Computed(math.trunc, (size,))))
    return result


def _computed(function: Callable[..., Any], *operands: Any) -> Any:
    """A function of numbers, at all probes; the example's plain answer where some probe has none."""
    tracer = next(each.size.tracer for each in operands if isinstance(each, _Number))
    sizes = []
    for each in operands:
        if isinstance(each, _Number):
            sizes.append(each.size)
        elif isinstance(each, (int, float)):
            sizes.append(constant(tracer, each))
        else:
            return NotImplemented
    try:
        return number_of(computed(function, *sizes))
    except ArithmeticError:
        return function(*(each.values[0] for each in sizes))


def _add_methods() -> None:
    def forward(function: Callable[..., Any]) -> Callable[..., Any]:
        return lambda self, *others: _computed(function, self, *others)

    def backward(function: Callable[..., Any]) -> Callable[..., Any]:
        return lambda self, other: _computed(function, other, self)

    for name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow"):
        setattr(_Number, f"__{name}__", forward(getattr(operator, name)))
        setattr(_Number, f"__r{name}__", backward(getattr(operator, name)))
    for name in ("lt", "le", "gt", "ge", "neg", "abs"):
        setattr(_Number, f"__{name}__", forward(getattr(operator, name)))
    for name in ("floor", "ceil", "trunc"):
        setattr(_Number, f"__{name}__", forward(getattr(math, name)))


_add_methods()


def number_extremes(smallest: Function, largest: Function) -> tuple[Function, Function]:
    """`min` and `max` of these numbers, where Python would decide for one of them."""

    def reduce(combine: Function, numbers: Sequence[Any]) -> Any:
        ours_first = sorted(numbers, key=lambda each: not isinstance(each, _Number))
        return functools.reduce(functools.partial(_computed, combine), ours_first)

    return extremes(smallest, largest, _Number, (int, float), reduce)
