"""Sizes at which a number may be another one, found by looking at how it is computed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from .sizes import Computed, Size, evaluator

Expand = Callable[[Mapping[str, int]], Mapping[str, int]]
_LARGEST_SOLVED = 1 << 20  # of the sizes at which an equation is looked at


def flip_candidates(size: Size, axis: str, example: Mapping[str, int], expand: Expand) -> set[int]:
    """Sizes of an axis at which a number may be another one: around the whole numbers that it is computed with, and
    where two numbers that it compares become equal. `expand` adds the sizes of axes that follow others."""
    found: set[int] = set()
    if isinstance(size.origin, Computed):
        for operand in size.origin.operands:
            found |= flip_candidates(operand, axis, example, expand)
        if len(size.origin.operands) == 2:
            found |= _equal_at(*size.origin.operands, axis, example, expand)
    elif size.origin is None and size.is_int():
        number = abs(size.values[0])
        found |= {factor * number + step for factor in (1, 2, 3) for step in (-1, 0, 1)}
    return {each for each in found if 0 < each <= _LARGEST_SOLVED}


def _equal_at(one: Size, other: Size, axis: str, example: Mapping[str, int], expand: Expand) -> set[int]:
    """About where two numbers are equal, by halving: exact if their difference only grows or only falls."""

    first_at, second_at = evaluator(one), evaluator(other)

    def difference(at: int) -> Any:
        sizes = expand({**example, axis: at})
        first, second = first_at(sizes), second_at(sizes)
        return None if first is None or second is None else first - second

    low, high = 1, _LARGEST_SOLVED
    try:
        ends = difference(low), difference(high)
        if None in ends or ends[0] == ends[1] or (ends[0] < 0) is (ends[1] < 0):
            return set()
        while high - low > 1:
            middle = (low + high) // 2
            if (difference(middle) < 0) is (ends[0] < 0):
                low = middle
            else:
                high = middle
    except (ArithmeticError, ValueError):
        return set()
    return {low - 1, low, high, high + 1}
