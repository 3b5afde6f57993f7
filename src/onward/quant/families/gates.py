"""Functions that are a value times a share of it: SiLU, hard-swish, GLU.

The share lies between 0 and 1, on a grid of its own, and the product is an integer product. In float, between
DequantizeLinear and QuantizeLinear, SiLU alone took two thirds of an EfficientNet's time in onnxruntime 1.31.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from ..exact.integers import quantize
from ..grids.grid import Grid, grid_from_range
from ..run.handlers import handles
from ..run.session import Call, Phase, QuantSession
from .activation import clear_of_ties, from_grid_to_grid, grid_clear_of_ties, in_place
from .elementwise import add, mul

_SHARES = {F.silu: torch.sigmoid, F.hardswish: F.hardsigmoid}


@handles(F.silu, F.hardswish)
def gated(session: QuantSession, func: Any, input: Tensor, inplace: bool = False) -> Any:
    if not session.has_grid(input):
        return NotImplemented
    return in_place(session, func, input, inplace, lambda x: _gated(session, func, x))


def _gated(session: QuantSession, func: Any, input: Tensor) -> Any:
    name = func.__name__
    if not _in_eight_bits(session):
        return from_grid_to_grid(session, name, func, input)
    call = session.call(name)
    site = call.site("output")
    x = session.settle(input)
    part = share(session, call, _SHARES[func], x)
    one, two = session.integers(x), session.integers(part)
    y = x * part
    if one is None or two is None:
        return session.finish(y, site)
    return session.finish(y, site, lambda grid: mul(*one, *two, grid))


def _in_eight_bits(session: QuantSession) -> bool:
    """Whether integers of the kernels' type are wanted, that are rounded as these do."""
    settings = session.frame.settings
    return (
        settings is not None
        and settings.activations.bits <= 8
        and settings.rounding == "half_even"
        and not session.for_a_chip
    )


@handles(F.hardsigmoid)
def hardsigmoid(session: QuantSession, func: Any, input: Tensor, inplace: bool = False) -> Any:
    if not session.has_grid(input):
        return NotImplemented
    if not _in_eight_bits(session):
        return in_place(session, func, input, inplace, lambda x: from_grid_to_grid(session, "hardsigmoid", func, x))
    call = session.call("hardsigmoid")
    return in_place(session, func, input, inplace, lambda x: share(session, call, func, session.settle(x)))


def share(session: QuantSession, call: Call, func: Any, x: Tensor) -> Tensor:
    """sigmoid(x) or hardsigmoid(x), on the grid of 0 to 1."""
    spec = replace(call.settings.activations, bits=8, symmetric=False, learned=False)
    # 255 steps to 1 would put sigmoid(0) on a tie, and hardsigmoid reaches 1
    low, high = 0.0, 255 / 256 if func is torch.sigmoid else 1.0
    found = session.integers(x)
    if session.phase is not Phase.EXACT or found is None:
        return session.finish_within(func(x), low, high, spec, call.settings.rounding)
    q, x_grid = found
    grid = grid_from_range(torch.tensor(low), torch.tensor(high), spec)
    if func is F.hardsigmoid and not spec.power_of_two:
        return session.on_grid(_hard(q, x_grid, grid), grid)
    if spec.power_of_two:
        return session.on_grid(quantize(clear_of_ties(func, x, x_grid, grid, func.__name__), grid), grid)
    grid = grid_clear_of_ties(func, x_grid, grid, func.__name__)
    return session.on_grid(quantize(func(x), grid), grid)


def _hard(q: Tensor, x_grid: Grid, grid: Grid) -> Tensor:
    """min(max(x + 3, 0), 6) as a sum of integers, whose type is the bound; its steps are sixths of the share's."""
    three = torch.ones((1,) * q.dim(), dtype=torch.uint8)
    return add(q, x_grid, three, Grid(torch.tensor(3.0)), replace(grid, scale=grid.scale * 6))


@handles(F.glu)
def glu(session: QuantSession, func: Any, input: Tensor, dim: int = -1) -> Any:
    """One half times the sigmoid of the other."""
    if not session.has_grid(input):
        return NotImplemented
    value, gate = session.run(torch.chunk, input, 2, dim)
    return session.run(torch.mul, value, session.run(torch.sigmoid, gate))
