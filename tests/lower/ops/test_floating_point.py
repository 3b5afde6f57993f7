"""Mantissas and exponents, neighbours and bits: all exact."""

from __future__ import annotations

import math

import pytest
import torch

import onward
from onward.verify import Session

from ..harness import NEWEST, Case, case, run

NAN, INF = math.nan, math.inf
FEW = (9, 17, NEWEST)
FORMATS = [
    *((dtype, opset) for dtype in (torch.float32, torch.float64, torch.float16) for opset in FEW),
    *((torch.bfloat16, opset) for opset in (13, NEWEST)),
]


def numbers(dtype: torch.dtype) -> torch.Tensor:
    """Every power of two of a format with its neighbours, what is in between, and what is no number."""
    limits = torch.finfo(dtype)
    lowest, highest = math.frexp(limits.smallest_normal * limits.eps)[1] - 1, math.frexp(limits.max)[1] - 1
    powers = torch.tensor([2.0**k for k in range(lowest, highest + 1)], dtype=torch.float64).to(dtype)
    zero, infinity = torch.zeros_like(powers), torch.full_like(powers, INF)
    around = [
        powers,
        torch.nextafter(powers, zero),
        torch.nextafter(powers, infinity),
        (powers.double() * 1.3).to(dtype),
    ]
    others = torch.tensor([0.0, -0.0, INF, -INF, NAN, limits.max], dtype=dtype)
    return torch.cat([*around, *(-each for each in around), others, torch.linspace(-9, 9, 50).to(dtype)])


@pytest.mark.parametrize(("dtype", "opset"), FORMATS, ids=str)
def test_is_exact(dtype: torch.dtype, opset: int) -> None:
    x = numbers(dtype)
    y = x.flip(0).contiguous()
    with torch.no_grad():
        wanted = _Module()(x, y)
    actual = Session(onward.export(_Module(), (x, y), opset_version=opset, verify=False).model).run([x, y])
    for want, got in zip(wanted, actual, strict=True):
        assert got.dtype == want.dtype
        torch.testing.assert_close(got, want, rtol=0, atol=0, equal_nan=True)
        if want.is_floating_point():
            known = ~want.isnan()
            assert torch.equal(got[known].signbit(), want[known].signbit())


class _Module(torch.nn.Module):
    def forward(self, x: torch.Tensor, y: torch.Tensor) -> list[torch.Tensor]:
        zero = torch.zeros((), dtype=x.dtype)
        return [
            *torch.frexp(x), torch.nextafter(x, y), torch.nextafter(x, zero), torch.nextafter(x, x),
            torch.nextafter(x, zero + INF), torch.nextafter(x, zero - INF),
        ]  # fmt: skip


x = torch.tensor([[1.5, -2.25, 3e-40], [0.0, -0.0, INF], [1e30, NAN, 7.0]])
whole = torch.tensor([[1, -2, 2**62 + 5], [-(2**63), 2**63 - 1, 0]])
ROWS = {0: {0: "rows"}}

CASES: list[Case] = [
    case("hash", torch.hash_tensor, [x], dynamic=ROWS),
    case("hash along an axis", lambda x: torch.hash_tensor(x, 1), [x], dynamic=ROWS, opsets=FEW),
    case("hash along axes that are kept", lambda x: torch.hash_tensor(x, (0, -1), keepdim=True), [x], opsets=FEW),
    case("hash of float64", lambda x: torch.hash_tensor(x, 0),
         [torch.tensor([[5e-324, -1e-310, 0.1], [1.7976931348623157e308, -0.3, 2.2250738585072014e-308]],
                       dtype=torch.float64)], opsets=FEW),
    case("hash of float16", lambda x: torch.hash_tensor(x, 0), [x.half()], opsets=FEW),
    case("hash of integers", lambda x: (torch.hash_tensor(x), torch.hash_tensor(x, 0)), [whole], dynamic=ROWS),
    case("hash of int8", torch.hash_tensor, [torch.tensor([-1, 5, -128], dtype=torch.int8)], opsets=FEW),
    case("hash of bool", torch.hash_tensor, [torch.tensor([True, False, True, True])], opsets=FEW),
    case("hash of a number", lambda x: (torch.hash_tensor(x), torch.hash_tensor(x, 0)), [torch.tensor(-1.5)],
         opsets=FEW),
    case("frexp of any batch", torch.frexp, [x], dynamic=ROWS),
    case("nextafter broadcasts", torch.nextafter, [x, x[:1]], dynamic=ROWS, opsets=FEW),
    case("ldexp", torch.ldexp, [torch.tensor([1.5, -3.0, 0.0, INF]), torch.tensor([3, -2, 0, 7])], opsets=FEW),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=str)
def test_case(case: Case) -> None:
    run(case)
