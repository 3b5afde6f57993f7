"""The bits of integers by arithmetic, for opsets that have no operators for them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from .core import Value


def by_planes(g: Any, x: Value, y: Value, dtype: torch.dtype, combine: Callable[[Any, Value, Value], Value]) -> Value:
    """Each integer as a row of its bits along a new last axis, combined there and weighed together again."""
    info = torch.iinfo(dtype)
    bits = g.cast(combine(g, _planes(g, x, info.bits), _planes(g, y, info.bits)), torch.int64)
    if info.bits < 64:
        return g.cast(_weigh(g, bits, info.bits, dtype.is_signed), dtype)
    # In halves: onnxruntime 1.31 adds int64 up in float64.
    low, high = g.split(bits, [32, 32], -1)
    return g.op.Add(_weigh(g, low, 32, False), g.op.Mul(_weigh(g, high, 32, True), g.const(1 << 32)))


def _weigh(g: Any, bits: Value, count: int, signed: bool) -> Value:
    """The integers that rows of bits stand for; the last bit of a signed one counts as negative."""
    weights = [1 << place for place in range(count)]
    weights[-1] *= -1 if signed else 1
    return g.reduce("ReduceSum", g.op.Mul(bits, g.const(weights)), [-1])


def _planes(g: Any, x: Value, bits: int) -> Value:
    """The bits of x along a new last axis, lowest first: x // 2**place, odd or even."""
    rank = g.rank(x)
    wide = g.unsqueeze(g.cast(x, torch.int64), [rank])
    lower = g.floor_divide(wide, g.const([1 << place for place in range(bits - 1)]))
    # The top bit: of a signed integer its sign, of an unsigned one the last quotient halved.
    last = g.op.Less(wide, g.const(0)) if g.dtype(x).is_signed else g.op.Greater(wide, g.const((1 << (bits - 1)) - 1))
    odd = g.cast(g.op.Sub(lower, g.op.Mul(g.floor_divide(lower, g.const(2)), g.const(2))), torch.int32)
    return g.cast(g.op.Concat(odd, g.cast(last, torch.int32), axis=rank), torch.bool)
