"""Tensors as pieces of memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch.multiprocessing.reductions import StorageWeakRef


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


class Memories:
    """Pieces of memory, by identity. As long as they are in here, no other memory gets the identity of one."""

    def __init__(self) -> None:
        self._held: dict[int, StorageWeakRef] = {}
        self._many = 10_000

    def add(self, tensor: torch.Tensor) -> None:
        memory = tensor.untyped_storage()
        if memory._cdata not in self._held:
            self._held[memory._cdata] = StorageWeakRef(memory)
            if len(self._held) > self._many:
                self._forget()

    def _forget(self) -> None:
        """Let go of those that nobody has any more."""
        for key, reference in list(self._held.items()):
            if reference.expired():
                self._held.pop(key, None)
        self._many = 10_000 + 2 * len(self._held)

    def __contains__(self, memory: object) -> bool:
        return memory in self._held


# What our runs of models made, and may still be somewhere: in a table that the model keeps, for example.
MADE = Memories()


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


def is_plain(tensor: torch.Tensor) -> bool:
    """Whether a tensor is memory and nothing else."""
    kind, place = type(tensor), tensor.device.type
    return kind in (torch.Tensor, torch.nn.Parameter) and place != "meta" and tensor.layout is torch.strided
