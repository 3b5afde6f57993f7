"""Parts of a tensor by position: select, slice, narrow, flip, roll."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import torch

from ..emitter import Emitter, Size, SizeValue, Value
from ..registry import lowers

aten = torch.ops.aten

END = 2**63 - 1


@lowers(aten.select.int, aten.select_copy.int)
def select(g: Emitter, x: Value, dim: int, index: Size) -> Value:
    """select.int(Tensor(a) self, int dim, SymInt index) -> Tensor(a)"""
    shape = g.known_dims(x)
    axis = dim % len(shape)
    size = shape[axis]
    if size == 1:
        return g.squeeze(x, [axis])
    if isinstance(index, int) and index < 0:
        if isinstance(size, int):
            index += size
        elif g.opset < 11:  # Gather counts from the end only since then
            return g.squeeze(g.slice(x, [index], [index + 1 or END], [axis]), [axis])
    elif isinstance(index, SizeValue) and g.opset < 11:
        index = from_start(index, g.dim_size(x, axis))
    return g.op.Gather(x, g.scalar(index), axis=axis)


def from_start(index: SizeValue, size: Size) -> SizeValue:
    """An index that may count from the end, counted from the start. One that depends on data may be of either sign."""
    if index.depends_on_data:
        return SizeValue.of(operator.mod, index + size, size)
    return index + size if min(index.values) < 0 else index


@lowers(aten.slice.Tensor, aten.slice_copy.Tensor)
def slice_(
    g: Emitter, x: Value, dim: int = 0, start: Size | None = None, end: Size | None = None, step: Size = 1
) -> Value:
    """slice.Tensor(Tensor(a) self, int dim=0, SymInt? start=None, SymInt? end=None, SymInt step=1) -> Tensor(a)"""
    axis = dim % g.rank(x)
    first, last = bounds(g, x, axis, start, end)
    inner = _fixed_slice(g, x)
    if inner is None or axis in inner[1][2] or not all(isinstance(each, int) for each in (first, last, step)):
        return g.slice(x, [first], [last], [axis], [step])
    base, (starts, ends, axes, steps) = inner
    return g.slice(base, [*starts, first], [*ends, last], [*axes, axis], [*steps, step])


def _fixed_slice(g: Emitter, x: Value) -> tuple[Value, list[list[int]]] | None:
    """If x is a slice with fixed bounds: of what; starts, ends, axes and steps. One Slice cuts all axes at once."""
    node = x.producer()
    if node is None or node.op_type != "Slice" or node.inputs[0] is None or g.opset < 10:
        return None
    tensors = [g.value_of(value) for value in node.inputs[1:]]
    numbers = [[int(number) for number in tensor.tolist()] for tensor in tensors if tensor is not None]
    if len(numbers) < len(tensors) or len(numbers) < 3:
        return None
    return node.inputs[0], [*numbers[:3], numbers[3] if len(numbers) > 3 else [1] * len(numbers[0])]


def bounds(g: Emitter, x: Value, axis: int, start: Size | None, end: Size | None) -> tuple[Any, Any]:
    """The bounds of a slice, 0 and the far end where they are those; inside the axis if its size is known."""
    size = g.known_dims(x)[axis]
    first: Any = 0 if start is None else start
    last: Any = END if end is None else end
    if isinstance(last, SizeValue) and last.dim == size and last.exact:
        last = END
    if isinstance(size, int):
        if isinstance(first, int):
            first = range(size)[slice(first, None)].start
        if isinstance(last, int):
            last = range(size)[slice(None, last)].stop
    if last == size:
        last = END
    return first, last


@lowers(aten.narrow.default, aten.narrow_copy.default)
def narrow(g: Emitter, x: Value, dim: int, start: Size, length: Size) -> Value:
    """narrow(Tensor(a) self, int dim, SymInt start, SymInt length) -> Tensor(a)"""
    axis = dim % g.rank(x)
    if isinstance(start, int) and start < 0:
        start = g.dim_size(x, axis) + start
    first, last = bounds(g, x, axis, start, start + length)  # type: ignore[operator]
    return g.slice(x, [first], [last], [axis])


@lowers(aten.narrow.Tensor)
def narrow_tensor(g: Emitter, x: Value, dim: int, start: Value, length: Size) -> Value:
    """narrow.Tensor(Tensor(a) self, int dim, Tensor start, SymInt length) -> Tensor(a)"""
    places = g.op.Add(g.arange(0, length), g.cast(start, torch.int64))
    return g.op.Gather(x, places, axis=dim % g.rank(x))


@lowers(aten.flip.default)
def flip(g: Emitter, x: Value, dims: Sequence[int]) -> Value:
    """flip(Tensor self, int[] dims) -> Tensor"""
    shape = g.known_dims(x)
    axes = [axis % len(shape) for axis in dims] if shape else []
    if not axes:
        return x
    if g.opset >= 10:
        return g.slice(x, [-1] * len(axes), [-END] * len(axes), axes, [-1] * len(axes))
    for axis in axes:  # before opset 10 a slice has no steps
        size = g.dim_size(x, axis)
        places = g.op.Sub(g.as_value(size - 1, torch.int64), g.arange(0, size))
        x = g.op.Gather(x, places, axis=axis)
    return x


@lowers(aten.fliplr.default)
def fliplr(g: Emitter, x: Value) -> Value:
    """fliplr(Tensor self) -> Tensor"""
    return flip(g, x, [1])


@lowers(aten.flipud.default)
def flipud(g: Emitter, x: Value) -> Value:
    """flipud(Tensor self) -> Tensor"""
    return flip(g, x, [0])


@lowers(aten.roll.default)
def roll(g: Emitter, x: Value, shifts: Sequence[Size], dims: Sequence[int] = ()) -> Value:
    """roll(Tensor self, SymInt[1] shifts, int[1] dims=[]) -> Tensor"""
    shape = g.known_dims(x)
    if not shape:
        return x
    if not dims:
        return g.reshape(_roll_axis(g, g.flatten(x), shifts[0], 0), shape)
    for shift, dim in zip(shifts, dims, strict=True):
        x = _roll_axis(g, x, shift, dim % len(shape))
    return x


def _roll_axis(g: Emitter, x: Value, shift: Any, axis: int) -> Value:
    """What lies beyond the seam comes first. One Gather where the seam is known and whole rows move."""
    size = g.dim_size(x, axis)
    if isinstance(size, int) and isinstance(shift, int):
        seam = -shift % max(size, 1)
        if seam == 0:
            return x
        if axis < g.rank(x) - 1:
            return g.op.Gather(x, g.const_tensor(torch.arange(size).roll(shift)), axis=axis)
        left, right = g.split(x, [seam, size - seam], axis)
        return g.op.Concat(right, left, axis=axis)
    if isinstance(shift, int) and abs(shift) <= 1:  # right at any size; a larger shift may go round more than once
        if shift == 0:
            return x
        seam_value: Any = -shift
    else:
        # An axis may be empty, and nothing has a remainder by 0.
        whole = max(size, 1) if isinstance(size, int) else SizeValue.of(torch.sym_max, size, 1)
        seam_value = SizeValue.of(operator.mod, -shift, whole)
    left, right = g.slice(x, [0], [seam_value], [axis]), g.slice(x, [seam_value], [END], [axis])
    return g.op.Concat(right, left, axis=axis)
