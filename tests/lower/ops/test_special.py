"""Special functions, on many points of their domains and at their edges."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import mpmath
import pytest
import torch

import onward
from onward.verify import Session

from ..harness import NEWEST, SOME_OPSETS, Case, case, run

special = torch.special
NAN, INF = math.nan, math.inf
FEW = (9, 17, NEWEST)
EDGES = [0.0, -0.0, 1.0, -1.0, 2.0, -2.0, 0.5, -0.5, NAN, INF, -INF, 1e-30, -1e-30, 1e-8, -1e-8, 100.0, -100.0]

Function = Callable[[torch.Tensor], torch.Tensor]


def points(low: float, high: float, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """Evenly, closer around 0, and where functions change their ways."""
    even = torch.linspace(low, high, 601, dtype=torch.float64)
    close = torch.linspace(-1, 1, 101, dtype=torch.float64)
    some = torch.tensor(EDGES, dtype=torch.float64)
    return torch.cat([some, even, close[(close >= low) & (close <= high)]]).to(dtype)


def polygamma(order: int) -> Function:
    return lambda x: torch.polygamma(order, x)


# name, function, and the range on which it is interesting
GAMMA = [
    ("lgamma", torch.lgamma, -12.3, 40.0),
    ("gammaln", special.gammaln, 0.01, 500.0),
    ("digamma", torch.digamma, -12.3, 40.0),
    ("psi", special.psi, 0.01, 9.0),
    ("polygamma 0", polygamma(0), -3.3, 9.0),
    ("polygamma 2", polygamma(2), -12.3, 40.0),
    ("polygamma 3", polygamma(3), -12.3, 40.0),
    ("polygamma 4", polygamma(4), -12.3, 40.0),
    ("special.polygamma", lambda x: special.polygamma(5, x), -3.3, 9.0),
]
NORMAL = [
    ("log1p", torch.log1p, -1.1, 60.0),
    ("expm1", torch.expm1, -50.0, 80.0),
    ("xlog1py", lambda x: special.xlog1py(x, x), -1.1, 9.0),
    ("entr", special.entr, -1.0, 9.0),
    ("erf", torch.erf, -8.0, 8.0),
    ("erfc", torch.erfc, -6.0, 9.0),
    ("erfcx", special.erfcx, -9.0, 40.0),
    ("erfinv", torch.erfinv, -1.01, 1.01),
    ("ndtri", special.ndtri, -0.01, 1.01),
    ("log_ndtr", special.log_ndtr, -40.0, 10.0),
]
BESSEL = [
    ("i0", torch.i0, -20.0, 20.0),
    ("i0e", special.i0e, -50.0, 50.0),
    ("i1", special.i1, -20.0, 20.0),
    ("i1e", special.i1e, -50.0, 50.0),
    ("modified_bessel_k0", special.modified_bessel_k0, -1.0, 30.0),
    ("modified_bessel_k1", special.modified_bessel_k1, -1.0, 30.0),
    ("scaled_modified_bessel_k0", special.scaled_modified_bessel_k0, -1.0, 60.0),
    ("scaled_modified_bessel_k1", special.scaled_modified_bessel_k1, -1.0, 60.0),
    ("spherical_bessel_j0", special.spherical_bessel_j0, -30.0, 30.0),
]
ROWS = [*GAMMA, *NORMAL, *BESSEL]


@pytest.mark.parametrize(("name", "function", "low", "high"), ROWS, ids=[row[0] for row in ROWS])
def test_is_right_at_every_point(name: str, function: Function, low: float, high: float) -> None:
    """In float32 within a few roundings of what PyTorch says in float64; in float64 to many more digits."""
    x = points(low, high)
    for opset in (9, NEWEST):
        _check(function, x, function(x.double()), opset, 4e-7)
    x = points(low, high, torch.float64)
    _check(function, x, function(x), 17, 1e-11)


# Where these oscillate, PyTorch's own are right to 1e-7 or so and not better, in float64 too.
WAVES = [
    ("bessel_j0", special.bessel_j0, lambda x: mpmath.besselj(0, x), -30.0, 30.0),
    ("bessel_j1", special.bessel_j1, lambda x: mpmath.besselj(1, x), -30.0, 30.0),
    ("bessel_y0", special.bessel_y0, lambda x: mpmath.bessely(0, x), 0.05, 30.0),
    ("bessel_y1", special.bessel_y1, lambda x: mpmath.bessely(1, x), 0.05, 30.0),
    ("airy_ai", special.airy_ai, mpmath.airyai, -9.0, 12.0),
]


@pytest.mark.parametrize(("name", "function", "known", "low", "high"), WAVES, ids=[row[0] for row in WAVES])
def test_oscillates_as_it_should(
    name: str, function: Function, known: Callable[[float], Any], low: float, high: float
) -> None:
    for dtype, opset, relative in ((torch.float32, 9, 4e-7), (torch.float64, NEWEST, 1e-12)):
        x = torch.linspace(low, high, 101, dtype=torch.float64).to(dtype)
        wanted = torch.tensor([float(known(float(each))) for each in x], dtype=torch.float64)
        _check(function, x, wanted, opset, relative)
    x = torch.tensor([*EDGES[:9], 3.0, 5.0, 8.0, -3.0])
    _check(function, x, function(x.double()), 17, 1e-5)


def _check(function: Function, x: torch.Tensor, wanted: torch.Tensor, opset: int, relative: float) -> None:
    session = Session(onward.export(_Module(function), (x,), opset_version=opset, verify=False).model)
    (actual,) = session.run([x])
    tiny = torch.finfo(x.dtype).tiny  # numbers below have few digits
    wanted = torch.where(wanted.abs() < tiny, 0.0, wanted).to(x.dtype)
    actual = torch.where(actual.abs() < tiny, 0.0, actual)
    torch.testing.assert_close(actual, wanted, rtol=relative, atol=relative * 0.1, equal_nan=True)


class _Module(torch.nn.Module):
    def __init__(self, function: Function) -> None:
        super().__init__()
        self._function = function

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self._function(x)


positive = torch.linspace(0.05, 9, 12)
mixed = torch.linspace(-2.7, 6, 12).reshape(3, 4)
SHAPES = {0: {0: "batch"}}
CASES: list[Case] = [
    case("lgamma of any batch", torch.lgamma, [mixed], dynamic=SHAPES, opsets=FEW),
    case("mvlgamma", lambda x: torch.mvlgamma(x + 2, 4), [positive], dynamic=SHAPES, opsets=SOME_OPSETS),
    case("multigammaln", lambda x: special.multigammaln(x + 1, 2), [positive.double()], opsets=FEW),
    case("trigamma", polygamma(1), [positive], dynamic=SHAPES, opsets=FEW),
    case("trigamma below 0", polygamma(1), [torch.tensor([-0.3, -1.5, -7.25, 0.0])], opsets=FEW),
    case("zeta", special.zeta, [positive[:, None] + 1, torch.cat([positive, torch.tensor([0.0, -2.0, NAN])])],
         opsets=SOME_OPSETS),
    case("zeta below 0", special.zeta, [torch.tensor([[2.0], [3.0], [2.5], [7.0]]), -positive * 1.3], opsets=FEW),
    case("zeta of any batch", special.zeta, [positive + 1, -positive], dynamic={0: {0: "batch"}, 1: {0: "batch"}},
         opsets=FEW),
    case("zeta of no elements", special.zeta, [positive[:0], positive[:0]], opsets=FEW),
    case("zeta that does not exist", special.zeta, [torch.tensor([1.0, 0.5, -3.0, NAN, 1.0])[:, None], positive],
         opsets=FEW),
    case("zeta of numbers", lambda x: (special.zeta(3, x), special.zeta(x + 1, 0.5)), [positive], opsets=FEW),
    case("ndtr", special.ndtr, [torch.linspace(-3, 5, 31)], dynamic=SHAPES, opsets=FEW),
    case("integers", lambda x: (torch.lgamma(x), torch.digamma(x), torch.i0(x), special.erfcx(x), special.zeta(x, 2)),
         [torch.tensor([1, 2, 3, 9, 20])], opsets=FEW),
    case("bool", lambda x: (torch.lgamma(x), torch.polygamma(1, x), torch.erfc(x), special.bessel_j1(x)),
         [torch.tensor([True, False])], opsets=FEW),
    case("float16", lambda x: (torch.lgamma(x), torch.digamma(x), torch.erfinv(x / 10), special.i1(x)),
         [positive.half()], opsets=FEW),
    case("bfloat16", lambda x: (torch.lgamma(x), torch.digamma(x), torch.erfinv(x / 10), special.i1(x)),
         [positive.bfloat16()], opsets=(17, NEWEST)),
    *(case(f"{dtype} in several steps, rounded once",
           lambda x, y: (torch.logit(x), torch.sinc(y), special.entr(y), torch.xlogy(x, y), special.xlog1py(x, y),
                         torch.polygamma(3, y), torch.log2(y), torch.rsqrt(y)),
           [positive.to(dtype) / 10, positive.to(dtype)], opsets=(17, NEWEST))
      for dtype in (torch.float16, torch.bfloat16)),
    case("entr at edges", special.entr, [torch.tensor(EDGES)], opsets=FEW),
    case("xlog1py at edges", special.xlog1py, [torch.tensor(EDGES)[:, None], torch.tensor(EDGES)], opsets=FEW),
    case("a number of float64", lambda x: torch.lgamma(x), [torch.tensor(3.3, dtype=torch.float64)], opsets=FEW),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=str)
def test_case(case: Case) -> None:
    run(case)
