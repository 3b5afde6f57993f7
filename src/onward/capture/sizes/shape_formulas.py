"""What operators do to sizes, as formulas.

A size is a column: an int, or one value for every probe and every point of a trace. A rule here gets the arguments of
an operator with an `Extent` for every tensor and a column for every number, and returns the columns of the result. A
rule is believed only where its values at the probes are those that PyTorch's own kernels gave.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch._ops import OpOverload

from ...tables import registrar
from ..program.facts import length_of_slice

aten = torch.ops.aten
Column = int | tuple[Any, ...]
Shape = tuple[Column, ...]
Rule = Callable[..., "Shape | list[Shape] | None"]


class Extent(NamedTuple):
    """A tensor of which only the sizes are known."""

    size: Shape
    dtype: torch.dtype

    @property
    def shape(self) -> Shape:
        """The size, under the name that tensors have for it."""
        return self.size


def number_of_chunks(size: int, wanted: int) -> int:
    """How many tensors `chunk` returns: fewer than wanted where the axis is too short, or divides badly."""
    return number_of_pieces(size, max(1, -(-size // wanted))) if size else wanted


def number_of_pieces(size: int, each: int) -> int:
    """How many tensors `split` returns."""
    return max(1, -(-size // each)) if each else 1


def each(function: Callable[..., Any], *columns: Any) -> Column:
    """A function of columns, value by value; None where it fails or is not defined."""
    width = next((len(column) for column in columns if isinstance(column, tuple)), 0)
    if not width:
        return function(*columns)
    rows = zip(*(column if isinstance(column, tuple) else (column,) * width for column in columns), strict=True)
    try:
        return tuple([function(*row) for row in rows])
    except (ArithmeticError, TypeError, ValueError):
        rows = zip(*(column if isinstance(column, tuple) else (column,) * width for column in columns), strict=True)
        return tuple(_tried(function, row) for row in rows)


def _tried(function: Callable[..., Any], row: tuple[Any, ...]) -> Any:
    try:
        return function(*row)
    except (ArithmeticError, TypeError, ValueError):
        return None


def product(columns: Sequence[Column]) -> Column:
    """The product of sizes."""
    result: Column = 1
    for column in columns:
        result = column if result == 1 else each(operator.mul, result, column)
    return result


_RULES: dict[OpOverload, Rule] = {}
_rule = registrar(_RULES)


def formula_for(op: Any) -> Rule | None:
    """The rule for an operator; None if there is none."""
    return _RULES.get(op)


# Operators whose results have no sizes but those of their arguments, the numbers that they are given, and 1: each
# dimension of a result is one of these.
_HANDS_ON = frozenset(
    getattr(packet, overload)
    for packet in (
        *(aten.linear, aten.matmul, aten.mm, aten.bmm, aten.mv, aten.addmm, aten.baddbmm, aten.addbmm, aten.einsum),
        *(aten.layer_norm, aten.group_norm, aten.rms_norm, aten.batch_norm, aten.instance_norm, aten.native_layer_norm),
        *(aten.softmax, aten._softmax, aten.log_softmax, aten._log_softmax, aten.dropout, aten.gelu),
        *(aten.embedding, aten.scaled_dot_product_attention, aten.permute, aten.transpose, aten.t, aten.unsqueeze),
        *(aten.select, aten.index_select, aten.gather, aten.scatter, aten.scatter_add, aten.scatter_reduce),
        *(aten.index_put, aten.index_add, aten.index_fill, aten.index_copy, aten.masked_fill, aten.masked_scatter),
        *(aten.where, aten.expand, aten.expand_as, aten.view_as, aten.sum, aten.mean, aten.amax, aten.amin),
        *(aten.argmax, aten.argmin, aten.max, aten.min, aten.var, aten.std, aten.any, aten.all, aten.prod, aten.norm),
        *(aten.logsumexp, aten.sort, aten.argsort, aten.cumsum, aten.cumprod, aten.cummax, aten.cummin, aten.clone),
        *(aten.contiguous, aten.to, aten._to_copy, aten.copy, aten.lift_fresh_copy, aten.alias, aten.detach),
        *(aten.zeros, aten.ones, aten.full, aten.empty, aten.rand, aten.randn, aten.zeros_like, aten.ones_like),
        *(aten.full_like, aten.empty_like, aten.rand_like, aten.randn_like, aten.new_zeros, aten.new_ones),
        *(aten.new_full, aten.new_empty, aten.tril, aten.triu, aten.flip, aten.roll, aten.stack, aten.slice_scatter),
        *(aten.select_scatter, aten.diagonal_scatter, aten.lstm, aten.gru, aten.rnn_tanh, aten.rnn_relu, aten.movedim),
        *(aten.swapaxes, aten.numpy_T, aten.mT, aten.scalar_tensor, aten.linalg_vector_norm, aten.var_mean),
        *(aten.quantize_per_tensor, aten.quantize_per_channel, aten.dequantize, aten.int_repr, aten.native_batch_norm),
        *(aten.logcumsumexp, aten.nansum, aten.median, aten.nanmedian, aten.count_nonzero, aten.mode),
    )
    for overload in packet.overloads()
)


def hands_on(op: Any) -> bool:
    """Whether the dimensions of an operator's results are those of its arguments, or numbers that it is given."""
    return op in _HANDS_ON or (isinstance(op, OpOverload) and torch.Tag.pointwise in op.tags)


# --- broadcasting ----------------------------------------------------------------------------------------------------
def broadcast(*args: Any, **kwargs: Any) -> Shape:
    """The sizes of tensors that are computed element by element."""
    shapes = [value.size for value in args if isinstance(value, Extent)]
    rank = max(map(len, shapes), default=0)
    result: list[Column] = []
    for axis in range(-rank, 0):
        columns = [shape[axis] for shape in shapes if -axis <= len(shape)]
        different = list(dict.fromkeys(column for column in columns if column != 1))
        result.append(different[0] if len(different) == 1 else each(_met, *different) if different else 1)
    return tuple(result)


def _met(*sizes: int) -> int | None:
    others = {size for size in sizes if size != 1}
    return None if len(others) > 1 else others.pop() if others else 1


# --- parts -----------------------------------------------------------------------------------------------------------
@_rule(aten.slice.Tensor)
def _slice(x: Extent, dim: int = 0, start: Any = None, end: Any = None, step: Any = 1) -> Shape:
    axis = dim % len(x.size)
    return (*x.size[:axis], each(length_of_slice, x.size[axis], start, end, step), *x.size[axis + 1 :])


@_rule(aten.select.int, aten.select_copy.int)
def _select(x: Extent, dim: int, index: Any) -> Shape:
    """Whether there is an element with this index says nothing of sizes: a loop may have no turn that asks for it."""
    axis = dim % len(x.size)
    return (*x.size[:axis], *x.size[axis + 1 :])


@_rule(aten.copy.default)
def _copy(x: Extent, *args: Any) -> Shape:
    return x.size


@_rule(aten.index.Tensor)
def _index(x: Extent, indices: Sequence[Extent | None]) -> Shape | None:
    """`x[rows]`, `x[:, i, j]`: the indices together take the place of the axes that they index, or the first place if
    these are apart. How many elements a mask picks is no matter of sizes."""
    given = [each for each in indices if each is not None]
    if any(each.dtype in (torch.bool, torch.uint8) for each in given):
        return None
    axes = [axis for axis, each in enumerate(indices) if each is not None]
    met = broadcast(*given)
    rest = [column for axis, column in enumerate(x.size) if axis not in axes]
    start = axes[0] if axes[-1] - axes[0] == len(axes) - 1 else 0
    return (*rest[:start], *met, *rest[start:])


@_rule(aten.narrow.default)
def _narrow(x: Extent, dim: int, start: Any, length: Any) -> Shape:
    axis = dim % len(x.size)

    def fitting(size: int, first: int, count: int) -> int | None:
        first += size if first < 0 else 0
        return count if first >= 0 and count >= 0 and first + count <= size else None

    return (*x.size[:axis], each(fitting, x.size[axis], start, length), *x.size[axis + 1 :])


@_rule(aten.topk.default)
def _topk(x: Extent, k: Any, dim: int = -1, *args: Any, **kwargs: Any) -> list[Shape] | None:
    if not x.size:
        return None
    axis = dim % len(x.size)
    count = each(lambda size, wanted: wanted if 0 <= wanted <= size else None, x.size[axis], k)
    shape = (*x.size[:axis], count, *x.size[axis + 1 :])
    return [shape, shape]


@_rule(aten.diagonal.default)
def _diagonal(x: Extent, offset: Any = 0, dim1: int = 0, dim2: int = 1) -> Shape:
    first, second = dim1 % len(x.size), dim2 % len(x.size)

    def length(rows: int, columns: int, shift: int) -> int:
        return max(min(rows, columns - shift) if shift >= 0 else min(rows + shift, columns), 0)

    rest = [column for axis, column in enumerate(x.size) if axis not in (first, second)]
    return (*rest, each(length, x.size[first], x.size[second], offset))


@_rule(aten.chunk.default, aten.unsafe_chunk.default)
def _chunk(x: Extent, chunks: int, dim: int = 0) -> list[Shape]:
    axis = dim % len(x.size)

    def part(place: int) -> Callable[[int], int]:
        def size_of(size: int) -> int:
            step = max(1, -(-size // chunks))
            return max(0, min(step, size - place * step))  # there may be fewer chunks, which is a branch of its own

        return size_of

    count = number_of_chunks(_first(x.size[axis]), chunks)
    return [(*x.size[:axis], each(part(p), x.size[axis]), *x.size[axis + 1 :]) for p in range(count)]


@_rule(aten.split.Tensor, aten.unsafe_split.Tensor)
def _split(x: Extent, size: Any, dim: int = 0) -> list[Shape]:
    axis = dim % len(x.size)

    def part(place: int) -> Callable[[int, int], int]:
        def size_of(whole: int, step: int) -> int:
            if step == 0 or whole <= step:
                return whole if place == 0 else 0
            return max(0, min(step, whole - place * step))  # as above

        return size_of

    whole, step = _first(x.size[axis]), _first(size)
    count = max(1, -(-whole // step)) if step else 1
    return [(*x.size[:axis], each(part(p), x.size[axis], size), *x.size[axis + 1 :]) for p in range(count)]


@_rule(aten.split_with_sizes.default)
def _split_with_sizes(x: Extent, sizes: Sequence[Any], dim: int = 0) -> list[Shape]:
    axis = dim % len(x.size)
    total: Column = 0
    for size in sizes:
        total = each(operator.add, total, size)
    fits = each(lambda whole, parts: 0 if whole == parts else None, x.size[axis], total)
    parts = [each(lambda size, none: size + none if size >= 0 else None, size, fits) for size in sizes]
    return [(*x.size[:axis], part, *x.size[axis + 1 :]) for part in parts]


@_rule(aten.unfold.default)
def _unfold(x: Extent, dim: int, size: Any, step: Any) -> Shape | None:
    if not x.size:
        return None
    axis = dim % len(x.size)
    count = each(lambda whole, w, s: (whole - w) // s + 1 if w <= whole else None, x.size[axis], size, step)
    return (*x.size[:axis], count, *x.size[axis + 1 :], size)


# --- sums and products -----------------------------------------------------------------------------------------------
@_rule(aten.cat.default, aten.concat.default)
def _cat(tensors: Sequence[Extent], dim: int = 0) -> Shape:
    tensors = [t for t in tensors if t.size != (0,)] or list(tensors)  # PyTorch leaves out [0], whatever its axes
    axis = dim % len(tensors[0].size)
    shape = list(tensors[0].size)
    for other in tensors[1:]:
        for place, column in enumerate(other.size):
            both = (shape[place], column)
            shape[place] = (
                each(operator.add, *both)
                if place == axis
                else column
                if column == shape[place]
                else each(lambda a, b: a if a == b else None, *both)
            )
    return tuple(shape)


def _at_least(rank: int, x: Extent) -> Extent:
    """With as many axes as `atleast_1d`, `atleast_2d` and `atleast_3d` give it."""
    shape = (1, *x.size) if rank > 1 and len(x.size) == 1 else x.size
    return Extent((*shape, *(1,) * (rank - len(shape))), x.dtype)


@_rule(aten.vstack.default, aten.row_stack.default)
def _vstack(tensors: Sequence[Extent]) -> Shape:
    return _cat([_at_least(2, each) for each in tensors])


@_rule(aten.hstack.default)
def _hstack(tensors: Sequence[Extent]) -> Shape:
    flat = [_at_least(1, each) for each in tensors]
    return _cat(flat, 0 if len(flat[0].size) == 1 else 1)


@_rule(aten.dstack.default)
def _dstack(tensors: Sequence[Extent]) -> Shape:
    return _cat([_at_least(3, each) for each in tensors], 2)


@_rule(aten.column_stack.default)
def _column_stack(tensors: Sequence[Extent]) -> Shape:
    return _cat([Extent((*each.size, *(1,) * (2 - len(each.size))), each.dtype) for each in tensors], 1)


@_rule(aten.constant_pad_nd.default, aten.pad.default)
def _pad(x: Extent, pads: Sequence[Any], *args: Any, **kwargs: Any) -> Shape:
    shape = list(x.size)
    for place in range(len(pads) // 2):
        axis = len(shape) - 1 - place
        shape[axis] = each(_padded, shape[axis], pads[2 * place], pads[2 * place + 1])
    return tuple(shape)


def _padded(size: int, before: int, after: int) -> int | None:
    return size + before + after if size + before + after >= 0 else None


@_rule(aten.reshape.default, aten.view.default, aten._unsafe_view.default, aten._reshape_copy.default)
def _reshape(x: Extent, sizes: Sequence[Any]) -> Shape:
    return _reshaped(x.size, list(sizes))


def _reshaped(before: Sequence[Column], after: list[Column]) -> Shape:
    """Sizes of a reshape; where they do not hold as many elements, it is refused."""
    left = [axis for axis, size in enumerate(after) if _first(size) == -1]
    kept = list(before)
    rest = []
    for axis, size in enumerate(after):  # what both sides have need not be multiplied out
        if axis in left:
            continue
        if size in kept:
            kept.remove(size)
        else:
            rest.append(size)
    whole, part = product(kept), product(rest)
    if left:
        after[left[0]] = each(lambda a, b: a // b if b and a % b == 0 else None, whole, part) if rest else whole
        return tuple(after)
    if whole != part:
        fits = each(lambda a, b: 0 if a == b else None, whole, part)
        if isinstance(fits, tuple) and after:
            after[0] = each(operator.add, after[0], fits)
    return tuple(after)


@_rule(aten.flatten.using_ints)
def _flatten(x: Extent, start: int = 0, end: int = -1) -> Shape:
    if not x.size:
        return (1,)
    first, last = start % len(x.size), end % len(x.size)
    return (*x.size[:first], product(x.size[first : last + 1]), *x.size[last + 1 :])


@_rule(aten.unflatten.int)
def _unflatten(x: Extent, dim: int, sizes: Sequence[Any]) -> Shape:
    axis = dim % len(x.size)
    return (*x.size[:axis], *_reshaped((x.size[axis],), list(sizes)), *x.size[axis + 1 :])


@_rule(aten.repeat.default)
def _repeat(x: Extent, repeats: Sequence[Any]) -> Shape:
    sizes = (1,) * (len(repeats) - len(x.size)) + tuple(x.size)
    return tuple(each(operator.mul, size, times) for size, times in zip(sizes, repeats, strict=True))


@_rule(aten.tile.default)
def _tile(x: Extent, repeats: Sequence[Any]) -> Shape:
    return _repeat(x, (1,) * (len(x.size) - len(repeats)) + tuple(repeats))


@_rule(aten.repeat_interleave.self_int)
def _repeat_interleave(x: Extent, repeats: Any, dim: int | None = None, **kwargs: Any) -> Shape:
    if dim is None:
        return (each(operator.mul, product(x.size), repeats),)
    axis = dim % len(x.size)
    return (*x.size[:axis], each(operator.mul, x.size[axis], repeats), *x.size[axis + 1 :])


@_rule(aten.pixel_shuffle.default)
def _pixel_shuffle(x: Extent, factor: int) -> Shape:
    *lead, channels, height, width = x.size
    fewer = each(lambda count: count // factor**2 if count % factor**2 == 0 else None, channels)
    return (*lead, fewer, *(each(operator.mul, size, factor) for size in (height, width)))


# --- ranges ----------------------------------------------------------------------------------------------------------
@_rule(aten.arange.default)
def _arange(end: Any, **kwargs: Any) -> Shape:
    return (each(lambda last: max(math.ceil(last), 0) if last >= 0 else None, end),)


@_rule(aten.arange.start)
def _arange_from(start: Any, end: Any, **kwargs: Any) -> Shape:
    return (each(lambda first, last: math.ceil(last - first) if last >= first else None, start, end),)


@_rule(aten.arange.start_step)
def _arange_step(start: Any, end: Any, step: Any = 1, **kwargs: Any) -> Shape:
    def count(first: Any, last: Any, every: Any) -> int | None:
        room = (last - first) / every
        return math.ceil(room) if room >= 0 else None

    return (each(count, start, end, step),)


# --- windows ---------------------------------------------------------------------------------------------------------
def _fitting(size: int, window: int, step: int, pad: int, spread: int) -> int | None:
    room = size + 2 * pad - spread * (window - 1) - 1
    return room // step + 1 if room >= 0 else None


def _windows(sizes: Sequence[Column], window: Any, *parts: Any) -> list[Column] | None:
    filled = [list(part) * len(sizes) if len(part) == 1 else list(part) for part in (window, *parts)]
    if any(len(part) != len(sizes) for part in filled):
        return None
    return [each(_fitting, size, *numbers) for size, *numbers in zip(sizes, *filled, strict=True)]


@_rule(aten.conv1d.default, aten.conv2d.default, aten.conv3d.default)
def _convolution(
    x: Extent,
    weight: Extent,
    bias: Any = None,
    stride: Any = (1,),
    padding: Any = (0,),
    dilation: Any = (1,),
    groups: int = 1,
) -> Shape | None:
    spatial = len(weight.size) - 2
    lead = x.size[: len(x.size) - spatial - 1]
    result = _windows(x.size[-spatial:], weight.size[2:], stride, padding, dilation)
    return None if result is None else (*lead, weight.size[0], *result)


@_rule(aten.max_pool1d.default, aten.max_pool2d.default, aten.max_pool3d.default)
def _max_pool(
    x: Extent, window: Any, stride: Any = (), padding: Any = (0,), dilation: Any = (1,), ceil_mode: bool = False
) -> Shape | None:
    return None if ceil_mode else _pooled(x, window, stride, padding, dilation)


@_rule(aten.avg_pool1d.default, aten.avg_pool2d.default, aten.avg_pool3d.default)
def _avg_pool(
    x: Extent, window: Any, stride: Any = (), padding: Any = (0,), ceil_mode: bool = False, *args: Any, **kwargs: Any
) -> Shape | None:
    return None if ceil_mode else _pooled(x, window, stride, padding, (1,))


def _pooled(x: Extent, window: Any, stride: Any, padding: Any, dilation: Any) -> Shape | None:
    parts = [[part] if isinstance(part, int) else part for part in (window, stride or window, padding, dilation)]
    spatial = max(map(len, parts))
    if len(x.size) <= spatial:
        return None
    result = _windows(x.size[-spatial:], *parts)
    return None if result is None else (*x.size[:-spatial], *result)


def _first(column: Column) -> int:
    return column[0] if isinstance(column, tuple) else column


@_rule(
    *(
        getattr(getattr(aten, f"upsample_{name}"), overload)
        for name in ("nearest1d", "nearest2d", "nearest3d", "linear1d", "bilinear2d", "trilinear3d", "bicubic2d")
        for overload in getattr(aten, f"upsample_{name}").overloads()
        if overload in ("vec", "default")
    )
)
def _resized(x: Extent, size: Sequence[Any] | None, *args: Any) -> Shape | None:
    """To a size that is given, or by factors, which come last and of which the result is the floor."""
    spatial = len(x.size) - 2
    if size is not None:
        return (*x.size[:2], *size) if len(size) == spatial else None
    factors = args[-1]
    if not isinstance(factors, list) or len(factors) != spatial:
        return None
    grown = [each(lambda n, factor: math.floor(n * factor), *pair) for pair in zip(x.size[2:], factors, strict=True)]
    return (*x.size[:2], *grown)
