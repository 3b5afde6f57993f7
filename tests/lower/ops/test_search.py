"""Finding values: isin, bucketize, searchsorted, unique."""

from __future__ import annotations

import pytest
import torch

import onward
from tests.lower.harness import SOME_OPSETS, case, f32, ints, run
from tests.opsets import NEWEST

FEW = (9, 11, 13, 18, NEWEST)
NUMBERS = torch.tensor([[3, 1, 4, 1, 5], [9, 2, 6, 5, 3]])
OTHER = torch.tensor([3, 3, 0, 3, 2, 2, 2])
BATCH = {0: {0: "batch"}}
EDGES = torch.tensor([-1.0, -0.25, 0.25, 1.0])


def rows(n):
    """Other rows, some of them equal."""
    return [torch.tensor([[1, 2], [0, 5], [1, 2], [7, 7], [0, 5]]).repeat(n, 1)[:n]]


CASES = [
    case("isin", lambda x, y: torch.isin(x, y), [NUMBERS, torch.tensor([1, 5, 9])], dynamic={**BATCH, 1: {0: "n"}}),
    case("isin inverted", lambda x, y: torch.isin(x, y, invert=True), [NUMBERS, torch.tensor([[1, 5]])], opsets=FEW),
    case("isin a number", lambda x: torch.isin(x, 5), [NUMBERS], opsets=FEW),
    case("isin floats", lambda x, y: torch.isin(x, y), [EDGES, torch.tensor([1.0, 2.0])], opsets=FEW),
    case("bucketize", lambda x: torch.bucketize(x, EDGES), [f32(4, 5)], dynamic=BATCH),
    case(
        "bucketize right",
        lambda x, e: torch.bucketize(x, e.sort()[0], right=True, out_int32=True),
        [EDGES, EDGES],
        opsets=FEW,
    ),
    case("bucketize on the edge", lambda x, e: torch.bucketize(x, e.sort()[0]), [EDGES, EDGES], opsets=FEW),
    case("bucketize nan", lambda x: torch.bucketize(x, EDGES), [torch.tensor([float("nan"), 0.0, 9.0])], opsets=FEW),
    case("bucketize integers", lambda x: torch.bucketize(x, torch.tensor([2, 4])), [NUMBERS], opsets=FEW),
    case(
        "searchsorted",
        lambda s, x: torch.searchsorted(s.sort(-1)[0], x),
        [f32(2, 6), f32(2, 3, seed=1)],
        dynamic={0: {0: "b"}, 1: {0: "b"}},
        opsets=SOME_OPSETS,
    ),
    case(
        "searchsorted right",
        lambda s, x: torch.searchsorted(s.sort()[0], x, side="right"),
        [EDGES, f32(2, 3)],
        opsets=FEW,
    ),
    case(
        "searchsorted sorter",
        lambda s, x: torch.searchsorted(s, x, sorter=s.argsort()),
        [f32(7), f32(2, 3)],
        opsets=FEW,
    ),
    case("unique", lambda x: torch.unique(x), [NUMBERS], dynamic=BATCH, since=11),
    case(
        "unique with all",
        lambda x: torch.unique(x, return_inverse=True, return_counts=True),
        [NUMBERS],
        dynamic=BATCH,
        since=11,
    ),
    case("unique inverse", lambda x: torch.unique(x, return_inverse=True), [OTHER], since=11, opsets=FEW),
    case("unique floats", lambda x: torch.unique(x).sum(), [OTHER.float()], since=11, opsets=FEW),
    case("unique rows", lambda x: torch.unique(x, dim=0), [rows(4)[0]], dynamic=BATCH, inputs_at=rows, since=11),
    case(
        "unique rows with all",
        lambda x: torch.unique(x, dim=0, return_inverse=True, return_counts=True),
        [rows(4)[0]],
        dynamic=BATCH,
        inputs_at=rows,
        since=11,
        opsets=FEW,
    ),
    case("unique_consecutive", lambda x: torch.unique_consecutive(x), [OTHER], dynamic={0: {0: "n"}}),
    case(
        "unique_consecutive with all",
        lambda x: torch.unique_consecutive(x, return_inverse=True, return_counts=True),
        [OTHER],
        dynamic={0: {0: "n"}},
        opsets=SOME_OPSETS,
    ),
    case("unique used twice", lambda x: x.unique() + x.unique(), [OTHER], since=11, opsets=FEW),
    case(
        "unique of one number",
        lambda x: torch.unique(x[0], return_inverse=True, return_counts=True),
        [NUMBERS.flatten().float()],
        since=11,
        opsets=FEW,
    ),
    case(
        "unique_consecutive of one number",
        lambda x: torch.unique_consecutive(x[0], return_inverse=True, return_counts=True),
        [NUMBERS.flatten().float()],
        opsets=FEW,
    ),
    case("nonzero_static", lambda x: torch.nonzero_static(x, size=5), [NUMBERS > 3], dynamic=BATCH, opsets=FEW),
    case("nonzero_static cut", lambda x: torch.nonzero_static(x, size=2, fill_value=7), [NUMBERS > 3], opsets=FEW),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_case(case):
    run(case)


def test_unique_needs_opset_11():
    class Model(torch.nn.Module):
        def forward(self, x):
            return x.unique()

    with pytest.raises(onward.ExportError, match=r"aten\._unique2.*opset 10"):
        onward.export(Model(), (ints(5),), opset_version=10)
