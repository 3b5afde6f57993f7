"""Copies of a tensor along its axes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from onward.onnx_operators import dimension_math as dimensions

from ..emitter import Emitter, Size, Value
from ..registry import lowers
from .shape import completed

aten = torch.ops.aten
_FAR = 2**63 - 1


@lowers(aten.repeat.default, aten.tile.default)
def repeat(g: Emitter, x: Value, repeats: Sequence[Size]) -> Value:
    """repeat(Tensor self, SymInt[] repeats) -> Tensor"""
    before = g.known_dims(x)
    times: list[Any] = [*[1] * (len(before) - len(repeats)), *repeats]
    lead = len(times) - len(before)
    padded = (*[1] * lead, *before)
    if all(dim == 1 or count == 1 for dim, count in zip(padded, times, strict=True)):
        sizes = [count if dim == 1 else -1 for dim, count in zip(padded, times, strict=True)]
        return g.expand(x, completed(sizes, g.out.shape))
    return g.annotate(g.op.Tile(g.unsqueeze(x, list(range(lead))), g.shape(times)), g.out.shape)


@lowers(aten.repeat_interleave.self_int)
def repeat_interleave(g: Emitter, x: Value, repeats: Size, dim: int | None = None, output_size: Any = None) -> Value:
    """repeat_interleave.self_int(Tensor self, SymInt repeats, int? dim=None, *, SymInt? output_size=None) -> Tensor"""
    if dim is None:
        x, dim = g.reshape(x, [dimensions.product(g.known_dims(x))]), 0
    shape = g.known_dims(x)
    axis = dim % len(shape)
    size = shape[axis]
    if isinstance(size, int) and isinstance(repeats, int):
        return g.op.Gather(x, g.const_tensor(torch.arange(size).repeat_interleave(repeats)), axis=axis)
    apart = g.unsqueeze(x, [axis + 1])
    copies = g.expand(apart, [*[-1] * (axis + 1), repeats, *[-1] * (len(shape) - axis - 1)])
    return g.reshape(copies, g.out.shape)


@lowers(aten.repeat_interleave.self_Tensor)
def repeat_interleave_tensor(
    g: Emitter, x: Value, repeats: Value, dim: int | None = None, output_size: Any = None
) -> Value:
    """repeat_interleave.self_Tensor(Tensor self, Tensor repeats, int? dim=None, *, SymInt? output_size) -> Tensor"""
    counts = g.value_of(repeats)
    if counts is None:
        if dim is None:
            x, dim = g.reshape(x, [dimensions.product(g.known_dims(x))]), 0
        axis = dim % g.rank(x)
        index = repeated_places(g, g.expand(g.flatten(repeats), [g.dim_size(x, axis)]))
        return g.annotate(g.op.Gather(x, index, axis=axis), g.out.shape)
    if counts.numel() == 1:
        return repeat_interleave(g, x, int(counts.item()), dim)
    if dim is None:
        x, dim = g.reshape(x, [dimensions.product(g.known_dims(x))]), 0
    return g.op.Gather(x, g.const_tensor(torch.arange(counts.numel()).repeat_interleave(counts)), axis=dim % g.rank(x))


@lowers(aten.repeat_interleave.Tensor)
def repeat_interleave_places(g: Emitter, repeats: Value, *, output_size: Any = None) -> Value:
    """repeat_interleave.Tensor(Tensor repeats, *, SymInt? output_size=None) -> Tensor"""
    return g.annotate(repeated_places(g, repeats), g.out.shape)


def repeated_places(g: Emitter, repeats: Value) -> Value:
    """0 as often as the first number says, then 1 as often as the second, and so on.

    Each place is the number of runs that have ended before it.
    """
    ends = g.cumsum(g.cast(repeats, torch.int64), 0)
    last = g.op.Concat(g.const([0]), g.slice(ends, [-1], [_FAR], [0]), axis=0)  # no runs: nothing
    total = g.reduce("ReduceMax", last, [0], keepdims=False)
    places = g.arange(0, total, 1, torch.int64)
    ended = g.greater_or_equal(g.unsqueeze(places, [1]), g.unsqueeze(ends, [0]))
    return g.reduce("ReduceSum", g.cast(ended, torch.int64), [1], keepdims=False)
