"""Eigenvalues of symmetric matrices, and singular values, by Jacobi's rotations.

A rotation of two columns makes one pair of them orthogonal. In one turn every column i is rotated with its partner
(turn - i) mod n, so that n turns, a sweep, bring all pairs together once; each sweep squares what is left to do.
Everything that is one number per column below (cos, sin, products) is so for all columns at once.

Vectors are unique up to their sign (and up to more where values coincide): here the entry that is largest by magnitude
is positive in every eigenvector and in every left singular vector. LAPACK's signs follow no such rule.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch._ops import OpOverload

from ....tables import registrar
from ...bodies.control import capture_loop
from .cholesky import identity_like
from .loops import Algorithm, Tensors, indices, is_empty, shorter
from .qr import orthonormal, triangulate
from .reference import signs_of

if TYPE_CHECKING:
    from ...record.tracer import Tracer

aten = torch.ops.aten

ALGORITHMS: dict[OpOverload, Algorithm] = {}
computes = registrar(ALGORITHMS)

SWEEPS = 20  # far more than it takes: about 6 for 5 columns, 10 for 200


def rotation(own: torch.Tensor, other: torch.Tensor, product: torch.Tensor, sides: torch.Tensor) -> Tensors:
    """sin and tan of half the angle for every column, from its square, its partner's, and their product.

    `sides` is -1 or 1 for the two partners and 0 for a column without one: they turn in opposite directions.
    """
    ratio = (other - own) / (2 * product)
    sign = torch.where(ratio == 0, sides.to(ratio.dtype), ratio.sign())
    tangent = sign / (ratio.abs() + (1 + ratio * ratio).sqrt())
    tangent = torch.where((product == 0) | (sides == 0), 0, tangent)
    cos = (1 + tangent * tangent).rsqrt()
    sin = tangent * cos
    return sin.unsqueeze(-2), (sin / (1 + cos)).unsqueeze(-2)


def rotated(matrix: torch.Tensor, partner: torch.Tensor, sin: torch.Tensor, half: torch.Tensor) -> torch.Tensor:
    """Every column with its partner: cos * x - sin * y, written so that small angles round little."""
    return matrix - sin * (matrix.index_select(-1, partner) + half * matrix)


def partners(columns: torch.Tensor, turn: Any, n: Any) -> Tensors:
    """The partner of every column, and its side."""
    partner = (turn - columns) % n
    return partner, (partner - columns).sign()


def eigen(tracer: Tracer, matrix: torch.Tensor, *, vectors: bool) -> Tensors:
    """Eigenvalues in ascending order, and eigenvectors if they are asked for. The lower triangle is read."""
    n = matrix.shape[-1]
    if is_empty(n):
        return matrix.new_zeros(matrix.shape[:-1]), matrix.clone()
    work = matrix.tril() + matrix.tril(-1).mT
    columns = indices(matrix, -1)
    diagonal = columns.unsqueeze(-1) == columns
    small = torch.finfo(matrix.dtype).eps * work.abs().amax((-2, -1), keepdim=True)

    def turn(j: Any, carried: Tensors) -> Any:
        work, *basis = carried
        partner, sides = partners(columns, j % n, n)
        own = torch.where(diagonal, work, 0).sum(-1)
        product = torch.where(diagonal, work.index_select(-1, partner), 0).sum(-1)
        sin, half = rotation(own, own.index_select(-1, partner), product, sides)
        work = rotated(rotated(work, partner, sin, half).mT, partner, sin, half)
        # What the rotations make 0 is 0, without rounding errors that later turns would go after.
        work = torch.where((columns == partner.unsqueeze(-1)) & (sides != 0).unsqueeze(-1), 0, work)
        going = (torch.where(diagonal, 0, work).abs() > small).any()
        return going, (work, *(rotated(each, partner, sin, half) for each in basis)), ()

    start = (work, identity_like(matrix)) if vectors else (work,)
    (work, *basis), _ = capture_loop(tracer, SWEEPS * n, True, start, turn)
    values, order = torch.where(diagonal, work, 0).sum(-1).sort(-1)
    sorted_basis = (take_columns(each, order) for each in basis)
    return (values, *(each * signs_of(each) for each in sorted_basis))


def take_columns(matrix: torch.Tensor, order: torch.Tensor) -> torch.Tensor:
    """Columns of matrices in the order that each matrix has."""
    if matrix.dim() == 2:
        return matrix.index_select(1, order)
    return matrix.gather(-1, order.unsqueeze(-2).expand(*matrix.shape))


def orthogonalise(tracer: Tracer, matrix: torch.Tensor, *, vectors: bool) -> Tensors:
    """The columns rotated until they are orthogonal, and the rotations if they are asked for:
    matrix = first @ second.mT."""
    n = matrix.shape[-1]
    columns = indices(matrix, -1)
    small = 8 * torch.finfo(matrix.dtype).eps  # products of long columns round to several eps

    def turn(j: Any, carried: Tensors) -> Any:
        skew, work, *basis = carried
        partner, sides = partners(columns, j % n, n)
        own, product = (work * work).sum(-2), (work * work.index_select(-1, partner)).sum(-2)
        other = own.index_select(-1, partner)
        # Two columns are orthogonal if the smaller has less of the larger in it than the largest of all rounds to.
        bound = small * (own.amax(-1, keepdim=True) * torch.maximum(own, other)).sqrt()
        is_skew = ((product.abs() > bound) & (sides != 0)).any()
        step = torch.scalar_tensor(j % n, dtype=torch.int64)
        skew = is_skew | (skew & (step != 0))  # in this sweep so far
        sin, half = rotation(own, other, product, sides)
        return skew | (step != n - 1), (skew, *(rotated(each, partner, sin, half) for each in (work, *basis))), ()

    rotations = (identity_like(matrix.mT @ matrix),) if vectors else ()
    start = (torch.zeros((), dtype=torch.bool), matrix, *rotations)
    (_, *found), _ = capture_loop(tracer, SWEEPS * n, True, start, turn)
    return tuple(found)


def scaled(matrix: torch.Tensor) -> Tensors:
    """The matrix with entries up to 1, whose squares do not overflow, and the factor to undo it."""
    largest = matrix.abs().amax((-2, -1), keepdim=True)
    scale = torch.where(largest == 0, 1, largest)
    return matrix / scale, scale


def is_wide(matrix: torch.Tensor) -> bool:
    """Whether a matrix has more columns than rows at all its sizes: its transpose is less work."""
    m, n = matrix.shape[-2:]
    return type(m) is int and type(n) is int and m < n


def singular_values(tracer: Tracer, matrix: torch.Tensor) -> torch.Tensor:
    """In descending order."""
    count = shorter(tracer, matrix)
    if is_empty(count):
        return matrix.new_zeros((*matrix.shape[:-2], 0))
    matrix, scale = scaled(matrix.mT if is_wide(matrix) else matrix)
    (work,) = orthogonalise(tracer, matrix, vectors=False)
    lengths = (work * work).sum(-2).sqrt().sort(-1, descending=True)[0]
    return lengths[..., :count] * scale.squeeze(-1)


def singular(tracer: Tracer, matrix: torch.Tensor, *, full: bool) -> Tensors:
    """U, S in descending order, and V."""
    if is_wide(matrix):
        right, values, left = singular(tracer, matrix.mT, full=full)
        return left, values, right
    m, count = matrix.shape[-2], shorter(tracer, matrix)
    if is_empty(count):
        values = matrix.new_zeros((*matrix.shape[:-2], 0))
        left = torch.eye(m, dtype=matrix.dtype).expand(*matrix.shape[:-2], m, m)
        return left.clone() if full else left[..., :0], values, matrix.new_zeros((*matrix.shape[:-2], 0, 0))
    matrix, scale = scaled(matrix)
    work, right = orthogonalise(tracer, matrix, vectors=True)
    lengths, order = (work * work).sum(-2).sqrt().sort(-1, descending=True)
    # The columns are U * S. Reflections find U also where S is 0, and complete it to a square, but for signs.
    triangle, vectors, taus = triangulate(tracer, take_columns(work, order))
    left = orthonormal(tracer, vectors, taus, m if full else count)
    signs = signs_of(left)
    flips = torch.where(triangle.diagonal(dim1=-2, dim2=-1) < 0, -1, 1).unsqueeze(-2) * signs[..., :count]
    right = take_columns(right, order)
    same = right[..., :count] * flips
    right = torch.cat([same, right[..., count:]], -1) if full else same
    return left * signs, lengths[..., :count] * scale.squeeze(-1), right


@computes(aten._linalg_eigh.default)
def _linalg_eigh(tracer: Tracer, matrix: torch.Tensor, triangle: str = "L", compute_v: bool = True) -> Tensors:
    """_linalg_eigh(Tensor A, str UPLO="L", bool compute_v=True) -> (Tensor eigenvalues, Tensor eigenvectors)"""
    tracer.has_vectors |= compute_v
    values, *vectors = eigen(tracer, matrix if triangle.upper() == "L" else matrix.mT, vectors=compute_v)
    return values, vectors[0] if compute_v else matrix.new_empty(0)


@computes(aten.linalg_eigvalsh.default)
def linalg_eigvalsh(tracer: Tracer, matrix: torch.Tensor, triangle: str = "L") -> torch.Tensor:
    """linalg_eigvalsh(Tensor self, str UPLO="L") -> Tensor

    PyTorch computes vectors too, for their gradients, whenever a tensor is of a class of its own.
    """
    return _linalg_eigh(tracer, matrix, triangle, compute_v=False)[0]


@computes(aten.linalg_svdvals.default)
def linalg_svdvals(tracer: Tracer, matrix: torch.Tensor, *, driver: Any = None) -> torch.Tensor:
    """linalg_svdvals(Tensor A, *, str? driver=None) -> Tensor"""
    return singular_values(tracer, matrix)


@computes(aten._linalg_svd.default)
def _linalg_svd(
    tracer: Tracer, matrix: torch.Tensor, full_matrices: bool = False, compute_uv: bool = True, *, driver: Any = None
) -> Tensors:
    """_linalg_svd(Tensor A, bool full_matrices=False, bool compute_uv=True, *, str? driver=None) ->
    (Tensor U, Tensor S, Tensor Vh)"""
    if not compute_uv:
        return matrix.new_empty(0), singular_values(tracer, matrix), matrix.new_empty(0)
    tracer.has_vectors = True
    left, values, right = singular(tracer, matrix, full=full_matrices)
    return left, values, right.mT
