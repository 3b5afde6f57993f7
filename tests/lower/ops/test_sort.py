"""Order along an axis: topk, sort, argsort, kthvalue, msort."""

from __future__ import annotations

import pytest
import torch

import onward
from tests.lower.harness import SOME_OPSETS, case, f32, floats, ints, run
from tests.opsets import NEWEST

FEW = (9, 10, 11, 13, 24, NEWEST)
X = f32(4, 5, 6)
BATCH = {0: {0: "batch"}}
DISTINCT = torch.tensor([[3, -7, 12, 0], [5, 1, -2, 9]])

CASES = [
    case("topk", lambda x: x.topk(3), [X], dynamic=BATCH),
    case("topk smallest", lambda x: x.topk(2, 1, largest=False), [X], dynamic=BATCH),
    case("topk of all", lambda x: x.topk(x.shape[-1], sorted=True), [X], dynamic={0: {2: "n"}}, since=10),
    case(
        "topk by half",
        lambda x: x.topk(x.shape[1] // 2 + 1, dim=1)[0],
        [X],
        dynamic={0: {1: "n"}},
        since=10,
        opsets=FEW,
    ),
    case("topk int64", lambda x: x.topk(2), [DISTINCT], opsets=FEW),
    case("topk int32 smallest", lambda x: x.topk(2, largest=False), [DISTINCT.int()], opsets=FEW),
    case("topk uint8", lambda x: x.topk(2, largest=False)[0], [DISTINCT.abs().to(torch.uint8)], opsets=FEW),
    case("topk float16", lambda x: x.topk(2), [DISTINCT.half()], opsets=FEW),
    case("topk float64", lambda x: x.topk(2), [floats(3, 7, dtype=torch.float64)], opsets=FEW),
    case("topk 0-d", lambda x: x.topk(1), [torch.tensor(2.5)], opsets=FEW),
    case("sort", lambda x: x.sort(), [X], dynamic=BATCH),
    case("sort descending", lambda x: x.sort(1, descending=True), [X], opsets=SOME_OPSETS),
    case("sort stable", lambda x: x.sort(dim=0, stable=True), [ints(7, 3, low=0, high=3)], opsets=SOME_OPSETS),
    case(
        "sort stable descending",
        lambda x: x.sort(dim=0, stable=True, descending=True),
        [ints(7, 3, low=0, high=3)],
        opsets=FEW,
    ),
    case("sort dynamic axis", lambda x: x.sort(1), [X], dynamic={0: {1: "n"}}, since=10),
    case("sort bool", lambda x: x.sort()[0], [DISTINCT > 2], opsets=FEW),
    case("sort 0-d", lambda x: x.sort(), [torch.tensor(2.5)], opsets=FEW),
    case("argsort", lambda x: x.argsort(1), [X], dynamic=BATCH, opsets=SOME_OPSETS),
    case(
        "argsort stable descending",
        lambda x: x.argsort(dim=0, stable=True, descending=True),
        [ints(7, 3, low=0, high=3)],
        opsets=FEW,
    ),
    case("msort", torch.msort, [X], opsets=FEW),
    case("kthvalue", lambda x: x.kthvalue(2), [X], dynamic=BATCH),
    case("kthvalue keepdim", lambda x: x.kthvalue(3, 1, keepdim=True), [X], opsets=FEW),
    case("kthvalue int64", lambda x: x.kthvalue(3, 1), [DISTINCT], opsets=FEW),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_case(case):
    run(case)


def test_sorting_a_dynamic_axis_needs_opset_10():
    with pytest.raises(onward.ExportError, match=r"aten\.sort\.default .*opset 9 \(exists from 10\)"):
        onward.export(_Sort(), (X,), input_names=["x"], dynamic_axes={"x": {2: "n"}}, opset_version=9)


class _Sort(torch.nn.Module):
    def forward(self, x):
        return x.sort()
