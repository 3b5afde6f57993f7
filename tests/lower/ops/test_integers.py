"""Integers: sums, products, common divisors and multiples, and powers, exactly."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import onward

from ..harness import NEWEST, SOME_OPSETS, Case, case, ints, run

FEW = (9, 13, 20, NEWEST)
A = torch.tensor([12, -18, 0, 7, 0, 2**40, 9])
B = torch.tensor([18, 24, 5, 0, 0, 2**33, -6])
BASES = torch.tensor([3, -2, 1, -1, 0, 9, 7])
POWERS = torch.tensor([5, 3, -2, -3, 0, 20, 40])  # the last two leave the range of 64 bits
LARGE = torch.tensor(
    [[2**53 + 1, 3, 5, 2**60 + 7], [2**62 - 1, -(2**61) - 3, 11, 13], [-1, 2**31, 2**33 + 1, -(2**53) - 1]]
)
AXES = {0: {0: "n", 1: "m"}}
BOTH = {0: {0: "n"}, 1: {0: "n"}}

CASES = [
    case("sums", lambda x: (x.sum(), x.sum(0), x.sum(1), x.sum((0, 1), keepdim=True)), [LARGE], opsets=SOME_OPSETS),
    case(
        "sums over dynamic axes",
        lambda x: (x.sum(), x.sum(0), x.sum(1, keepdim=True)),
        [LARGE],
        dynamic=AXES,
        sizes=(0, 1, 5),
        opsets=FEW,
    ),
    case(
        "sum over middle axes",
        lambda x: x[None, :, :, None].expand(2, 3, 4, 2).sum((1, 2), keepdim=True),
        [LARGE],
        opsets=FEW,
    ),
    case(
        "sum to a narrower type",
        lambda x: (x.sum(1, dtype=torch.int32), x.sum(1, dtype=torch.uint8)),
        [LARGE],
        opsets=FEW,
    ),
    case("sum of int32", lambda x: (x.sum(), x.sum(1, dtype=torch.int32)), [LARGE.int()], dynamic=AXES, opsets=FEW),
    case("products", lambda x: (x.prod(), x.prod(0), x.prod(1, keepdim=True)), [LARGE], opsets=SOME_OPSETS),
    case(
        "products over dynamic axes",
        lambda x: (x.prod(), x.prod(0), x.prod(1)),
        [LARGE],
        dynamic=AXES,
        sizes=(0, 1, 5),
        opsets=FEW,
    ),
    case("trace", lambda x: x[:, :3].trace(), [LARGE], opsets=FEW),
    case(
        "trace of few rows",
        torch.trace,
        [torch.arange(35).view(7, 5)],
        dynamic={0: {0: "rows"}},
        sizes=(0, 1, 2, 9),
        opsets=FEW,
    ),
    case("nansum", lambda x: x.nansum(1), [LARGE], opsets=FEW),
    case("addbmm", lambda x: torch.addbmm(x, x[:, :, None], x[:, None]), [LARGE[:, :3]], opsets=FEW),
    case(
        "einsum over one axis",
        lambda x: (torch.einsum("ij->i", x), torch.einsum("ij,k->k", x, x[0])),
        [LARGE],
        opsets=(11, 13, NEWEST),
    ),
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


@pytest.mark.parametrize(
    "function",
    [
        lambda x: (x > 0).sum(1),
        lambda x: (x > 0).long().sum(),
        lambda x: torch.where(x > 0, 3, 4).sum(1),
        lambda x: (x > 0).long().unsqueeze(1).expand(-1, 2, -1).sum(1),
        lambda x: x.to(torch.int16).sum(),
        lambda x: x.argmax(1).sum(),
        lambda x: (x > 0).prod(1),
    ],
)
def test_numbers_that_are_known_to_be_small_are_summed_by_one_node(function: Any) -> None:
    program = onward.export(function, (LARGE,), dynamic_axes={"x": {1: "m"}})
    kinds = [node.op_type for node in program.model.graph]
    assert sum(kind in ("ReduceSum", "ReduceProd") for kind in kinds) == 1
    assert not {"MatMul", "Scan"} & set(kinds)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_case(case: Case) -> None:
    run(case)
