"""Reductions, running totals and statistics against eager."""

from __future__ import annotations

import pytest
import torch

import onward
from tests.opsets import NEWEST

from ..harness import SOME_OPSETS, bools, case, check, f32, floats, ints, run

FEW = (9, 13, 20, NEWEST)
BATCH = {0: {0: "b"}}
NAN, INFINITE = float("nan"), float("inf")


def spread(*size: int) -> torch.Tensor:
    """Values in every order, none twice."""
    count = torch.Size(size).numel()
    return torch.randperm(count, generator=torch.Generator().manual_seed(0)).float().reshape(size)


DTYPES = (torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.float16, torch.float64)


def each_dtype(name, function, dtypes=DTYPES):
    return [case(f"{name} {dtype}", function, [ints(2, 3, low=0, high=4).to(dtype)], opsets=FEW) for dtype in dtypes]


GAPS = torch.tensor([[3.0, float("nan"), 1.0, 2.0], [float("nan")] * 4, [5.0, -1.0, float("nan"), float("nan")]])

SUMS = [
    case("sum", torch.sum, [f32(2, 3)], dynamic=BATCH),
    case("sum over axes", lambda x: x.sum((0, -1), keepdim=True), [f32(2, 3, 4)], dynamic=BATCH),
    case("sum over an empty list of axes", lambda x: x.sum([]), [f32(2, 3)], opsets=FEW),
    case("sum of a scalar", lambda x: x.sum() + x.sum(0), [f32()], opsets=FEW),
    case("sum with dtype", lambda x: x.sum(1, dtype=torch.float64), [ints(2, 3)], opsets=FEW),
    *each_dtype("sum", lambda x: x.sum(1)),
    case("nansum", lambda x: torch.nansum(x, 1), [torch.tensor([[1, NAN, 2], [NAN, NAN, NAN]])], opsets=SOME_OPSETS),
    case("mean", torch.mean, [f32(2, 3)], dynamic=BATCH),
    case("mean over axes", lambda x: x.mean((-1, -2)), [f32(2, 3, 4)], dynamic={0: {0: "b", 2: "w"}}),
    case("mean with dtype", lambda x: x.mean(dtype=torch.float32), [ints(2, 3)], opsets=FEW),
    case("mean float16", lambda x: x.mean(0), [floats(2, 3, dtype=torch.float16)], opsets=FEW),
    case("nanmean", lambda x: torch.nanmean(x, 1), [torch.tensor([[1, NAN, 2], [0, 1, 3]])], opsets=FEW),
    case("prod", torch.prod, [f32(2, 3)]),
    case("prod over an axis", lambda x: x.prod(-1, keepdim=True), [f32(2, 3)], dynamic=BATCH, opsets=SOME_OPSETS),
    *each_dtype("prod", lambda x: x.prod(1), (torch.bool, torch.uint8, torch.int32, torch.float16)),
    case("count_nonzero", lambda x: torch.count_nonzero(x, dim=1), [ints(2, 3, low=0, high=2)], opsets=SOME_OPSETS),
    case("count_nonzero of all", torch.count_nonzero, [f32(2, 3).round()], opsets=FEW),
    case("logsumexp", lambda x: torch.logsumexp(x, 1), [f32(2, 3) * 100], dynamic=BATCH),
    case("logsumexp over axes", lambda x: x.logsumexp((0, 2), keepdim=True), [f32(2, 3, 4)], opsets=FEW),
    case("logsumexp int64", lambda x: x.logsumexp(1), [ints(2, 3)], opsets=FEW),
    case(
        "logsumexp of infinities",
        lambda x: x.logsumexp(1),
        [torch.tensor([[-INFINITE] * 2, [INFINITE, 1], [-INFINITE, 1]])],
        opsets=FEW,
    ),
]

EXTREMES = [
    case("amax", lambda x: x.amax(1), [f32(2, 3)], dynamic=BATCH),
    case("amin over axes", lambda x: x.amin((0, 1), keepdim=True), [f32(2, 3)], opsets=SOME_OPSETS),
    case("amax of all", torch.amax, [f32(2, 3)], opsets=FEW),
    *each_dtype("amax", lambda x: x.amax(1)),
    *each_dtype("amin", lambda x: x.amin(1)),
    case("aminmax", lambda x: torch.aminmax(x, dim=1), [f32(2, 3)], opsets=FEW),
    case("max", torch.max, [f32(2, 3)]),
    case("min", torch.min, [ints(2, 3)], opsets=SOME_OPSETS),
    case("max of two", torch.max, [f32(2, 3), f32(3, seed=1)], opsets=FEW),
    case("max along an axis", lambda x: torch.max(x, 1), [spread(2, 3)], dynamic=BATCH),
    case("min along an axis", lambda x: torch.min(x, -1, keepdim=True), [spread(2, 3)], opsets=SOME_OPSETS),
    *each_dtype("max along an axis", lambda x: x.max(1)),
    case("max of a scalar", lambda x: x.max(0), [f32()], opsets=FEW),
    case("argmax", torch.argmax, [spread(2, 3)], dynamic=BATCH),
    case("argmax along an axis", lambda x: x.argmax(1), [spread(2, 3)], dynamic=BATCH),
    case("argmin keeping axes", lambda x: x.argmin(keepdim=True), [spread(2, 3)], opsets=SOME_OPSETS),
    case("argmin along an axis", lambda x: x.argmin(-2, keepdim=True), [spread(2, 3)], opsets=FEW),
    case("argmax of equals", lambda x: x.argmax(1), [torch.tensor([[1, 3, 3], [2, 2, 2]])], opsets=FEW),
    case("argmax of a scalar", torch.argmax, [f32()], opsets=FEW),
    *each_dtype("argmax", lambda x: x.argmax(1), DTYPES[1:]),
    case("any", torch.any, [bools(2, 3)], dynamic=BATCH),
    case("all", torch.all, [bools(2, 3)]),
    case("any along an axis", lambda x: x.any(1), [bools(2, 3)], dynamic=BATCH, opsets=SOME_OPSETS),
    case("all along axes", lambda x: torch.all(x, dim=(0, 2), keepdim=True), [bools(2, 3, 4)], opsets=FEW),
    case("any over an empty list of axes", lambda x: torch.any(x, dim=()), [bools(2, 3)], opsets=FEW),
    case("any of floats", lambda x: x.any(0), [f32(2, 3).round()], opsets=FEW),
    case("all of uint8", lambda x: x.all(0), [ints(2, 3, low=0, high=2, dtype=torch.uint8)], opsets=FEW),
    case("median along an axis", lambda x: x.median(1), [spread(3, 4)], opsets=SOME_OPSETS),
    case("median of all, dynamic", torch.median, [spread(3, 4)], dynamic=BATCH, since=10),
    case("median keeping the axis", lambda x: x.median(0, keepdim=True), [spread(3, 4).long()], opsets=FEW),
    case("nanmedian", lambda x: (x.nanmedian(), x.nanmedian(1)[0], x.nanmedian(0, keepdim=True)[0]), [GAPS]),
    case("nanmedian dynamic", lambda x: x.nanmedian(1)[0], [GAPS], dynamic={0: {1: "n"}}, since=10, opsets=FEW),
    case("nanmedian of numbers", lambda x: x.nanmedian(1), [spread(3, 4)], opsets=FEW),
    case("nanmedian of one number", lambda x: (x[0].nanmedian(), x[1].nanmedian(0)[0]), [GAPS[0]], opsets=FEW),
    case("nanmedian int64", lambda x: (x.nanmedian(), x.nanmedian(0)), [spread(3, 4).long()], opsets=FEW),
    case("nanmedian bfloat16", lambda x: x.nanmedian(1)[0], [GAPS.bfloat16()], since=13, opsets=FEW),
    case("mode", lambda x: (x.mode(), x.mode(0), x.mode(1, keepdim=True)), [ints(4, 6, low=0, high=3)]),
    case("mode dynamic", lambda x: x.mode(1), [ints(4, 6, low=0, high=3)], dynamic={0: {1: "n"}}, since=10, opsets=FEW),
    case("mode of floats", lambda x: x.mode(), [ints(4, 6, low=0, high=3).half()], opsets=FEW),
    case("mode of bool", lambda x: x.mode(0), [ints(5, 4, low=0, high=2).bool()], opsets=FEW),
    case("mode of one number", lambda x: x[0].mode(), [f32(3)], opsets=FEW),
]

RUNNING = [
    case("cumsum", lambda x: x.cumsum(1), [f32(2, 3, 4)], dynamic={0: {0: "b", 1: "s"}}),
    case("cumsum of the last axis", lambda x: x.cumsum(-1), [f32(2, 3)], opsets=SOME_OPSETS),
    *each_dtype("cumsum", lambda x: x.cumsum(1)),
    case("cumsum with dtype", lambda x: x.cumsum(0, dtype=torch.float32), [ints(3)], opsets=FEW),
    case("cumsum of a scalar", lambda x: x.cumsum(0), [f32()], opsets=FEW),
    case("cumprod", lambda x: x.cumprod(1), [f32(2, 3)], dynamic={0: {0: "b", 1: "s"}}),
    case("cumprod int32", lambda x: x.cumprod(0), [ints(2, 3, dtype=torch.int32)], opsets=FEW),
    case("cumprod float16", lambda x: x.cumprod(0), [floats(2, 3, dtype=torch.float16)], opsets=FEW),
    case("logcumsumexp", lambda x: x.logcumsumexp(1), [f32(2, 3) * 50], dynamic={0: {1: "s"}}),
    case(
        "logcumsumexp of infinities",
        lambda x: x.logcumsumexp(0),
        [torch.tensor([-INFINITE, 1, INFINITE, 2])],
        opsets=FEW,
    ),
    case("cummax", lambda x: x.cummax(1), [spread(2, 5)], dynamic=BATCH),
    case("cummin of equals and nan", lambda x: x.cummin(0), [torch.tensor([3, 2, 2, NAN, 1])], opsets=FEW),
    case("cummax int64", lambda x: x.cummax(-1), [ints(2, 3, 4)], opsets=FEW),
    case("cummin bool", lambda x: x.cummin(0), [bools(5)], opsets=FEW),
]

STATISTICS = [
    case("var", torch.var, [f32(2, 3)], dynamic=BATCH),
    case("var over axes", lambda x: x.var((0, -1), correction=0), [f32(2, 3, 4)], dynamic=BATCH, opsets=SOME_OPSETS),
    case("var, biased", lambda x: x.var(1, unbiased=False, keepdim=True), [f32(2, 3)], opsets=FEW),
    case("std", lambda x: x.std(1), [f32(2, 3)], dynamic=BATCH),
    case("std of all, biased", lambda x: x.std(unbiased=False), [f32(2, 3)], opsets=FEW),
    case(
        "var_mean", lambda x: torch.var_mean(x, 1), [f32(2, 3)], dynamic={0: {1: "n"}}, sizes=(2, 5), opsets=SOME_OPSETS
    ),
    case("std_mean keeping axes", lambda x: torch.std_mean(x, (0, 1), keepdim=True), [f32(2, 3)], opsets=FEW),
    case("std_mean of all", torch.std_mean, [f32(2, 3)], opsets=FEW),
    case("var of one element", lambda x: x.var(1), [f32(2, 1)], opsets=FEW),
    case("var float16", lambda x: x.var(1), [floats(2, 3, dtype=torch.float16) * 200], opsets=FEW),
    case("var float64", lambda x: x.var(1, correction=2), [floats(2, 3, dtype=torch.float64)], opsets=FEW),
]


@pytest.mark.parametrize("case", [*SUMS, *EXTREMES, *RUNNING, *STATISTICS], ids=str)
def test_case(case):
    run(case)


def test_median_of_an_unknown_number_of_elements_needs_opset_10():
    """Before, TopK takes only a count that is known beforehand."""
    dynamic = case("median", torch.median, [spread(3, 4)], dynamic=BATCH)
    with pytest.raises(onward.LoweringError, match=r"aten\.median\.default.*opset 9.*10"):
        check(dynamic, 9)
