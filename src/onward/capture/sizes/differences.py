"""What a question about sizes is told where the numbers that it compares differ.

`if dh != 0 or dw != 0: x = pad(x, (0, dw, 0, dh))` asks whether there is anything to do, and to do it by nothing does
no harm: the side for numbers that differ does for equal ones, too. `dh > 0` is the same question where `dh` is never
negative, and so is `h % 2 == 1`. Such an answer is no more than a guess, which has to be proved at sizes on both sides.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import torch

from .sizes import Computed, Size

Pairs = Sequence[tuple[float, float]]


def where_they_differ(size: Size) -> bool | None:
    """The answer of a question where its numbers differ; None if it does not ask whether they do."""
    if not isinstance(size.origin, Computed):
        return None
    function, operands = size.origin.function, size.origin.operands
    if function is torch.sym_not:
        answer = where_they_differ(operands[0])
        return None if answer is None else not answer
    if function in (operator.and_, operator.or_):
        answers = [where_they_differ(each) for each in operands] if size.is_bool() else [None]
        return None if None in answers else bool(function(*answers))
    if function not in _COMPARING:
        return None
    dead = size.tracer.dims.dead
    rows = enumerate(zip(*(each.values for each in operands), strict=True))
    return _compared(function, [pair for place, pair in rows if place not in dead])


_COMPARING = frozenset({operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge})
_SWAPPED = {operator.lt: operator.gt, operator.le: operator.ge}
_FROM_ONE = {operator.ge: operator.gt, operator.lt: operator.le}  # what `n >= 1` and `n < 1` ask about zero
_OF_TWO = {operator.eq: operator.ne, operator.ne: operator.eq}  # what `n == 1` and `n != 1` ask about zero


def _compared(function: Callable[..., Any], pairs: Pairs) -> bool | None:
    if function in _FROM_ONE and _is_always(pairs, 1):
        function, pairs = _FROM_ONE[function], [(one, 0) for one, _ in pairs]
    elif function in _OF_TWO and _is_always(pairs, 1) and all(one in (0, 1) for one, _ in pairs):
        function = _OF_TWO[function]
    if function in _SWAPPED:
        function, pairs = _SWAPPED[function], [pair[::-1] for pair in pairs]
    if function is operator.gt:
        return True if all(one >= other for one, other in pairs) else None
    if function is operator.ge:
        return False if all(one <= other for one, other in pairs) else None
    return function is operator.ne


def _is_always(pairs: Pairs, number: int) -> bool:
    """Whether whole numbers are compared with this one."""
    return all(type(one) is int and type(other) is int and other == number for one, other in pairs)
