"""Elements by computed positions: sliding windows, diagonals, strided views."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from ..emitter import Emitter, Size, SizeValue, Value
from ..registry import lowers
from .pad import constant_pad_nd

aten = torch.ops.aten


def positions(g: Emitter, counts: Sequence[Any], strides: Sequence[Any], offset: Any = 0) -> Value:
    """int64 of shape `counts`: offset + i * strides[0] + j * strides[1] + ..., a constant if all numbers are known."""
    rank = len(counts)
    result = g.as_value(offset, torch.int64)
    for axis, (count, stride) in enumerate(zip(counts, strides, strict=True)):
        steps = g.arange(0, count)
        if not (isinstance(stride, int) and stride == 1):
            steps = g.op.Mul(steps, g.as_value(stride, torch.int64))
        result = g.op.Add(result, g.unsqueeze(steps, [other for other in range(rank) if other != axis]))
    return result


def smaller(a: Any, b: Any) -> Any:
    """The smaller of two sizes."""
    if isinstance(a, int) and isinstance(b, int):
        return min(a, b)
    if isinstance(a, SizeValue) and isinstance(b, SizeValue) and a.exact and b.exact and a.values == b.values:
        return a
    return SizeValue.of(torch.sym_min, a, b)


# Sliding windows


@lowers(aten.unfold.default, aten.unfold_copy.default)
def unfold(g: Emitter, x: Value, dim: int, size: Size, step: Size) -> Value:
    """unfold(Tensor(a) self, int dimension, int size, int step) -> Tensor(a); the windows' elements come last

    A size and a step may follow an axis: PyTorch takes sizes there, too.
    """
    rank = g.rank(x)
    if rank == 0:
        return g.unsqueeze(x, [0])
    axis = dim % rank
    starts = g.arange(0, g.dim_size(x, axis) - (size - 1), step)  # type: ignore[operator]
    if isinstance(size, int):
        places = _each_pair(g, starts, torch.arange(size))
    else:
        places = g.op.Add(g.unsqueeze(starts, [1]), g.unsqueeze(g.arange(0, size), [0]))
    picked = g.op.Gather(x, places, axis=axis)
    order = [*range(axis + 1), *range(axis + 2, rank + 1), axis + 1]
    return g.op.Transpose(picked, perm=order)


def _each_pair(g: Emitter, starts: Value, steps: torch.Tensor, *, transposed: bool = False) -> Value:
    """starts[i] + steps[j] at [i, j], or at [j, i]."""
    if transposed:
        return g.op.Add(g.unsqueeze(starts, [0]), g.const_tensor(steps.unsqueeze(1)))
    return g.op.Add(g.unsqueeze(starts, [1]), g.const_tensor(steps.unsqueeze(0)))


@lowers(aten.unfold_backward.default)
def unfold_backward(g: Emitter, x: Value, sizes: Sequence[Size], dim: int, size: int, step: int) -> Value:
    """unfold_backward(Tensor grad_in, SymInt[] input_sizes, int dim, int size, int step) -> Tensor

    Windows added up where they came from. A window is so many blocks of `step` elements; the first blocks of all
    windows are a row of blocks, the second ones the same row one place on, and so forth.
    """
    rank = len(sizes)
    if not rank:
        return g.reduce("ReduceSum", x, [0], keepdims=False)
    axis, blocks = dim % rank, -(-size // step)
    x = g.pad(x, [0] * (2 * rank + 1) + [blocks * step - size]) if size % step else x
    rows = []
    for place in range(blocks):
        row = g.slice(x, [place * step], [(place + 1) * step], [rank]) if blocks > 1 else x
        pads = [0] * (2 * (rank + 1))
        pads[axis], pads[axis + rank + 1] = place, blocks - place  # one more at the end for what no window reached
        rows.append(g.pad(row, pads))
    total = g.op.Sum(*rows)
    order = [*range(axis + 1), rank, *range(axis + 1, rank)]
    total = g.op.Transpose(total, perm=order)
    dims = g.known_dims(x)
    total = g.reshape(total, [*dims[:axis], -1, *dims[axis + 1 : rank]])
    return g.expand(g.slice(total, [0], [sizes[axis]], [axis]), g.out.shape)  # PyTorch's own istft leaves that to it


@lowers(aten.im2col.default)
def im2col(
    g: Emitter, x: Value, kernel: Sequence[int], dilation: Sequence[int], pad: Sequence[int], stride: Sequence[int]
) -> Value:
    """im2col(Tensor self, int[2] kernel_size, int[2] dilation, int[2] padding, int[2] stride) -> Tensor"""
    kernel, dilation, pad, stride = (_pair(pair) for pair in (kernel, dilation, pad, stride))
    image = x if g.rank(x) == 4 else g.unsqueeze(x, [0])
    image = constant_pad_nd(g, image, [pad[1], pad[1], pad[0], pad[0]])
    for side, axis in ((0, 2), (1, 4)):  # [N, C, H, W] -> [N, C, kh, oh, W] -> [N, C, kh, oh, kw, ow]
        reach = dilation[side] * (kernel[side] - 1)
        starts = g.arange(0, g.dim_size(image, axis) - reach, stride[side])
        steps = torch.arange(kernel[side]) * dilation[side]
        image = g.op.Gather(image, _each_pair(g, starts, steps, transposed=True), axis=axis)
    columns = g.op.Transpose(image, perm=[0, 1, 2, 4, 3, 5])
    return g.reshape(columns, g.out.shape)


@lowers(aten.col2im.default)
def col2im(
    g: Emitter,
    x: Value,
    size: Sequence[Size],
    kernel: Sequence[int],
    dilation: Sequence[int],
    pad: Sequence[int],
    stride: Sequence[int],
) -> Value:
    """col2im(Tensor self, SymInt[2] output_size, int[2] kernel_size, int[2] dilation, int[2] padding, int[2] stride)

    Before opset 18: a transposed convolution, one group per channel, each of whose filters is a single one.
    """
    kernel, dilation, pad, stride = (_pair(pair) for pair in (kernel, dilation, pad, stride))
    x, dtype = _with_batch(g, x), g.dtype(x)
    sides: Sequence[Any] = size
    reach = [d * (k - 1) + 1 for d, k in zip(dilation, kernel, strict=True)]
    spans: list[Any] = [side + 2 * p - r for side, p, r in zip(sides, pad, reach, strict=True)]
    over = [_fixed(g, span, step) for span, step in zip(spans, stride, strict=True)]
    counts = [span // step + 1 for span, step in zip(spans, stride, strict=True)]
    area = kernel[0] * kernel[1]
    columns = g.known_dims(x)[1]
    if not isinstance(columns, int):
        raise g.unsupported("a dynamic number of channels")
    blocks = g.reshape(x, [g.known_dims(x)[0], columns, *counts])
    filters = torch.eye(area, dtype=dtype).reshape(area, 1, *kernel).repeat(columns // area, 1, 1, 1)
    image = g.op.ConvTranspose(
        blocks,
        g.const_tensor(filters),
        group=columns // area,
        kernel_shape=kernel,
        dilations=dilation,
        strides=stride,
        pads=[*pad, *pad],
        output_padding=over if any(over) else None,
    )
    return image if len(g.out.shape) == 4 else g.squeeze(image, [0])


@lowers(aten.col2im.default, since=18)
def col2im_18(
    g: Emitter,
    x: Value,
    size: Sequence[Size],
    kernel: Sequence[int],
    dilation: Sequence[int],
    pad: Sequence[int],
    stride: Sequence[int],
) -> Value:
    """An operator of its own."""
    kernel, dilation, pad, stride = (_pair(pair) for pair in (kernel, dilation, pad, stride))
    image = g.op.Col2Im(
        _with_batch(g, x),
        g.shape(size),
        g.const(list(kernel)),
        dilations=dilation,
        pads=[*pad, *pad],
        strides=stride,
    )
    shape = g.out.shape
    image = g.annotate(image, shape if len(shape) == 4 else (1, *shape))
    return image if len(shape) == 4 else g.squeeze(image, [0])


def _pair(numbers: Sequence[int]) -> list[int]:
    return list(numbers) * 2 if len(numbers) == 1 else list(numbers)


def _with_batch(g: Emitter, x: Value) -> Value:
    return x if g.rank(x) == 3 else g.unsqueeze(x, [0])


def _fixed(g: Emitter, span: Any, step: int) -> int:
    """What a division leaves over, where it is the same at every size."""
    rests = {value % step for value in (span.values if isinstance(span, SizeValue) else (span,))}
    if len(rests) > 1:
        raise g.needs_opset(18)
    return rests.pop()


# Diagonals


def last_two(rank: int, dim1: int, dim2: int) -> list[int]:
    """The permutation that puts two axes at the end."""
    dim1, dim2 = dim1 % rank, dim2 % rank
    return [*(axis for axis in range(rank) if axis not in (dim1, dim2)), dim1, dim2]


def inverse(order: Sequence[int]) -> list[int]:
    return sorted(range(len(order)), key=order.__getitem__)


def diagonal_length(rows: Any, columns: Any, offset: int) -> Any:
    length = smaller(rows, columns - offset) if offset >= 0 else smaller(rows + offset, columns)
    return max(length, 0) if isinstance(length, int) else length


def on_diagonal(g: Emitter, rows: Any, columns: Any, offset: int) -> Value:
    """bool [rows, columns]: true on the diagonal."""
    across = positions(g, [rows, 1], [1, 1], offset)
    return g.equal(across, g.unsqueeze(g.arange(0, columns), [0]))


@lowers(aten.diagonal.default, aten.diagonal_copy.default, aten.linalg_diagonal.default)
def diagonal(g: Emitter, x: Value, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Value:
    """diagonal(Tensor(a) self, int offset=0, int dim1=0, int dim2=1) -> Tensor(a)"""
    matrices = g.op.Transpose(x, perm=last_two(g.rank(x), dim1, dim2))
    rows, columns = g.dim_size(matrices, -2), g.dim_size(matrices, -1)
    length = diagonal_length(rows, columns, offset)
    start = offset if offset >= 0 else columns * -offset
    places = positions(g, [length], [columns + 1], start)
    return g.op.Gather(g.flatten(matrices, -2), places, axis=g.rank(x) - 2)


@lowers(aten.diag_embed.default)
def diag_embed(g: Emitter, x: Value, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Value:
    """diag_embed(Tensor self, int offset=0, int dim1=-2, int dim2=-1) -> Tensor"""
    size = g.dim_size(x, -1) + abs(offset)
    matrices = where_diagonal(g, x, g.like(x, 0), size, size, abs(offset), offset)
    return g.op.Transpose(matrices, perm=inverse(last_two(g.rank(x) + 1, dim1, dim2)))


def where_diagonal(g: Emitter, x: Value, other: Value, rows: Any, columns: Any, missing: Any, offset: int) -> Value:
    """x on the diagonal, the other elsewhere: x is spread over rows (or columns, below the main diagonal)."""
    spread = g.unsqueeze(constant_pad_nd(g, x, [0, missing]), [-1 if offset >= 0 else -2])
    return g.op.Where(on_diagonal(g, rows, columns, offset), spread, other)


# Strided views


@lowers(aten.as_strided.default, aten.as_strided_copy.default)
def as_strided(g: Emitter, x: Value, size: Sequence[Size], stride: Sequence[Size], offset: Size | None = None) -> Value:
    """as_strided(Tensor(a) self, SymInt[] size, SymInt[] stride, SymInt? storage_offset=None) -> Tensor(a)

    The memory is taken to be x's elements in order, as it is for every tensor that owns its memory.
    """
    return g.op.Gather(g.reshape(x, [-1]), positions(g, size, stride, offset or 0), axis=0)
