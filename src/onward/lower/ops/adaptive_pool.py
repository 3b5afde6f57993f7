"""Pooling to a given size.

Output i of n covers the input from floor(i * size / n) to ceil((i + 1) * size / n). Such a pooling can be done one axis
after the other. Where the size is a multiple of n it is an ordinary pooling; otherwise averages are a product with a
matrix and maxima are taken over gathered elements, both of which work at sizes that only the running model knows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from ..bridge import as_dim
from ..emitter import Emitter, SizeValue, Value
from ..registry import lowers
from ._spatial import apply_matrix, batched, by_axes, per_axis, unbatched
from .pool import average_pool, max_pool, windows, within_plane

aten = torch.ops.aten


def _kinds(g: Emitter, x: Value, output: Sequence[Any]) -> dict[str, list[int]]:
    """Which spatial axes stay as they are, shrink to one, are divided evenly, or need windows of their own."""
    kinds: dict[str, list[int]] = {"same": [], "one": [], "even": [], "uneven": []}
    for axis, wanted in enumerate(output, 2):
        size, target = g.known_dims(x)[axis], as_dim(wanted)
        if size == target:
            kinds["same"].append(axis)
        elif target == 1:
            kinds["one"].append(axis)
        elif isinstance(size, int) and isinstance(target, int) and target and size % target == 0:
            kinds["even"].append(axis)
        else:
            kinds["uneven"].append(axis)
    return kinds


def _even_windows(g: Emitter, x: Value, output: Sequence[Any], axes: Sequence[int]) -> Any:
    """Windows side by side along some axes, of one element along the others."""
    sizes = g.known_dims(x)
    kernel: list[Any] = [1] * (len(sizes) - 2)
    for axis in axes:
        kernel[axis - 2] = sizes[axis] // output[axis - 2]
    return windows(len(kernel), kernel, kernel, [0])


def _bounds(g: Emitter, size: Any, count: Any) -> tuple[Value, Value]:
    """Where each of `count` windows begins and ends (exclusive), as [count]."""
    numbers = g.arange(0, count)
    parts = g.size(count)
    if not isinstance(as_dim(count), int):  # it may be 0, as half of 1 is
        parts = g.max(parts, g.const([1]))
    begins = g.op.Div(g.op.Mul(numbers, g.size(size)), parts)
    following = g.op.Mul(g.op.Add(numbers, g.const(1)), g.size(size))
    rounded_up = g.op.Add(following, g.size(count - 1))
    return begins, g.op.Div(rounded_up, parts)


def _size(size: Any) -> Any:
    return size.values[0] if isinstance(size, SizeValue) and isinstance(size.dim, int) else size


# Average


@by_axes(aten.adaptive_avg_pool1d.default, aten.adaptive_avg_pool2d.default, aten.adaptive_avg_pool3d.default)
def adaptive_avg_pool(g: Emitter, x: Value, output: Sequence[Any], *, spatial: int) -> Value:
    """adaptive_avg_pool2d(Tensor self, SymInt[2] output_size) -> Tensor"""
    output = [_size(size) for size in per_axis(output, spatial)]
    x, added = batched(g, x, spatial)
    return unbatched(g, _average(g, x, output), added, g.out.shape)


@lowers(aten._adaptive_avg_pool2d.default)
def _adaptive_avg_pool2d(g: Emitter, x: Value, output: Sequence[Any]) -> Value:
    """_adaptive_avg_pool2d(Tensor self, SymInt[2] output_size) -> Tensor"""
    return adaptive_avg_pool(g, x, output, spatial=2)


@lowers(aten._adaptive_avg_pool3d.default)
def _adaptive_avg_pool3d(g: Emitter, x: Value, output: Sequence[Any]) -> Value:
    """_adaptive_avg_pool3d(Tensor self, SymInt[3] output_size) -> Tensor"""
    return adaptive_avg_pool(g, x, output, spatial=3)


def _average(g: Emitter, x: Value, output: Sequence[Any]) -> Value:
    kinds, wide = _kinds(g, x, output), g.dtype(x) is torch.float64
    if wide:  # onnxruntime 1.31 averages windows in float32 only
        kinds["uneven"] += kinds.pop("even")
        kinds["even"] = []
    if len(kinds["one"]) == len(output) and not wide:
        return g.annotate(g.op.GlobalAveragePool(x), (*g.known_dims(x)[:2], *[1] * len(output)))
    if kinds["one"]:
        x = g.reduce("ReduceMean", x, kinds["one"], keepdims=True)
    if kinds["even"]:
        shape = list(g.known_dims(x))
        x = average_pool(g, x, _even_windows(g, x, output, kinds["even"]))
        for axis in kinds["even"]:
            shape[axis] = output[axis - 2]
        g.annotate(x, shape)
    for axis in kinds["uneven"]:
        x = _average_axis(g, x, axis, output[axis - 2])
    return x


def _average_axis(g: Emitter, x: Value, axis: int, count: Any) -> Value:
    """A product with the matrix [size, count] that holds 1 / length inside each window."""
    size = g.dim_size(x, axis)
    begins, ends = _bounds(g, size, count)
    places = g.unsqueeze(g.arange(0, size), [1])
    inside = g.op.And(g.greater_or_equal(places, begins), g.op.Less(places, ends))
    lengths = g.cast(g.op.Sub(ends, begins), g.dtype(x))
    matrix = g.op.Div(g.cast(inside, g.dtype(x)), lengths)
    return apply_matrix(g, x, matrix, axis)


# Maximum


@by_axes(aten.adaptive_max_pool1d.default, aten.adaptive_max_pool2d.default, aten.adaptive_max_pool3d.default)
def adaptive_max_pool(g: Emitter, x: Value, output: Sequence[Any], *, spatial: int) -> tuple[Value, Value]:
    """adaptive_max_pool2d(Tensor self, int[2] output_size) -> (Tensor, Tensor)"""
    output = [_size(size) for size in per_axis(output, spatial)]
    x, added = batched(g, x, spatial)
    shape = g.out[0].shape
    values = unbatched(g, _maximum(g, x, output), added, shape)
    return values, unbatched(g, _places(g, x, output), added, shape)


def _maximum(g: Emitter, x: Value, output: Sequence[Any]) -> Value:
    kinds = _kinds(g, x, output)
    if len(kinds["one"]) == len(output) and g.dtype(x) is not torch.float64:
        return g.annotate(g.op.GlobalMaxPool(x), (*g.known_dims(x)[:2], *[1] * len(output)))
    if kinds["one"]:
        x = g.reduce("ReduceMax", x, kinds["one"], keepdims=True)
    if kinds["even"]:
        shape = list(g.known_dims(x))
        x = max_pool(g, x, _even_windows(g, x, output, kinds["even"]), outputs=2)[0]  # shared with the indices
        for axis in kinds["even"]:
            shape[axis] = output[axis - 2]
        g.annotate(x, shape)
    for axis in kinds["uneven"]:
        elements = _elements(g, g.dim_size(x, axis), output[axis - 2])
        x = g.reduce("ReduceMax", g.op.Gather(x, elements, axis=axis), [axis + 1])
    return x


def _elements(g: Emitter, size: Any, count: Any) -> Value:
    """The elements of each window, as [count, longest]; shorter windows repeat their last one."""
    begins, ends = _bounds(g, size, count)
    static = isinstance(size, int) and isinstance(count, int)
    longest = size // count if static and size % count == 0 else (size + count - 1) // count + 1
    elements = g.op.Add(g.unsqueeze(begins, [1]), g.arange(0, longest))
    last = g.unsqueeze(g.op.Sub(ends, g.const(1)), [1])
    return g.min(elements, last)


def _places(g: Emitter, x: Value, output: Sequence[Any]) -> Value:
    """Where in its plane each maximum lies."""
    kinds, shape = _kinds(g, x, output), g.known_dims(x)
    result = (*shape[:2], *(as_dim(size) for size in output))
    if len(kinds["one"]) == len(output):
        return g.reshape(g.op.ArgMax(g.flatten(x, 2, -1), axis=-1, keepdims=0), result)  # type: ignore[arg-type]
    if not kinds["uneven"] and all(isinstance(size, int) for size in shape[2:]):
        evenly = _even_windows(g, x, output, [*kinds["one"], *kinds["even"]])
        places = max_pool(g, x, evenly, outputs=2)[1]
        return within_plane(g, g.annotate(places, result), x)  # type: ignore[arg-type]
    return _places_by_gathering(g, x, output)


def _places_by_gathering(g: Emitter, x: Value, output: Sequence[Any]) -> Value:
    """Gather the elements of each window, find the first largest, and look up what number it has in the plane."""
    spatial = len(output)
    windowed, numbers = x, g.const(0)
    for axis in range(spatial):
        size = g.dim_size(x, axis + 2)
        elements = _elements(g, size, output[axis])
        windowed = g.op.Gather(windowed, elements, axis=2 + 2 * axis)
        ahead = g.op.Mul(elements, g.size(g.numel(x, range(axis + 3, spatial + 2))))
        spread = g.unsqueeze(ahead, [a for a in range(2 * spatial) if a not in (axis, spatial + axis)])
        numbers = g.op.Add(numbers, spread)
    order = [0, 1, *range(2, 2 * spatial + 2, 2), *range(3, 2 * spatial + 3, 2)]
    flat = g.flatten(g.op.Transpose(windowed, perm=order), spatial + 2, -1)  # [batch, channels, *output, window]
    first = g.op.ArgMax(flat, axis=-1, keepdims=0)
    table = g.flatten(numbers, spatial, -1)  # [*output, window]
    length = g.numel(table, [spatial])
    rows = g.reshape(g.arange(0, g.numel(table, range(spatial))), g.known_dims(table)[:-1])
    return g.op.Gather(g.flatten(table), g.op.Add(first, g.op.Mul(rows, g.size(length))), axis=0)
