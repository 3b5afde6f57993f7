"""The types that sizes say they have: `isinstance(n, int)` in any code but PyTorch's own, and `match n: case int()`.

A `torch.SymInt` is no `int`, and code that asks takes the wrong side. Python believes what an object says its
`__class__` is. PyTorch's own functions, numpy's and Python's are told the truth: they know what to do with a SymInt.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from ..sizes import SYMBOLIC, Size
from ..source import is_library
from .patches import Patch
from .threads import current


def _telling(original: Callable[..., Any]) -> Callable[..., Any]:
    def __getattribute__(number: Any, name: str) -> Any:
        if name == "__class__" and current() is not None and not is_library(sys._getframe(1).f_code):
            node = original(number, "node")
            if isinstance(node, Size):
                return type(node.values[0])
        return original(number, name)

    return __getattribute__


KINDS = tuple(Patch(kind, "__getattribute__", _telling) for kind in SYMBOLIC)
