"""Special functions of two tensors: incomplete gamma functions, orthogonal polynomials of a degree."""

from __future__ import annotations

import math

import pytest
import torch

import onward
from onward.verify import Session

from ..harness import NEWEST, SOME_OPSETS, Case, case, run

special = torch.special
NAN, INF = math.nan, math.inf
FEW = (9, 17, NEWEST)
BOTH = {0: {0: "batch"}, 1: {0: "batch"}}

# Around the borders between series, fraction and integral, and far from them.
SHAPES = [0.01, 0.3, 0.5, 1.0, 1.5, 2.0, 3.3, 10.0, 19.9, 20.1, 50.0, 150.0, 300.0, 1e4, 1e6]
PLACES = [1e-5, 0.01, 0.3, 1.0, 1.2, 1.9, 2.1, 3.0, 8.0, 20.0, 25.0, 50.0, 180.0, 310.0, 9900.0, 1e4, 1.002e6]
EDGES = [0.0, -1.0, INF, NAN, 1.0]


@pytest.mark.parametrize("function", [torch.igamma, torch.igammac], ids=["igamma", "igammac"])
@pytest.mark.parametrize("opset", FEW)
def test_incomplete_gamma(function, opset) -> None:
    """In float32 to the last digits of what PyTorch says in float64, which has 9 right ones there."""
    a, x = (torch.tensor(each, dtype=torch.float32) for each in (SHAPES, PLACES))
    args = (a[:, None], x)
    wanted = function(*(each.double() for each in args))
    for dtype, relative in ((torch.float32, 1e-6), (torch.float64, 1e-7)):
        given = tuple(each.to(dtype) for each in args)
        program = onward.export(_Module(function), given, opset_version=opset, verify=False)
        (actual,) = Session(program.model).run(list(given))
        torch.testing.assert_close(actual, wanted.to(dtype), rtol=relative, atol=1e-30)


class _Module(torch.nn.Module):
    def __init__(self, function) -> None:
        super().__init__()
        self._function = function

    def forward(self, a: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        return self._function(a, x)


x = torch.tensor([0.0, 1.0, -1.0, 0.5, -0.5, 0.25, 0.99, -0.99, 0.1, 0.75, 1.5, -1.5, 2.0, -3.0, 10.0, INF])
n = torch.tensor([-1.0, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 15, 30, 2.7, -0.5, NAN, INF])
few = torch.tensor([0.3, -0.7, 1.2])

POLYNOMIALS = [
    special.chebyshev_polynomial_t, special.chebyshev_polynomial_u,
    special.chebyshev_polynomial_v, special.chebyshev_polynomial_w,
    special.shifted_chebyshev_polynomial_t, special.shifted_chebyshev_polynomial_u,
    special.shifted_chebyshev_polynomial_v, special.shifted_chebyshev_polynomial_w,
    special.hermite_polynomial_h, special.hermite_polynomial_he,
    special.laguerre_polynomial_l, special.legendre_polynomial_p,
]  # fmt: skip


def polynomial_cases(function) -> list[Case]:
    name = function.__name__
    return [
        case(name, function, [x[:, None], n], opsets=FEW),
        case(f"{name}, float64", function, [x[:, None].double(), n.double()], opsets=(15,)),
        case(f"{name}, degree as a number", lambda x: (function(x, 3), function(x, 12)), [few], opsets=(17,)),
        case(f"{name}, place as a number", lambda n: function(0.3, n), [n], opsets=(17,)),
        case(f"{name} of integers", function, [torch.tensor([0, 1, 2, -3]), torch.tensor(4)], opsets=(17,)),
    ]


CASES: list[Case] = [
    case("igamma at edges", torch.igamma, [torch.tensor(EDGES)[:, None], torch.tensor(EDGES)], opsets=SOME_OPSETS),
    case("igammac at edges", torch.igammac, [torch.tensor(EDGES)[:, None], torch.tensor(EDGES)], opsets=FEW),
    case("gammainc of any batch", special.gammainc, [few.abs() * 20, few.abs() * 19], dynamic=BOTH, opsets=FEW),
    case("gammaincc of float16", special.gammaincc, [few.abs().half(), few.abs().half() * 2], opsets=FEW),
    case("igamma of no elements", torch.igamma, [few[:0], few[:0]], opsets=FEW),
    *(row for function in POLYNOMIALS for row in polynomial_cases(function)),
    case("a polynomial of any batch", special.legendre_polynomial_p, [few, few.abs() * 20], dynamic=BOTH),
    case("of no elements", special.hermite_polynomial_h, [few[:0], few[:0]], opsets=FEW),
    case("of degrees that no loop should count up to", lambda x: special.chebyshev_polynomial_t(x, 10**8),
         [torch.tensor([1.0, -1.0, 1.5])], opsets=(9, NEWEST)),
    case("Hermite's above the limit", special.hermite_polynomial_h,
         [few[:, None], torch.tensor([127.0, 128.0, 129.0, 600.0])], opsets=FEW),
    case("overflow", special.chebyshev_polynomial_t,
         [torch.tensor([3.0, -3.0, 1e20]), torch.tensor([[3.0], [60.0], [90.0]])], opsets=FEW),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=str)
def test_case(case: Case) -> None:
    run(case)
