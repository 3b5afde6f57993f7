"""Functions of one value: bounds of a grid where that is all they are, and everything else by its 256 values."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from .. import ops
from ..grid import Grid
from ..session import Phase, Session
from ..tags import OnGrid, Pending
from .registry import handles


@handles(F.relu, torch.relu, Tensor.relu, torch.relu_, Tensor.relu_)
def relu(session: Session, func: Any, input: Tensor, inplace: bool = False) -> Any:
    return bounded(session, "relu", input, 0.0, None) if session.has_grid(input) else _lone(session, func, input, 0.0)


@handles(F.relu6, F.hardtanh)
def hardtanh(
    session: Session,
    func: Any,
    input: Tensor,
    min_val: float | bool = -1.0,
    max_val: float = 1.0,
    inplace: bool = False,
) -> Any:
    if func is F.relu6:
        min_val, max_val = 0.0, 6.0
    if not session.has_grid(input):
        return _lone(session, func, input, min_val, max_val)
    return bounded(session, "hardtanh", input, min_val, max_val)


@handles(torch.clamp, Tensor.clamp, torch.clip, Tensor.clip, Tensor.clamp_)
def clamp(session: Session, func: Any, input: Tensor, min: Any = None, max: Any = None) -> Any:
    if any(isinstance(each, Tensor) for each in (min, max)):
        return NotImplemented
    return (
        bounded(session, "clamp", input, min, max) if session.has_grid(input) else _lone(session, func, input, min, max)
    )


@handles(torch.clamp_min, Tensor.clamp_min)
def clamp_min(session: Session, func: Any, input: Tensor, min: Any) -> Any:
    return NotImplemented if isinstance(min, Tensor) else bounded(session, "clamp", input, min, None)


def _lone(session: Session, func: Any, x: Tensor, low: float | None, high: float | None = None) -> Any:
    """On what lies on no grid: in float. Where weights alone are quantised as Max and Min, for a Relu or Clip behind a
    MatMul keeps onnxruntime 1.31 from making a MatMulNBits of it."""
    in_place = func in (torch.relu_, Tensor.relu_, Tensor.clamp_)
    plain = session.phase is not Phase.EXACT or not session.controller.has_weight_only
    if plain or in_place or x.dtype is not torch.float32:
        return NotImplemented
    y = x if low is None else torch.maximum(x, torch.tensor(float(low)))
    return y if high is None else torch.minimum(y, torch.tensor(float(high)))


def bounded(session: Session, name: str, x: Tensor, low: float | None, high: float | None) -> Any:
    """min and max of a result that waits, or of one that lies on its grid: integers are bounded, nothing is rounded."""
    tag = session.tag(x)
    if not isinstance(tag, (Pending, OnGrid)):
        return NotImplemented
    found = session.waiting(x)
    if found is not None:
        x, waiting = found
        session.joined(waiting.call)
        requantise = waiting.requantise
        bounded = None if requantise is None else (lambda grid: requantise(_bounds(grid, low, high)))
        return session.finish(x, session.call(name).site("output"), bounded, (low, high))
    y = torch.clamp(x, low, high)
    if session.phase is not Phase.EXACT:
        return session.put(y, OnGrid())
    settled = session.settle(x)
    integers = session.integers(settled)
    if integers is None:
        return NotImplemented
    q, grid = integers
    inside = _bounds(grid, low, high)
    return session.on_grid(torch.clamp(q, inside.low, inside.high), inside)


def _bounds(grid: Grid, low: float | None, high: float | None) -> Grid:
    """The grid between two values; each is rounded as a value of the tensor would be."""
    low_q, high_q = (
        None if value is None else int(ops.kernels.quantize(torch.tensor(float(value)), grid)) for value in (low, high)
    )
    return grid.bounded(low_q, high_q)


UNARY = {
    "sigmoid": (torch.sigmoid, Tensor.sigmoid, F.sigmoid),
    "tanh": (torch.tanh, Tensor.tanh, F.tanh),
    "gelu": (F.gelu,),
    "silu": (F.silu,),
    "mish": (F.mish,),
    "hardswish": (F.hardswish,),
    "hardsigmoid": (F.hardsigmoid,),
    "leaky_relu": (F.leaky_relu,),
    "elu": (F.elu,),
    "softplus": (F.softplus,),
    "exp": (torch.exp, Tensor.exp),
    "sqrt": (torch.sqrt, Tensor.sqrt),
    "abs": (torch.abs, Tensor.abs, Tensor.__abs__),
    "neg": (torch.neg, Tensor.neg, Tensor.__neg__),
    "square": (torch.square, Tensor.square),
}
_NAMES = {func: name for name, functions in UNARY.items() for func in functions}


@handles(*_NAMES)
def unary(session: Session, func: Any, input: Tensor, *args: Any, **kwargs: Any) -> Any:
    """In float from grid to grid: eight bits have 256 values, and the runtime's are the same."""
    if not session.has_grid(input):
        return NotImplemented
    call = session.call(_NAMES[func])
    if "inplace" in kwargs:
        kwargs["inplace"] = False
    return session.finish(func(session.settle(input), *args, **kwargs), call.site("output"))
