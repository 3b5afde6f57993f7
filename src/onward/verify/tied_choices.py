"""Other choices among equal and nearly equal values.

`topk` of scores that are equal may name any of them, and an image of one column gives equal scores wherever it is
stretched, whatever its pixels are. So values are moved in their last bits where an operator chooses between them: a
model whose answer changes with that has no one right answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from ..capture.call.values import jittered

aten = torch.ops.aten

# Operators that choose, and the place of the argument by whose values they do.
_CHOOSING = {
    **dict.fromkeys((aten.topk.default, aten.sort.default, aten.sort.stable, aten.argsort.default), 0),
    **dict.fromkeys((aten.max.dim, aten.min.dim, aten.argmax.default, aten.argmin.default), 0),
    **dict.fromkeys((aten.median.dim, aten.nanmedian.dim, aten.mode.default, aten.kthvalue.default), 0),
    **dict.fromkeys((aten.cummax.default, aten.cummin.default), 0),
}
_CHOOSING_BY_NAME = {"torchvision::nms": 1}  # of libraries that need not be there


class OtherChoices(TorchDispatchMode):
    """While it is active, operators choose between values that were moved in their last bits."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        self._seed = seed * 100_003

    def __torch_dispatch__(self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Any = None) -> Any:
        place = _CHOOSING.get(func, _CHOOSING_BY_NAME.get(func._name))
        if place is not None and place < len(args):
            self._seed += 1
            args = (*args[:place], _moved(args[place], self._seed), *args[place + 1 :])
        return func(*args, **(kwargs or {}))


def _moved(values: torch.Tensor, seed: int) -> torch.Tensor:
    """Values that are equal no more; zeros become the smallest numbers that there are."""
    if not values.is_floating_point():
        return values
    moved = jittered(values, seed)
    noise = torch.randn(values.shape, generator=torch.Generator().manual_seed(seed))
    return torch.where(moved == 0, (noise * torch.finfo(values.dtype).tiny * 16).to(moved), moved)
