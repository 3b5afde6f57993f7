"""Python's own functions of numbers, `min`, `divmod` or `round`, for numbers that are sizes."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Sequence
from typing import Any

import torch

from ..program.facts import bit_length
from .sizes import SYMBOLIC, Size, computed, symbol

Function = Callable[..., Any]


def symbolic_extremes(smallest: Function, largest: Function) -> tuple[Function, Function]:
    """Python's `min` and `max` for sizes too: `min(height, 7)` is a size, where Python would decide for one of them."""
    return extremes(smallest, largest, SYMBOLIC, (int, float, torch.SymInt, torch.SymFloat), functools.reduce)


def extremes(
    smallest: Function, largest: Function, ours: Any, all_of: Any, reduce: Callable[[Function, Sequence[Any]], Any]
) -> tuple[Function, Function]:
    """`min` and `max` that `reduce` numbers if one is of `ours` and all are of `all_of`, and else are Python's."""

    def extended(decide: Function, combine: Function) -> Function:
        @functools.wraps(decide)
        def extreme(*args: Any, **kwargs: Any) -> Any:
            numbers = args[0] if len(args) == 1 and isinstance(args[0], (list, tuple)) else args
            if kwargs or len(numbers) < 2 or not any(isinstance(each, ours) for each in numbers):
                return decide(*args, **kwargs)
            if not all(isinstance(each, all_of) for each in numbers):
                return decide(*args, **kwargs)
            return reduce(combine, numbers)

        return extreme

    return extended(smallest, torch.sym_min), extended(largest, torch.sym_max)


def symbolic_divmod(divide: Callable[..., Any]) -> Callable[..., Any]:
    """Python's `divmod` for sizes too, which PyTorch's numbers do not have."""

    @functools.wraps(divide)
    def extended(one: Any, other: Any, /) -> Any:
        followed = isinstance(one, SYMBOLIC) or isinstance(other, SYMBOLIC)
        return (one // other, one % other) if followed else divide(one, other)

    return extended


def symbolic_round(keep: Callable[..., Any]) -> Callable[..., Any]:
    """`round(size, -1)`, whose digits a SymInt ignores. A half goes to the even multiple, as in Python."""

    @functools.wraps(keep)
    def extended(size: Any, digits: Any = None) -> Any:
        if digits is None or not isinstance(size.node, Size) or (places := -operator.index(digits)) <= 0:
            return keep(size, digits)
        unit = 10**places
        return (size + (unit // 2 - 1 + size // unit % 2)) // unit * unit

    return extended


def symbolic_bit_length(ask: Callable[..., Any]) -> Callable[..., Any]:
    """`size.bit_length()`, for which PyTorch makes a plain number of the size."""

    @functools.wraps(ask)
    def extended(size: Any) -> Any:
        return symbol(computed(bit_length, size.node)) if isinstance(size.node, Size) else ask(size)

    return extended
