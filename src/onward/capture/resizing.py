"""Inputs of other sizes, made from the example's."""

from __future__ import annotations

from collections.abc import Mapping

import torch


def resized(tensor: torch.Tensor, sizes: Mapping[int, int], seed: int = 0) -> torch.Tensor:
    """A tensor with other sizes on some axes. Integers repeat theirs in order (they may be ids, masks or positions);
    floating point values are the tensor's own in another order, each once before any comes twice: ops that break ties
    break them in many ways."""
    shape = [sizes.get(axis, size) for axis, size in enumerate(tensor.size())]
    if shape == list(tensor.size()):
        return tensor
    count = torch.Size(shape).numel()
    if (tensor.is_floating_point() or tensor.is_complex()) and tensor.numel():
        draw = torch.Generator().manual_seed(seed)
        rounds = [torch.randperm(tensor.numel(), generator=draw) for _ in range(-(-count // tensor.numel()) or 1)]
        return tensor.reshape(-1)[torch.cat(rounds)[:count]].reshape(shape)
    for axis, size in enumerate(shape):
        if tensor.size(axis):
            repeats = -(-size // tensor.size(axis))
            tensor = torch.cat([tensor] * repeats, dim=axis).narrow(axis, 0, size)
    return tensor.contiguous()
