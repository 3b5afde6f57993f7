"""Functions that take a plain number of elements where others take a size.

PyTorch makes a number of a size on the way to them, and a dynamic axis, or a number from data, is lost. Their operators
can do with the size itself, so they are called past that place.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch.nn import functional as F

from ...tables import registrar
from ..memory.tensor import Traced
from ..sizes.sizes import SYMBOLIC
from .intercepts import Intercept

if TYPE_CHECKING:
    from ..record.tracer import Tracer

INTERCEPTS: dict[Any, Intercept] = {}
intercepts = registrar(INTERCEPTS)

aten = torch.ops.aten


def _count(value: Any) -> Any:
    """A number of elements: PyTorch takes a tensor with one number too."""
    return value.item() if isinstance(value, Traced) else value


@intercepts(torch.linspace)
def linspace(tracer: Tracer, func: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
    def call(start: Any, end: Any, steps: Any, *, out: Any = None, **rest: Any) -> Any:
        steps = _count(steps)
        if not isinstance(steps, SYMBOLIC) or out is not None:
            return NotImplemented
        kinds = ["Tensor" if isinstance(each, torch.Tensor) else "Scalar" for each in (start, end)]
        overload = "default" if kinds == ["Scalar", "Scalar"] else "_".join(kinds)
        return tracer.dispatch(getattr(aten.linspace, overload), (start, end, steps), rest)

    return call(*args, **kwargs)


@intercepts(torch.logspace)
def logspace(tracer: Tracer, func: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
    def call(start: Any, end: Any, steps: Any, base: float = 10.0, *, out: Any = None, **rest: Any) -> Any:
        if not isinstance(_count(steps), SYMBOLIC) or out is not None:
            return NotImplemented
        if rest.get("dtype") is not None and not rest["dtype"].is_floating_point:
            raise tracer.cannot(
                "torch.logspace() makes integers, and how many depends on a size or on data",
                "logspace",
                "make it of a floating-point dtype, and convert it as the model needs it",
            )
        return torch.pow(base, linspace(tracer, torch.linspace, (start, end, steps), rest))

    return call(*args, **kwargs)


@intercepts(torch.tril_indices, torch.triu_indices)
def triangle_indices(tracer: Tracer, func: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
    op = aten.tril_indices.default if func is torch.tril_indices else aten.triu_indices.default

    def call(row: Any, col: Any, offset: Any = 0, **rest: Any) -> Any:
        numbers = tuple(map(_count, (row, col, offset)))
        if not any(isinstance(each, SYMBOLIC) for each in numbers):
            return NotImplemented
        return tracer.dispatch(op, numbers, rest)

    return call(*args, **kwargs)


@intercepts(F.one_hot)
def one_hot(tracer: Tracer, func: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
    """Without a number of classes there are as many as the data needs."""

    def call(tensor: torch.Tensor, num_classes: Any = -1) -> Any:
        count = _count(num_classes)
        if isinstance(count, int) and count == -1 and isinstance(tracer.plain.stand_in(tensor), Traced):
            count = tensor.max().item() + 1
        return (
            tracer.dispatch(aten.one_hot.default, (tensor, count), {})
            if isinstance(count, SYMBOLIC)
            else NotImplemented
        )

    return call(*args, **kwargs)


@intercepts(torch.combinations)
def combinations(tracer: Tracer, func: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
    """Pairs are what the indices of a triangle find."""

    def call(tensor: torch.Tensor, r: int = 2, with_replacement: bool = False) -> Any:
        if r != 2 or not isinstance(tensor, Traced) or tensor.fact.is_static:
            return NotImplemented
        count = tensor.size(0)
        places = tracer.dispatch(aten.triu_indices.default, (count, count, 0 if with_replacement else 1), {})
        return tensor[places.t()]

    return call(*args, **kwargs)


# By their operators, which scripts call: PyTorch makes plain numbers of their sizes as well.
TAKES_A_COUNT: dict[Any, Any] = {
    aten.linspace: torch.linspace,
    aten.logspace: torch.logspace,
    aten.tril_indices: torch.tril_indices,
    aten.triu_indices: torch.triu_indices,
    aten.one_hot: F.one_hot,
}
