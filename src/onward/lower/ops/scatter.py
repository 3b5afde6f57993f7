"""Writing at indices: `x[i, j] = v`, scatter and its reductions, index_copy, index_fill, index_add."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from onward.capture.program.facts import Dim
from onward.onnx_operators import dimension_math as dimensions

from ..emitter import Emitter, Number, Value
from ..registry import lowers
from . import _positions as positions
from .pad import pad_constant

aten = torch.ops.aten


# Some reductions of ScatterElements and ScatterND fail on these types in onnxruntime 1.31: compute in wider ones.
_WIDER = {torch.float16: torch.float32, torch.bfloat16: torch.float32, torch.bool: torch.int32}

_SCATTER_SINCE = {None: 11, "add": 16, "mul": 16, "max": 18, "min": 18}  # the opset of ScatterND

# x[i, j] = v


@lowers(aten.index_put.default, aten._unsafe_index_put.default)
def index_put(g: Emitter, x: Value, indices: Sequence[Value | None], values: Value, accumulate: bool = False) -> Value:
    """index_put(Tensor self, Tensor?[] indices, Tensor values, bool accumulate=False) -> Tensor"""
    masked = _put_where(g, x, indices, values, accumulate)
    if masked is not None:
        return masked
    how = positions.plan(g, x, positions.unmasked(g, indices, _count(g, x, indices, values)))
    if not how.axes:
        whole = g.expand(values, g.known_dims(x))
        return g.op.Add(x, whole) if accumulate else whole
    front = g.op.Transpose(x, perm=how.to_front)
    moved = positions.Plan(tuple(range(len(how.axes))), how.indices, how.shape, 0, how.rank)
    updates = _updates(g, x, how, values)
    if g.opset < (16 if accumulate else 11):
        done = _put_rows(g, front, moved, updates, accumulate)
    else:
        done = _scatter_nd(g, front, positions.tuple_index(g, moved), updates, "add" if accumulate else None)
    return g.op.Transpose(done, perm=how.back)


def _put_where(g: Emitter, x: Value, indices: Sequence[Value | None], values: Value, accumulate: bool) -> Value | None:
    """One mask and values that do not depend on how often it is true: a choice, element by element."""
    named = [(axis, index) for axis, index in enumerate(indices) if index is not None]
    if len(named) != 1:
        return None
    axis, index = named[0]
    mask = index if positions.is_mask(g, index) else None if accumulate else _as_mask(g, x, axis, index)
    if mask is None:
        return None
    width, rank = g.rank(mask), g.rank(x)
    shape = g.known_dims(values)
    behind = rank - axis - width  # axes of x after the masked ones
    if len(shape) > behind:
        if shape[len(shape) - behind - 1] != 1:
            return None
        lead = len(shape) - behind - 1
        values = g.reshape(values, [*shape[:lead], *[1] * width, *shape[lead + 1 :]])
    condition = positions.as_bool(g, mask)
    condition = g.unsqueeze(condition, range(width, width + behind)) if behind else condition
    values = g.cast(values, g.dtype(x))
    return g.where(condition, g.op.Add(x, values) if accumulate else values, x)


def _as_mask(g: Emitter, x: Value, axis: int, index: Value) -> Value | None:
    """Places along an axis that the graph knows, as a mask of the axis."""
    places, size = g.value_of(index), g.known_dims(x)[axis]
    if places is None or places.device.type == "meta" or places.dim() != 1 or not isinstance(size, int):
        return None
    mask = torch.zeros(size, dtype=torch.bool)
    mask[places] = True
    return g.const_tensor(mask)


def _count(g: Emitter, x: Value, indices: Sequence[Value | None], values: Value) -> Dim | None:
    """How often a mask among the indices is true, as far as the shape of the values says it."""
    places = [axis for axis, index in enumerate(indices) if index is not None]
    taken = sum(g.rank(index) if positions.is_mask(g, index) else 1 for index in indices if index is not None)
    adjacent = places == list(range(places[0], places[0] + len(places))) if places else True
    behind = g.rank(x) - taken - (places[0] if adjacent and places else 0)
    shape = g.known_dims(values)
    return shape[len(shape) - behind - 1] if len(shape) > behind else None


def _updates(g: Emitter, x: Value, how: positions.Plan, values: Value) -> Value:
    """The values, broadcast to what they replace, indexed axes first."""
    shape = g.known_dims(x)
    others = [shape[axis] for axis in how.others]
    rank = len(how.shape) + len(others)
    have = g.known_dims(values)
    if how.first and len(have) > len(others) - how.first:
        values = g.reshape(values, [*[1] * (rank - len(have)), *have])
        order = how.into_place
        values = g.op.Transpose(values, perm=[order.index(place) for place in range(rank)])
    return g.expand(g.cast(values, g.dtype(x)), [*how.shape, *others])


def _put_rows(g: Emitter, x: Value, how: positions.Plan, updates: Value, accumulate: bool) -> Value:
    """Older opsets: number the places of the indexed axes, and write rows."""
    index = g.flatten(positions.linear_index(g, x, how))
    rest = [g.known_dims(x)[axis] for axis in how.others]
    table = g.flatten(x, 0, len(how.axes) - 1)
    rows = g.reshape(updates, [g.known_dims(index)[0], *rest])
    written = put_along(g, table, 0, index, rows, "add" if accumulate else None)
    return g.reshape(written, g.known_dims(x))


def put_along(g: Emitter, x: Value, axis: int, index: Value, updates: Value, reduction: str | None = None) -> Value:
    """Whole slices of x along an axis, numbered by an index with one axis, replaced by (or combined with) updates."""
    axis %= g.rank(x)
    if g.rank(x) == 1:
        return _scatter(g, x, axis, index, updates, reduction)
    if axis == 0 and g.opset >= _SCATTER_SINCE[reduction]:
        return _scatter_nd(g, x, g.unsqueeze(g.cast(index, torch.int64), [1]), updates, reduction)
    if reduction == "add" and g.opset < 16:
        return _add_along(g, x, axis, index, updates)
    spread = g.unsqueeze(index, [other for other in range(g.rank(x)) if other != axis])
    return _scatter(g, x, axis, g.expand(spread, g.known_dims(updates)), updates, reduction)


def _scatter_nd(g: Emitter, x: Value, places: Value, updates: Value, reduction: str | None) -> Value:
    wide = _WIDER.get(g.dtype(x)) if reduction is not None else None
    if wide is not None:
        return g.cast(_scatter_nd(g, g.cast(x, wide), places, g.cast(updates, wide), reduction), g.dtype(x))
    return g.op.ScatterND(x, places, updates, reduction=reduction)


def _add_along(g: Emitter, x: Value, axis: int, index: Value, updates: Value) -> Value:
    """Before opset 16 nothing adds at indices: a product with ones where slice and index meet does.

    (Where updates are infinite or not a number, 0 * inf spreads to the other slices.)
    """
    size = g.dim_size(x, axis)
    choose = g.op.Transpose(g.one_hot(index, size, g.dtype(x)), perm=[1, 0])
    rank = g.rank(x)
    swap = list(range(rank))
    swap[axis], swap[0] = 0, axis
    moved = g.op.Transpose(updates, perm=swap)
    shape = g.known_dims(moved)
    flat = moved if rank == 2 else g.flatten(moved, 1)
    product = g.op.MatMul(choose, flat)
    product = g.reshape(product, [g.known_dims(x)[axis], *shape[1:]])
    return g.op.Add(x, g.op.Transpose(product, perm=swap))


# scatter


_COMBINES = {
    "add": ("ReduceSum", "Add"),
    "mul": ("ReduceProd", "Mul"),
    "max": ("ReduceMax", ""),
    "min": ("ReduceMin", ""),
}
_ELEMENTS_SINCE = {"add": 16, "mul": 16, "max": 18, "min": 18}  # the opset of ScatterElements with the reduction


def _scatter(g: Emitter, x: Value, axis: int, index: Value, updates: Value, reduction: str | None = None) -> Value:
    """ScatterElements, and reductions also where it does not know them yet."""
    wide = _WIDER.get(g.dtype(x)) if reduction is not None else None
    if wide is not None:
        return g.cast(_scatter(g, g.cast(x, wide), axis, index, g.cast(updates, wide), reduction), g.dtype(x))
    if reduction is not None and g.opset < _ELEMENTS_SINCE[reduction]:
        return _scatter_by_reducing(g, x, axis, index, updates, reduction)
    return g.scatter_elements(x, index, updates, axis, reduction)


def _scatter_by_reducing(g: Emitter, x: Value, axis: int, index: Value, updates: Value, reduction: str) -> Value:
    """Every update [..., m, 1] at every place [..., m, n], neutral where they do not meet, reduced over the updates."""
    rank, neutral = g.rank(x), _neutral(g, x, _NAMES[reduction])
    swap = list(range(rank))
    swap[axis], swap[-1] = rank - 1, axis
    moved, places = (g.op.Transpose(each, perm=swap) for each in (updates, index))
    reduce, combine = _COMBINES[reduction]
    if reduction == "add" and not g.dtype(x).is_floating_point:
        # A product with ones and zeros: onnxruntime 1.31 has exact products of integers, but adds them up in doubles.
        meet = g.one_hot(places, g.dim_size(x, axis), g.dtype(x))
        reduced = g.squeeze(g.matmul(g.unsqueeze(moved, [rank - 1]), meet), [rank - 1])
    else:
        meet = g.one_hot(places, g.dim_size(x, axis), torch.bool)
        spread = g.where(meet, g.unsqueeze(moved, [rank]), g.like(x, neutral))
        reduced = g.reduce(reduce, spread, [rank - 1], keepdims=False)
    reduced = g.op.Transpose(reduced, perm=swap)
    reduced = _padded(g, reduced, g.known_dims(x), axis, neutral, _ELEMENTS_SINCE[reduction])
    if combine:
        return g.node(combine, [x, reduced])
    return g.max(x, reduced) if reduction == "max" else g.min(x, reduced)


def _padded(g: Emitter, x: Value, wanted: Sequence[Dim], axis: int, filler: Number, since: int) -> Value:
    """A filler behind x up to the wanted sizes: an index may cover less than the tensor on the other axes."""
    ends: dict[int, tuple[int, int]] = {}
    for place, (have, want) in enumerate(zip(g.known_dims(x), wanted, strict=True)):
        if place == axis or have == want:
            continue
        if not (isinstance(have, int) and isinstance(want, int)):
            raise g.needs_opset(since)
        ends[place] = (0, want - have)
    return pad_constant(g, x, ends, filler)


def _as_row(g: Emitter, value: Value) -> Value:
    """A tensor without axes as a row of one element."""
    return g.reshape(value, [1]) if g.rank(value) == 0 else value


def _cut(g: Emitter, source: Value, index: Value) -> Value:
    """The part of the source that the index covers: ONNX wants both of one shape."""
    have, wanted = g.known_dims(source), g.known_dims(index)
    axes = [axis for axis, (a, b) in enumerate(zip(have, wanted, strict=True)) if a != b]
    if not axes:
        return source
    return g.slice(source, [0] * len(axes), [g.dim_size(index, axis) for axis in axes], axes)


def scatter_at(g: Emitter, x: Value, dim: int, index: Value, source: Value, reduction: str | None = None) -> Value:
    """Every form of scatter, for tensors with or without axes."""
    if g.rank(x) == 0:
        return g.reshape(scatter_at(g, _as_row(g, x), 0, index, source, reduction), [])
    index, source = _as_row(g, index), _as_row(g, source)
    if g.known_dims(index).count(0):
        return x
    return _scatter(g, x, dim % g.rank(x), index, _cut(g, source, index), reduction)


def _spread(g: Emitter, x: Value, value: Value | Number, index: Value) -> Value:
    """A number for every place the index names."""
    filler = g.as_value(value, g.dtype(x))
    return g.expand(filler, g.known_dims(index))


@lowers(aten.scatter.src)
def scatter_src(g: Emitter, x: Value, dim: int, index: Value, src: Value) -> Value:
    """scatter.src(Tensor self, int dim, Tensor index, Tensor src) -> Tensor"""
    return scatter_at(g, x, dim, index, src)


@lowers(aten.scatter.value)
def scatter_value(g: Emitter, x: Value, dim: int, index: Value, value: Number) -> Value:
    """scatter.value(Tensor self, int dim, Tensor index, Scalar value) -> Tensor"""
    return scatter_at(g, x, dim, index, _spread(g, x, value, index))


_OLD_NAMES = {"add": "add", "multiply": "mul"}


@lowers(aten.scatter.reduce)
def scatter_src_reduce(g: Emitter, x: Value, dim: int, index: Value, src: Value, *, reduce: str) -> Value:
    """scatter.reduce(Tensor self, int dim, Tensor index, Tensor src, *, str reduce) -> Tensor"""
    return scatter_at(g, x, dim, index, src, _OLD_NAMES[reduce])


@lowers(aten.scatter.value_reduce)
def scatter_value_reduce(g: Emitter, x: Value, dim: int, index: Value, value: Number, *, reduce: str) -> Value:
    """scatter.value_reduce(Tensor self, int dim, Tensor index, Scalar value, *, str reduce) -> Tensor"""
    return scatter_at(g, x, dim, index, _spread(g, x, value, index), _OLD_NAMES[reduce])


@lowers(aten.scatter_add.default)
def scatter_add(g: Emitter, x: Value, dim: int, index: Value, src: Value) -> Value:
    """scatter_add(Tensor self, int dim, Tensor index, Tensor src) -> Tensor"""
    return scatter_at(g, x, dim, index, src, "add")


_REDUCTIONS = {"sum": "add", "prod": "mul", "mean": "add", "amax": "max", "amin": "min"}
_NAMES = {"add": "sum", "mul": "prod", "max": "amax", "min": "amin"}  # the other way round


@lowers(aten.scatter_reduce.two)
def scatter_reduce(
    g: Emitter, x: Value, dim: int, index: Value, src: Value, reduce: str, *, include_self: bool = True
) -> Value:
    """scatter_reduce.two(Tensor self, int dim, Tensor index, Tensor src, str reduce, *, bool include_self=True)
    -> Tensor"""
    start = x if include_self else scatter_at(g, x, dim, index, _spread(g, x, _neutral(g, x, reduce), index))
    result = scatter_at(g, start, dim, index, src, _REDUCTIONS[reduce])
    if reduce != "mean":
        return result
    every = _ones(g, x, x)
    begin = every if include_self else scatter_at(g, every, dim, index, _spread(g, every, 0, index))
    return _divided(g, result, scatter_at(g, begin, dim, index, _ones(g, x, index), "add"))


def _ones(g: Emitter, x: Value, like: Value) -> Value:
    """What counts the summands of a mean of x: ones in the shape of another."""
    return g.expand(g.const(1, g.dtype(x) if g.dtype(x).is_floating_point else torch.int64), g.known_dims(like))


def _divided(g: Emitter, total: Value, count: Value) -> Value:
    """The mean; integers are rounded down."""
    count = g.cast(count, g.dtype(total))
    return g.op.Div(total, count) if g.dtype(total).is_floating_point else g.floor_divide(total, count)


def _neutral(g: Emitter, x: Value, reduce: str) -> Number:
    """The number that a reduction leaves as it was."""
    dtype = g.dtype(x)
    if reduce in ("sum", "mean"):
        return 0
    if reduce == "prod":
        return 1
    if dtype.is_floating_point:
        return float("-inf") if reduce == "amax" else float("inf")
    if dtype is torch.bool:
        return reduce == "amin"
    limits = torch.iinfo(dtype)
    return limits.min if reduce == "amax" else limits.max


# Whole slices


@lowers(aten.index_copy.default)
def index_copy(g: Emitter, x: Value, dim: int, index: Value, source: Value) -> Value:
    """index_copy(Tensor self, int dim, Tensor index, Tensor source) -> Tensor"""
    return _along(g, x, dim, index, source, None)


def _along(g: Emitter, x: Value, dim: int, index: Value, source: Value, reduction: str | None) -> Value:
    if g.rank(x) == 0:
        return g.reshape(_along(g, _as_row(g, x), 0, index, source, reduction), [])
    return put_along(g, x, dim, _as_row(g, index), _as_row(g, source), reduction)


@lowers(aten.index_fill.int_Scalar, aten.index_fill.int_Tensor)
def index_fill(g: Emitter, x: Value, dim: int, index: Value, value: Value | Number) -> Value:
    """index_fill.int_Scalar(Tensor self, int dim, Tensor index, Scalar value) -> Tensor"""
    if g.rank(x) == 0:
        return g.as_value(value, g.dtype(x))
    dim %= g.rank(x)
    index = positions.readable(g, x, _as_row(g, index), dim)
    shape = g.known_dims(x)
    mask = _as_mask(g, x, dim, index)
    if mask is not None:
        condition = g.unsqueeze(mask, range(1, g.rank(x) - dim)) if dim < g.rank(x) - 1 else mask
        return g.where(condition, g.as_value(value, g.dtype(x)), x)
    filler = g.expand(g.as_value(value, g.dtype(x)), [*shape[:dim], g.known_dims(index)[0], *shape[dim + 1 :]])
    return put_along(g, x, dim, index, filler)


@lowers(aten.index_add.default)
def index_add(g: Emitter, x: Value, dim: int, index: Value, source: Value, *, alpha: Number = 1) -> Value:
    """index_add(Tensor self, int dim, Tensor index, Tensor source, *, Scalar alpha=1) -> Tensor"""
    source = source if alpha == 1 else g.op.Mul(source, g.like(source, alpha))
    return _along(g, x, dim, index, source, "add")


@lowers(aten.put.default)
def put(g: Emitter, x: Value, index: Value, source: Value, accumulate: bool = False) -> Value:
    """put(Tensor self, Tensor index, Tensor source, bool accumulate=False) -> Tensor"""
    place = positions.readable(g, x, g.flatten(index), None)
    flat = put_along(g, g.flatten(x), 0, place, g.flatten(source), "add" if accumulate else None)
    return g.reshape(flat, g.known_dims(x))


@lowers(aten.index_reduce.default)
def index_reduce(
    g: Emitter, x: Value, dim: int, index: Value, source: Value, reduce: str, *, include_self: bool = True
) -> Value:
    """index_reduce(Tensor self, int dim, Tensor index, Tensor source, str reduce, *, bool include_self=True)
    -> Tensor"""

    def start(over: Value, number: Number) -> Value:
        """Without what is there before, the places that are written begin with a number that changes nothing."""
        neutral = g.expand(g.const(number, g.dtype(over)), g.known_dims(source))
        return over if include_self else _along(g, over, dim, index, neutral, None)

    result = _along(g, start(x, _neutral(g, x, reduce)), dim, index, source, _REDUCTIONS[reduce])
    if reduce != "mean":
        return result
    count = _along(g, start(_ones(g, x, x), 0), dim, index, _ones(g, x, source), "add")
    return _divided(g, result, count)


@lowers(aten.masked_scatter.default)
def masked_scatter(g: Emitter, x: Value, mask: Value, source: Value) -> Value:
    """masked_scatter(Tensor self, Tensor mask, Tensor source) -> Tensor

    The places where the mask is true take the source's elements in order, which has as many or more.
    """
    shape = dimensions.broadcast(g.known_dims(x), g.known_dims(mask))
    flat = g.flatten(g.expand(x, shape))
    rows = g.op.NonZero(g.flatten(g.expand(positions.as_bool(g, mask), shape)))
    places = g.op.Reshape(rows, g.const([-1]))
    source = g.flatten(g.cast(source, g.dtype(x)))
    if g.opset >= 10:
        updates = g.op.Slice(source, g.const([0]), g.op.Shape(places), g.const([0]))
    else:
        ones = g.op.ConstantOfShape(g.op.Shape(places), value=torch.ones(1, dtype=torch.int64))
        updates = g.op.Gather(source, g.op.Reshape(g.op.NonZero(ones), g.const([-1])), axis=0)
    return g.reshape(g.scatter_elements(flat, places, updates, 0), shape)
