"""Padding: constants, reflection, repetition of the edge, wrapping around; negative amounts crop."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from onward.capture.program.facts import Dim, SymDim

from ..bridge import as_dim
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
    return pad_constant(g, x, pairs, value)


def pad_constant(g: Emitter, x: Value, pairs: dict[int, tuple[Any, Any]], value: Any) -> Value:
    """(before, after) of a value along each axis named."""
    if not pairs:
        return x
    fixed = all(isinstance(p, int) for pair in pairs.values() for p in pair)
    if isinstance(value, SizeValue) or (g.opset < 11 and not (fixed and _fits_attribute(g, x, value))):
        return _pad_by_concat(g, x, pairs, value)
    return g.pad(x, _onnx_pads(g.rank(x), pairs), "constant", value)


def _fits_attribute(g: Emitter, x: Value, value: Number) -> bool:
    """Before opset 11 Pad knows floats alone, and has the value as a float32."""
    dtype = g.dtype(x)
    if dtype is torch.float64:
        return float(torch.tensor(value, dtype=torch.float32)) == value
    return dtype.is_floating_point


def _pad_by_concat(g: Emitter, x: Value, pairs: dict[int, tuple[Any, Any]], value: Any) -> Value:
    """Blocks of the value beside x: where Pad takes neither computed amounts nor integers."""
    for axis, pair in pairs.items():
        before, after = (_part(torch.sym_max, amount) for amount in pair)
        cut, end = (_part(torch.sym_min, amount) for amount in pair)
        if not (isinstance(cut, int) and isinstance(end, int)):
            size = g.dim_size(x, axis)
            x = g.slice(x, [-cut], [END if isinstance(end, int) else size + end], [axis])
        parts = [_block(g, x, axis, before, value), x, _block(g, x, axis, after, value)]
        x = g.op.Concat(*(part for part in parts if part is not None), axis=axis)
    return x


def _part(extreme: Any, amount: Any) -> Any:
    """The positive (sym_max) or negative (sym_min) part of an amount."""
    if isinstance(amount, SizeValue):
        one_sided = min(amount.values) >= 0 and extreme is torch.sym_max
        return amount if one_sided else SizeValue.of(extreme, amount, 0) if min(amount.values) < 0 else 0
    return extreme(amount, 0)


def _block(g: Emitter, x: Value, axis: int, amount: Any, value: Any) -> Value | None:
    """A tensor of the value, as long along the axis as the amount and like x along the others."""
    if isinstance(amount, int) and amount == 0:
        return None
    sizes: list[Any] = list(g.known_dims(x))
    sizes[axis] = amount
    if isinstance(value, SizeValue):
        return g.expand(g.as_value(value, g.dtype(x)), sizes)
    block = g.op.ConstantOfShape(g.shape(sizes), value=torch.full((1,), value, dtype=g.dtype(x)))
    return g.annotate(block, [as_dim(size) for size in sizes])  # type: ignore[misc]


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
    """Padding made of x's own elements. It may reach what a negative amount cuts off: no crop before it then."""
    pairs = _pairs(g.rank(x), pad)
    if not any(_reaches_cut(g.known_dims(x)[axis], pair, mode) for axis, pair in pairs.items()):
        x, pairs = _crop(g, x, pairs)
        fixed = all(isinstance(p, int) for pair in pairs.values() for p in pair)
        # onnxruntime 1.31 does not wrap a tensor without elements around.
        empty = any(isinstance(dim, SymDim) and g.may_be_empty(dim) for dim in g.known_dims(x))
        has_operator = g.opset >= 19 and not empty if mode == "wrap" else fixed or g.opset >= 11
        if has_operator:
            return g.pad(x, _onnx_pads(g.rank(x), pairs), mode)
    return _pad_by_gather(g, x, pairs, mode)


def _reaches_cut(size: Dim, pair: tuple[Any, Any], mode: str) -> bool:
    """Whether padding repeats elements that a negative amount on the other side cuts off."""
    cut = -sum(p for p in pair if isinstance(p, int) and p < 0)
    if mode == "edge":
        grows = any(not isinstance(p, int) or p > 0 for p in pair)
        return cut > 0 and grows and not (isinstance(size, int) and cut < size)
    return cut > 0 and mode == "reflect"


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
