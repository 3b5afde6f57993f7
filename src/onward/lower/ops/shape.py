"""The same elements under other axes: reshapes, squeezes, permutations, broadcasts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from onward.onnx_operators.dimension_math import Shape

from ..emitter import Emitter, Size, SizeValue, Value
from ..registry import lowers

aten = torch.ops.aten


def completed(sizes: Sequence[Any], seen: Shape) -> list[Any]:
    """Sizes as they were asked for, with each -1 replaced by the size that capture saw there.

    A size that the program computed keeps its formula; the dimension alone would have to be found again.
    """
    return [size if isinstance(size, SizeValue) else dim for size, dim in zip(sizes, seen, strict=True)]


# Reshapes


@lowers(
    aten.view.default,
    aten.reshape.default,
    aten._unsafe_view.default,
    aten._reshape_alias.default,
    aten._reshape_copy.default,
    aten.view_copy.default,
)
def view(g: Emitter, x: Value, size: Sequence[Size], stride: Any = None) -> Value:
    """view(Tensor(a) self, SymInt[] size) -> Tensor(a)"""
    return g.reshape(x, completed(size, g.out.shape))


@lowers(aten.view_as.default, aten.reshape_as.default)
def view_as(g: Emitter, x: Value, other: Value) -> Value:
    """view_as(Tensor(a) self, Tensor other) -> Tensor(a)"""
    return g.reshape(x, g.out.shape)


@lowers(aten.flatten.using_ints)
def flatten(g: Emitter, x: Value, start: int = 0, end: int = -1) -> Value:
    """flatten.using_ints(Tensor(a) self, int start_dim=0, int end_dim=-1) -> Tensor(a)"""
    rank = g.rank(x)
    if rank > 2 and start % rank == 1 and end % rank == rank - 1:
        return g.op.Flatten(x, axis=1)
    return g.reshape(x, g.out.shape)


@lowers(aten.ravel.default)
def ravel(g: Emitter, x: Value) -> Value:
    """ravel(Tensor(a) self) -> Tensor(a)"""
    return g.reshape(x, g.out.shape)


@lowers(aten.unflatten.int)
def unflatten(g: Emitter, x: Value, dim: int, sizes: Sequence[Size]) -> Value:
    """unflatten.int(Tensor(a) self, int dim, SymInt[] sizes) -> Tensor(a)"""
    shape = g.out.shape
    dim %= g.rank(x)
    end = dim + len(sizes)
    return g.reshape(x, [*shape[:dim], *completed(sizes, shape[dim:end]), *shape[end:]])


@lowers(aten._shape_as_tensor.default)
def shape_as_tensor(g: Emitter, x: Value) -> Value:
    """_shape_as_tensor(Tensor self) -> Tensor"""
    return g.op.Shape(x) if g.rank(x) else g.const_tensor(torch.empty(0, dtype=torch.int64))


@lowers(aten._reshape_from_tensor.default)
def reshape_from_tensor(g: Emitter, x: Value, shape: Value) -> Value:
    """_reshape_from_tensor(Tensor self, Tensor shape) -> Tensor"""
    return g.op.Reshape(x, g.cast(shape, torch.int64))


# Axes of size 1


@lowers(aten.squeeze.default, aten.squeeze_copy.default)
def squeeze(g: Emitter, x: Value) -> Value:
    """squeeze(Tensor(a) self) -> Tensor(a)"""
    return g.squeeze(x, [axis for axis, dim in enumerate(g.known_dims(x)) if dim == 1])


@lowers(aten.squeeze.dim, aten.squeeze.dims, aten.squeeze_copy.dim, aten.squeeze_copy.dims)
def squeeze_dims(g: Emitter, x: Value, dims: int | Sequence[int]) -> Value:
    """squeeze.dims(Tensor(a) self, int[] dim) -> Tensor(a); axes of another size stay"""
    shape = g.known_dims(x)
    axes = {axis % max(len(shape), 1) for axis in ([dims] if isinstance(dims, int) else dims)}
    return g.squeeze(x, [axis for axis, dim in enumerate(shape) if axis in axes and dim == 1])


@lowers(aten.unsqueeze.default, aten.unsqueeze_copy.default)
def unsqueeze(g: Emitter, x: Value, dim: int) -> Value:
    """unsqueeze(Tensor(a) self, int dim) -> Tensor(a)"""
    return g.unsqueeze(x, [dim])


@lowers(aten.atleast_1d.default, aten.atleast_2d.default, aten.atleast_3d.default)
def atleast(g: Emitter, x: Value) -> Value:
    """atleast_1d(Tensor self) -> Tensor; new axes come first, the third of three last"""
    missing = len(g.out.shape) - g.rank(x)
    if len(g.out.shape) == 3 and g.rank(x) in (1, 2) and missing:
        return g.unsqueeze(x, [2] if missing == 1 else [0, 2])
    return g.unsqueeze(x, list(range(missing)))


# Permutations


@lowers(aten.permute.default, aten.permute_copy.default)
def permute(g: Emitter, x: Value, dims: Sequence[int]) -> Value:
    """permute(Tensor(a) self, int[] dims) -> Tensor(a)"""
    return g.op.Transpose(x, perm=[dim % len(dims) for dim in dims])


@lowers(aten.transpose.int, aten.transpose_copy.int, aten.swapaxes.default, aten.swapdims.default)
def transpose(g: Emitter, x: Value, dim0: int, dim1: int) -> Value:
    """transpose.int(Tensor(a) self, int dim0, int dim1) -> Tensor(a)"""
    order = list(range(g.rank(x)))
    if order:
        order[dim0], order[dim1] = order[dim1], order[dim0]
    return g.op.Transpose(x, perm=order)


@lowers(aten.t.default, aten.t_copy.default, aten.numpy_T.default)
def t(g: Emitter, x: Value) -> Value:
    """t(Tensor(a) self) -> Tensor(a); and `.T`, all axes in reverse"""
    return g.op.Transpose(x, perm=list(range(g.rank(x)))[::-1])


@lowers(aten.mT.default, aten.mH.default, aten.matrix_H.default, aten.adjoint.default)
def adjoint(g: Emitter, x: Value) -> Value:
    """adjoint(Tensor(a) self) -> Tensor(a); of real tensors the last two axes, swapped"""
    if g.dtype(x).is_complex:
        raise g.unsupported("complex tensors")
    return transpose(g, x, -2, -1)


@lowers(aten.movedim.int, aten.movedim.intlist, aten.moveaxis.int, aten.moveaxis.intlist)
def movedim(g: Emitter, x: Value, source: int | Sequence[int], destination: int | Sequence[int]) -> Value:
    """movedim.intlist(Tensor(a) self, int[] source, int[] destination) -> Tensor(a)"""
    rank = g.rank(x)
    sources = [axis % rank for axis in ([source] if isinstance(source, int) else source)]
    targets = [axis % rank for axis in ([destination] if isinstance(destination, int) else destination)]
    came_from = dict(zip(targets, sources, strict=True))
    rest = (axis for axis in range(rank) if axis not in sources)
    return g.op.Transpose(x, perm=[came_from[axis] if axis in came_from else next(rest) for axis in range(rank)])


# Broadcasts


@lowers(aten.expand.default, aten.expand_copy.default, aten.broadcast_to.default)
def expand(g: Emitter, x: Value, size: Sequence[Size]) -> Value:
    """expand(Tensor(a) self, SymInt[] size, *, bool implicit=False) -> Tensor(a)"""
    return g.expand(x, completed(size, g.out.shape))


@lowers(aten.expand_as.default)
def expand_as(g: Emitter, x: Value, other: Value) -> Value:
    """expand_as(Tensor(a) self, Tensor other) -> Tensor(a)"""
    return expand_to(g, x, g.out.shape, other)


def expand_to(g: Emitter, x: Value, shape: Shape, other: Value) -> Value:
    """x broadcast to a shape that is also another tensor's: if sizes have to be read, all are read from it at once."""
    before = g.known_dims(x)
    grown = [dim for dim, old in zip(shape[::-1], (*before[::-1], *[1] * len(shape)), strict=False) if dim != old]
    if all(isinstance(dim, int) for dim in grown) or g.dims(other) != shape:
        return g.expand(x, shape)
    return g.annotate(g.op.Expand(x, g.op.Shape(other)), shape)


@lowers(aten.broadcast_tensors.default)
def broadcast_tensors(g: Emitter, tensors: Sequence[Value]) -> list[Value]:
    """broadcast_tensors(Tensor[] tensors) -> Tensor[]"""
    shape = g.out[0].shape
    whole = next((x for x in tensors if g.dims(x) == shape), tensors[0])
    return [expand_to(g, x, shape, whole) for x in tensors]


@lowers(aten.meshgrid.default, aten.meshgrid.indexing)
def meshgrid(g: Emitter, tensors: Sequence[Value], indexing: str = "ij") -> list[Value]:
    """meshgrid.indexing(Tensor[] tensors, *, str indexing) -> Tensor[]"""
    rank = len(tensors)
    places = list(range(rank))
    if indexing == "xy" and rank > 1:
        places[0], places[1] = 1, 0
    shape = g.out[0].shape
    rows = [x if g.rank(x) else g.unsqueeze(x, [0]) for x in tensors]
    spread = [g.unsqueeze(row, [a for a in range(rank) if a != place]) for row, place in zip(rows, places, strict=True)]
    return [g.expand(x, shape) for x in spread]
