"""Functions of Python's `math` for sizes: `math.sqrt(x.shape[0])` is a number that follows the size.

Python's own make a plain number of whatever they are given. In the thread that traces ours compute with sizes, and they
are Python's in every other thread. A function that a file has taken under a name of its own (`from math import sqrt`)
is not among them: what it returns is a plain number, which is looked at later (`thaw.py`).

numpy takes a size for an object, and asks it for a method with the function's name: `np.sqrt(n)` is `n.sqrt()`.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import torch

from ..ground.threads import current
from ..sizes.sizes import SYMBOLIC, Size, computed, symbol
from .patches import Patch

Function = Callable[..., Any]

_OF_ONE = ("sqrt", "log2", "log10", "exp", "isqrt", "sin", "cos")  # a graph has them as they are
_NUMBERS = (int, float, torch.SymInt, torch.SymFloat)


def _is_followed(numbers: tuple[Any, ...]) -> bool:
    """Whether a call is one on sizes, in the thread that traces."""
    has_sizes = any(isinstance(each, SYMBOLIC) for each in numbers)
    return has_sizes and all(isinstance(each, _NUMBERS) for each in numbers) and current() is not None


def _of_one(original: Function) -> Function:
    @functools.wraps(original)
    def follow(number: Any, /) -> Any:
        if isinstance(number, SYMBOLIC) and current() is not None:
            return symbol(computed(original, number.node))
        return original(number)

    return follow


def _made_of(ours: Function) -> Callable[[Function], Function]:
    """A function in terms of others that a graph has."""

    def make(original: Function) -> Function:
        @functools.wraps(original)
        def follow(*numbers: Any, **options: Any) -> Any:
            return (ours if _is_followed(numbers) else original)(*numbers, **options)

        return follow

    return make


def _logarithm(original: Function) -> Function:
    @functools.wraps(original)
    def follow(number: Any, *base: Any) -> Any:
        if isinstance(number, SYMBOLIC) and current() is not None and len(base) <= 1:
            natural = symbol(computed(original, number.node))
            return natural / original(base[0]) if base and type(base[0]) in (int, float) else natural
        return original(number, *base)

    return follow


def _power(base: Any, exponent: Any, /) -> Any:
    return torch.sym_float(base) ** torch.sym_float(exponent)


def _hypotenuse(*sides: Any) -> Any:
    return math.sqrt(sum(torch.sym_float(side) * side for side in sides))


def _remainder(number: Any, divisor: Any, /) -> Any:
    """It has the sign of the number, and Python's `%` that of the divisor."""
    return torch.sym_float(number - math.trunc(number / divisor) * divisor)


def _logarithm_of_one_more(number: Any, /) -> Any:
    return math.log(torch.sym_float(number) + 1.0)


def _is_close(one: Any, other: Any, *, rel_tol: float = 1e-09, abs_tol: float = 0.0) -> Any:
    return abs(one - other) <= max(rel_tol * max(abs(one), abs(other)), abs_tol)


def _product(numbers: Any, /, *, start: Any = 1) -> Any:
    for number in numbers:
        start = start * number
    return start


def _product_of(original: Function) -> Function:
    @functools.wraps(original)
    def follow(numbers: Any, /, *, start: Any = 1) -> Any:
        given = tuple(numbers) if current() is not None else numbers
        return (_product if current() is not None and _is_followed((*given, start)) else original)(given, start=start)

    return follow


def _power_of_numbers(name: str) -> Callable[[Function], Function]:
    """`(n / 8 - 1) ** 3`: PyTorch takes no negative number to a power, and Python does."""

    def make(original: Function) -> Function:
        @functools.wraps(original)
        def power(number: Any, other: Any) -> Any:
            if not isinstance(number.node, Size) or current() is None or not isinstance(other, _NUMBERS):
                return original(number, other)
            return getattr(number, name)(other)

        return power

    return make


MATH = (
    Patch(torch.SymFloat, "__pow__", _power_of_numbers("__float_pow__")),
    Patch(torch.SymFloat, "__rpow__", _power_of_numbers("__rfloat_pow__")),
    *(Patch(math, name, _of_one) for name in _OF_ONE),
    Patch(math, "log", _logarithm),
    Patch(math, "prod", _product_of),
    Patch(math, "pow", _made_of(_power)),
    Patch(math, "hypot", _made_of(_hypotenuse)),
    Patch(math, "fmod", _made_of(_remainder)),
    Patch(math, "log1p", _made_of(_logarithm_of_one_more)),
    Patch(math, "isclose", _made_of(_is_close)),
)


# --- numpy -----------------------------------------------------------------------------------------------------------
_OF_NUMPY = ("sqrt", "log", "log2", "log10", "log1p", "exp", "sin", "cos", "hypot")


def _method(name: str) -> Callable[[Any], Function]:
    def make(_: Any) -> Function:
        def method(number: Any, *others: Any) -> Any:
            if not isinstance(number.node, Size) or current() is None:
                raise TypeError(f"a number of PyTorch's has no method {name}")
            return getattr(math, name)(number, *others)

        return method

    return make


NUMPY = tuple(Patch(kind, name, _method(name)) for kind in (torch.SymInt, torch.SymFloat) for name in _OF_NUMPY)
