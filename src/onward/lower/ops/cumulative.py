"""Running sums, products and extremes along an axis."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

from ..emitter import Emitter, Value
from ..registry import lowers

aten = torch.ops.aten
_FAR = 2**63 - 1


@lowers(aten.cumsum.default)
def cumsum(g: Emitter, x: Value, dim: int, *, dtype: torch.dtype | None = None) -> Value:
    """cumsum(Tensor self, int dim, *, ScalarType? dtype=None) -> Tensor"""
    return g.cumsum(g.cast(x, g.out_dtype), dim)


@lowers(aten.cumprod.default)
def cumprod(g: Emitter, x: Value, dim: int, *, dtype: torch.dtype | None = None) -> Value:
    """cumprod(Tensor self, int dim, *, ScalarType? dtype=None) -> Tensor"""
    x = g.cast(x, g.out_dtype)

    def step(body: Emitter, product: Value, element: Value) -> list[Value]:
        return [body.op.Mul(product, element)]

    return x if g.rank(x) == 0 else _scan(g, step, [x], [1], dim)[0]


@lowers(aten.cumprod.default, since=26)
def cumprod_26(g: Emitter, x: Value, dim: int, *, dtype: torch.dtype | None = None) -> Value:
    """cumprod(Tensor self, int dim, *, ScalarType? dtype=None) -> Tensor"""
    x = g.cast(x, g.out_dtype)
    return x if g.rank(x) == 0 else g.op.CumProd(x, g.const(dim % g.rank(x)))


@lowers(aten.logcumsumexp.default)
def logcumsumexp(g: Emitter, x: Value, dim: int) -> Value:
    """logcumsumexp(Tensor self, int dim) -> Tensor"""

    def step(body: Emitter, total: Value, element: Value) -> list[Value]:
        limits = torch.finfo(body.dtype(total))
        top = body.clip(body.max(total, element), limits.min, limits.max)  # infinity minus itself is not a number
        parts = [body.op.Exp(body.op.Sub(part, top)) for part in (total, element)]
        return [body.op.Add(top, body.op.Log(body.op.Add(*parts)))]

    return x if g.rank(x) == 0 else _scan(g, step, [x], [float("-inf")], dim)[0]


@lowers(aten.cummax.default)
def cummax(g: Emitter, x: Value, dim: int) -> tuple[Value, Value]:
    """cummax(Tensor self, int dim) -> (Tensor values, Tensor indices)"""
    return _running_extreme(g, x, dim, largest=True)


@lowers(aten.cummin.default)
def cummin(g: Emitter, x: Value, dim: int) -> tuple[Value, Value]:
    """cummin(Tensor self, int dim) -> (Tensor values, Tensor indices)"""
    return _running_extreme(g, x, dim, largest=False)


def _running_extreme(g: Emitter, x: Value, dim: int, *, largest: bool) -> tuple[Value, Value]:
    """The extreme so far and the last place that has it; nan stays, and the last nan's place counts."""
    if g.rank(x) == 0:
        return x, g.const(0)
    values = g.cast(x, torch.int32) if g.dtype(x) is torch.bool else x
    dtype = g.dtype(values)
    axis = dim % g.rank(x)
    numbers = g.unsqueeze(g.arange(0, g.dim_size(x, axis)), [a for a in range(g.rank(x)) if a != axis])

    def step(body: Emitter, best: Value, place: Value, element: Value, number: Value) -> list[Value]:
        better = body.greater_or_equal(element, best) if largest else body.less_or_equal(element, best)
        if dtype.is_floating_point:
            better = body.op.Or(better, body.op.IsNaN(element))
        return [body.where(better, element, best), body.where(better, number, place)]

    if dtype.is_floating_point:
        start = float("-inf") if largest else float("inf")
    else:
        start = torch.iinfo(dtype).min if largest else torch.iinfo(dtype).max
    found = _scan(g, step, [values, numbers], [start, 0], dim)
    return found[0], found[1]


def _scan(
    g: Emitter,
    step: Callable[..., list[Value]],
    sequences: Sequence[Value],
    starts: Sequence[float],
    dim: int,
) -> list[Value]:
    """Walk along an axis: step(body, *states, *elements) gives the new states, which are also the results.

    onnxruntime 1.31 refuses to scan no elements, and divides by zero (the process dies) where a tensor without elements
    is scanned along another axis than the first. So an axis that may be empty begins with one element that has no
    influence, and where others may be, the axis comes first.
    """
    shape = g.known_dims(sequences[0])
    axis = dim % len(shape)
    wanted = [g.dtype(sequence) for sequence in sequences]
    if 0 in shape:
        return [g.expand(g.const(0, dtype), shape) for dtype in wanted]
    types = [_carried(g, dtype) for dtype in wanted]
    given = [g.cast(sequence, dtype) for sequence, dtype in zip(sequences, types, strict=True)]
    order = list(range(len(shape)))
    if any(not isinstance(size, int) for place, size in enumerate(shape) if place != axis):
        order = [axis, *(place for place in order if place != axis)]
    given = [g.op.Transpose(each, perm=order) for each in given] if order[0] == axis else given
    found = _scanned(g, step, given, starts, order.index(axis), may_be_empty=not isinstance(shape[axis], int))
    back = [order.index(place) for place in range(len(order))]
    found = [g.op.Transpose(each, perm=back) for each in found] if order[0] == axis else found
    return [g.cast(g.annotate(each, shape), dtype) for each, dtype in zip(found, wanted, strict=True)]


def _carried(g: Emitter, dtype: torch.dtype) -> torch.dtype:
    """The type that a Scan can carry: before opset 16 that is not bfloat16."""
    return torch.float32 if dtype is torch.bfloat16 and g.opset < 16 else dtype


def _scanned(
    g: Emitter,
    step: Callable[..., list[Value]],
    sequences: Sequence[Value],
    starts: Sequence[float],
    axis: int,
    *,
    may_be_empty: bool,
) -> list[Value]:
    shape = g.known_dims(sequences[0])
    rest = [*shape[:axis], *shape[axis + 1 :]]
    body = g.subgraph("step")
    types = [g.dtype(sequence) for sequence in sequences]
    initial = [g.expand(g.const(start, dtype), rest) for start, dtype in zip(starts, types, strict=True)]
    states = [body.input("state", dtype, rest) for dtype in types]
    elements = []
    for place, (sequence, dtype) in enumerate(zip(sequences, types, strict=True)):
        dims = g.known_dims(sequence)
        elements.append(body.input("element", dtype, [*dims[:axis], *dims[axis + 1 :]]))
        if may_be_empty:
            first = g.expand(g.const(starts[place], dtype), [*dims[:axis], 1, *dims[axis + 1 :]])
            sequences = [*sequences[:place], g.op.Concat(first, sequence, axis=axis), *sequences[place + 1 :]]
    made = step(body, *states, *elements)
    count = len(states)
    found = g.node(
        "Scan",
        [*initial, *sequences],
        {
            "body": body.graph([*made, *made]),
            "num_scan_inputs": count,
            "scan_input_axes": [axis] * count,
            "scan_output_axes": [axis] * count,
        },
        outputs=2 * count,
    )[count:]
    if not may_be_empty:
        return [g.annotate(value, shape, dtype) for value, dtype in zip(found, types, strict=True)]
    found = [
        g.annotate(value, [*shape[:axis], one_more, *shape[axis + 1 :]], dtype)
        for value, dtype, one_more in zip(found, types, (g.known_dims(each)[axis] for each in sequences), strict=True)
    ]
    return [g.annotate(g.slice(value, [1], [_FAR], [axis]), shape) for value in found]
