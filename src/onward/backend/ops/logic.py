"""Comparisons, truth values and bits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..registry import implements
from ._wide import widened
from .elementwise import _legacy

for _op, _function in {
    "Less": torch.lt, "LessOrEqual": torch.le, "Greater": torch.gt, "GreaterOrEqual": torch.ge,
    "And": torch.logical_and, "Or": torch.logical_or, "Xor": torch.logical_xor,
    "BitwiseAnd": torch.bitwise_and, "BitwiseOr": torch.bitwise_or, "BitwiseXor": torch.bitwise_xor,
}.items():  # fmt: skip
    implements(_op)(_legacy(_function))

_equal: Callable[..., Tensor] = _legacy(torch.eq)


@implements("Equal")
def equal(x: Any, y: Any, *, axis: int | None = None, broadcast: int = 0) -> Tensor:
    if isinstance(x, np.ndarray):  # strings
        return torch.from_numpy(np.asarray(x == y, dtype=bool))
    return _equal(x, y, axis=axis, broadcast=broadcast)


@implements("Not")
def logical_not(x: Tensor) -> Tensor:
    return torch.logical_not(x)


@implements("IsInf")
def is_inf(x: Tensor, *, detect_negative: int = 1, detect_positive: int = 1) -> Tensor:
    found = torch.isinf(x) if x.element_size() > 1 else torch.isinf(x.float())
    if not detect_negative:
        found = found & (x.float() > 0)
    if not detect_positive:
        found = found & (x.float() < 0)
    return found


@implements("BitShift")
@widened
def bit_shift(x: Tensor, y: Tensor, *, direction: str) -> Tensor:
    return torch.bitwise_left_shift(x, y) if direction == "LEFT" else torch.bitwise_right_shift(x, y)


@implements("Where")
@widened
def where(condition: Any, x: Any, y: Any) -> Any:
    if isinstance(x, np.ndarray):
        return np.where(condition.numpy(), x, y)
    return torch.where(condition, x, y)
