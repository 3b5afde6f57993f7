"""Systems with a triangular matrix."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch._ops import OpOverload

from ....tables import registrar
from .loops import Algorithm, Tensors, as_rows, entry, is_empty, outer, repeat

if TYPE_CHECKING:
    from ...record.tracer import Tracer

aten = torch.ops.aten

ALGORITHMS: dict[OpOverload, Algorithm] = {}
computes = registrar(ALGORITHMS)


def solve_triangular(
    tracer: Tracer, matrix: torch.Tensor, right: torch.Tensor, *, upper: bool, unit: bool = False
) -> torch.Tensor:
    """X with matrix @ X = right, of which only one triangle is read.

    A turn finds one row of X and takes its part off what is left of the right side. Rows that are done are changed
    along with the others, and not read again.
    """
    matrix, right = same_batch(matrix, right)
    n = matrix.shape[-1]
    if is_empty(n, right.shape[-1]):
        return right.clone()

    def turn(j: int, rest: torch.Tensor) -> tuple[Tensors, Tensors]:
        j = n - 1 - j if upper else j
        column, row = matrix.select(-1, j), rest.select(-2, j)
        row = row if unit else row / entry(column, j)
        return (rest - outer(column, row),), (row,)

    _, (rows,) = repeat(tracer, n, (right,), turn)
    return as_rows(rows.flip(0) if upper else rows)


def same_batch(first: torch.Tensor, second: torch.Tensor) -> Tensors:
    """Matrices, with the axes before the last two broadcast."""
    if tuple(first.shape[:-2]) == tuple(second.shape[:-2]):
        return first, second
    batch = torch.broadcast_shapes(first.shape[:-2], second.shape[:-2])
    return first.expand(*batch, *first.shape[-2:]), second.expand(*batch, *second.shape[-2:])


@computes(aten.linalg_solve_triangular.default)
def linalg_solve_triangular(
    tracer: Tracer,
    matrix: torch.Tensor,
    right: torch.Tensor,
    *,
    upper: bool,
    left: bool = True,
    unitriangular: bool = False,
) -> torch.Tensor:
    """linalg_solve_triangular(Tensor self, Tensor B, *, bool upper, bool left=True, bool unitriangular=False) ->
    Tensor"""
    if left:
        return solve_triangular(tracer, matrix, right, upper=upper, unit=unitriangular)
    return solve_triangular(tracer, matrix.mT, right.mT, upper=not upper, unit=unitriangular).mT


@computes(aten.triangular_solve.default)
def triangular_solve(
    tracer: Tracer,
    right: torch.Tensor,
    matrix: torch.Tensor,
    upper: bool = True,
    transpose: bool = False,
    unitriangular: bool = False,
) -> Tensors:
    """triangular_solve(Tensor self, Tensor A, bool upper=True, bool transpose=False, bool unitriangular=False) ->
    (Tensor solution, Tensor cloned_coefficient)"""
    used, is_upper = (matrix.mT, not upper) if transpose else (matrix, upper)
    solution = solve_triangular(tracer, used, right, upper=is_upper, unit=unitriangular)
    return solution, same_batch(matrix, right)[0].clone()
