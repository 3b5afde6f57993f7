"""A cheap mark of a model's weights at one moment, to notice later that somebody has trained it meanwhile.

A file holds the weights of the moment at which it was made, and so does everything that was worked out from them. The
model goes on living: another thread, or the next line of the script, may change them.
"""

from __future__ import annotations

from typing import Any

import torch

from ..ground.memory import is_plain
from .weights import Weights

Mark = tuple[Any, ...]
_SAMPLES = 16  # elements of a weight that are looked at: a step of training moves nearly all


def marks_of(weights: Weights) -> dict[str, Mark]:
    """A mark of every weight, by its name in the file."""
    return {each.name: _mark(each.tensor) for each in weights.state}


def moved_since(marks: dict[str, Mark], weights: Weights) -> list[str]:
    """The weights that are not what they were, by their names in the state dict.

    PyTorch counts the writes to a tensor, but not those to its `.data`; these are found by looking at some elements.
    """
    return [each.key for each in weights.state if marks.get(each.name) != _mark(each.tensor)]


def _mark(tensor: torch.Tensor) -> Mark:
    if not is_plain(tensor) or tensor.is_inference():
        return ()
    flat = tensor.detach()
    if not flat.is_contiguous():
        return tensor.data_ptr(), tensor._version
    flat = flat.view(-1)
    return tensor.data_ptr(), tensor._version, str(flat[:: len(flat) // _SAMPLES + 1].tolist())
