"""Factorisations and systems of equations, which are loops over columns in the file, against eager."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from tests.opsets import NEWEST

from ..harness import case, check, f32, floats, run

FEW = (9, 13, NEWEST)


def square(*size: int, dtype: torch.dtype = torch.float32, seed: int = 0) -> torch.Tensor:
    """Well-conditioned matrices that still need pivots: the largest entries are off the diagonal."""
    n = size[-1]
    return floats(*size, dtype=dtype, seed=seed) + n * torch.eye(n, dtype=dtype).roll(1, -1)


def definite(*size: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """Symmetric and positive definite; turned upside down and left to right they still are."""
    x = floats(*size, dtype=dtype)
    return x @ x.mT + size[-1] * torch.eye(size[-1], dtype=dtype)


def indefinite(*size: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """Symmetric, with small numbers on the diagonal: most pivots are blocks of two rows."""
    x = floats(*size, dtype=dtype)
    return (x + x.mT) * (1 - 0.95 * torch.eye(size[-1], dtype=dtype))


def growing(make: Any, *rest: Any) -> dict[str, Any]:
    """A batch of matrices whose size and number vary."""
    return {
        "args": [make(2, 4, 4), *(f32(2, 4, *each) for each in rest)],
        "dynamic": {0: {0: "b", 1: "n", 2: "n"}, **{1 + i: {0: "b", 1: "n"} for i in range(len(rest))}},
        "inputs_at": lambda n: [make(n + 1, n, n), *(f32(n + 1, n, *each, seed=n) for each in rest)],
        "opsets": FEW,
    }


solve_triangular = torch.linalg.solve_triangular
CHOLESKY = [
    case("cholesky", torch.linalg.cholesky, **growing(definite)),
    case("cholesky of one matrix", torch.linalg.cholesky, [definite(3, 3)], opsets=FEW),
    case("cholesky reads one triangle", lambda x: torch.linalg.cholesky(x.tril()), [definite(3, 3)], opsets=(20,)),
    case("cholesky upper", lambda x: torch.linalg.cholesky(x, upper=True), [definite(2, 3, 3)], opsets=FEW),
    case(
        "cholesky upper reads one triangle",
        lambda x: torch.cholesky(x.triu(), upper=True),
        [definite(3, 3)],
        opsets=(20,),
    ),
    case("cholesky float64", torch.linalg.cholesky, [definite(3, 3, dtype=torch.float64)], opsets=FEW),
    case("cholesky of nothing", torch.linalg.cholesky, [f32(0, 0)], opsets=FEW),
    case("cholesky of no matrices", torch.linalg.cholesky, [f32(0, 3, 3)], opsets=FEW),
    case("cholesky_ex", lambda x: torch.linalg.cholesky_ex(x), [definite(2, 3, 3)], opsets=FEW),
    case("the info of cholesky_ex", lambda x: torch.linalg.cholesky_ex(x).info, [f32(4, 3, 3)], opsets=FEW),
    case("cholesky_solve", torch.cholesky_solve, [f32(2, 3, 2), definite(2, 3, 3)], opsets=FEW),
    case(
        "cholesky_solve upper",
        lambda b, u: torch.cholesky_solve(b, u, upper=True),
        [f32(3, 2), definite(3, 3)],
        opsets=FEW,
    ),
    case("cholesky_inverse", torch.cholesky_inverse, [definite(2, 3, 3)], opsets=FEW),
    case("cholesky_inverse upper", lambda x: torch.cholesky_inverse(x, upper=True), [definite(3, 3)], opsets=FEW),
]
TRIANGULAR = [
    *[
        case(
            f"solve_triangular, {upper=} {left=} {unit=}",
            lambda a, b, upper=upper, left=left, unit=unit: solve_triangular(
                a, b, upper=upper, left=left, unitriangular=unit
            ),
            [definite(2, 3, 3), f32(2, 3, 3)],
            opsets=FEW,
        )
        for upper in (True, False)
        for left in (True, False)
        for unit in (True, False)
    ],
    case("solve_triangular, dynamic", lambda a, b: solve_triangular(a, b, upper=True), **growing(definite, (2,))),
    case(
        "solve_triangular of other batches",
        lambda a, b: solve_triangular(a, b, upper=False),
        [definite(2, 1, 3, 3), f32(4, 3, 2)],
        dynamic={0: {0: "a"}, 1: {0: "b"}},
        opsets=FEW,
    ),
    case(
        "triangular_solve",
        lambda b, a: torch.triangular_solve(b, a, upper=False, transpose=True),
        [f32(3, 2), definite(3, 3)],
        opsets=FEW,
    ),
]
ELIMINATION = [
    case("inv", torch.linalg.inv, **growing(square)),
    case("inv of one matrix", torch.inverse, [square(4, 4)]),
    case("inv float64", torch.linalg.inv, [square(2, 4, 4, dtype=torch.float64)], opsets=FEW),
    case("inv of nothing", torch.linalg.inv, [f32(2, 0, 0)], opsets=FEW),
    case("inv_ex", lambda x: torch.linalg.inv_ex(x), [square(2, 3, 3)], opsets=FEW),
    case("the info of inv_ex", lambda x: torch.linalg.inv_ex(x).info, [torch.zeros(2, 3, 3)], opsets=FEW),
    case("solve", torch.linalg.solve, **growing(square, (2,))),
    case("solve for a vector", torch.linalg.solve, [square(3, 3), f32(3)], opsets=FEW),
    case("solve for a vector each", torch.linalg.solve, [square(2, 3, 3), f32(2, 3)], opsets=FEW),
    case(
        "solve from the right", lambda a, b: torch.linalg.solve(a, b, left=False), [square(3, 3), f32(2, 3)], opsets=FEW
    ),
    case("solve many with one matrix", torch.linalg.solve, [square(3, 3), f32(4, 3, 2)], opsets=FEW),
    case(
        "solve float64",
        torch.linalg.solve,
        [square(3, 3, dtype=torch.float64), floats(3, 2, dtype=torch.float64)],
        opsets=FEW,
    ),
    case("matrix_power", lambda x: torch.linalg.matrix_power(x, -3), [square(3, 3)], opsets=FEW),
    case("tensorinv", lambda x: torch.linalg.tensorinv(x.reshape(2, 3, 6)), [square(6, 6)], opsets=FEW),
    case(
        "tensorsolve",
        lambda x, y: torch.linalg.tensorsolve(x.reshape(2, 3, 6), y),
        [square(6, 6), f32(2, 3)],
        opsets=FEW,
    ),
    case("det", torch.linalg.det, **growing(square)),
    case("det float64", torch.det, [square(2, 3, 3, dtype=torch.float64)], opsets=FEW),
    case("det of a singular matrix", torch.linalg.det, [torch.ones(2, 2)], opsets=FEW),
    case("slogdet", lambda x: torch.linalg.slogdet(x), **growing(square)),
    case("slogdet of a singular matrix", lambda x: torch.linalg.slogdet(x), [torch.ones(2, 2)], opsets=FEW),
    case("logdet", torch.logdet, [definite(2, 3, 3)], opsets=FEW),
]
LU = [
    case("lu_factor", lambda x: torch.linalg.lu_factor(x), **growing(square)),
    *[
        case(f"lu of {m} by {n}", lambda x: torch.linalg.lu(x), [f32(2, m, n)], opsets=FEW)
        for m, n in [(3, 5), (5, 3), (4, 4), (1, 3), (3, 0), (0, 3)]
    ],
    case(
        "lu with ties", lambda x: torch.linalg.lu(x), [torch.tensor([[1.0, 2, 3], [-1, 1, 4], [1, 2, -1]])], opsets=FEW
    ),
    case(
        "lu of one column at least",
        lambda x: torch.linalg.lu(x),
        [f32(4, 3)],
        dynamic={0: {0: "m", 1: "n"}},
        opsets=FEW,
    ),
    case("lu_factor_ex of a singular matrix", lambda x: torch.linalg.lu_factor_ex(x), [torch.ones(2, 2)], opsets=FEW),
    case("lu_unpack", lambda x: torch.lu_unpack(*torch.linalg.lu_factor(x)), [square(2, 3, 3)], opsets=FEW),
    *[
        case(
            f"lu_solve, {left=} {adjoint=}",
            lambda a, b, left=left, adjoint=adjoint: torch.linalg.lu_solve(
                *torch.linalg.lu_factor(a), b, left=left, adjoint=adjoint
            ),
            [square(2, 3, 3), f32(2, 3, 3)],
            opsets=FEW,
        )
        for left in (True, False)
        for adjoint in (True, False)
    ],
]
LDL = [
    case("ldl_factor", lambda x: torch.linalg.ldl_factor(x), **growing(indefinite)),
    case("ldl_factor of one matrix", lambda x: torch.linalg.ldl_factor(x), [indefinite(5, 5)], opsets=FEW),
    case("ldl_factor without blocks of two", lambda x: torch.linalg.ldl_factor(x), [definite(3, 3)], opsets=FEW),
    case("ldl_factor of nothing", lambda x: torch.linalg.ldl_factor(x), [f32(2, 0, 0)], opsets=FEW),
    case("ldl_factor_ex of zeros", lambda x: torch.linalg.ldl_factor_ex(x), [torch.zeros(3, 3)], opsets=FEW),
    case(
        "ldl_factor_ex float64",
        lambda x: torch.linalg.ldl_factor_ex(x),
        [indefinite(2, 6, 6, dtype=torch.float64)],
        opsets=FEW,
    ),
    case("ldl_solve", lambda a, b: torch.linalg.ldl_solve(*torch.linalg.ldl_factor(a), b), **growing(indefinite, (2,))),
    case(
        "ldl_solve with many matrices",
        lambda a, b: torch.linalg.ldl_solve(*torch.linalg.ldl_factor(a), b),
        [indefinite(2, 5, 5), f32(5, 2)],
        opsets=FEW,
    ),
]


@pytest.mark.filterwarnings("ignore:torch.*is deprecated in favor:UserWarning")
@pytest.mark.parametrize("case", [*CHOLESKY, *TRIANGULAR, *ELIMINATION, *LU, *LDL], ids=str)
def test_case(case) -> None:
    run(case)


@pytest.mark.parametrize("opset", [11, NEWEST])
def test_a_determinant_is_one_node_in_float32(opset: int) -> None:
    proto = check(case("det", torch.linalg.det, [square(2, 4, 4)]), opset)
    assert [node.op_type for node in proto.graph.node] == ["Det"]
