"""Padding: constants, reflection, repetition of the edge, wrapping around; negative amounts crop."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from ..emitter import Emitter, Number, Size, SizeValue, Value
from ..registry import lowers
from .select import END

aten = torch.ops.aten


def _pairs(rank: int, pad: Sequence[Size]) -> dict[int, tuple[Any, Any]]:
    """PyTorch's list, last axis first, as (before, after) by axis; axes that stay as they are left out."""
    found = {rank - 1 - place // 2: (pad[place], pad[place + 1]) for place in range(0, len(pad), 2)}
    return {axis: pair for axis, pair in sorted(found.items()) if any(not isinstance(p, int) or p for p in pair)}


def _crop(g: Emitter, x: Value, pairs: dict[int, tuple[Any, Any]]) -> tuple[Value, dict[int, tuple[Any, Any]]]:
    """Cut off what negative amounts take away; the amounts that remain."""
    cut = {axis: pair for axis, pair in pairs.items() if any(isinstance(p, int) and p < 0 for p in pair)}
    if not cut:
        return x, pairs
    starts = [-before if isinstance(before, int) and before < 0 else 0 for before, _ in cut.values()]
    ends = [after if isinstance(after, int) and after < 0 else END for _, after in cut.values()]
    x = g.slice(x, starts, ends, list(cut))
    rest = {axis: tuple(0 if isinstance(p, int) and p < 0 else p for p in pair) for axis, pair in pairs.items()}
    return x, {axis: pair for axis, pair in rest.items() if any(not isinstance(p, int) or p for p in pair)}  # type: ignore[misc]


def _onnx_pads(rank: int, pairs: dict[int, tuple[Any, Any]]) -> list[Any]:
    """All amounts before, then all amounts after."""
    return [pairs.get(axis, (0, 0))[side] for side in (0, 1) for axis in range(rank)]


@lowers(aten.constant_pad_nd.default)
def constant_pad_nd(g: Emitter, x: Value, pad: Sequence[Size], value: Number = 0) -> Value:
    """constant_pad_nd(Tensor self, SymInt[] pad, Scalar value=0) -> Tensor"""
    x, pairs = _crop(g, x, _pairs(g.rank(x), pad))
    if not pairs:
        return x
    fixed = all(isinstance(p, int) for pair in pairs.values() for p in pair)
    if (g.opset < 11 and not (fixed and g.dtype(x).is_floating_point)) or isinstance(value, SizeValue):
        return _pad_by_concat(g, x, pairs, value)
    return g.pad(x, _onnx_pads(g.rank(x), pairs), "constant", value)


def _pad_by_concat(g: Emitter, x: Value, pairs: dict[int, tuple[Any, Any]], value: Any) -> Value:
    """Blocks of the value beside x: where Pad takes neither computed amounts nor integers."""
    for axis, pair in pairs.items():
        if any(isinstance(p, SizeValue) and min(p.values) < 0 for p in pair):
            raise g.needs_opset(11)
        filler = g.as_value(value, g.dtype(x))
        sizes: list[Any] = [g.dim_size(x, a) for a in range(g.rank(x))]
        blocks = [
            None if isinstance(p, int) and p == 0 else g.expand(filler, [*sizes[:axis], p, *sizes[axis + 1 :]])
            for p in pair
        ]
        x = g.op.Concat(*(part for part in (blocks[0], x, blocks[1]) if part is not None), axis=axis)
    return x


@lowers(
    aten.reflection_pad1d.default,
    aten.reflection_pad2d.default,
    aten.reflection_pad3d.default,
)
def reflection_pad(g: Emitter, x: Value, pad: Sequence[Size]) -> Value:
    """reflection_pad2d(Tensor self, SymInt[4] padding) -> Tensor"""
    return _pad_from_inside(g, x, pad, "reflect")


@lowers(
    aten.replication_pad1d.default,
    aten.replication_pad2d.default,
    aten.replication_pad3d.default,
)
def replication_pad(g: Emitter, x: Value, pad: Sequence[Size]) -> Value:
    """replication_pad2d(Tensor self, SymInt[4] padding) -> Tensor"""
    return _pad_from_inside(g, x, pad, "edge")


@lowers(aten._pad_circular.default)
def circular_pad(g: Emitter, x: Value, pad: Sequence[Size]) -> Value:
    """_pad_circular(Tensor self, SymInt[] pad) -> Tensor"""
    return _pad_from_inside(g, x, pad, "wrap")


@lowers(aten.pad.default)
def pad(g: Emitter, x: Value, pad: Sequence[Size], mode: str = "constant", value: Number | None = None) -> Value:
    """pad(Tensor self, SymInt[] pad, str mode="constant", float? value=None) -> Tensor"""
    if mode == "constant":
        return constant_pad_nd(g, x, pad, 0 if value is None else value)
    return _pad_from_inside(g, x, pad, {"reflect": "reflect", "replicate": "edge", "circular": "wrap"}[mode])


def _pad_from_inside(g: Emitter, x: Value, pad: Sequence[Size], mode: str) -> Value:
    pairs = _pairs(g.rank(x), pad)
    if (mode == "wrap" and g.opset >= 19) or mode != "wrap":
        x, pairs = _crop(g, x, pairs)
        fixed = all(isinstance(p, int) for pair in pairs.values() for p in pair)
        if g.opset >= 11 or fixed:
            return g.pad(x, _onnx_pads(g.rank(x), pairs), mode)
    return _pad_by_gather(g, x, pairs, mode)


def _pad_by_gather(g: Emitter, x: Value, pairs: dict[int, tuple[Any, Any]], mode: str) -> Value:
    """The position each element of the result comes from, one axis at a time."""
    for axis, (before, after) in pairs.items():
        size = g.dim_size(x, axis)
        places = g.arange(-before, size + after)
        total, last = g.as_value(size, torch.int64), g.as_value(size - 1, torch.int64)
        if mode == "wrap":
            places = g.mod(places, total)
        elif mode == "edge":
            places = g.min(g.max(places, g.const(0)), last)
        else:
            places = g.op.Sub(last, g.op.Abs(g.op.Sub(last, g.op.Abs(places))))
        x = g.op.Gather(x, places, axis=axis)
    return x
