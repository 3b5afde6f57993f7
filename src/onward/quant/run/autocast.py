"""A quantised model that is evaluated or exported under autocast computes as without it.

What is left in float (a recurrence, a norm, a layer that is switched off) would run in the shorter type otherwise, and
the file, which has no autocast, would give other numbers than evaluation did.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch.utils import _pytree as pytree

_KINDS = ("cpu", "cuda", "xpu", "mps")
_SHORTER = (torch.bfloat16, torch.float16)

is_autocast = torch._C._is_any_autocast_enabled


def leave_autocast() -> tuple[str, ...]:
    """Turn autocast off, and say for which kinds of devices it was on."""
    found = tuple(kind for kind in _KINDS if torch.is_autocast_enabled(kind))
    for kind in found:
        torch.set_autocast_enabled(kind, False)
    return found


def return_to_autocast(kinds: tuple[str, ...]) -> None:
    """Turn it on again."""
    for kind in kinds:
        torch.set_autocast_enabled(kind, True)


@contextlib.contextmanager
def no_autocast() -> Iterator[None]:
    """Both, around something."""
    kinds = leave_autocast()
    try:
        yield
    finally:
        return_to_autocast(kinds)


def in_full(args: tuple, kwargs: dict[str, Any]) -> tuple[tuple, dict[str, Any]]:
    """What a model is called with, where something before it has given it the shorter type."""
    full: tuple[tuple, dict[str, Any]] = pytree.tree_map_only(
        Tensor, lambda each: each.float() if each.dtype in _SHORTER else each, (args, kwargs)
    )
    return full
