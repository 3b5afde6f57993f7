"""Functions that move values and compute none: they act on the integers, and the grid stays.

Tensors that are joined are each brought to the grid of the result, where their grids differ."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils import _pytree as pytree

from ..exact.integers import quantize
from ..grids.grid import Grid
from ..grids.sites import MASK
from ..run.float_values import in_both_forms, is_float
from ..run.handlers import handles
from ..run.session import Call, Phase, QuantSession
from ..run.states import OnGrid, Pending, mark_made
from .elementwise import are_scores, dropped
from .product import pair

_TENSOR = (
    "view", "reshape", "permute", "transpose", "t", "flatten", "unflatten", "squeeze", "unsqueeze", "expand",
    "expand_as", "repeat", "contiguous", "clone", "detach", "split", "chunk", "unbind", "narrow", "select", "movedim",
    "swapaxes", "swapdims", "flip", "fliplr", "flipud", "roll", "index_select", "tile", "repeat_interleave", "view_as",
    "reshape_as", "__getitem__", "gather", "take_along_dim", "split_with_sizes", "tensor_split", "moveaxis", "ravel",
    "rot90", "hsplit", "vsplit", "dsplit", "unfold", "diagonal", "atleast_1d", "atleast_2d", "atleast_3d", "alias",
    "broadcast_to", "unsafe_chunk", "unsafe_split", "masked_select", "unsqueeze_", "squeeze_", "transpose_", "t_",
    "adjoint", "tril", "triu",
)  # fmt: skip
_FUNCTIONS = [
    getattr(home, name) for name in _TENSOR for home in (torch, Tensor) if callable(getattr(home, name, None))
]
_FUNCTIONS += [F.pixel_shuffle, F.pixel_unshuffle, F.channel_shuffle, torch.pixel_shuffle, torch.channel_shuffle]
_FUNCTIONS += [getattr(Tensor, name).__get__ for name in ("T", "mT", "H", "mH", "data")]
_ZERO = (torch.tril, torch.triu, Tensor.tril, Tensor.triu)  # they put zeros in


@handles(*(each for each in dict.fromkeys(_FUNCTIONS) if each not in _ZERO))
def passing(session: QuantSession, func: Any, input: Any, *args: Any, **kwargs: Any) -> Any:
    """The values and the integers go the same way."""
    if not isinstance(input, Tensor) or not session.has_grid(input):
        return NotImplemented
    if func in _FORMS and is_float(session, input):
        return _reformed(session, func, input, args, kwargs)
    return moved(session, input, lambda x: func(x, *args, **kwargs), views=func.__name__ not in _COPIES)


_FORMS = frozenset(
    getattr(home, name)
    for home in (torch, Tensor)
    for name in ("view", "reshape", "flatten", "unflatten", "squeeze", "unsqueeze")
    if hasattr(home, name)
)


def _reformed(session: QuantSession, func: Any, x: Tensor, args: Any, kwargs: Any) -> Tensor:
    """Another form of a product that may stay in float, as of one that was computed in rows. It goes on waiting."""
    then, waiting = session.label(x), session.tag(x)
    assert isinstance(waiting, Pending)
    y = session.wait(func(x, *args, **kwargs), waiting.call)
    session.learn(x, is_viewed=True, forms=(*waiting.forms, weakref.ref(y)))

    def rounded(call: Call) -> Tensor | None:
        if session.has_changed_since(x, then):
            return None
        found: Tensor = moved(session, x, lambda each: func(each, *args, **kwargs), views=True)
        return found

    def view() -> Tensor:
        session.take_view(x)
        found: Tensor = moved(session, x, lambda each: func(each, *args, **kwargs), views=True)
        return found

    return in_both_forms(session, session.learn(y, view=view), rounded, waiting.in_float)


_COPIES = ("clone", "flip", "roll", "index_select", "tile", "repeat", "repeat_interleave", "gather", "take_along_dim")


def moved(
    session: QuantSession,
    x: Any,
    move: Callable[[Tensor], Any],
    on_integers: Callable[[Tensor, Grid], Any] | None = None,
    views: bool = False,
) -> Any:
    """move(x) of values that lie on a grid, or are about to: every value of the result is one of x.

    on_integers   what the integers do, where that is not the same. What torch cannot do with integers of more than
                  eight bits, which have few kernels, is done to the values: they come back to the same integers.
    views         whether a write to the result may be one to x
    """
    if not isinstance(x, Tensor) or not session.has_grid(x):
        return NotImplemented
    if views and session.phase is Phase.EXACT and isinstance(waits := session.tag(x), Pending) and waits.view:
        session.take_view(x)  # alone it would be settled as a copy
    settled = x if isinstance(session.tag(x), OnGrid) else session.settle(x)
    tag = session.tag(settled)
    if not isinstance(tag, OnGrid):
        return NotImplemented
    values = move(settled)
    grid = tag.grid
    memory, forms = (session.shared(settled), tag.forms) if views else (None, ())
    if tag.integers is None and isinstance(values, (Tensor, tuple, list)):  # in training
        for each in (values,) if isinstance(values, Tensor) else values:
            session.put(each, OnGrid(forms=forms), memory)
        return values
    if tag.integers is None or grid is None:
        integers = pytree.tree_map_only(Tensor, lambda each: None, values)
    elif grid.dtype == "uint8" or (on_integers is None and move_is_free(values)):
        integers = move(tag.integers) if on_integers is None else on_integers(tag.integers, grid)
    else:
        integers = pytree.tree_map_only(Tensor, lambda each: quantize(each, grid), values)

    def tagged(value: Any, q: Any) -> Any:
        if not isinstance(value, Tensor):
            return value
        return session.put(value, OnGrid(grid, q, moved=q is not None, forms=forms), memory)

    return pytree.tree_map(tagged, values, integers, is_leaf=lambda each: each is None or isinstance(each, Tensor))


def move_is_free(values: Any) -> bool:
    """Whether it gave a view: torch has these for every type."""
    return all(each._is_view() for each in pytree.tree_leaves(values) if isinstance(each, Tensor))


@handles(*_ZERO)
def with_zeros(session: QuantSession, func: Any, input: Tensor, diagonal: int = 0) -> Any:
    """A triangle: the rest is zero, which is another integer than 0."""
    return moved(session, input, lambda x: func(x, diagonal), lambda q, grid: _triangle(func, q, grid, diagonal))


def _triangle(func: Any, q: Tensor, grid: Grid, diagonal: int) -> Tensor:
    inside = func(torch.ones_like(q, dtype=torch.bool), diagonal)
    return torch.where(inside, q, torch.tensor(grid.zero_point, dtype=q.dtype))


@handles(F.pad)
def pad(
    session: QuantSession, func: Any, input: Tensor, pad: Any, mode: str = "constant", value: float | None = None
) -> Any:
    """Zeros are the zero point, and edges are values of the tensor; another number may not lie on the grid."""
    if mode != "constant":
        return moved(session, input, lambda x: func(x, pad, mode))
    if not value:
        return moved(session, input, lambda x: func(x, pad), lambda q, grid: func(q, pad, value=grid.zero_point))
    if not session.has_grid(input) or abs(float(value)) > 1e30:
        return NotImplemented
    call = session.call("pad")
    return session.wait(func(session.settle(input), pad, mode, value), call)


@handles(F.fold)
def fold(
    session: QuantSession,
    func: Any,
    input: Tensor,
    output_size: Any,
    kernel_size: Any,
    dilation: Any = 1,
    padding: Any = 0,
    stride: Any = 1,
) -> Any:
    """Patches side by side are put in their places. Those that overlap are added up, in float."""
    sizes, kernel, steps = pair(output_size, 2), pair(kernel_size, 2), pair(stride, 2)
    rows, columns = (size // window for size, window in zip(sizes, kernel, strict=True))
    if steps != kernel or any((*pair(padding, 2), *(each - 1 for each in pair(dilation, 2)))):
        return NotImplemented
    if [rows * kernel[0], columns * kernel[1]] != sizes:
        return NotImplemented

    def side_by_side() -> Tensor:
        patches = input.unflatten(-1, (rows, columns)).unflatten(-3, (-1, *kernel))  # channels, window, place
        return patches.movedim((-4, -3), (-3, -1)).flatten(-4, -3).flatten(-2)

    return session.composed(side_by_side)


@handles(torch.masked_fill, Tensor.masked_fill, Tensor.masked_fill_)
def masked_fill(session: QuantSession, func: Any, input: Tensor, mask: Tensor, value: Any) -> Any:
    """Zeros keep the grid. Attention masks fill in what no grid holds: that is float."""
    if (
        func is not Tensor.masked_fill_
        and not isinstance(value, Tensor)
        and value < MASK
        and are_scores(session, input)
    ):
        return torch.masked_fill(input, mask, value)
    if func is Tensor.masked_fill_ or isinstance(value, Tensor) or value != 0:
        return NotImplemented
    return moved(
        session,
        input,
        lambda x: torch.masked_fill(x, mask, 0.0),
        lambda q, grid: torch.masked_fill(q, mask, grid.zero_point),
    )


# Several tensors


@handles(torch.where, Tensor.where)
def where(session: QuantSession, func: Any, *args: Any, **kwargs: Any) -> Any:
    """One or the other, each from its grid to that of the result."""
    if func is Tensor.where and len(args) == 3:
        args = (args[1], args[0], args[2])
    if len(args) != 3 or kwargs:
        return NotImplemented
    condition, a, b = args
    if isinstance(a, Tensor) and not isinstance(b, Tensor) and b == 0:
        return masked_fill(session, torch.masked_fill, a, ~condition, 0)
    if isinstance(b, Tensor) and not isinstance(a, Tensor) and a == 0:
        return masked_fill(session, torch.masked_fill, b, condition, 0)
    if not all(isinstance(each, Tensor) and each.dtype is torch.float32 and session.has_grid(each) for each in (a, b)):
        return NotImplemented
    call = session.call("where")
    a, b = session.settle(a), session.settle(b)
    found = [session.integers(each) for each in (a, b)]
    if found[0] is not None and found[1] is not None and found[0][1].same_as(found[1][1]):
        (x, grid), (y, _) = found[0], found[1]
        return session.on_grid(torch.where(condition, x, y), grid)
    return session.wait(torch.where(condition, a, b), call)


@handles(torch.cat, torch.concat, torch.concatenate)
def cat(session: QuantSession, func: Any, tensors: Any, dim: int = 0, axis: int | None = None) -> Any:
    return join(session, "cat", list(tensors), dim if axis is None else axis)


@handles(torch.stack)
def stack(session: QuantSession, func: Any, tensors: Any, dim: int = 0) -> Any:
    return join(session, "stack", list(tensors), dim, lambda x: x.unsqueeze(dim))


@handles(torch.hstack, torch.vstack, torch.dstack, torch.column_stack, torch.row_stack)
def stack_along(session: QuantSession, func: Any, tensors: Any) -> Any:
    tensors = list(tensors)
    if func is torch.hstack:
        return join(session, "hstack", tensors, 0 if tensors[0].dim() <= 1 else 1, torch.atleast_1d)
    if func is torch.dstack:
        return join(session, "dstack", tensors, 2, torch.atleast_3d)
    if func is torch.column_stack:
        return join(session, "column_stack", tensors, 1, lambda x: x if x.dim() > 1 else x.reshape(-1, 1))
    return join(session, "vstack", tensors, 0, torch.atleast_2d)


def join(
    session: QuantSession,
    name: str,
    tensors: Sequence[Tensor],
    dim: int,
    shaped: Callable[[Tensor], Tensor] | None = None,
) -> Any:
    """torch.cat of tensors that are first brought into shape, on one grid.

    Concat between DequantizeLinear and QuantizeLinear is QLinearConcat to onnxruntime; where all have one grid, the
    integers are joined as they are."""
    if any(each.dtype is not torch.float32 for each in tensors) or not any(map(session.has_grid, tensors)):
        return NotImplemented
    call = session.call(name)
    settled = [session.settle(each, call.site(f"input{number}")) for number, each in enumerate(tensors)]
    y = torch.cat([shaped(each) if shaped else each for each in settled], dim)
    if not all(map(session.is_on_grid, settled)):  # a mask, which no grid can hold
        return y
    found = [session.integers(each) for each in settled]
    if session.phase is not Phase.EXACT or any(each is None for each in found):
        return session.wait(y, call)
    grids = [grid for _, grid in found]  # type: ignore[misc]
    if not all(each.same_as(grids[0]) for each in grids):
        return session.wait(y, call)
    q = torch.cat([shaped(q) if shaped else q for q, _ in found], dim)  # type: ignore[misc]
    return session.put(y, OnGrid(_hull(grids), q))


def _hull(grids: Sequence[Grid]) -> Grid:
    """One grid for the integers of several that are the same but for their bounds."""
    first = grids[0]
    low, high = min(each.low for each in grids), max(each.high for each in grids)
    return Grid(first.scale, first.zero_point, first.dtype, low, high, first.axis)


# Values that are made, and dropped


@handles(Tensor.new_empty, torch.empty_like)
def nothing_yet(session: QuantSession, func: Any, input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """Memory that is filled later, as with the zeros and ones of what drops paths: nothing of the input is read."""
    return mark_made(func(input, *args, **kwargs))


_DROPOUTS = (F.dropout, F.dropout1d, F.dropout2d, F.dropout3d, F.alpha_dropout, F.feature_alpha_dropout)


@handles(*_DROPOUTS, torch.dropout, torch.feature_dropout)
def dropout(
    session: QuantSession,
    func: Any,
    input: Tensor,
    p: float = 0.5,
    training: bool = True,
    inplace: bool = False,
    **more: Any,
) -> Any:
    """Nothing in evaluation, whatever waits goes on waiting. In training zeros, and a wider grid."""
    training = more.get("train", training)
    if not training or p == 0:
        return input
    if session.phase is Phase.EXACT or func in (F.alpha_dropout, F.feature_alpha_dropout):
        return NotImplemented
    return dropped(session, input, lambda x: func(x, p, training))
