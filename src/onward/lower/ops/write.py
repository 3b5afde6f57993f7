"""Writes into a part of a tensor, as functions: the tensor with that part replaced."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from onward.capture.program.facts import Dim

from .. import schemas
from ..emitter import Emitter, Size, SizeValue, Value
from ..registry import lowers
from .select import END, bounds, from_start
from .window import diagonal_length, inverse, last_two, on_diagonal, positions, where_diagonal

aten = torch.ops.aten


@lowers(aten.slice_scatter.default)
def slice_scatter(
    g: Emitter,
    x: Value,
    src: Value,
    dim: int = 0,
    start: Size | None = None,
    end: Size | None = None,
    step: Size = 1,
) -> Value:
    """slice_scatter(Tensor self, Tensor src, int dim=0, SymInt? start=None, SymInt? end=None, SymInt step=1)"""
    axis = dim % g.rank(x)
    src = g.cast(src, g.dtype(x))
    if g.known_dims(src)[axis] == 0:
        return x
    first, last = bounds(g, x, axis, start, end)
    size = g.known_dims(x)[axis]
    bounded = isinstance(first, int) and isinstance(last, int) and isinstance(step, int)
    if isinstance(size, int) and bounded and _where_runs(g, x):
        origin = _origin(g, src)
        if _size_at(g, origin, axis - g.rank(x)) == 1 and (step != 1 or last - first < size):
            return _where(g, x, origin, axis, torch.arange(size)[first:last:step])
    if not isinstance(step, int) or step != 1:
        return _every(g, x, src, axis, first, last, step)
    if isinstance(size, int) or not isinstance(g.known_dims(src)[axis], int):
        return _between(g, x, src, axis, first, last)  # src is as long as the slice at every size
    repeats = _size_at(g, _origin(g, src), axis - g.rank(x)) == 1
    if repeats and isinstance(first, int) and isinstance(last, int) and first < last < 0:
        missing = SizeValue.of(torch.sym_max, -first - g.dim_size(x, axis), 0)
        src = g.slice(src, [missing], [END], [axis])  # of the slice, where x is shorter
    written = _between(g, x, src, axis, first, last)
    if isinstance(first, int) and first >= 0 and isinstance(last, int) and 1 < last < END:
        return g.slice(written, [0], [g.dim_size(x, axis)], [axis])  # src is too long where x ends before the slice
    at_the_end = isinstance(first, int) and first < -1 and isinstance(last, int) and last >= END
    if repeats and at_the_end:
        return g.slice(written, [0], [g.dim_size(x, axis)], [axis])  # PyTorch takes no other src for a shorter x
    return written


def _where_runs(g: Emitter, x: Value) -> bool:
    """Whether onnxruntime has a Where for x's dtype; with casts around it, other ways are shorter."""
    schema = schemas.find("Where", g.opset)
    return schema is not None and g.dtype(x) in schema.allowed.get("T", ())


def _origin(g: Emitter, src: Value) -> Value:
    """The tensor that src only repeats: a number, or what an Expand has spread."""
    tensor = g.value_of(src)
    if tensor is not None and 0 < tensor.numel() <= 65536 and tensor.device.type != "meta":
        first = tensor.reshape(-1)[0]
        return g.const_tensor(first.clone()) if bool((tensor == first).all()) else src
    node = src.producer()
    inner = node.inputs[0] if node is not None and node.op_type == "Expand" else None
    return src if inner is None or g.dims(inner) is None else inner


def _size_at(g: Emitter, x: Value, axis: int) -> Dim:
    """The size along an axis counted from the end; 1 where x has no such axis, as in broadcasting."""
    shape = g.known_dims(x)
    return shape[axis] if -axis <= len(shape) else 1


def _where(g: Emitter, x: Value, src: Value, axis: int, written: torch.Tensor) -> Value:
    """x with src, broadcast, at the written places of a static axis."""
    shape = g.known_dims(x)
    mask = torch.zeros(shape[axis], dtype=torch.bool)  # type: ignore[arg-type]
    mask[written] = True
    return g.op.Where(g.const_tensor(mask.reshape(-1, *[1] * (len(shape) - axis - 1))), src, x)


def _between(g: Emitter, x: Value, src: Value, axis: int, first: Any, last: Any) -> Value:
    """What comes before, the new part, what comes after; either may be missing."""
    parts = [src]
    rest = last
    if not _in_order(first, last):
        size = g.dim_size(x, axis)
        rest = SizeValue.of(torch.sym_max, _from_front(g, first, size), _from_front(g, last, size))
    if not (isinstance(first, int) and first == 0):
        parts.insert(0, g.slice(x, [0], [first], [axis]))
    if not (isinstance(rest, int) and rest == END):
        parts.append(g.slice(x, [rest], [END], [axis]))
    return g.op.Concat(*parts, axis=axis)


def _from_front(g: Emitter, place: Any, size: Any) -> Any:
    """A bound counted from the front, perhaps outside of the axis."""
    if isinstance(place, int):
        return place if place >= 0 else size + place
    return place if min(place.values) >= 0 else g.bound(place, size)


def _in_order(first: Any, last: Any) -> bool:
    """Whether a slice's end cannot come before its start, however long the axis is."""
    if (isinstance(last, int) and last == END) or (isinstance(first, int) and first == 0):
        return True
    if isinstance(first, int) and isinstance(last, int):
        return (first < 0) == (last < 0) and first <= last
    if isinstance(first, SizeValue) and isinstance(last, SizeValue) and first.exact and last.exact:
        lengths = {b - a for a, b in zip(first.values, last.values, strict=True)}
        return len(lengths) == 1 and min(first.values) >= 0 <= lengths.pop()
    return False


def _every(g: Emitter, x: Value, src: Value, axis: int, first: Any, last: Any, step: Any) -> Value:
    """With a step: both tensors side by side, and for each place the number of the element that goes there."""
    size = g.dim_size(x, axis)
    if isinstance(size, int) and isinstance(first, int) and isinstance(last, int) and isinstance(step, int):
        chosen = torch.arange(size)
        written = torch.arange(size)[first:last:step]
        chosen[written] = size + torch.arange(len(written))
        places = g.const_tensor(chosen)
    else:
        places = _places(g, size, g.bound(first, size), g.bound(last, size), step)
    return g.op.Gather(g.op.Concat(x, src, axis=axis), places, axis=axis)


def _places(g: Emitter, size: Any, first: Any, last: Any, step: Any) -> Value:
    """Along a dynamic axis: places that the step meets get the elements after x's own, in order."""
    here = g.arange(0, size)
    past = g.op.Sub(here, g.as_value(first, torch.int64))
    stride = g.as_value(step, torch.int64)
    met = g.equal(g.mod(past, stride), g.const(0))
    if not (isinstance(first, int) and first == 0):
        met = g.op.And(met, g.greater_or_equal(past, g.const(0)))
    if last is not size:
        met = g.op.And(met, g.op.Less(here, g.as_value(last, torch.int64)))
    return g.op.Where(met, g.op.Add(g.as_value(size, torch.int64), g.op.Div(past, stride)), here)


@lowers(aten.select_scatter.default)
def select_scatter(g: Emitter, x: Value, src: Value, dim: int, index: Size) -> Value:
    """select_scatter(Tensor self, Tensor src, int dim, SymInt index) -> Tensor"""
    shape = g.known_dims(x)
    axis = dim % len(shape)
    src = g.cast(src, g.dtype(x))
    size = shape[axis]
    if size == 1:
        return g.unsqueeze(src, [axis])
    if isinstance(index, int) and index < 0 and isinstance(size, int):
        index += size
    origin = _origin(g, src)
    scatters = axis == 0 and g.opset >= 11 and origin is src
    if isinstance(size, int) and isinstance(index, int) and not scatters and _where_runs(g, x):
        from_end = axis - len(shape)
        inside = g.rank(origin) > 0 and -from_end <= g.rank(origin) + 1
        return _where(g, x, g.unsqueeze(origin, [from_end]) if inside else origin, axis, torch.tensor([index]))
    if axis == 0 and g.opset >= 11:
        return g.op.ScatterND(x, g.size(index), src)
    if isinstance(index, SizeValue):
        index = from_start(index, g.dim_size(x, axis))
    part = g.unsqueeze(src, [axis])
    if isinstance(index, int):
        return _between(g, x, part, axis, *bounds(g, x, axis, index, index + 1 or END))
    return _between(g, x, part, axis, index, index + 1)  # type: ignore[operator]


@lowers(aten.diagonal_scatter.default)
def diagonal_scatter(g: Emitter, x: Value, src: Value, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Value:
    """diagonal_scatter(Tensor self, Tensor src, int offset=0, int dim1=0, int dim2=1) -> Tensor"""
    order = last_two(g.rank(x), dim1, dim2)
    matrices, src = g.op.Transpose(x, perm=order), g.cast(src, g.dtype(x))
    rows, columns = g.dim_size(matrices, -2), g.dim_size(matrices, -1)
    origin = _origin(g, src)
    if g.rank(origin) == 0:
        written = g.op.Where(on_diagonal(g, rows, columns, offset), origin, matrices)
    else:
        missing = (rows if offset >= 0 else columns) - diagonal_length(rows, columns, offset)
        written = where_diagonal(g, src, matrices, rows, columns, missing, offset)
    return g.op.Transpose(written, perm=inverse(order))


@lowers(aten.as_strided_scatter.default)
def as_strided_scatter(
    g: Emitter, x: Value, src: Value, size: Sequence[Size], stride: Sequence[Size], offset: Size | None = None
) -> Value:
    """as_strided_scatter(Tensor self, Tensor src, SymInt[] size, SymInt[] stride, SymInt? storage_offset=None)"""
    shape = [dim for dim in g.known_dims(x) if isinstance(dim, int)]
    places = g.value_of(positions(g, size, stride, offset or 0))
    if places is None or len(shape) < g.rank(x):
        raise g.unsupported("sizes or strides that depend on a dynamic axis")
    count = torch.Size(shape).numel()
    chosen = torch.arange(count)
    chosen[places.reshape(-1)] = count + torch.arange(places.numel())
    both = g.op.Concat(g.reshape(x, [-1]), g.reshape(g.cast(src, g.dtype(x)), [-1]), axis=0)
    return g.op.Gather(both, g.const_tensor(chosen.reshape(shape)), axis=0)
