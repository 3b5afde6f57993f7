"""What moves values and computes none: it acts on the integers, and the grid stays."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils import _pytree as pytree

from ..session import Session
from ..tags import OnGrid
from .registry import handles

_TENSOR = (
    "view", "reshape", "permute", "transpose", "t", "flatten", "unflatten", "squeeze", "unsqueeze", "expand",
    "expand_as", "repeat", "contiguous", "clone", "detach", "split", "chunk", "unbind", "narrow", "select", "movedim",
    "swapaxes", "swapdims", "flip", "roll", "index_select", "tile", "repeat_interleave", "view_as", "reshape_as",
    "__getitem__", "gather", "take_along_dim", "split_with_sizes", "tensor_split", "moveaxis", "ravel", "rot90",
)  # fmt: skip
_FUNCTIONS = [
    getattr(home, name) for name in _TENSOR for home in (torch, Tensor) if callable(getattr(home, name, None))
]
_FUNCTIONS += [F.pixel_shuffle, F.pixel_unshuffle, F.channel_shuffle, torch.broadcast_to]


@handles(*dict.fromkeys(_FUNCTIONS))
def passing(session: Session, func: Any, input: Any, *args: Any, **kwargs: Any) -> Any:
    """The values and the integers go the same way."""
    if not isinstance(input, Tensor) or not session.has_grid(input):
        return NotImplemented
    settled = session.settle(input)
    tag = session.tag(settled)
    if not isinstance(tag, OnGrid):
        return NotImplemented
    values = func(settled, *args, **kwargs)
    if tag.integers is None:
        return pytree.tree_map_only(Tensor, lambda each: session.put(each, OnGrid(tag.grid)), values)
    integers = func(tag.integers, *args, **kwargs)
    return pytree.tree_map(
        lambda value, q: session.put(value, OnGrid(tag.grid, q)) if isinstance(value, Tensor) else value,
        values,
        integers,
    )
