"""Householder's reflections: I - tau * v @ v.mT, one for each column, with LAPACK's signs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch._ops import OpOverload

from ....tables import registrar
from .loops import Algorithm, Tensors, as_columns, entry, indices, is_empty, repeat, shorter

if TYPE_CHECKING:
    from ...record.tracer import Tracer

aten = torch.ops.aten

ALGORITHMS: dict[OpOverload, Algorithm] = {}
computes = registrar(ALGORITHMS)


def triangulate(tracer: Tracer, matrix: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """What the reflections make of the matrix (R, and rounding errors below it), their vectors, and their taus."""
    count = shorter(tracer, matrix)
    if is_empty(count):
        return matrix.clone(), matrix[..., :, :0], matrix.new_zeros((*matrix.shape[:-2], 0))
    rows = indices(matrix, -2)

    def turn(j: int, work: torch.Tensor) -> tuple[Tensors, Tensors]:
        column = work.select(-1, j)
        below, top = torch.where(rows > j, column, 0), entry(column, j)
        rest = (below * below).sum(-1, keepdim=True)
        length = (top * top + rest).sqrt()
        pivot = torch.where(top < 0, length, -length)
        idle = rest == 0  # nothing to reflect, as in LAPACK
        tau = torch.where(idle, 0, (pivot - top) / pivot)
        vector = torch.where(rows == j, 1, below / torch.where(idle, 1, top - pivot))
        return (reflected(work, vector, tau),), (vector, tau.squeeze(-1))

    (work,), (vectors, taus) = repeat(tracer, count, (matrix,), turn)
    return work, as_columns(vectors), as_columns(taus)


def reflected(work: torch.Tensor, vector: torch.Tensor, tau: torch.Tensor) -> torch.Tensor:
    """(I - tau * v @ v.mT) @ work"""
    return work - (tau * vector).unsqueeze(-1) * (vector.unsqueeze(-2) @ work)


def reflect(
    tracer: Tracer, vectors: torch.Tensor, taus: torch.Tensor, work: torch.Tensor, *, transpose: bool = False
) -> torch.Tensor:
    """Q @ work, or Q.mT @ work, with Q the product of the reflections; of the vectors what is below the diagonal."""
    count = taus.shape[-1]
    if is_empty(count):
        return work.clone()
    rows = indices(vectors, -2)

    def turn(j: int, work: torch.Tensor) -> tuple[Tensors, Tensors]:
        j = j if transpose else count - 1 - j
        vector = torch.where(rows == j, 1, torch.where(rows > j, vectors.select(-1, j), 0))
        return (reflected(work, vector, entry(taus, j)),), ()

    return repeat(tracer, count, (work,), turn)[0][0]


def orthonormal(tracer: Tracer, vectors: torch.Tensor, taus: torch.Tensor, columns: int) -> torch.Tensor:
    """The first columns of Q."""
    rows = indices(vectors, -2)
    start = (rows.unsqueeze(-1) == torch.arange(columns, device=vectors.device)).to(vectors.dtype)
    if vectors.dim() > 2:
        start = start.expand(*vectors.shape[:-2], *start.shape)
    return reflect(tracer, vectors, taus, start)


@computes(aten.geqrf.default)
def geqrf(tracer: Tracer, matrix: torch.Tensor) -> Tensors:
    """geqrf(Tensor self) -> (Tensor a, Tensor tau)"""
    work, vectors, taus = triangulate(tracer, matrix)
    as_wide = torch.nn.functional.pad(vectors, (0, matrix.shape[-1] - taus.shape[-1]))
    return work.triu() + as_wide.tril(-1), taus


@computes(aten.linalg_householder_product.default, aten.orgqr.default)
def linalg_householder_product(tracer: Tracer, vectors: torch.Tensor, taus: torch.Tensor) -> torch.Tensor:
    """linalg_householder_product(Tensor input, Tensor tau) -> Tensor"""
    return orthonormal(tracer, vectors, taus, vectors.shape[-1])


@computes(aten.ormqr.default)
def ormqr(
    tracer: Tracer,
    vectors: torch.Tensor,
    taus: torch.Tensor,
    other: torch.Tensor,
    left: bool = True,
    transpose: bool = False,
) -> torch.Tensor:
    """ormqr(Tensor self, Tensor input2, Tensor input3, bool left=True, bool transpose=False) -> Tensor"""
    if left:
        return reflect(tracer, vectors, taus, other, transpose=transpose)
    return reflect(tracer, vectors, taus, other.mT, transpose=not transpose).mT


@computes(aten.linalg_qr.default)
def linalg_qr(tracer: Tracer, matrix: torch.Tensor, mode: str = "reduced") -> Tensors:
    """linalg_qr(Tensor A, str mode='reduced') -> (Tensor Q, Tensor R)"""
    work, vectors, taus = triangulate(tracer, matrix)
    m, count = matrix.shape[-2], taus.shape[-1]
    if mode == "complete":
        return orthonormal(tracer, vectors, taus, m), work.triu()
    upper = work[..., :count, :].triu()
    return matrix.new_empty(0) if mode == "r" else orthonormal(tracer, vectors, taus, count), upper
