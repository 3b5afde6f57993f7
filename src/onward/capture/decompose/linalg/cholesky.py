"""Cholesky's factor of a positive definite matrix, and what is solved with it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch._ops import OpOverload

from ....tables import registrar
from .loops import Algorithm, Tensors, as_columns, entry, first_failure, indices, is_empty, outer, repeat
from .triangular import solve_triangular

if TYPE_CHECKING:
    from ...record.tracer import Tracer

aten = torch.ops.aten

ALGORITHMS: dict[OpOverload, Algorithm] = {}
computes = registrar(ALGORITHMS)


def factor(tracer: Tracer, matrix: torch.Tensor) -> torch.Tensor:
    """L with L @ L.mT = matrix, of which the lower triangle is read.

    A turn finds one column; what the columns so far do not explain of the matrix is carried.
    """
    n = matrix.shape[-1]
    if is_empty(n):
        return matrix.clone()
    rows = indices(matrix, -2)

    def turn(j: int, rest: torch.Tensor) -> tuple[Tensors, Tensors]:
        column = rest.select(-1, j)
        column = torch.where(rows < j, 0, column / entry(column, j).sqrt())
        return (rest - outer(column, column),), (column,)

    _, (columns,) = repeat(tracer, n, (matrix,), turn)
    return as_columns(columns)


@computes(aten.cholesky.default)
def cholesky(tracer: Tracer, matrix: torch.Tensor, upper: bool = False) -> torch.Tensor:
    """cholesky(Tensor self, bool upper=False) -> Tensor"""
    return factor(tracer, matrix.mT).mT if upper else factor(tracer, matrix)


@computes(aten.linalg_cholesky_ex.default)
def linalg_cholesky_ex(
    tracer: Tracer, matrix: torch.Tensor, *, upper: bool = False, check_errors: bool = False
) -> Tensors:
    """linalg_cholesky_ex(Tensor self, *, bool upper=False, bool check_errors=False) -> (Tensor L, Tensor info)"""
    found = cholesky(tracer, matrix, upper)
    return found, first_failure(~(found.diagonal(dim1=-2, dim2=-1) > 0))


@computes(aten.cholesky_solve.default)
def cholesky_solve(tracer: Tracer, right: torch.Tensor, triangle: torch.Tensor, upper: bool = False) -> torch.Tensor:
    """cholesky_solve(Tensor self, Tensor input2, bool upper=False) -> Tensor"""
    lower = triangle.mT if upper else triangle
    half = solve_triangular(tracer, lower, right, upper=False)
    return solve_triangular(tracer, lower.mT, half, upper=True)


@computes(aten.cholesky_inverse.default)
def cholesky_inverse(tracer: Tracer, triangle: torch.Tensor, upper: bool = False) -> torch.Tensor:
    """cholesky_inverse(Tensor self, bool upper=False) -> Tensor"""
    lower = triangle.mT if upper else triangle
    half = solve_triangular(tracer, lower, identity_like(triangle), upper=False)
    return half.mT @ half


def identity_like(matrix: torch.Tensor) -> torch.Tensor:
    """Identity matrices as large as a batch of square matrices."""
    rows = indices(matrix, -2)
    one = (rows.unsqueeze(-1) == rows).to(matrix.dtype)
    return one if matrix.dim() == 2 else one.expand(matrix.shape)
