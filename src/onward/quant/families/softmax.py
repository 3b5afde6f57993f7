"""Softmax: its results lie between 0 and 1, so its grid is known without looking.

The runtime's sums and exponentials are not torch's to the last bit, and where results are rounded to a grid, a few
elements in 100,000 of 16 bits, and 256 times fewer of 8, would lie on the other side of a tie. So evaluation lets
onnxruntime compute them. Every row is computed for itself: neither the batch nor the threads matter; the processor
does, by the length of its vectors. On other devices than the processor a softmax is torch's."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from ..config.settings import Activations, Resolved
from ..exact.declare import exact
from ..exact.integers import centered, dequantize
from ..exact.runtime import is_elsewhere, runtime_function
from ..grids.grid import is_power_of_two
from ..run.handlers import handles
from ..run.session import Phase, QuantSession
from ..run.states import Pending


@exact
def softmax(x: Tensor, dim: int) -> Tensor:
    """torch.softmax as onnxruntime computes it on this machine."""
    return torch.softmax(x, dim) if is_elsewhere(x) else runtime_function("Softmax", 13, axis=dim)(x)


softmax.shape(lambda x, *_: torch.empty_like(x, memory_format=torch.contiguous_format))


softmax.lowers()(lambda g, x, dim: g.softmax(x, dim))


@exact
def log_softmax(x: Tensor, dim: int) -> Tensor:
    """torch.log_softmax as onnxruntime computes it on this machine."""
    return torch.log_softmax(x, dim) if is_elsewhere(x) else runtime_function("LogSoftmax", 13, axis=dim)(x)


log_softmax.shape(lambda x, *_: torch.empty_like(x, memory_format=torch.contiguous_format))


log_softmax.lowers()(lambda g, x, dim: g.log_softmax(x, dim))


@handles(F.softmax, torch.softmax, Tensor.softmax)
def softmax_onto_grid(
    session: QuantSession,
    func: Any,
    input: Tensor,
    dim: int | None = None,
    *args: Any,
    dtype: Any = None,
    **kwargs: Any,
) -> Any:
    if dim is None or args or dtype not in (None, torch.float32) or input.dtype is not torch.float32:
        return NotImplemented
    call = session.call("softmax")
    return onto_grid_of_shares(session, shares(session)(_entered(session, input), dim), call.settings)


@handles(F.log_softmax, torch.log_softmax, Tensor.log_softmax)
def log_softmax_onto_grid(
    session: QuantSession,
    func: Any,
    input: Tensor,
    dim: int | None = None,
    *args: Any,
    dtype: Any = None,
    **kwargs: Any,
) -> Any:
    if dim is None or args or dtype not in (None, torch.float32) or input.dtype is not torch.float32:
        return NotImplemented
    call = session.call("log_softmax")
    compute = log_softmax if _is_exact(session) else torch.log_softmax
    return session.finish(compute(_entered(session, input), dim), call.site("output"))


def shares(session: QuantSession) -> Callable[[Tensor, int], Tensor]:
    """The softmax of a tensor along an axis. Where it is put on 65536 steps, one element in ten thousand would be
    another step in onnxruntime, on 256 steps one in a million, so that it is computed by its kernel."""
    return softmax if _is_exact(session) else torch.softmax


def _is_exact(session: QuantSession) -> bool:
    return session.phase is Phase.EXACT and not session.for_a_chip


def _entered(session: QuantSession, x: Tensor) -> Tensor:
    """The operand of a softmax. A sum is taken as it is: a mask of -10000 is part of it more often than not, and a grid
    as wide as that would have room for nothing else. A product of activations is taken as it is, too: onnxruntime gives
    its sums as floats, for less than it costs to round them and to make floats of that."""
    tag = session.tag(x)
    taken = ("add",) if session.for_a_chip else ("add", "matmul")
    if isinstance(tag, Pending) and tag.settled is None and tag.call.is_one_of(taken):
        return x
    return values_for_softmax(session, session.settle(x))


def values_for_softmax(session: QuantSession, x: Tensor, factor: float = 1.0, *, alone: bool = True) -> Tensor:
    """x * factor; `alone` says that nothing is added to it before the softmax.

    Then the multiplication by the scale stands apart from DequantizeLinear: directly behind that, Softmax is made a
    QLinearSoftmax, which in onnxruntime 1.31 takes twice the time of the float kernel and gives zero for an axis of
    one element."""
    found = session.integers(x)
    if found is None:
        return x if factor == 1 else x * factor
    q, grid = found
    scale = grid.scale * factor
    if session.for_a_chip and not is_power_of_two(factor):
        return torch.mul(dequantize(q, grid), factor)
    if (alone and not session.for_a_chip) or factor <= 0:
        return torch.mul(centered(q, grid), scale)
    return dequantize(q, replace(grid, scale=scale))


def onto_grid_of_shares(session: QuantSession, y: Tensor, settings: Resolved) -> Tensor:
    """Put numbers between 0 and 1 on a grid with steps of 1/256, 1/65536 where activations have 16 bits; 1 itself is
    the last step. Fewer bits do not make the steps wider: shares of a sequence of twenty would be zero or 1/16, and
    they are stored as uint8 whatever they are.

    NaN, what is left of a row in which everything is masked, is 0 there."""
    spec = _grid_of_shares(settings.activations, session.for_a_chip)
    return session.finish_within(y, 0.0, 1 - 0.5 ** (spec.bits - spec.symmetric), spec, settings.rounding)


@functools.cache
def _grid_of_shares(given: Activations, for_a_chip: bool) -> Activations:
    symmetric = for_a_chip and given.symmetric  # no zero point there, whatever it costs
    return replace(given, symmetric=symmetric, learned=False, bits=given.bits if for_a_chip else max(8, given.bits))
