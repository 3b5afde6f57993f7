"""Matrix products."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ...onnx_operators.unsigned_integers import widened
from ..registry import implements


@implements("MatMul")
@widened
def matmul(x: Tensor, y: Tensor) -> Tensor:
    return torch.matmul(x, y)


@implements("Gemm")
def gemm(
    a: Tensor,
    b: Tensor,
    c: Tensor | None = None,
    *,
    alpha: float = 1.0,
    beta: float = 1.0,
    transA: int = 0,
    transB: int = 0,
    broadcast: int = 0,
) -> Tensor:
    a = a.t() if transA else a
    if transB and c is not None and c.dim() == 1 and alpha == beta == 1:
        return torch.nn.functional.linear(a, b, c)
    b = b.t() if transB else b
    if c is not None and a.is_floating_point() and c.dim() <= 2 and c.dtype == a.dtype:
        return torch.addmm(c, a, b, beta=beta, alpha=alpha)
    product = torch.mm(a, b)
    if alpha != 1:
        product = (alpha * product).to(a.dtype)
    if c is None:
        return product
    return product + (c if beta == 1 else (beta * c).to(a.dtype))


@implements("Einsum")
def einsum(*xs: Tensor, equation: str) -> Tensor:
    return torch.einsum(equation.replace(" ", ""), *xs)


@implements("Det")
def det(x: Tensor) -> Tensor:
    return torch.linalg.det(x)


def less_zero(x: Tensor, zero: Any, axis: int | None = None) -> Tensor:
    """Integers without their zero point, one for all or one for each index of an axis."""
    x = x.to(torch.int32)
    if zero is None:
        return x
    zero = zero.to(torch.int32)
    if axis is not None and zero.dim() == 1 and zero.numel() > 1:
        zero = zero.reshape([-1 if each == axis % x.dim() else 1 for each in range(x.dim())])
    return x - zero


@implements("MatMulInteger")
def matmul_integer(a: Tensor, b: Tensor, a_zero: Tensor | None = None, b_zero: Tensor | None = None) -> Tensor:
    return torch.matmul(less_zero(a, a_zero, -2), less_zero(b, b_zero, -1))
