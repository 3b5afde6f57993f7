"""Products of matrices: of an activation with a weight, and of two activations."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ...capture.attempt.session import is_capturing
from .. import ops
from ..grids.grid import Grid
from ..run.handlers import handles
from ..run.overflow import refuse_overflow
from ..run.session import Call, Phase, Session
from ..run.tags import Pending
from .product import Product, compute


@handles(F.linear)
def linear(session: Session, func: Any, input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Any:
    if not session.is_full(input):
        return NotImplemented
    if weight.dim() != 2 or not is_layers_weight(session, weight):  # worked out from activations
        y = session.composed(lambda: torch.matmul(input, weight.mT if weight.dim() > 1 else weight))
        return y if bias is None else session.again(torch.add, y, bias)
    return linear_with(session, input, weight, bias)


def linear_with(session: Session, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """x @ weight.T + bias, with a weight in the form of nn.Linear."""
    call = session.call("linear")
    x = session.settle(x, call.site("input"))
    return compute(session, call, Product(x, weight, bias, 0, -1, F.linear, ops.linear))


def is_weight(session: Session, x: Tensor) -> bool:
    """Whether a tensor is one of the model's own, and no activation: a parameter, a buffer, or made of parameters."""
    return not session.has_grid(x) and _is_own(session, x)


def _is_own(session: Session, x: Tensor) -> bool:
    return session.is_weight(x) or any(x is each for each in session.frames[-1].module._buffers.values())


def is_layers_weight(session: Session, x: Tensor) -> bool:
    """The same for the weight of `F.linear`, where a layer also has what its parametrisation (weight norm) computes."""
    if session.has_grid(x):
        return False
    return _is_own(session, x) or isinstance(session.frames[-1].module, (nn.Linear, nn.MultiheadAttention))


MATMUL = (
    torch.matmul, Tensor.matmul, Tensor.__matmul__, Tensor.__rmatmul__, torch.bmm, Tensor.bmm, torch.mm, Tensor.mm,
    torch.mv, Tensor.mv, torch.dot, Tensor.dot, torch.vdot, Tensor.vdot, torch.linalg.matmul,
)  # fmt: skip


def in_order(func: Any, input: Tensor, other: Any, **named: Tensor) -> tuple[Tensor, Tensor] | None:
    """The operands of one of these, the left one first; None unless both are tensors of float32. The second has its own
    name in each."""
    other = next(iter(named.values()), other)
    if not isinstance(other, Tensor) or not (input.dtype is other.dtype is torch.float32):
        return None
    return (other, input) if func is Tensor.__rmatmul__ else (input, other)


@handles(*MATMUL)
def matmul(session: Session, func: Any, input: Tensor, other: Tensor | None = None, **named: Tensor) -> Any:
    operands = in_order(func, input, other, **named)
    if operands is None:
        return NotImplemented
    input, second = operands
    if second.dim() == 2 and is_weight(session, second) and not is_weight(session, input):
        return linear_with(session, input, second.t(), None)
    if 1 in (input.dim(), second.dim()):
        return session.composed(lambda: _of_vectors(input, second))
    call = session.call("matmul")
    a, b = session.settle(input, call.site("input")), session.settle(second, call.site("other"))
    one, two = session.integers(a), session.integers(b)
    if one is not None and two is not None:
        sums = f"{call.told} adds up {a.shape[-1]} products"
        refuse_overflow(call, one[1], two[1].scale, sums, "leave the module in float: a rule with off=True")
    return of_activations(session, call, a, b)


def _of_vectors(a: Tensor, b: Tensor) -> Tensor:
    """A row, a column or both, as matrices: integer kernels take nothing else."""
    y = torch.matmul(a.unsqueeze(0) if a.dim() == 1 else a, b.unsqueeze(-1) if b.dim() == 1 else b)
    y = y.squeeze(-1) if b.dim() == 1 else y
    return y.squeeze(-1 if b.dim() == 1 else -2) if a.dim() == 1 else y


def of_activations(
    session: Session, call: Call, a: Tensor, b: Tensor, factor: float = 1.0, known: Tensor | None = None
) -> Tensor:
    """a @ b * factor of two settled tensors. It waits for its grid, which a softmax behind it does without.

    `known` are the sums of the integers where they are: a factor is part of a scale, and leaves them as they are."""
    one, two = session.integers(a), session.integers(b)
    if (
        session.phase is not Phase.EXACT
        or one is None
        or two is None
        or (session.for_a_chip and any(each[1].dtype not in ("uint8", "int8") for each in (one, two)))
    ):
        product = torch.matmul(a, b)
        y = session.wait(product if factor == 1 else product * factor, call)
        return _scalable(session, y, factor, lambda call, y, number: session.wait(y * number, call))
    (x, x_grid), (z, z_grid) = one, two
    x_grid = replace(x_grid, scale=x_grid.scale * factor)
    sums = ops.matmul(x, x_grid, z, z_grid) if known is None else known

    def requantise(grid: Grid) -> Tensor:
        if grid.dtype in ("uint16", "int16") and not session.for_a_chip:  # no kernel gives these
            wide, wide_grid = ops.widened(x, x_grid)
            values = ops.wide_values(ops.matmul(wide, wide_grid, z, z_grid), x_grid, z_grid)
            return ops.quantize(values, grid, call.settings.rounding)
        return ops.requantize(sums, x_grid, z_grid, None, grid, call.settings.rounding)

    if any(each.dtype not in ("uint8", "int8") for each in (x_grid, z_grid)):
        y = session.wait(ops.wide_values(sums, x_grid, z_grid), call)
    else:
        y = session.wait(ops.rescale(sums, x_grid, z_grid, None), call, requantise)
    kept = None if is_capturing() else sums  # in a file the scales, and with them the factor, are the operands'
    return _scalable(session, y, factor, lambda call, y, number: of_activations(session, call, a, b, number, kept))


def _scalable(session: Session, y: Tensor, factor: float, again: Callable[[Call, Tensor, float], Tensor]) -> Tensor:
    """A number that the product is multiplied with, as scores of attention are, becomes part of a scale.

    `again` gives the call, the product and the number; it does not hold the product, which holds it.
    """
    waiting = session.tag(y)
    if factor == 1 and isinstance(waiting, Pending) and not session.for_a_chip:
        call = waiting.call
        waiting.scaled = lambda y, number: again(call.scaled, y, number)
    return y


ADDED = (
    torch.addmm, Tensor.addmm, torch.baddbmm, Tensor.baddbmm, torch.addbmm, Tensor.addbmm, torch.addmv, Tensor.addmv,
)  # fmt: skip


@handles(*ADDED)
def addmm(session: Session, func: Any, input: Tensor, one: Any = None, two: Any = None, **kwargs: Any) -> Any:
    """input + one @ two. Where `two` is a weight and `input` its bias it is a linear layer, turned around."""
    first = next((kwargs.pop(name) for name in ("mat1", "batch1", "mat") if name in kwargs), one)
    second = next((kwargs.pop(name) for name in ("mat2", "batch2", "vec") if name in kwargs), two)
    beta, alpha = kwargs.pop("beta", 1), kwargs.pop("alpha", 1)
    operands = (input, first, second)
    if kwargs or not all(isinstance(each, Tensor) and each.dtype is torch.float32 for each in operands):
        return NotImplemented
    if func in (torch.addbmm, Tensor.addbmm):  # the sum of the products is the product of all in a row
        first, second = session.composed(lambda: (first.transpose(0, 1).flatten(1), second.flatten(0, 1)))
    if (beta, alpha) == (1, 1) and second.dim() == 2 and is_weight(session, second) and is_weight(session, input):
        bias = input if input.dim() == 1 else None
        y = linear_with(session, first, second.t(), bias)
        return y if bias is not None else session.again(torch.add, y, input)
    y = session.again(torch.matmul, first, second)
    y = y if alpha == 1 else session.again(torch.mul, y, alpha)
    if beta == 0:
        return y
    return session.again(torch.add, y, input if beta == 1 else session.again(torch.mul, input, beta))
