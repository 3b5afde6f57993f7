"""Functions of Python's `math` for sizes: `math.sqrt(x.shape[0])` is a number that follows the size.

Python's own make a plain number of whatever they are given. In the thread that traces ours compute with sizes, and they
are Python's in every other thread. A function that a file has taken under a name of its own (`from math import sqrt`)
is not among them: what it returns is a plain number, which is looked at later (`thaw.py`).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

from ..sizes import SYMBOLIC, computed, symbol
from .patches import Patch
from .threads import current

_NAMES = ("sqrt", "log2", "log10", "exp", "isqrt")


def _following(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def follow(number: Any, /) -> Any:
        if isinstance(number, SYMBOLIC) and current() is not None:
            return symbol(computed(original, number.node))
        return original(number)

    return follow


def _logarithm(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def follow(number: Any, *base: Any) -> Any:
        if isinstance(number, SYMBOLIC) and current() is not None and len(base) <= 1:
            natural = symbol(computed(original, number.node))
            return natural / original(base[0]) if base and type(base[0]) in (int, float) else natural
        return original(number, *base)

    return follow


MATH = (
    *(Patch(math, name, _following) for name in _NAMES),
    Patch(math, "log", _logarithm),
)
