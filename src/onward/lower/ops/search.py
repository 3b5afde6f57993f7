"""Finding values: membership, places in a sorted row, different values."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from ..emitter import Emitter, Number, SizeValue, Value
from ..registry import lowers
from . import _positions as positions
from .reduce import any_of

aten = torch.ops.aten
_FAR = 2**31 - 1


@lowers(aten.isin.Tensor_Tensor, aten.isin.Tensor_Scalar, aten.isin.Scalar_Tensor)
def isin(
    g: Emitter,
    elements: Value | Number,
    test_elements: Value | Number,
    *,
    assume_unique: bool = False,
    invert: bool = False,
) -> Value:
    """isin.Tensor_Tensor(Tensor elements, Tensor test_elements, *, bool assume_unique=False, bool invert=False)
    -> Tensor"""
    common = g.result_type(elements, test_elements)
    x, tests = g.promote(elements, test_elements, dtype=common)
    if g.rank(tests) == 0:
        found = g.equal(x, tests)
    else:
        pairs = g.equal(g.unsqueeze(x, [g.rank(x)]), g.flatten(tests))
        found = any_of(g, pairs, [g.rank(pairs) - 1])
    return g.op.Not(found) if invert else found


@lowers(aten.bucketize.Tensor, aten.bucketize.Scalar)
def bucketize(
    g: Emitter, x: Value | Number, boundaries: Value, *, out_int32: bool = False, right: bool = False
) -> Value:
    """bucketize.Tensor(Tensor self, Tensor boundaries, *, bool out_int32=False, bool right=False) -> Tensor"""
    return _count_below(g, boundaries, x, right)


@lowers(aten.searchsorted.Tensor, aten.searchsorted.Scalar)
def searchsorted(
    g: Emitter,
    sequence: Value,
    x: Value | Number,
    *,
    out_int32: bool = False,
    right: bool = False,
    side: str | None = None,
    sorter: Value | None = None,
) -> Value:
    """searchsorted.Tensor(Tensor sorted_sequence, Tensor self, *, bool out_int32=False, bool right=False,
    str? side=None, Tensor? sorter=None) -> Tensor"""
    if sorter is not None:
        sequence = g.gather_elements(sequence, sorter, -1)
    return _count_below(g, sequence, x, right or side == "right")


def _count_below(g: Emitter, row: Value, x: Value | Number, right: bool) -> Value:
    """How many elements of a sorted row come before x: not those that reach it (or, `right`, exceed it).

    Put as a negation it is right for nan as well, which comes after everything.
    """
    row, x = g.promote(row, x, dtype=g.result_type(row, x))
    if g.rank(row) > 1:
        row = g.unsqueeze(row, [g.rank(row) - 1])
    x = g.unsqueeze(x, [g.rank(x)])
    behind = g.op.Greater(row, x) if right else g.greater_or_equal(row, x)
    before = g.cast(g.op.Not(behind), torch.int64)
    return g.reduce("ReduceSum", before, [g.rank(before) - 1])


@lowers(aten._unique2.default, aten._unique.default, since=11)
def unique(
    g: Emitter, x: Value, sorted: bool = True, return_inverse: bool = False, return_counts: bool = False
) -> Sequence[Value | None]:
    """_unique2(Tensor self, bool sorted=True, bool return_inverse=False, bool return_counts=False)
    -> (Tensor, Tensor, Tensor)"""
    found = _unique(g, g.reshape(x, [-1]) if g.rank(x) == 0 else x, None, return_inverse, return_counts)
    if found[1] is not None:
        found[1] = g.reshape(found[1], g.known_dims(x))
    return found


@lowers(aten.unique_dim.default, since=11)
def unique_dim(
    g: Emitter, x: Value, dim: int, sorted: bool = True, return_inverse: bool = False, return_counts: bool = False
) -> Sequence[Value | None]:
    """unique_dim(Tensor self, int dim, bool sorted=True, bool return_inverse=False, bool return_counts=False)
    -> (Tensor, Tensor, Tensor)"""
    return _unique(g, x, dim, return_inverse, return_counts)


def _unique(g: Emitter, x: Value, axis: int | None, inverse: bool, counts: bool) -> list[Value | None]:
    values, _, places, numbers = g.node("Unique", [x], {"axis": axis, "sorted": 1}, outputs=4)
    shape = g.out[0].shape
    g.annotate(values, shape)
    g.annotate(places, (positions.dimensions.product(g.known_dims(x)),) if axis is None else (g.known_dims(x)[axis],))
    g.annotate(numbers, (shape[axis or 0],))
    return [values, places if inverse else None, numbers if counts else None]


@lowers(aten.unique_consecutive.default)
def unique_consecutive(
    g: Emitter, x: Value, return_inverse: bool = False, return_counts: bool = False, dim: int | None = None
) -> Sequence[Value | None]:
    """unique_consecutive(Tensor self, bool return_inverse=False, bool return_counts=False, int? dim=None)
    -> (Tensor, Tensor, Tensor)"""
    shape = g.known_dims(x) if dim is None else (g.known_dims(x)[dim],)
    axis = 0 if dim is None else dim % g.rank(x)
    rows = g.reshape(x, [-1]) if dim is None else x
    size = g.dim_size(rows, axis)
    differs = g.not_equal(g.slice(rows, [1], [_FAR], [axis]), g.slice(rows, [0], [-1], [axis]))
    others = [each for each in range(g.rank(rows)) if each != axis]
    if others:
        differs = any_of(g, differs, others)
    first = g.op.Concat(g.const([True]), differs, axis=0)
    if not isinstance(size, int):  # of no elements none is the first
        first = g.slice(first, [0], [size], [0])
    count = (g.out[0].shape[axis],)
    values = g.annotate(g.op.Compress(rows, first, axis=axis), g.out[0].shape)
    inverse = counts = None
    if return_inverse:
        number = g.op.Sub(g.cumsum(g.cast(first, torch.int64), 0), g.const(1))
        inverse = g.reshape(number, shape)
    if return_counts:
        starts = g.squeeze(g.annotate(g.op.NonZero(first), (1, *count)), [0])
        ends = g.op.Concat(g.slice(starts, [1], [_FAR], [0]), g.size(size), axis=0)
        counts = g.op.Sub(g.annotate(ends, count), starts)
    return [values, inverse, counts]


@lowers(aten.nonzero_static.default)
def nonzero_static(g: Emitter, x: Value, *, size: int | SizeValue, fill_value: int = -1) -> Value:
    """nonzero_static(Tensor self, *, SymInt size, int fill_value=-1) -> Tensor"""
    rank = g.rank(x)
    places = g.op.Transpose(positions.nonzero_rows(g, x), perm=[1, 0])
    filler = g.expand(g.const(fill_value), [size, rank])
    rows = g.op.Concat(places, filler, axis=0)
    if isinstance(size, int):
        return g.slice(rows, [0], [size], [0])
    return g.annotate(g.op.Gather(rows, g.arange(0, size), axis=0), g.out.shape)  # at opset 9 slices have fixed ends
