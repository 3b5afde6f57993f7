"""Arithmetic with dimensions, and what a rule about dimensions gets to see.

A dimension is an int or a fingerprint (its size in every probe), so the sizes of intermediate values are computed by
doing the arithmetic once for each probe; no algebra is needed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from ..capture.program.facts import Dim, SymDim, length_of_slice

Shape = tuple[Dim, ...]


def combine(function: Callable[..., Any], *dims: Dim) -> Dim:
    """A dimension computed from others: the function applied once for each probe."""
    count = next((len(dim.values) for dim in dims if isinstance(dim, SymDim)), 1)
    columns = [dim.values if isinstance(dim, SymDim) else (dim,) * count for dim in dims]
    values = tuple(int(function(*row)) for row in zip(*columns, strict=True))
    return values[0] if len(set(values)) == 1 else SymDim(values, "")


def product(dims: Sequence[Dim]) -> Dim:
    """How many elements the dimensions span."""
    result: Dim = 1
    for dim in dims:
        result = combine(lambda a, b: a * b, result, dim)
    return result


def total(dims: Sequence[Dim]) -> Dim:
    """The sum of dimensions."""
    result: Dim = 0
    for dim in dims:
        result = combine(lambda a, b: a + b, result, dim)
    return result


def broadcast(*shapes: Shape) -> Shape:
    """The common shape, axes aligned at the end, at the sizes of the probes."""
    rank = max(map(len, shapes), default=0)
    return tuple(
        _broadcast_axis([shape[axis - rank + len(shape)] for shape in shapes if axis - rank + len(shape) >= 0])
        for axis in range(rank)
    )


def _broadcast_axis(sizes: Sequence[Dim]) -> Dim:
    result: Dim = 1
    for size in sizes:
        if result == 1:
            result = size
        elif size != 1 and size != result:
            result = combine(lambda a, b: b if a == 1 else a, result, size)
    return result


def broadcast_at_any_size(*shapes: Shape) -> Shape | None:
    """The common shape, if it is the same at every size: two different names that meet may each be 1 when the model
    runs, and then nothing is known of the whole shape."""
    rank = max(map(len, shapes), default=0)
    result: list[Dim] = []
    for axis in range(-rank, 0):
        sizes = {shape[axis] for shape in shapes if len(shape) >= -axis} - {1}
        numbers = {size for size in sizes if isinstance(size, int)}
        if len(numbers) > 1 or (not numbers and len(sizes) > 1):
            return None
        result.append(numbers.pop() if numbers else sizes.pop() if sizes else 1)
    return tuple(result)


def slice_length(size: int, start: int, end: int, step: int) -> int:
    """How many elements a Slice takes of an axis."""
    stop = None if step < 0 and end < -size else end
    return length_of_slice(size, start, stop, step)


@dataclass(slots=True)
class Operands:
    """What a rule about dimensions gets to see of a node.

    shapes      of the inputs, None for those that are left out or not known; the first one is known
    constants   the inputs that are constants, as tensors
    attributes  the node's attributes as plain values
    outputs     how many results the node has
    broadcast   how shapes are joined: at the sizes of the probes, or at any size (None where the result is not known)
    """

    shapes: Sequence[Any]
    constants: Sequence[torch.Tensor | None]
    attributes: dict[str, Any]
    outputs: int
    broadcast: Callable[..., Shape | None] = broadcast

    def ints(self, place: int) -> list[int] | None:
        """The numbers in an input, if it is a constant."""
        tensor = self.constants[place] if place < len(self.constants) else None
        return None if tensor is None else [int(value) for value in tensor.reshape(-1).tolist()]

    def axes(self, place: int = 1) -> tuple[bool, list[int] | None]:
        """Whether the axes are known, and the axes or None for all. They are an attribute or, since opset 13 or 18, an
        input."""
        if self.attributes.get("axes") is not None:
            return True, list(self.attributes["axes"])
        if place < len(self.shapes) and self.shapes[place] is not None:
            found = self.ints(place)
            return found is not None, found
        return True, None
