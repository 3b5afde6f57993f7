"""Tensors put together and taken apart: cat, stack, split, chunk, unbind."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import torch

from onward.capture.program.facts import SymDim

from ..bridge import as_dim
from ..emitter import Emitter, Size, Value
from ..registry import lowers

aten = torch.ops.aten


# Putting together


@lowers(aten.cat.default, aten.concat.default, aten.concatenate.default)
def cat(g: Emitter, tensors: Sequence[Value], dim: int = 0) -> Value:
    """cat(Tensor[] tensors, int dim=0) -> Tensor; [0]-shaped tensors count for nothing, whatever the others' rank"""
    used = [x for x in tensors if g.dims(x) != (0,)]
    if not used:
        return g.cast(tensors[0], g.out_dtype)
    return g.op.Concat(*g.promote(*used), axis=dim % g.rank(used[0]))


@lowers(aten.stack.default)
def stack(g: Emitter, tensors: Sequence[Value], dim: int = 0) -> Value:
    """stack(Tensor[] tensors, int dim=0) -> Tensor"""
    values = g.promote(*tensors)
    rank = g.rank(values[0])
    dim %= rank + 1
    if len(values) > 2 and dim < rank and _splits_freely(g.out.shape, dim):
        return g.reshape(g.op.Concat(*values, axis=dim), g.out.shape)
    return g.op.Concat(*(g.unsqueeze(x, [dim]) for x in values), axis=dim)


def _splits_freely(shape: Sequence[Any], dim: int) -> bool:
    """Whether a Reshape can insert an axis at `dim` without reading a size: at most one unknown from there on."""
    return sum(isinstance(size, SymDim) for size in shape[dim:]) < 2 and 0 not in shape


@lowers(aten.hstack.default)
def hstack(g: Emitter, tensors: Sequence[Value]) -> Value:
    """hstack(Tensor[] tensors) -> Tensor"""
    values = [x if g.rank(x) else g.unsqueeze(x, [0]) for x in g.promote(*tensors)]
    return g.op.Concat(*values, axis=0 if g.rank(values[0]) == 1 else 1)


@lowers(aten.vstack.default, aten.row_stack.default)
def vstack(g: Emitter, tensors: Sequence[Value]) -> Value:
    """vstack(Tensor[] tensors) -> Tensor"""
    values = [g.unsqueeze(x, list(range(2 - g.rank(x)))) if g.rank(x) < 2 else x for x in g.promote(*tensors)]
    return g.op.Concat(*values, axis=0)


# Taking apart


def parts(g: Emitter, x: Value, sizes: Sequence[Size], axis: int) -> list[Value]:
    """Neighbouring parts of the given sizes along an axis; where Split takes no computed sizes, one slice each."""
    if g.opset >= 13 or all(isinstance(size, int) for size in sizes):
        return g.split(x, sizes, axis)
    result: list[Value] = []
    start: Any = 0
    for place, size in enumerate(sizes):
        end = start + size if place < len(sizes) - 1 else 2**63 - 1
        part = g.slice(x, [start], [end], [axis])
        dim, shape = as_dim(size), g.known_dims(x)
        result.append(part if dim is None else g.annotate(part, (*shape[:axis], dim, *shape[axis + 1 :])))
        start = end
    return result


@lowers(aten.split.Tensor, aten.unsafe_split.Tensor)
def split(g: Emitter, x: Value, size: Size, dim: int = 0) -> list[Value]:
    """split.Tensor(Tensor(a -> *) self, SymInt split_size, int dim=0) -> Tensor(a)[]"""
    axis, count = dim % g.rank(x), len(g.out)
    last = g.dim_size(x, axis) - size * (count - 1)  # type: ignore[operator]
    return parts(g, x, [size] * (count - 1) + [last], axis)


@lowers(aten.split_with_sizes.default, aten.split.sizes, aten.unsafe_split_with_sizes.default)
def split_with_sizes(g: Emitter, x: Value, sizes: Sequence[Size], dim: int = 0) -> list[Value]:
    """split_with_sizes(Tensor(a -> *) self, SymInt[] split_sizes, int dim=0) -> Tensor(a)[]"""
    return parts(g, x, sizes, dim % g.rank(x))


@lowers(aten.chunk.default, aten.unsafe_chunk.default)
def chunk(g: Emitter, x: Value, chunks: int, dim: int = 0) -> list[Value]:
    """chunk(Tensor(a -> *) self, int chunks, int dim=0) -> Tensor(a)[]; the last one may be smaller"""
    axis, count = dim % g.rank(x), len(g.out)
    total = g.dim_size(x, axis)
    if count == 1:
        return [x]
    if isinstance(total, int):
        return g.split(x, [fact.shape[axis] for fact in g.out], axis)
    if g.opset >= 18:
        return list(g.node("Split", [x], {"axis": axis, "num_outputs": count}, outputs=count))
    size = (total + (chunks - 1)) // chunks
    return parts(g, x, [size] * (count - 1) + [total - size * (count - 1)], axis)


@lowers(aten.tensor_split.sections, aten.vsplit.int)
def tensor_split(g: Emitter, x: Value, sections: int, dim: int = 0) -> list[Value]:
    """tensor_split.sections(Tensor(a -> *) self, SymInt sections, int dim=0) -> Tensor(a)[]; the first may be larger"""
    axis = dim % g.rank(x)
    total = g.dim_size(x, axis)
    return parts(g, x, [(total + (sections - 1 - place)) // sections for place in range(sections)], axis)


@lowers(aten.tensor_split.indices, aten.vsplit.array)
def tensor_split_indices(g: Emitter, x: Value, indices: Sequence[Size], dim: int = 0) -> list[Value]:
    """tensor_split.indices(Tensor(a -> *) self, SymInt[] indices, int dim=0) -> Tensor(a)[]"""
    bounds = [0, *indices, 2**63 - 1]
    return [g.slice(x, [start], [end], [dim % g.rank(x)]) for start, end in pairwise(bounds)]


@lowers(aten.hsplit.int, aten.hsplit.array)
def hsplit(g: Emitter, x: Value, where: int | Sequence[int]) -> list[Value]:
    """hsplit.int(Tensor(a -> *) self, int sections) -> Tensor(a)[]"""
    divide = tensor_split if isinstance(where, int) else tensor_split_indices
    return divide(g, x, where, 0 if g.rank(x) == 1 else 1)


@lowers(aten.dsplit.int, aten.dsplit.array)
def dsplit(g: Emitter, x: Value, where: int | Sequence[int]) -> list[Value]:
    """dsplit.int(Tensor(a -> *) self, int sections) -> Tensor(a)[]"""
    divide = tensor_split if isinstance(where, int) else tensor_split_indices
    return divide(g, x, where, 2)


@lowers(aten.unbind.int, aten.unbind_copy.int)
def unbind(g: Emitter, x: Value, dim: int = 0) -> list[Value]:
    """unbind.int(Tensor(a -> *) self, int dim=0) -> Tensor(a)[]"""
    axis, count = dim % g.rank(x), len(g.out)
    if count == 1:
        return [g.squeeze(x, [axis])]
    return [g.op.Gather(x, g.const(place), axis=axis) for place in range(count)]
