"""Gauss's elimination with pivots, and what is solved with it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch._ops import OpOverload

from ....tables import registrar
from ...program.regions import determinant
from .cholesky import identity_like
from .loops import (
    Algorithm,
    Tensors,
    as_columns,
    computed_by,
    entry,
    first_failure,
    indices,
    is_empty,
    outer,
    repeat,
    shorter,
)
from .triangular import solve_triangular

if TYPE_CHECKING:
    from ...record.tracer import Tracer

aten = torch.ops.aten

ALGORITHMS: dict[OpOverload, Algorithm] = {}
computes = registrar(ALGORITHMS)


def eliminate(tracer: Tracer, matrix: torch.Tensor, count: Any = None) -> Tensors:
    """L below the diagonal and U above it in one matrix, and the pivots from 1, as LAPACK has them.

    With `count`, only so many columns are eliminated: of [A | B] remains [U | U @ X] with A @ X = B.
    """
    count = shorter(tracer, matrix) if count is None else count
    if is_empty(count):
        return matrix.clone(), torch.zeros((*matrix.shape[:-2], 0), dtype=torch.int32)
    rows, columns = indices(matrix, -2), indices(matrix, -1)

    def turn(j: int, work: torch.Tensor) -> tuple[Tensors, Tensors]:
        largest = torch.where(rows < j, -1, work.select(-1, j).abs()).argmax(-1, keepdim=True)
        work = take_rows(work, swapped(rows, j, largest))
        row, column = work.select(-2, j), work.select(-1, j)
        pivot = entry(row, j)
        factors = torch.where(rows > j, column / torch.where(pivot == 0, 1, pivot), 0)  # all are 0 below a pivot of 0
        work = torch.where(
            (rows > j).unsqueeze(-1) & (columns == j),
            factors.unsqueeze(-1),
            work - outer(factors, torch.where(columns > j, row, 0)),
        )
        return (work,), (largest.squeeze(-1) + 1,)

    (work,), (pivots,) = repeat(tracer, count, (matrix,), turn)
    return work, as_columns(pivots).to(torch.int32)


def swapped(order: torch.Tensor, j: Any, other: torch.Tensor) -> torch.Tensor:
    """An order 0, 1, 2, ... in which j and another have changed places."""
    return torch.where(order == j, other, torch.where(order == other, j, order))


def take_rows(matrix: torch.Tensor, order: torch.Tensor) -> torch.Tensor:
    """Rows of matrices in the order that each matrix has."""
    if matrix.dim() == 2:
        return matrix.index_select(0, order)
    return matrix.gather(-2, order.unsqueeze(-1).expand(*matrix.shape))


def permutation(tracer: Tracer, pivots: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
    """The order of rows that swapping row j and row pivots[j], for one j after the other, leads to."""
    order = rows.expand(*pivots.shape[:-1], *rows.shape)
    if is_empty(pivots.shape[-1]):
        return order

    def turn(j: int, order: torch.Tensor) -> tuple[Tensors, Tensors]:
        return (order.gather(-1, swapped(rows, j, entry(pivots, j).to(torch.int64) - 1)),), ()

    return repeat(tracer, pivots.shape[-1], (order,), turn)[0][0]


def halves(tracer: Tracer, packed: torch.Tensor) -> Tensors:
    """L and U of what the elimination left."""
    k = shorter(tracer, packed)
    lower, upper = packed[..., :, :k].tril(-1), packed[..., :k, :].triu()
    rows, columns = indices(lower, -2), indices(lower, -1)
    return lower + (rows.unsqueeze(-1) == columns).to(lower.dtype), upper


def zero_pivots(packed: torch.Tensor) -> torch.Tensor:
    return first_failure(packed.diagonal(dim1=-2, dim2=-1) == 0)


def matrix_of(order: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """P with A = P @ (A in that order)."""
    rows = indices(order, -1)
    return (rows.unsqueeze(-1) == order.unsqueeze(-2)).to(dtype)


@computes(aten.linalg_lu_factor_ex.default)
def linalg_lu_factor_ex(
    tracer: Tracer, matrix: torch.Tensor, *, pivot: bool = True, check_errors: bool = False
) -> Tensors:
    """linalg_lu_factor_ex(Tensor A, *, bool pivot=True, bool check_errors=False) ->
    (Tensor LU, Tensor pivots, Tensor info)"""
    if not pivot:
        return NotImplemented
    packed, pivots = eliminate(tracer, matrix)
    return packed, pivots, zero_pivots(packed)


@computes(aten.lu_unpack.default)
def lu_unpack(
    tracer: Tracer, packed: torch.Tensor, pivots: torch.Tensor, unpack_data: bool = True, unpack_pivots: bool = True
) -> Tensors:
    """lu_unpack(Tensor LU_data, Tensor LU_pivots, bool unpack_data=True, bool unpack_pivots=True) ->
    (Tensor P, Tensor L, Tensor U)"""
    nothing = torch.empty(0, dtype=packed.dtype)
    lower, upper = halves(tracer, packed) if unpack_data else (nothing, nothing)
    if not unpack_pivots:
        return nothing, lower, upper
    order = permutation(tracer, pivots, indices(packed, -2))
    return matrix_of(order, packed.dtype), lower, upper


@computes(aten.linalg_lu.default)
def linalg_lu(tracer: Tracer, matrix: torch.Tensor, *, pivot: bool = True) -> Tensors:
    """linalg_lu(Tensor A, *, bool pivot=True) -> (Tensor P, Tensor L, Tensor U)"""
    if not pivot:
        return NotImplemented
    packed, pivots = eliminate(tracer, matrix)
    return lu_unpack(tracer, packed, pivots)


@computes(aten.linalg_lu_solve.default)
def linalg_lu_solve(
    tracer: Tracer,
    packed: torch.Tensor,
    pivots: torch.Tensor,
    right: torch.Tensor,
    *,
    left: bool = True,
    adjoint: bool = False,
) -> torch.Tensor:
    """linalg_lu_solve(Tensor LU, Tensor pivots, Tensor B, *, bool left=True, bool adjoint=False) -> Tensor"""
    if not left:
        return linalg_lu_solve(tracer, packed, pivots, right.mT, adjoint=not adjoint).mT
    order = permutation(tracer, pivots, indices(packed, -2))
    permute = matrix_of(order, packed.dtype)
    if adjoint:  # A.mT = U.mT @ L.mT @ P.mT
        half = solve_triangular(tracer, packed.mT, right, upper=False)
        return permute @ solve_triangular(tracer, packed.mT, half, upper=True, unit=True)
    half = solve_triangular(tracer, packed, permute.mT @ right, upper=False, unit=True)
    return solve_triangular(tracer, packed, half, upper=True)


def solve(tracer: Tracer, matrix: torch.Tensor, right: torch.Tensor) -> Tensors:
    """X with matrix @ X = right; L and U, and the pivots. One matrix for many right sides is eliminated once."""
    n = matrix.shape[-1]
    if tuple(matrix.shape[:-2]) != tuple(right.shape[:-2]):
        packed, pivots = eliminate(tracer, matrix)
        return linalg_lu_solve(tracer, packed, pivots, right), packed, pivots
    work, pivots = eliminate(tracer, torch.cat([matrix, right], -1), n)
    packed = work[..., :n]
    return solve_triangular(tracer, packed, work[..., n:], upper=True), packed, pivots


@computes(aten._linalg_solve_ex.default)
def _linalg_solve_ex(
    tracer: Tracer, matrix: torch.Tensor, right: torch.Tensor, *, left: bool = True, check_errors: bool = False
) -> Tensors:
    """_linalg_solve_ex(Tensor A, Tensor B, *, bool left=True, bool check_errors=False) ->
    (Tensor result, Tensor LU, Tensor pivots, Tensor info)"""
    # As PyTorch decides: a vector for every matrix, or matrices.
    is_vector = right.dim() == 1 or (matrix.dim() - 1 == right.dim() and tuple(right.shape) == tuple(matrix.shape[:-1]))
    columns = right.unsqueeze(-1) if is_vector else right
    if left:
        result, packed, pivots = solve(tracer, matrix, columns)
    else:
        result, packed, pivots = solve(tracer, matrix.mT, columns.mT)
        result = result.mT
    return result.squeeze(-1) if is_vector else result, packed, pivots, zero_pivots(packed)


@computes(aten.linalg_inv_ex.default)
def linalg_inv_ex(tracer: Tracer, matrix: torch.Tensor, *, check_errors: bool = False) -> Tensors:
    """linalg_inv_ex(Tensor A, *, bool check_errors=False) -> (Tensor inverse, Tensor info)"""
    inverse, packed, _ = solve(tracer, matrix, identity_like(matrix))
    return inverse, zero_pivots(packed)


@computes(aten._linalg_det.default)
def _linalg_det(tracer: Tracer, matrix: torch.Tensor) -> Tensors:
    """_linalg_det(Tensor A) -> (Tensor result, Tensor LU, Tensor pivots)

    The factors are for gradients; where Det gives the result, nobody reads them, and their loop is dropped.
    """
    packed, pivots = eliminate(tracer, matrix)
    result = parity(pivots, matrix.dtype) * packed.diagonal(dim1=-2, dim2=-1).prod(-1)
    # onnxruntime 1.31 has Det in float32 alone.
    if matrix.dtype is torch.float32 and tracer.is_primitive(determinant, False):
        result = computed_by(determinant, matrix, result)
    return result, packed, pivots


@computes(aten._linalg_slogdet.default)
def _linalg_slogdet(tracer: Tracer, matrix: torch.Tensor) -> Tensors:
    """_linalg_slogdet(Tensor A) -> (Tensor sign, Tensor logabsdet, Tensor LU, Tensor pivots)"""
    packed, pivots = eliminate(tracer, matrix)
    diagonal = packed.diagonal(dim1=-2, dim2=-1)
    sign = parity(pivots, matrix.dtype) * diagonal.sign().prod(-1)
    return sign, diagonal.abs().log().sum(-1), packed, pivots


def parity(pivots: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """The determinant of the permutation: every row that did change places turns the sign."""
    moved = pivots != indices(pivots, -1) + 1
    return torch.where(moved, -1, 1).to(dtype).prod(-1)
