"""Tensors taken apart, put together and turned around."""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from ...onnx_operators.python_numbers import ints, number
from ...onnx_operators.unsigned_integers import UNSIGNED, widened
from ..registry import implements
from ..values import ONNX_TYPES, holder


@implements("Pad", numbers=("pads", "constant_value", "axes"))
def pad(
    x: Tensor,
    pads: Any = None,
    constant_value: Any = None,
    axes: Any = None,
    *,
    mode: str = "constant",
    value: float = 0.0,
    paddings: Any = None,
) -> Tensor:
    amounts = ints(paddings if pads is None else pads)
    along = list(range(x.dim())) if axes is None else [axis % x.dim() for axis in ints(axes)]
    before = dict(zip(along, amounts[: len(along)], strict=True))
    after = dict(zip(along, amounts[len(along) :], strict=True))
    if mode == "constant":
        fill = number(constant_value) if constant_value is not None else value
        pairs = [each for axis in reversed(range(x.dim())) for each in (before.get(axis, 0), after.get(axis, 0))]
        wide = x.to(torch.int64) if x.dtype in UNSIGNED else x
        return F.pad(wide, pairs, value=fill).to(x.dtype)
    for axis in along:
        x = x.index_select(axis, _padded_indices(x.shape[axis], before[axis], after[axis], mode, x.device))
    return x


def _padded_indices(size: int, before: int, after: int, mode: str, device: torch.device) -> Tensor:
    places = torch.arange(-before, size + after, device=device)
    if mode == "edge":
        return places.clamp(0, size - 1)
    if mode == "wrap":
        return places % size
    period = max(2 * (size - 1), 1)  # reflect
    places = places % period
    return torch.where(places >= size, period - places, places)


@implements("DepthToSpace")
def depth_to_space(x: Tensor, *, blocksize: int, mode: str = "DCR") -> Tensor:
    n, c, h, w = x.shape
    b = blocksize
    if mode == "DCR":
        return x.reshape(n, b, b, c // (b * b), h, w).permute(0, 3, 4, 1, 5, 2).reshape(n, c // (b * b), h * b, w * b)
    return x.reshape(n, c // (b * b), b, b, h, w).permute(0, 1, 4, 2, 5, 3).reshape(n, c // (b * b), h * b, w * b)


@implements("SpaceToDepth")
def space_to_depth(x: Tensor, *, blocksize: int, mode: str = "DCR") -> Tensor:
    n, c, h, w = x.shape
    b = blocksize
    parts = x.reshape(n, c, h // b, b, w // b, b)
    order = (0, 3, 5, 1, 2, 4) if mode == "DCR" else (0, 1, 3, 5, 2, 4)
    return parts.permute(order).reshape(n, c * b * b, h // b, w // b)


@implements("Range", scalars=("start", "limit", "delta"))
def range_(start: Any, limit: Any, delta: Any, *, stash_type: int = 0, types: tuple[int, ...]) -> Tensor:
    """Since opset 27 the short floating point types are computed in the wider one that `stash_type` says."""
    tensors = [each for each in (start, limit, delta) if isinstance(each, Tensor)]
    kind = tensors[0].dtype if tensors else holder(types[0])
    if not tensors and kind == torch.int64:
        empty = delta > 0 if limit < start else delta < 0  # which torch refuses
        return torch.arange(start, start if empty else limit, delta, dtype=torch.int64)
    start, limit, delta = (torch.as_tensor(each, dtype=kind) for each in (start, limit, delta))
    short = kind in (torch.float16, torch.bfloat16)
    dtype = holder(stash_type) if short and stash_type else kind if start.is_floating_point() else torch.int64
    count = max(0, math.ceil((limit.item() - start.item()) / delta.item()))
    return torch.arange(count, dtype=dtype).mul(delta.to(dtype)).add(start.to(dtype)).to(start.dtype)


@implements("EyeLike")
def eye_like(x: Tensor, *, dtype: int | None = None, k: int = 0) -> Tensor:
    result = torch.ones(x.shape, dtype=torch.float32, device=x.device)
    return (result.triu(k) * result.tril(k)).to(holder(dtype or ONNX_TYPES[x.dtype]))


@implements("Trilu", scalars=("k",))
@widened
def trilu(x: Tensor, k: Any = None, *, upper: int = 1) -> Tensor:
    diagonal = 0 if k is None else number(k)
    return torch.triu(x, diagonal) if upper else torch.tril(x, diagonal)


@implements("OneHot", numbers=("depth",))
def one_hot(indices: Tensor, depth: Any, values: Tensor, *, axis: int = -1) -> Tensor:
    count = int(number(depth))
    index = indices.to(torch.int64)
    index = torch.where(index < 0, index + count, index).unsqueeze(axis)
    rank = index.dim()
    places = torch.arange(count).reshape([-1 if each == axis % rank else 1 for each in range(rank)])
    return torch.where(index == places, values[1], values[0])


@implements("ReverseSequence")
def reverse_sequence(x: Tensor, lengths: Tensor, *, batch_axis: int = 1, time_axis: int = 0) -> Tensor:
    moved = x.movedim((time_axis, batch_axis), (0, 1))
    steps = torch.arange(moved.shape[0]).unsqueeze(1)
    index = torch.where(steps < lengths, lengths - 1 - steps, steps)
    return moved[index, torch.arange(moved.shape[1]).unsqueeze(0)].movedim((0, 1), (time_axis, batch_axis))


@implements("Compress")
def compress(x: Tensor, condition: Tensor, *, axis: int | None = None) -> Tensor:
    if axis is None:
        x, axis = x.reshape(-1), 0
    return x.index_select(axis, torch.nonzero(condition[: x.shape[axis]]).reshape(-1))


@implements("CenterCropPad", numbers=("shape",))
def center_crop_pad(x: Tensor, shape: Any, *, axes: list[int] | None = None) -> Tensor:
    along = list(range(x.dim())) if axes is None else axes
    for axis, size in zip(along, ints(shape), strict=True):
        axis, missing = axis % x.dim(), size - x.shape[axis]
        if missing < 0:
            x = x.narrow(axis, -missing // 2, size)
        elif missing > 0:
            before = missing // 2
            pairs = [0, 0] * (x.dim() - 1 - axis) + [before, missing - before]
            x = F.pad(x, pairs)
    return x
