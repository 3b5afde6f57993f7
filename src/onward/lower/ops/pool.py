"""Pooling with windows of a given size. `adaptive_pool.py` has pooling to a given size.

`ceil_mode` differs between PyTorch and ONNX: PyTorch drops a last window that would start beyond input and left
padding. onnxruntime 1.31 drops it too, at every opset, but the documents before opset 22 and onnx's own shape inference
do not, so that where sizes are static and it matters the windows are fixed by padding at the end.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import torch

from ..emitter import Emitter, SizeValue, Value
from ._spatial import apply_matrix, batched, by_axes, per_axis, unbatched

aten = torch.ops.aten


@dataclass(frozen=True, slots=True)
class Windows:
    """Where the windows of a pooling lie, per spatial axis."""

    kernel: list[int]
    stride: list[int]
    padding: list[int]
    dilation: list[int]
    ceil: bool

    @property
    def span(self) -> list[int]:
        """How far a window reaches, the gaps of a dilated one included."""
        return [d * (k - 1) + 1 for k, d in zip(self.kernel, self.dilation, strict=True)]

    def never_starts_outside(self) -> bool:
        """Whether rounding up can only add windows that begin inside the input, whatever its size."""
        return all(p + s <= n for p, s, n in zip(self.padding, self.stride, self.span, strict=True))

    def _last(self, sizes: Sequence[int]) -> list[tuple[int, int]]:
        """The number of the last window when rounding up, and of the last that begins inside."""
        ends = zip(sizes, self.stride, self.padding, self.span, strict=True)
        return [(-(-(size + 2 * pad - span) // stride), (size + pad - 1) // stride) for size, stride, pad, span in ends]

    def drops_a_window(self, sizes: Sequence[int]) -> bool:
        return any(rounded_up > inside for rounded_up, inside in self._last(sizes))

    def end_pads(self, sizes: Sequence[int]) -> list[int]:
        """Padding at the end with which rounding down gives the windows that PyTorch takes when rounding up."""
        last = [min(pair) for pair in self._last(sizes)]
        ends = zip(last, sizes, self.stride, self.padding, self.span, strict=True)
        return [max(pad, number * stride + span - size - pad) for number, size, stride, pad, span in ends]


def windows(
    count: int,
    kernel: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int] = (1,),
    ceil: bool = False,
) -> Windows:
    """The arguments of a pooling with one number per spatial axis; no stride means the kernel's size."""
    sizes = per_axis(kernel, count)
    steps = per_axis(stride, count) if stride else sizes
    return Windows(sizes, steps, per_axis(padding, count), per_axis(dilation, count), ceil)


def _settings(g: Emitter, x: Value, at: Windows) -> dict[str, Any]:
    """The attributes that place the windows."""
    sizes = g.known_dims(x)[2:]
    static = [size for size in sizes if isinstance(size, int)]
    ends, ceil = at.padding, at.ceil
    if ceil and len(static) == len(sizes) and (g.opset < 10 or not at.never_starts_outside()):
        ends, ceil = at.end_pads(static), False
        if any(end >= size for end, size in zip(ends, at.kernel, strict=True)):
            # onnxruntime 1.31 refuses such padding, which only a dilated window can ask for.
            if at.drops_a_window(static):
                raise g.unsupported("ceil_mode and dilation with a last window that starts outside along one axis only")
            ends, ceil = at.padding, True
    elif ceil and g.opset < 10:  # no ceil_mode yet: rounding down with stride - 1 more is rounding up
        if not at.never_starts_outside():
            raise g.needs_opset(10)
        ends, ceil = [pad + stride - 1 for pad, stride in zip(at.padding, at.stride, strict=True)], False
    return {
        "kernel_shape": at.kernel,
        "strides": at.stride,
        "pads": [*at.padding, *ends],
        "ceil_mode": 1 if ceil else None,
    }


# Maximum


def _is_padded(x: Value) -> bool:
    node = x.producer()
    return node is not None and node.op_type == "Pad"


def max_pool(g: Emitter, x: Value, at: Windows, outputs: int = 1) -> tuple[Value, ...]:
    """MaxPool on [batch, channels, *spatial]; its second output counts elements of the whole tensor."""
    settings = _settings(g, x, at)
    if any(dilation != 1 for dilation in at.dilation):
        if g.opset < 10:
            raise g.needs_opset(10)
        settings["dilations"] = at.dilation
    if _is_padded(x):
        # onnxruntime 1.31 makes a Pad with zeros part of the MaxPool behind it, which pads with minus infinity. It lets
        # the two be where the pooling says VALID, or where something stands between them.
        if any(settings["pads"]) or settings["ceil_mode"]:
            dtype = g.dtype(x)
            x = g.op.Max(x, g.like(x, -math.inf if dtype.is_floating_point else torch.iinfo(dtype).min))
        else:
            settings = {**settings, "pads": None, "auto_pad": "VALID"}
    made = g.node("MaxPool", [x], settings, outputs=outputs)
    return made if outputs > 1 else (made,)


@by_axes(aten.max_pool1d.default, aten.max_pool2d.default, aten.max_pool3d.default)
def max_pool_values(
    g: Emitter,
    x: Value,
    kernel: Sequence[int],
    stride: Sequence[int] = (),
    padding: Sequence[int] = (0,),
    dilation: Sequence[int] = (1,),
    ceil_mode: bool = False,
    *,
    spatial: int,
) -> Value:
    """max_pool2d(Tensor self, int[2] kernel_size, int[2] stride=[], int[2] padding=0, int[2] dilation=1,
    bool ceil_mode=False) -> Tensor"""
    x, added = batched(g, x, spatial)
    (values,) = max_pool(g, x, windows(spatial, kernel, stride, padding, dilation, ceil_mode))
    return unbatched(g, values, added, g.out.shape)


@by_axes(
    aten.max_pool1d_with_indices.default, aten.max_pool2d_with_indices.default, aten.max_pool3d_with_indices.default
)
def max_pool_with_indices(
    g: Emitter,
    x: Value,
    kernel: Sequence[int],
    stride: Sequence[int] = (),
    padding: Sequence[int] = (0,),
    dilation: Sequence[int] = (1,),
    ceil_mode: bool = False,
    *,
    spatial: int,
) -> tuple[Value, Value]:
    """max_pool2d_with_indices(Tensor self, int[2] kernel_size, int[2] stride=[], int[2] padding=0, int[2] dilation=1,
    bool ceil_mode=False) -> (Tensor, Tensor)"""
    x, added = batched(g, x, spatial)
    values, places = max_pool(g, x, windows(spatial, kernel, stride, padding, dilation, ceil_mode), outputs=2)
    shape = g.out[0].shape
    indices = within_plane(g, g.annotate(places, (1, *shape) if added else shape), x)
    return unbatched(g, values, added, shape), unbatched(g, indices, added, shape)


def within_plane(g: Emitter, places: Value, x: Value) -> Value:
    """Indices that count over the whole of x, as indices into the plane of one channel."""
    return g.mod(places, g.size(g.numel(x, range(2, g.rank(x)))))


# Average


@by_axes(aten.avg_pool1d.default, aten.avg_pool2d.default, aten.avg_pool3d.default)
def avg_pool(
    g: Emitter,
    x: Value,
    kernel: Sequence[int],
    stride: Sequence[int] = (),
    padding: Sequence[int] = (0,),
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
    *,
    spatial: int,
) -> Value:
    """avg_pool2d(Tensor self, int[2] kernel_size, int[2] stride=[], int[2] padding=0, bool ceil_mode=False,
    bool count_include_pad=True, int? divisor_override=None) -> Tensor"""
    x, added = batched(g, x, spatial)
    at = windows(spatial, kernel, stride, padding, ceil=ceil_mode)
    if g.dtype(x) in (torch.float64, torch.int64) or _must_count(g, x, at, divisor_override):
        result = _average_by_products(g, x, at, count_include_pad, divisor_override)
    elif divisor_override is None:
        result = average_pool(g, x, at, count_include_pad)
    else:
        result = _sum_pool(g, x, at, divisor_override)
    return unbatched(g, result, added, g.out.shape)


def _must_count(g: Emitter, x: Value, at: Windows, divisor: int | None) -> bool:
    """Whether ceil_mode at dynamic sizes is more than the attributes of AveragePool can say."""
    static = all(isinstance(size, int) for size in g.known_dims(x)[2:])
    return at.ceil and not static and not at.never_starts_outside() and (g.opset < 10 or divisor is not None)


def average_pool(g: Emitter, x: Value, at: Windows, count_include_pad: bool = False) -> Value:
    """AveragePool on [batch, channels, *spatial]. What rounding up adds beyond the padding is never counted."""
    settings, spatial = _settings(g, x, at), len(at.kernel)
    counted = count_include_pad and any(at.padding)
    if counted and settings["pads"] != at.padding * 2:  # count some of the padding: make that part of the input
        beyond = [end - pad for end, pad in zip(settings["pads"][spatial:], at.padding, strict=True)]
        x = g.pad(x, [0, 0, *at.padding] * 2)
        settings, counted = settings | {"pads": [0] * spatial + beyond}, False
    return g.node("AveragePool", [x], settings | {"count_include_pad": 1 if counted else None})


def _sum_pool(g: Emitter, x: Value, at: Windows, divisor: int) -> Value:
    """The sum of each window by a number of the caller's: an average that counts everything, scaled."""
    settings = _settings(g, x, at)
    if settings["ceil_mode"]:
        if not at.never_starts_outside():
            raise g.unsupported(
                "divisor_override and ceil_mode with windows further apart than they are wide, at dynamic sizes"
            )
        ends = [pad + stride - 1 for pad, stride in zip(at.padding, at.stride, strict=True)]
        settings |= {"pads": [*at.padding, *ends], "ceil_mode": None}
    average = g.node("AveragePool", [x], settings | {"count_include_pad": 1})
    g.annotate(average, (*g.known_dims(x)[:2], *g.out.shape[-len(at.kernel) :]))
    count = prod(at.kernel)
    return average if count == divisor else g.op.Mul(average, g.like(average, count / divisor))


def _average_by_products(g: Emitter, x: Value, at: Windows, count_include_pad: bool, divisor: int | None) -> Value:
    """One axis after the other, a product with the matrix [size, windows] that holds 1 / length inside each window.

    For float64, in which onnxruntime 1.31 has no AveragePool, and for windows that its attributes cannot place.
    Integers are added up first and divided then: rounding each quotient towards zero gives the same as rounding once.
    """
    whole, lengths = not g.dtype(x).is_floating_point, []
    for i, (kernel, stride, pad) in enumerate(zip(at.kernel, at.stride, at.padding, strict=True)):
        size: Any = g.dim_size(x, 2 + i)
        count = _rounded_up(size, kernel, stride, pad) if at.ceil else (size + 2 * pad - kernel) // stride + 1
        begins = g.op.Sub(g.op.Mul(g.arange(0, count), g.const(stride)), g.const(pad))
        ends = g.min(g.op.Add(begins, g.const(kernel)), g.size(size + pad))
        places = g.unsqueeze(g.arange(0, size), [1])
        weights = g.cast(g.op.And(g.greater_or_equal(places, begins), g.op.Less(places, ends)), g.dtype(x))
        if divisor is None:
            if not count_include_pad:
                begins, ends = g.max(begins, g.const(0)), g.min(ends, g.size(size))
            length = g.cast(g.op.Sub(ends, begins), g.dtype(x))
            if whole:
                lengths.append(g.unsqueeze(length, range(1, len(at.kernel) - i)))
            else:
                weights = g.op.Div(weights, length)
        x = apply_matrix(g, x, weights, 2 + i)
    for length in lengths:
        x = g.op.Div(x, length)
    return x if divisor is None else g.op.Div(x, g.like(x, divisor))


def _rounded_up(size: Any, kernel: int, stride: int, pad: int) -> Any:
    """How many windows ceil_mode gives."""
    rounded, begin_inside = (size + 2 * pad - kernel + stride - 1) // stride, (size + pad - 1) // stride
    if isinstance(size, int):
        return min(rounded, begin_inside) + 1
    return SizeValue.of(torch.sym_min, rounded, begin_inside) + 1
