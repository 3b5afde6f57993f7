"""Elements moved between channels and space."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from ..emitter import Emitter, Value
from ..registry import lowers

aten = torch.ops.aten

# onnxruntime 1.31 has DepthToSpace and SpaceToDepth for these on the CPU; others go by Reshape and Transpose, uncast.
_NATIVE = (torch.float32, torch.float64)


@lowers(aten.pixel_shuffle.default)
def pixel_shuffle(g: Emitter, x: Value, factor: int) -> Value:
    """pixel_shuffle(Tensor self, int upscale_factor) -> Tensor; [.., C * r * r, H, W] -> [.., C, H * r, W * r]"""
    lead, (_, height, width) = _image(g, x)
    order = [0, 3, 1, 4, 2]  # [C, r, r, H, W] -> [C, H, r, W, r]
    return _by_transpose(g, x, lead, [g.out.shape[-3], factor, factor, height, width], order)


@lowers(aten.pixel_shuffle.default, since=11)
def pixel_shuffle_11(g: Emitter, x: Value, factor: int) -> Value:
    """DepthToSpace counts channels as PyTorch does from opset 11 on (mode CRD)."""
    if g.dtype(x) not in _NATIVE:
        return pixel_shuffle(g, x, factor)
    images, shape = _batched(g, x)
    return _unbatched(g, g.op.DepthToSpace(images, blocksize=factor, mode="CRD"), shape)


@lowers(aten.pixel_unshuffle.default)
def pixel_unshuffle(g: Emitter, x: Value, factor: int) -> Value:
    """pixel_unshuffle(Tensor self, int downscale_factor) -> Tensor; [.., C, H * r, W * r] -> [.., C * r * r, H, W]

    SpaceToDepth puts the position in a block before the channel, PyTorch after it: a Gather over channels mends that.
    """
    lead, (channels, _, _) = _image(g, x)
    if g.dtype(x) not in _NATIVE or not isinstance(channels, int):
        height, width = g.out.shape[-2:]
        return _by_transpose(g, x, lead, [channels, height, factor, width, factor], [0, 2, 4, 1, 3])
    images, shape = _batched(g, x)
    result = g.op.SpaceToDepth(images, blocksize=factor)
    if channels != 1:
        order = torch.arange(channels * factor**2).reshape(factor**2, channels).t().reshape(-1)
        result = g.op.Gather(result, g.const_tensor(order.contiguous()), axis=1)
    return _unbatched(g, result, shape)


@lowers(aten.channel_shuffle.default, aten.native_channel_shuffle.default)
def channel_shuffle(g: Emitter, x: Value, groups: int) -> Value:
    """channel_shuffle(Tensor self, SymInt groups) -> Tensor"""
    lead, channels, *rest = g.known_dims(x)
    if not isinstance(channels, int):
        each = g.dim_size(x, 1) // groups
        return _by_transpose(g, x, [lead], [groups, each, *rest], [1, 0, *range(2, 2 + len(rest))])
    order = torch.arange(channels).reshape(groups, -1).t().reshape(-1)
    return g.op.Gather(x, g.const_tensor(order), axis=1)


def _image(g: Emitter, x: Value) -> tuple[Sequence[Any], tuple[Any, Any, Any]]:
    """The leading axes; channels, height and width."""
    *lead, channels, height, width = g.known_dims(x)
    return lead, (channels, height, width)


def _by_transpose(g: Emitter, x: Value, lead: Sequence[Any], parts: Sequence[Any], order: Sequence[int]) -> Value:
    apart = g.reshape(x, [*lead, *parts])
    moved = g.op.Transpose(apart, perm=[*range(len(lead)), *(len(lead) + place for place in order)])
    return g.reshape(moved, g.out.shape)


def _batched(g: Emitter, x: Value) -> tuple[Value, Sequence[Any] | None]:
    """x with one leading axis, and the leading axes it had if there was not just one."""
    shape = g.known_dims(x)
    lead = shape[:-3]
    if len(lead) == 1:
        return x, None
    return (g.reshape(x, [-1, *shape[-3:]]) if lead else g.unsqueeze(x, [0])), lead


def _unbatched(g: Emitter, x: Value, lead: Sequence[Any] | None) -> Value:
    if lead is None:
        return x
    return g.reshape(x, g.out.shape) if lead else g.squeeze(x, [0])
