"""Comparisons, logic, bits and choices."""

from __future__ import annotations

import math
import operator

import pytest
import torch

from tests.opsets import NEWEST

from ..harness import SOME_OPSETS, bools, case, f32, floats, ints, run

FEW = (9, 11, 13, 18, NEWEST)
PAIR = {0: {0: "batch"}, 1: {0: "batch"}}
BATCH = {0: {0: "batch"}}
NAN, INF = math.nan, math.inf

COMPARISONS = (operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge)
odd = torch.tensor([NAN, 1.0, INF, -INF, 0.0, -0.0, NAN, INF])
even = torch.tensor([NAN, NAN, INF, -INF, -0.0, 1.0, 2.0, -INF])


def every(x, y):
    return tuple(compare(x, y) for compare in COMPARISONS)


CASES = [
    *(case(f"{c.__name__} tensors", c, [f32(2, 3).round(), f32(2, 3, seed=1).round()], dynamic=PAIR)
      for c in COMPARISONS),
    *(case(f"{c.__name__} number", lambda x, c=c: (c(x, 1), c(x, 0.5)), [f32(2, 3).round()], dynamic=BATCH)
      for c in COMPARISONS),
    *(case(f"of {dtype}", every, [ints(8).to(dtype), ints(8, seed=1).to(dtype)], opsets=SOME_OPSETS)
      for dtype in (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool, torch.float64,
                    torch.float16)),
    case("of bfloat16", every, [floats(4, dtype=torch.bfloat16)] * 2, opsets=(13, 18, NEWEST)),
    case("of nan and infinities", every, [odd, even]),
    case("of mixed dtypes", every, [ints(2, 3), f32(2, 3)], opsets=SOME_OPSETS),
    case("int32 with int64", every, [ints(6, dtype=torch.int32), ints(6, seed=1)], opsets=SOME_OPSETS),
    case("integers with a float", lambda x: every(x, 0.5), [ints(2, 3)], opsets=SOME_OPSETS),
    case("of big integers", every, [torch.tensor([2**62, 2**62 + 1]), torch.tensor([2**62 + 1, 2**62 + 1])],
         opsets=SOME_OPSETS),
    case("with a size", lambda x: (x < x.shape[0], x == x.shape[0]), [ints(4, low=0)], dynamic=BATCH,
         opsets=SOME_OPSETS),
    case("broadcasting", every, [f32(2, 1), f32(3)], dynamic=BATCH, opsets=SOME_OPSETS),
    case("with a 0-d tensor", every, [ints(4), torch.tensor(2.5)], opsets=FEW),
    case("where", lambda x, y: torch.where(x > 0, x, y), [f32(2, 3), f32(2, 3, seed=1)], dynamic=PAIR),
    case("where with a number", lambda x: (torch.where(x > 0, x, 0.0), torch.where(x > 0, 1, x)), [f32(2, 3)]),
    case("where with numbers", lambda x: (torch.where(x > 0, 1, 0), torch.where(x > 0, 1.5, 0)), [f32(2, 3)]),
    case("where of mixed dtypes", lambda x, y: torch.where(x > 0, x, y), [f32(2, 3), ints(3)], opsets=SOME_OPSETS),
    case("where of bools", lambda x, y, c: (torch.where(c, x, y), torch.where(c, x, True), torch.where(c, False, y)),
         [bools(8), bools(8, seed=1), bools(8, seed=2)]),
    *(case(f"where of {dtype}", lambda x, y: torch.where(x > y, x, y), [ints(6).to(dtype), ints(6, seed=1).to(dtype)],
           opsets=FEW)
      for dtype in (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.float64, torch.float16)),
    case("masked_fill", lambda x: x.masked_fill(x > 0, -INF), [f32(2, 3)], dynamic=BATCH),
    case("masked_fill by a 0-d tensor", lambda x, v: x.masked_fill(x > 0, v), [f32(2, 3), torch.tensor(2.0)]),
    case("masked_fill with a smaller mask", lambda x, m: x.masked_fill(m, 7), [f32(2, 3), bools(3)]),
    case("masked_fill of integers", lambda x: x.masked_fill(x > 0, 7), [ints(2, 3)]),
    case("masked_fill of bools", lambda x, m: (x.masked_fill(m, True), x.masked_fill(m, False)),
         [bools(8), bools(8, seed=1)], opsets=SOME_OPSETS),
    case("masked_fill of half", lambda x: x.masked_fill(x > 0, 1), [f32(4).half()], opsets=FEW),
    case("masked_fill in place", lambda x: x.clone().masked_fill_(x > 0, 0), [f32(2, 3)], opsets=FEW),
    case("logic of bools", lambda x, y: (x & y, x | y, x ^ y, ~x, x.logical_and(y), x.logical_or(y), x.logical_xor(y),
                                         x.logical_not()), [bools(8), bools(8, seed=1)], dynamic=PAIR),
    case("logic of numbers", lambda x, y: (torch.logical_and(x, y), torch.logical_or(x, y), torch.logical_xor(x, y),
                                           torch.logical_not(x)),
         [ints(8, low=-1, high=2), f32(8).round()], opsets=SOME_OPSETS),
    case("logic with True", lambda x: (x & True, x | False), [bools(8)], opsets=FEW),
    *(case(f"bits of {dtype}", lambda x, y: (x & y, x | y, x ^ y, ~x),
           [ints(2, 8, low=-128, high=128).to(dtype), ints(8, low=-128, high=128, seed=1).to(dtype)])
      for dtype in (torch.int64, torch.uint8)),
    *(case(f"bits of {dtype}", lambda x, y: (x & y, x | y, x ^ y, ~x),
           [ints(8, low=-128, high=128).to(dtype), ints(8, low=-128, high=128, seed=1).to(dtype)], opsets=SOME_OPSETS)
      for dtype in (torch.int32, torch.int16, torch.int8)),
    case("bits of extremes", lambda x, y: (x & y, x | y, x ^ y),
         [torch.tensor([2**63 - 1, -(2**63), -1, 0]), torch.tensor([-(2**63), -1, 2**62, -1])], opsets=SOME_OPSETS),
    case("bits with a number", lambda x: (x & 7, x | 8, x ^ 1), [ints(2, 4)], dynamic=BATCH),
    case("0-d bits", lambda x, y: x & y, [torch.tensor(6), torch.tensor(3)], opsets=FEW),
    case("bool with integer", lambda x, y: x & y, [bools(6), ints(6)], opsets=FEW),
    case("shifts", lambda x, y: (x << y, x >> y), [ints(8), ints(8, low=0, high=9)], dynamic=PAIR),
    case("shifts by a number", lambda x: (x << 3, x >> 2), [ints(8)]),
    case("shifts of int32 and uint8", lambda x, y: (x << 2, x >> 2, y << 1, y >> 1),
         [ints(4, dtype=torch.int32), ints(4, low=0, high=255, dtype=torch.uint8)], opsets=SOME_OPSETS),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=str)
def test_case(case) -> None:
    run(case)
