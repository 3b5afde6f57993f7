"""Pseudoinverses, least squares, and the exponential of a matrix."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch._ops import OpOverload

from ....tables import registrar
from ...bodies.control import capture_loop
from .cholesky import identity_like
from .jacobi import eigen, is_wide, orthogonalise
from .loops import Algorithm, Tensors, is_empty, repeat, shorter
from .triangular import same_batch

if TYPE_CHECKING:
    from ...record.tracer import Tracer

aten = torch.ops.aten

ALGORITHMS: dict[OpOverload, Algorithm] = {}
computes = registrar(ALGORITHMS)

_TERMS = 18  # of the exponential's series: 1 / 19! is below the rounding of float64


def pseudoinverse(
    tracer: Tracer, matrix: torch.Tensor, absolute: torch.Tensor | float, relative: torch.Tensor | float
) -> Tensors:
    """The pseudoinverse without the singular values up to a bound; and all these values, in no order.

    matrix = columns @ rotations.mT, and the inverse of columns that are orthogonal is their transpose over the squares
    of their lengths.
    """
    if is_wide(matrix):
        inverse, lengths = pseudoinverse(tracer, matrix.mT, absolute, relative)
        return inverse.mT, lengths
    columns, rotations = orthogonalise(tracer, matrix, vectors=True)
    lengths = (columns * columns).sum(-2, keepdim=True).sqrt()
    bound = torch.maximum(_matrices(absolute, matrix), _matrices(relative, matrix) * lengths.amax(-1, keepdim=True))
    inverted = torch.where(lengths > bound, 1 / lengths, 0)
    return (rotations * inverted) @ (columns * inverted).mT, lengths.squeeze(-2)


def _matrices(bound: torch.Tensor | float, matrix: torch.Tensor) -> torch.Tensor:
    """A bound for each matrix, with the axes that matrices have."""
    given = torch.as_tensor(bound, dtype=matrix.dtype)
    return given.unsqueeze(-1).unsqueeze(-1)


def bounds(matrix: torch.Tensor, atol: Any, rtol: Any) -> tuple[Any, Any]:
    """PyTorch's defaults: nothing absolute, and what rounding leaves of the largest value unless atol is given."""
    default = torch.finfo(matrix.dtype).eps * max(matrix.shape[-2], matrix.shape[-1])
    if rtol is None:
        rtol = default if atol is None else torch.where(atol > 0, 0.0, default)
    return 0.0 if atol is None else atol, rtol


@computes(aten.linalg_pinv.atol_rtol_tensor)
def linalg_pinv(
    tracer: Tracer,
    matrix: torch.Tensor,
    *,
    atol: torch.Tensor | None = None,
    rtol: torch.Tensor | None = None,
    hermitian: bool = False,
) -> torch.Tensor:
    """linalg_pinv.atol_rtol_tensor(Tensor self, *, Tensor? atol=None, Tensor? rtol=None, bool hermitian=False) ->
    Tensor"""
    if is_empty(*matrix.shape[-2:]):
        return torch.zeros_like(matrix.mT)
    absolute, relative = bounds(matrix, atol, rtol)
    if not hermitian:
        return pseudoinverse(tracer, matrix, absolute, relative)[0]
    values, vectors = eigen(tracer, matrix, vectors=True)
    values = values.unsqueeze(-2)
    largest = values.abs().amax(-1, keepdim=True)
    bound = torch.maximum(_matrices(absolute, matrix), _matrices(relative, matrix) * largest)
    return (vectors * torch.where(values.abs() > bound, 1 / values, 0)) @ vectors.mT


@computes(aten.linalg_lstsq.default)
def linalg_lstsq(
    tracer: Tracer,
    matrix: torch.Tensor,
    right: torch.Tensor,
    rcond: float | None = None,
    *,
    driver: str | None = None,
) -> Tensors:
    """linalg_lstsq(Tensor self, Tensor b, float? rcond=None, *, str? driver=None) ->
    (Tensor solution, Tensor residuals, Tensor rank, Tensor singular_values)

    One method for all drivers, which differ in what they return beside the solution. "gels" is for full rank.
    """
    m, n = matrix.shape[-2:]
    is_vector = right.dim() == 1 or (matrix.dim() - 1 == right.dim() and tuple(right.shape) == tuple(matrix.shape[:-1]))
    given, columns = same_batch(matrix, right.unsqueeze(-1) if is_vector else right)
    if is_empty(m, n):
        return NotImplemented
    relative = torch.finfo(matrix.dtype).eps * max(m, n) if rcond is None else rcond
    inverse, lengths = pseudoinverse(tracer, given, 0.0, relative)
    solution = inverse @ columns
    nothing = matrix.new_empty(0)
    residuals, rank, values = nothing, nothing.to(torch.int64), nothing
    if driver in ("gels", "gelsd", "gelss") and m > n:
        rest = columns - given @ solution
        residuals = (rest * rest).sum(-2)
        residuals = residuals.squeeze(-1) if is_vector else residuals
    if driver != "gels":
        rank = (lengths > relative * lengths.amax(-1, keepdim=True)).sum(-1)
    if driver in ("gelsd", "gelss"):
        values = lengths.sort(-1, descending=True)[0][..., : shorter(tracer, matrix)]
    return solution.squeeze(-1) if is_vector else solution, residuals, rank, values


@computes(aten.linalg_matrix_exp.default)
def linalg_matrix_exp(tracer: Tracer, matrix: torch.Tensor) -> torch.Tensor:
    """linalg_matrix_exp(Tensor self) -> Tensor

    The series of a matrix halved until its norm is at most 1, and the result squared as often.
    """
    if is_empty(*matrix.shape):
        return matrix.clone()
    if matrix.dtype in (torch.float16, torch.bfloat16):  # so many products need more digits
        return linalg_matrix_exp(tracer, matrix.float()).to(matrix.dtype)
    norm = matrix.abs().sum(-2, keepdim=True).amax(-1, keepdim=True)
    halvings = norm.log2().ceil().clamp(min=0)
    small, one = matrix * torch.exp2(-halvings), identity_like(matrix)

    def term(j: Any, total: torch.Tensor) -> tuple[Tensors, Tensors]:
        return (one + small @ total / (_TERMS - j),), ()

    def square(j: Any, carried: Tensors) -> Any:
        (power,) = carried
        return (halvings > j + 1).any(), (torch.where(halvings > j, power @ power, power),), ()

    (total,), _ = repeat(tracer, _TERMS, (one,), term)
    (total,), _ = capture_loop(tracer, None, (halvings > 0).any(), (total,), square)
    return total
