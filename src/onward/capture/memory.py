"""Tensors as pieces of memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch


@dataclass(frozen=True, slots=True)
class Piece:
    """The identity of a tensor as a piece of its memory."""

    memory: int
    offset: int
    size: tuple[int, ...]
    stride: tuple[int, ...]
    dtype: torch.dtype

    def fits(self, start: int, count: int) -> bool:
        """Whether it lies within so many elements from an offset on."""
        if 0 in self.size:
            return self.offset >= start
        last = self.offset + sum((size - 1) * stride for size, stride in zip(self.size, self.stride, strict=True))
        return self.offset >= start and last < start + count


def storage(tensor: torch.Tensor) -> int:
    """The identity of a tensor's memory."""
    return tensor.untyped_storage()._cdata


def geometry(tensor: torch.Tensor) -> Piece:
    """The identity of a tensor as a piece of its memory."""
    return Piece(storage(tensor), int(tensor.storage_offset()), tuple(tensor.size()), tensor.stride(), tensor.dtype)


def leaves(value: Any) -> list[Any]:
    """The items of nested lists and tuples."""
    if isinstance(value, (list, tuple)):
        return [leaf for each in value for leaf in leaves(each)]
    return [value]
