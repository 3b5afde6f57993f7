"""A pool whose window is as wide as the tensor is a reduction, at any size: `max_pool1d(x, x.size(2))`.

It is caught twice: one level above the dispatcher, where PyTorch would turn the size into a number, and at the
dispatcher, where a number that Python made of it (`int(x.size(2))`) has been thawed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from torch.nn import functional

from ...tables import registrar
from ..memory.tensor import Traced
from .intercepts import Intercept

if TYPE_CHECKING:
    from ..record.tracer import Tracer

INTERCEPTS: dict[Any, Intercept] = {}
intercepts = registrar(INTERCEPTS)

aten = torch.ops.aten

POOLS: dict[Any, Callable[..., torch.Tensor]] = {
    aten.max_pool1d.default: torch.amax,
    aten.max_pool2d.default: torch.amax,
    aten.max_pool3d.default: torch.amax,
    aten.avg_pool1d.default: torch.mean,
    aten.avg_pool2d.default: torch.mean,
    aten.avg_pool3d.default: torch.mean,
}


def whole_axis(reduce: Callable[..., torch.Tensor], tensor: Any, window: Any, padding: Any = 0) -> Any:
    """The reduction that a pool amounts to; NotImplemented if its window is another."""
    window = list(window) if isinstance(window, (list, tuple)) else [window]
    if not isinstance(tensor, Traced) or not any(isinstance(each, torch.SymInt) for each in window):
        return NotImplemented
    axes = list(range(-len(window), 0))
    whole = all(_same_size(each, tensor.shape[axis]) for each, axis in zip(window, axes, strict=True))
    if not whole or any(padding if isinstance(padding, (list, tuple)) else [padding]):
        return NotImplemented
    return reduce(tensor, axes, True)


def _intercepted(reduce: Callable[..., torch.Tensor]) -> Intercept:
    def pool(tracer: Tracer, func: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
        names = ("input", "kernel_size", "stride", "padding", "dilation", "ceil_mode")
        bound = {**dict(zip(names, args, strict=False)), **kwargs}
        return whole_axis(reduce, bound["input"], bound["kernel_size"], bound.get("padding", 0))

    return pool


def _same_size(first: Any, second: Any) -> bool:
    values = [each.node.values if isinstance(each, torch.SymInt) else each for each in (first, second)]
    return values[0] == values[1]


# Both names of each: the Python wrapper hands over itself, and what it calls is then no longer seen.
intercepts(
    *(torch.max_pool1d, torch.max_pool2d, torch.max_pool3d),
    *(functional.max_pool1d, functional.max_pool2d, functional.max_pool3d),
)(_intercepted(torch.amax))
intercepts(functional.avg_pool1d, functional.avg_pool2d, functional.avg_pool3d)(_intercepted(torch.mean))
