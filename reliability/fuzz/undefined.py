"""What PyTorch leaves undefined: floats cast to an integer type that has no place for them, and bits shifted too far.

Such elements are drawn at random, so that one can see which results follow from them.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

_CASTS = frozenset({"_to_copy", "copy_", "copy"})
_SHIFTS = frozenset({"__lshift__", "__rshift__", "bitwise_left_shift", "bitwise_right_shift"})


class Undefined(TorchDispatchMode):
    """`seen` is whether there was something undefined."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        self._generator = torch.Generator().manual_seed(seed)
        self.seen = False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        name = func._schema.name.split("::")[-1]
        tensors = [each for each in args if isinstance(each, torch.Tensor)]
        if name in _CASTS and tensors and isinstance(result, torch.Tensor):
            self._draw(result, _does_not_fit(tensors[-1], result.dtype))
        if name in _SHIFTS and len(tensors) == 2:
            self._draw(result, (tensors[1] < 0) | (tensors[1] >= torch.iinfo(result.dtype).bits))
        return result

    def _draw(self, result: torch.Tensor, where: torch.Tensor) -> None:
        if not where.any():
            return
        self.seen = True
        limits = torch.iinfo(result.dtype)
        choices = torch.tensor([limits.min, limits.max, 0, 1, limits.max // 3], dtype=result.dtype)
        drawn = choices[torch.randint(0, len(choices), result.shape, generator=self._generator)]
        result.copy_(torch.where(where, drawn, result))


def _does_not_fit(value: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    if not value.is_floating_point() or dtype.is_floating_point or dtype.is_complex or dtype is torch.bool:
        return torch.zeros((), dtype=torch.bool)
    limits, wide = torch.iinfo(dtype), value.double()
    return ~torch.isfinite(wide) | (wide <= limits.min - 1.0) | (wide >= limits.max + 1.0)
