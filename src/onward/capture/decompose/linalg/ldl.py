"""L @ D @ L.mT for symmetric matrices that need not be definite, with the pivots of Bunch and Kaufman: LAPACK's sytrf.

D has blocks of one row or of two on its diagonal. Which it is differs from matrix to matrix in a batch, so a turn of
the loop is one column for all: the first of two finds both columns, and the next turn hands out the second.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import torch
from torch._ops import OpOverload

from ....tables import registrar
from .loops import Algorithm, Tensors, as_columns, entry, first_failure, indices, is_empty, outer, repeat
from .lu import swapped, take_rows
from .triangular import same_batch

if TYPE_CHECKING:
    from ...record.tracer import Tracer

aten = torch.ops.aten

ALGORITHMS: dict[OpOverload, Algorithm] = {}
computes = registrar(ALGORITHMS)

_ALPHA = (1 + math.sqrt(17)) / 8  # how much smaller a pivot may be than what could replace it


@computes(aten.linalg_ldl_factor_ex.default)
def linalg_ldl_factor_ex(
    tracer: Tracer, matrix: torch.Tensor, *, hermitian: bool = False, check_errors: bool = False
) -> Tensors:
    """linalg_ldl_factor_ex(Tensor self, *, bool hermitian=False, bool check_errors=False) ->
    (Tensor LD, Tensor pivots, Tensor info)"""
    n, batch = matrix.shape[-1], matrix.shape[:-2]
    if is_empty(n):
        return matrix.clone(), torch.zeros((*batch, 0), dtype=torch.int32), torch.zeros(batch, dtype=torch.int32)
    rows = indices(matrix, -1)

    def turn(k: Any, work: torch.Tensor, second: torch.Tensor, ready: torch.Tensor, last: torch.Tensor) -> Any:
        largest, two = choose(work, rows, k)
        largest, two = torch.where(second, k, largest), two & ~second
        order = swapped(rows, torch.where(two, k + 1, k), largest)
        work = take_rows(take_rows(work, order).mT, order)
        column, after = work.select(-1, k), work.select(-1, (k + 1) % n)  # the last column is never the first of two
        single = column / torch.where(entry(column, k) == 0, 1, entry(column, k))
        first, other = through_block(column, after, entry(column, (k + 1) % n), k, (k + 1) % n, two)
        below = (rows > k + 1) | ((rows > k) & ~two)
        first = torch.where(below & ~second, torch.where(two, first, single), 0)
        other = torch.where(below & two, other, 0)
        done = torch.where((rows == k) | ((rows == k + 1) & two), column, first)
        pivot = torch.where(second, last, torch.where(two, -1, 1) * (largest + 1))
        carried = (
            work - outer(first, column) - outer(other, after),
            two,
            torch.where(rows == k + 1, after, other),
            pivot,
        )
        return carried, (torch.where(second, ready, done), pivot.squeeze(-1))

    work = matrix.tril() + matrix.tril(-1).mT
    none = torch.zeros_like(work.select(-1, 0).select(-1, 0).unsqueeze(-1), dtype=torch.int64)
    start = (work, none != 0, torch.zeros_like(work.select(-1, 0)), none)
    _, (columns, pivots) = repeat(tracer, n, start, turn)
    factor, found = as_columns(columns).tril(), as_columns(pivots).to(torch.int32)
    return factor, found, first_failure((factor.diagonal(dim1=-2, dim2=-1) == 0) & (found > 0))


def choose(work: torch.Tensor, rows: torch.Tensor, k: Any) -> Tensors:
    """The row that column k is to change places with (k itself: none), and whether two columns make up a block."""
    column = work.select(-1, k)
    below = torch.where(rows > k, column.abs(), -1)
    largest = below.argmax(-1, keepdim=True)
    most, own = below.amax(-1, keepdim=True).clamp(min=0), entry(column, k).abs()
    row = torch.where((rows == largest).unsqueeze(-1), work, 0).sum(-2).abs()
    others = torch.where((rows >= k) & (rows != largest), row, 0).amax(-1, keepdim=True)
    theirs = torch.where(rows == largest, row, 0).sum(-1, keepdim=True)
    stays = (own >= _ALPHA * most) | (own >= _ALPHA * most * (most / others))
    return torch.where(stays, k, largest), ~stays & (theirs < _ALPHA * others)


def through_block(
    column: torch.Tensor, after: torch.Tensor, corner: torch.Tensor, k: Any, next_one: Any, two: torch.Tensor
) -> Tensors:
    """Two columns, times the inverse of their block of D, which the entry off its diagonal is divided out of."""
    corner = torch.where(two, corner, 1)
    upper, lower = entry(column, k) / corner, entry(after, next_one) / corner
    scale = 1 / ((torch.where(two, upper * lower, 2) - 1) * corner)
    return (lower * column - after) * scale, (upper * after - column) * scale


@computes(aten.linalg_ldl_solve.default)
def linalg_ldl_solve(
    tracer: Tracer, factor: torch.Tensor, pivots: torch.Tensor, right: torch.Tensor, *, hermitian: bool = False
) -> torch.Tensor:
    """linalg_ldl_solve(Tensor LD, Tensor pivots, Tensor B, *, bool hermitian=False) -> Tensor"""
    n = factor.shape[-1]
    places = pivots.to(torch.int64).unsqueeze(-1).expand(*pivots.shape, 1)
    factor, right = same_batch(factor, right)
    if is_empty(n, right.shape[-1]):
        return right.clone()
    places = same_batch(places, right)[0].squeeze(-1)
    rows = indices(factor, -1)

    def down(k: Any, work: torch.Tensor, second: torch.Tensor) -> Any:
        place = entry(places, k)
        two = (place < 0) & ~second
        order = swapped(rows, torch.where(two, k + 1, k), torch.where(second, k, place.abs() - 1))
        work = take_rows(work, order)
        column = torch.where((rows > k + 1) | ((rows > k) & ~two), factor.select(-1, k), 0)
        return (work - outer(column, work.select(-2, k)), two), (order, column, second.squeeze(-1))

    start = (right, torch.zeros_like(places[..., :1]) != 0)
    (work, _), (orders, columns, seconds) = repeat(tracer, n, start, down)
    work = _through_blocks(factor, work, as_columns(seconds), as_columns(seconds.roll(-1, 0)), rows)

    def up(k: Any, work: torch.Tensor) -> Any:
        k = n - 1 - k
        found = work.select(-2, k).unsqueeze(-2) - columns.select(0, k).unsqueeze(-2) @ work
        return (take_rows(torch.where((rows == k).unsqueeze(-1), found, work), orders.select(0, k)),), ()

    return repeat(tracer, n, (work,), up)[0][0]


def _through_blocks(
    factor: torch.Tensor, work: torch.Tensor, second: torch.Tensor, first: torch.Tensor, rows: torch.Tensor
) -> torch.Tensor:
    """inverse(D) @ work: rows that are a block of their own, and the first and second rows of the others."""
    partner = torch.where(second, rows - 1, torch.where(first, rows + 1, rows))
    single, block = rows == partner, factor.tril() + factor.tril(-1).mT
    own = factor.diagonal(dim1=-2, dim2=-1)
    corner = torch.where(single, 1, block.gather(-1, partner.unsqueeze(-1)).squeeze(-1)).unsqueeze(-1)
    theirs = (own.gather(-1, partner).unsqueeze(-1)) / corner
    paired = (theirs * work - take_rows(work, partner)) / (own.unsqueeze(-1) * theirs - corner)
    return torch.where(single.unsqueeze(-1), work / own.unsqueeze(-1), paired)
