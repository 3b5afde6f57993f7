"""A function of plain numbers, as a size computes it at every probe and point."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..record.tracer import Tracer

_EXPLODING = frozenset({operator.pow, operator.lshift})  # `2**n`: of what size n is at some points, it has no end
_LARGEST_EXPONENT = 64


def applied(function: Callable[..., Any], row: tuple[Any, ...]) -> Any:
    """The function's result. Python makes a complex number of `(-2.0) ** 0.5`, and no size is one."""
    result = function(*row)
    if isinstance(result, complex):
        raise ValueError(f"{row[0]} ** {row[1]} is a complex number")
    return result


def explodes(function: Callable[..., Any], row: tuple[Any, ...]) -> bool:
    """Whether a number would have more digits than anybody can hold."""
    return function in _EXPLODING and abs(row[1]) > _LARGEST_EXPONENT


def made_to_fit(row: tuple[Any, ...]) -> tuple[Any, ...]:
    """Numbers for a side of a branch that is not taken there, where a root, a logarithm or a division may fail."""
    return tuple(abs(each) or type(each)(1) for each in row)


def is_astray(tracer: Tracer) -> bool:
    """Whether what is traced is on a way that the example does not take."""
    return bool(tracer.untaken) or (tracer.recorder is not None and tracer.recorder.is_astray)
