"""Integers: common divisors and multiples, and powers, exactly."""

from __future__ import annotations

import pytest
import torch

from ..harness import NEWEST, SOME_OPSETS, Case, case, ints, run

FEW = (9, 13, 20, NEWEST)
A = torch.tensor([12, -18, 0, 7, 0, 2**40, 9])
B = torch.tensor([18, 24, 5, 0, 0, 2**33, -6])
BASES = torch.tensor([3, -2, 1, -1, 0, 9, 7])
POWERS = torch.tensor([5, 3, -2, -3, 0, 20, 40])  # the last two leave the range of 64 bits
BOTH = {0: {0: "n"}, 1: {0: "n"}}

CASES = [
    case("gcd", torch.gcd, [A, B], dynamic=BOTH),
    case("lcm", torch.lcm, [A, B], dynamic=BOTH),
    case("gcd of all pairs", lambda a, b: torch.gcd(a[:, None], b), [A, B], opsets=FEW),
    case("gcd int32", torch.gcd, [ints(9, dtype=torch.int32), ints(9, dtype=torch.int32, seed=1)], opsets=FEW),
    case("lcm uint8", torch.lcm, [ints(9, low=0, dtype=torch.uint8), ints(9, low=1, dtype=torch.uint8)], opsets=FEW),
    case("pow", torch.pow, [BASES, POWERS], dynamic=BOTH, opsets=SOME_OPSETS),
    case("pow of all pairs", lambda a, b: a[:, None] ** b, [BASES, POWERS.abs()], opsets=FEW),
    case("pow of numbers", lambda b: (2**b, 3**b, (-1) ** b), [POWERS], opsets=FEW),
    case("pow to a number", lambda a: [a**n for n in (0, 1, 2, 3, 4, 5, 7, 13)], [BASES], opsets=SOME_OPSETS),
    case("pow int32", lambda a, b: a**b, [BASES.int(), POWERS.int()], opsets=FEW),
    case("pow int8", lambda a, b: a**b, [BASES.to(torch.int8), POWERS.to(torch.int8)], opsets=FEW),
    case("pow to a size", lambda a: a ** a.shape[0], [BASES], dynamic={0: {0: "n"}}, opsets=FEW),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_case(case: Case) -> None:
    run(case)
