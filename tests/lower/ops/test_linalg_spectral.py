"""Orthogonal factors, eigenvalues, singular values and what is made of them, against eager.

Eigenvectors and singular vectors have no sign of their own: what is compared is what they make up again, and that they
are orthonormal (1 is added to their products, since nothing could be compared with zeros).
"""

from __future__ import annotations

from typing import Any

import pytest
import torch

import onward
from onward.verify import Session, compare
from tests.opsets import NEWEST

from ..harness import case, f32, floats, run

FEW = (9, 13, NEWEST)
BOTH = {0: {1: "m", 2: "n"}}
SHAPES = [(4, 4), (5, 3), (3, 5), (1, 3), (3, 1), (3, 0), (0, 3)]


def symmetric(*size: int, dtype: torch.dtype = torch.float32, seed: int = 0) -> torch.Tensor:
    x = floats(*size, dtype=dtype, seed=seed)
    return x + x.mT


def deficient(m: int, n: int, rank: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return floats(m, rank, dtype=dtype) @ floats(rank, n, dtype=dtype, seed=1)


def eigh(x: torch.Tensor, triangle: str = "L") -> tuple[torch.Tensor, ...]:
    values, vectors = torch.linalg.eigh(x, UPLO=triangle)
    return values, (vectors * values.unsqueeze(-2)) @ vectors.mT, 1 + vectors.mT @ vectors


def svd(x: torch.Tensor, full: bool = False) -> tuple[torch.Tensor, ...]:
    left, values, right = torch.linalg.svd(x, full_matrices=full)
    k = values.shape[-1]
    product = (left[..., :k] * values.unsqueeze(-2)) @ right[..., :k, :]
    return values, product, 1 + left.mT @ left, 1 + right @ right.mT


QR = [
    *[
        case(f"qr {mode} of {m} by {n}", lambda x, mode=mode: torch.linalg.qr(x, mode), [f32(2, m, n)], opsets=FEW)
        for mode in ("reduced", "complete")
        for m, n in SHAPES
    ],
    case("qr, r alone", lambda x: torch.linalg.qr(x, "r").R, [f32(3, 4)], opsets=FEW),
    case("qr float64", lambda x: torch.linalg.qr(x), [floats(4, 3, dtype=torch.float64)], opsets=FEW),
    case("qr of zeros", lambda x: torch.linalg.qr(x), [torch.zeros(3, 2)], opsets=FEW),
    case("qr of a triangle", lambda x: torch.linalg.qr(x.triu()), [f32(3, 3)], opsets=FEW),
    *[case(f"geqrf of {m} by {n}", lambda x: torch.geqrf(x), [f32(2, m, n)], opsets=FEW) for m, n in SHAPES],
    case("householder_product", torch.linalg.householder_product, [f32(2, 4, 3), f32(2, 2)], opsets=FEW),
    *[
        case(
            f"ormqr, {left=} {transpose=}",
            lambda a, tau, c, left=left, transpose=transpose: torch.ormqr(a, tau, c, left=left, transpose=transpose),
            [f32(4, 3), f32(3), f32(4, 4)],
            opsets=FEW,
        )
        for left in (True, False)
        for transpose in (True, False)
    ],
]
EIGEN = [
    case(
        "eigh",
        eigh,
        [symmetric(2, 4, 4)],
        dynamic={0: {0: "b", 1: "n", 2: "n"}},
        inputs_at=lambda n: [symmetric(n + 1, n, n)],
        opsets=(10, 13, NEWEST),
    ),
    case("eigh reads the lower triangle", eigh, [f32(3, 3)], opsets=FEW),
    case("eigh of the upper triangle", lambda x: eigh(x, "U"), [f32(3, 3)], opsets=FEW),
    case("eigh float64", eigh, [symmetric(5, 5, dtype=torch.float64)], opsets=FEW),
    case("eigh of equal eigenvalues", lambda x: [1 + each for each in eigh(x)], [torch.ones(4, 4)], opsets=FEW),
    case("eigh of a diagonal", eigh, [torch.eye(3)], opsets=FEW),
    case("eigh of nothing", lambda x: torch.linalg.eigh(x), [f32(2, 0, 0)], opsets=FEW),
    case("eigvalsh of 24 by 24", torch.linalg.eigvalsh, [symmetric(24, 24)], opsets=(20,)),
    case("pinv hermitian", lambda x: torch.linalg.pinv(x, hermitian=True), [symmetric(3, 3)], opsets=FEW),
    case(
        "matrix_rank hermitian",
        lambda x: torch.linalg.matrix_rank(x, hermitian=True),
        [torch.ones(2, 3, 3)],
        opsets=FEW,
    ),
]
SINGULAR = [
    *[
        case(f"svd of {m} by {n}, {full=}", lambda x, full=full: svd(x, full), [f32(2, m, n)], opsets=(13,))
        for full in (True, False)
        for m, n in SHAPES
    ],
    case("svd, dynamic batch", svd, [f32(2, 4, 3)], dynamic={0: {0: "b"}}, opsets=FEW),
    case(
        "svd of a singular matrix", lambda x: [1 + each for each in svd(x, full=True)], [deficient(5, 4, 2)], opsets=FEW
    ),
    case("svd of zeros", lambda x: svd(x, full=True), [torch.zeros(3, 2)], opsets=FEW),
    case("svd float64", svd, [floats(4, 3, dtype=torch.float64)], opsets=FEW),
    case("svd of small numbers", svd, [f32(4, 3) * 1e-25], opsets=(20,)),
    case("svdvals", torch.linalg.svdvals, [f32(2, 3, 5)], opsets=FEW),
    case("cond", torch.linalg.cond, [f32(2, 4, 4)], opsets=FEW),
    case("nuclear norm", lambda x: torch.linalg.matrix_norm(x, "nuc"), [f32(2, 3, 4)], opsets=FEW),
    case("spectral norm", lambda x: torch.linalg.matrix_norm(x, 2), [f32(2, 3, 4)], opsets=FEW),
    case("matrix_rank", torch.linalg.matrix_rank, [deficient(5, 4, 2)], opsets=FEW),
    case("matrix_rank, atol", lambda x: torch.linalg.matrix_rank(x, atol=1.5), [f32(4, 4)], opsets=FEW),
]
INVERSES = [
    *[case(f"pinv of {m} by {n}", torch.linalg.pinv, [f32(2, m, n)], opsets=FEW) for m, n in SHAPES],
    case("pinv, dynamic", torch.linalg.pinv, [f32(2, 4, 3)], dynamic=BOTH, opsets=FEW),
    case("pinv of a singular matrix", torch.linalg.pinv, [deficient(5, 4, 2)], opsets=FEW),
    case("pinv, bounds", lambda x: torch.linalg.pinv(x, atol=0.5, rtol=0.1), [f32(4, 3)], opsets=FEW),
    case("pinv, atol", lambda x: torch.linalg.pinv(x, atol=1.2), [f32(2, 4, 3)], opsets=FEW),
    *[
        case(
            f"lstsq by {driver} of {m} by {n}",
            lambda a, b, driver=driver: torch.linalg.lstsq(a, b, driver=driver),
            [f32(2, m, n), f32(2, m, 2)],
            opsets=(13,),
        )
        for driver in ("gels", "gelsy", "gelsd", "gelss")
        for m, n in [(5, 3), (3, 5), (3, 3)]
    ],
    case(
        "lstsq, dynamic",
        lambda a, b: torch.linalg.lstsq(a, b).solution,
        [f32(6, 3), f32(6, 2)],
        dynamic={0: {0: "m"}, 1: {0: "m"}},
        sizes=(5, 9),
        inputs_at=lambda m: [f32(m, 3, seed=m), f32(m, 2)],
        opsets=FEW,
    ),
    case("lstsq of deficient rank", lambda a, b: torch.linalg.lstsq(a, b), [deficient(5, 4, 2), f32(5, 2)], opsets=FEW),
    case("lstsq for a vector each", lambda a, b: torch.linalg.lstsq(a, b), [f32(2, 5, 3), f32(2, 5)], opsets=FEW),
    case("matrix_exp", torch.linalg.matrix_exp, [f32(2, 3, 3)], dynamic={0: {0: "b"}}, opsets=FEW),
    case("matrix_exp, dynamic", torch.matrix_exp, [f32(3, 3)], dynamic={0: {0: "n", 1: "n"}}, opsets=FEW),
    case(
        "matrix_exp of large ones",
        torch.linalg.matrix_exp,
        [f32(2, 3, 3) * torch.tensor([0.1, 20]).view(2, 1, 1)],
        opsets=FEW,
    ),
    case("matrix_exp float64", torch.linalg.matrix_exp, [floats(3, 3, dtype=torch.float64)], opsets=FEW),
    case("matrix_exp of zeros", torch.linalg.matrix_exp, [torch.zeros(2, 2)], opsets=FEW),
]


@pytest.mark.parametrize("case", [*QR, *EIGEN, *SINGULAR, *INVERSES], ids=str)
def test_case(case) -> None:
    run(case)


@pytest.mark.parametrize(
    "function",
    [torch.geqrf, torch.linalg.qr, torch.linalg.lu, svd],
    ids=["geqrf", "qr", "lu", "svd"],
)
def test_a_tall_matrix_stays_tall(function: Any) -> None:
    """Which of the two sizes is smaller decides what an operator does: the export holds on one side, and says so."""
    with pytest.warns(onward.CaptureWarning, match="the file holds where `m >= 3` is True"):
        program = onward.export(_Function(function), (f32(5, 3),), input_names=["x"], dynamic_axes={"x": {0: "m"}})
    session = Session(program.model)
    for m in (3, 8):
        x = f32(m, 3, seed=m)
        for wanted, got in zip(function(x), session.run([x]), strict=True):
            assert compare(wanted, got, f"m = {m}").ok


def test_the_signs_of_vectors_follow_a_rule() -> None:
    """The entry that is largest by magnitude is positive, in eigenvectors and in left singular vectors."""

    def both(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return torch.linalg.eigh(x).eigenvectors, torch.linalg.svd(x).U

    x = symmetric(6, 6)
    program = onward.export(_Function(both), (x,))
    for vectors in Session(program.model).run([x]):
        assert bool((vectors.amax(0) >= -vectors.amin(0)).all())


class _Function(torch.nn.Module):
    def __init__(self, function: Any) -> None:
        super().__init__()
        self._function = function

    def forward(self, x: torch.Tensor) -> Any:
        return self._function(x)
