"""Which other sizes to verify at, and inputs of those sizes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import prod

import torch

from ..capture.call.resizing import resized
from ..capture.program.facts import Port, SymDim

_TIMES = 4  # one size is at least this many times the example's
_MOST_IDS = 4096  # along an axis of whole numbers: attention over more of them needs memory by the square
_MOST_ELEMENTS = 1 << 26  # of all inputs together


def sizes_to_try(example: int, low: int = 1, high: int | None = None) -> list[int]:
    """The two smallest sizes (1 and 2 unless bounds say otherwise), the next size up, which is odd where the
    example's is even, four times the example's, and the largest that bounds allow; all within the bounds."""
    wanted = [low, low + 1, example + 1, _TIMES * example, *([] if high is None else [high])]
    return [each for each in dict.fromkeys(wanted) if each != example and low <= each <= (high or each)]


def more_sizes(example: int, probed: Iterable[int], low: int = 1, high: int | None = None) -> Iterator[int]:
    """Further sizes for a model that refuses most of the usual ones: multiples of the example, then smaller ones."""
    wanted = [2 * example, *probed, example + 2, example - 1, example // 2]
    return (each for each in dict.fromkeys(wanted) if each != example and low <= each <= (high or each))


def too_large(inputs: Sequence[torch.Tensor], example: Sequence[torch.Tensor]) -> str | None:
    """Why inputs of these sizes are not tried, or None: they must not take more memory than a small machine has."""
    elements = sum(prod(each.shape) for each in inputs)
    if elements > max(_MOST_ELEMENTS, sum(prod(each.shape) for each in example)):
        return f"inputs of {elements} elements are too large to try here"
    for tensor, before in zip(inputs, example, strict=True):
        largest = max(tensor.shape, default=0)
        if not tensor.is_floating_point() and largest > max(_MOST_IDS, *before.shape, 0):
            return f"an input of {largest} ids is too large to try here"
    return None


def resize(inputs: Sequence[Port], example: Sequence[torch.Tensor], sizes: Mapping[str, int]) -> list[torch.Tensor]:
    """The example's inputs at other sizes of the named axes, with values drawn from its own."""
    wanted = [
        {
            axis: sizes[dim.name]
            for axis, dim in enumerate(port.fact.shape)
            if isinstance(dim, SymDim) and dim.name in sizes
        }
        for port in inputs
    ]
    return [resized(tensor, axes, seed) for seed, (tensor, axes) in enumerate(zip(example, wanted, strict=True))]
