"""The types that sizes say they have, and the hash that they have not.

A `torch.SymInt` is no `int`, and code that asks (`isinstance(n, int)` in a library, `match n: case int()`) takes the
wrong side. Python believes what an object says its `__class__` is. PyTorch's own functions, numpy's and Python's are
told the truth: they know what to do with a SymInt.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import torch

from ..ground.source import is_library
from ..ground.threads import current
from ..ground.try_blocks import OF_KEYS, surviving_try
from ..record.tracer import Tracer
from ..sizes.sizes import SYMBOLIC, Size
from .patches import Patch


def _telling(original: Callable[..., Any]) -> Callable[..., Any]:
    def __getattribute__(number: Any, name: str) -> Any:
        if name == "__class__" and current() is not None and not is_library(sys._getframe(1).f_code):
            node = original(number, "node")
            if isinstance(node, Size):
                return type(node.values[0])
        return original(number, name)

    return __getattribute__


def _without_hash(original: Callable[..., Any]) -> Callable[..., Any]:
    """A size is no key. The model is run again with numbers that are, also where it survives the error."""

    def __hash__(number: Any) -> int:
        tracer: Tracer | None = current()
        if tracer is not None and isinstance(number.node, Size) and surviving_try(OF_KEYS) is not None:
            tracer.other_sizes.swallowed = TypeError("unhashable type: non-nested SymInt")
        return int(original(number))

    return __hash__


KINDS = (
    *(Patch(kind, "__getattribute__", _telling) for kind in SYMBOLIC),
    Patch(torch.SymInt, "__hash__", _without_hash),
)
