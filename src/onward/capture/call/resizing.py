"""Inputs of other sizes, made from the example's."""

from __future__ import annotations

from collections.abc import Mapping

import torch

from .values import in_order, is_ordered

_FEW = 16


def resized(tensor: torch.Tensor, sizes: Mapping[int, int], seed: int = 0) -> torch.Tensor:
    """A tensor with other sizes on some axes. Integers repeat theirs in order (they may be ids, masks or positions).
    Floating point values are the tensor's own in another order, each once before any comes again, and then a little
    smaller: ops that break ties break them in many ways. A few whole numbers stay what they are (they may be flags). A
    sorted list of numbers (boundaries, offsets) stays sorted.
    """
    shape = [sizes.get(axis, size) for axis, size in enumerate(tensor.size())]
    if shape == list(tensor.size()):
        return tensor
    count = torch.Size(shape).numel()
    if (tensor.is_floating_point() or tensor.is_complex()) and tensor.numel():
        draw = torch.Generator().manual_seed(seed)
        flat = tensor.reshape(-1)
        rounds = [
            _smaller(flat[torch.randperm(flat.numel(), generator=draw)], number)
            for number in range(-(-count // flat.numel()) or 1)
        ]
        result = torch.cat(rounds)[:count].reshape(shape)
        return in_order(result) if is_ordered(tensor) else result
    sorts = is_ordered(tensor)
    for axis, size in enumerate(shape):
        if tensor.size(axis):
            repeats = max(1, -(-size // tensor.size(axis)))
            tensor = torch.cat([tensor] * repeats, dim=axis).narrow(axis, 0, size)
    return in_order(tensor) if sorts else tensor.contiguous()


def _smaller(values: torch.Tensor, times: int) -> torch.Tensor:
    """Numbers moved towards zero, the more the oftener they have been used; not those that may be flags."""
    if times == 0 or values.is_complex():
        return values
    wide = values.double() if values.element_size() == 1 else values  # PyTorch has few operators for 8-bit floats
    moved = wide.isfinite()
    if wide.unique().numel() <= _FEW:
        moved &= wide != wide.round()
    return torch.where(moved, wide * (1 - times / (times + 64)), wide).to(values.dtype)
