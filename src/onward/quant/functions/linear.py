"""Products of matrices: of an activation with a weight, and of two activations."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from .. import ops
from ..grid import Grid
from ..product import Product, compute
from ..session import Phase, Session
from .registry import handles


@handles(F.linear)
def linear(session: Session, func: Any, input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Any:
    call = session.call("linear")
    x = session.settle(input, call.site("input"))
    return compute(session, call, Product(x, weight, bias, 0, -1, func, ops.linear))


@handles(torch.matmul, Tensor.matmul, Tensor.__matmul__, Tensor.__rmatmul__, torch.bmm, Tensor.bmm, torch.mm, Tensor.mm)
def matmul(session: Session, func: Any, input: Tensor, other: Tensor | None = None, mat2: Tensor | None = None) -> Any:
    second = other if other is not None else mat2
    if not isinstance(second, Tensor) or not (input.is_floating_point() and second.is_floating_point()):
        return NotImplemented
    call = session.call("matmul")
    a, b = session.settle(input, call.site("input")), session.settle(second, call.site("other"))
    y = func(a, b)
    if session.phase is not Phase.EXACT:
        return session.wait(y, call)
    one, two = session.integers(a), session.integers(b)
    if one is None or two is None:
        return session.wait(y, call)
    if func is Tensor.__rmatmul__:
        one, two = two, one
    if any(each[1].dtype not in ("uint8", "int8") for each in (one, two)) or min(a.dim(), b.dim()) < 2:
        return session.wait(y, call)
    (x, x_grid), (z, z_grid) = one, two
    sums = ops.matmul(x, x_grid, z, z_grid)

    def requantise(grid: Grid) -> Tensor:
        return ops.requantize(sums, x_grid, z_grid, None, grid, call.settings.rounding)

    return session.wait(ops.rescale(sums, x_grid, z_grid, None), call, requantise)
