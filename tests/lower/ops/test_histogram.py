"""Counting values: bincount, histc, histogram, histogramdd."""

from __future__ import annotations

import pytest
import torch

from ..harness import NEWEST, SOME_OPSETS, Case, case, f32, floats, run

FEW = (9, 13, 20, NEWEST)
OTHER = torch.tensor([5, 3, 8, 2, 5, 0, 5])
MANY = {0: {0: "n"}}
WEIGHTED = {0: {0: "n"}, 1: {0: "n"}}
EDGES = torch.tensor([0.0, 1.0, 2.0, 4.0])

CASES = [
    case("bincount", lambda x: torch.bincount(x), [OTHER], dynamic={0: {0: "n"}}),
    case("bincount minlength", lambda x: torch.bincount(x, minlength=9), [OTHER], opsets=FEW),
    case("bincount weights", lambda x, w: torch.bincount(x, w), [OTHER, f32(7)], opsets=FEW),
    case("histc", lambda x: torch.histc(x, 5, -1, 2), [f32(20)], dynamic={0: {0: "n"}}),
    case("histc between its own ends", lambda x: torch.histc(x, 7), [f32(4, 5)], opsets=SOME_OPSETS),
    case("histc of equal numbers", lambda x: torch.histc(x * 0 + 3, 4), [f32(6)], opsets=FEW),
    case("histc of whole numbers", lambda x: torch.histc(x, 4, 0, 3), [torch.arange(-2.0, 7.0)], opsets=FEW),
    case("histogram", lambda x: torch.histogram(x, 5), [f32(4, 6)], dynamic=MANY, opsets=SOME_OPSETS),
    case("histogram of one number", lambda x: torch.histogram(x[0], 3), [f32(4)], opsets=FEW),
    case(
        "histogram with weights and limits",
        lambda x, w: torch.histogram(x, 4, range=(-1.0, 1.0), weight=w),
        [f32(30), f32(30, seed=1).abs()],
        dynamic=WEIGHTED,
        opsets=FEW,
    ),
    case("histogram as density", lambda x: torch.histogram(x, 3, density=True), [f32(9)], dynamic=MANY, opsets=FEW),
    case(
        "histogram between edges",
        lambda x, e: torch.histogram(x, e.sort()[0]),
        [torch.tensor([0.0, 1, 1, 2, 3, 4, 5, -1]), EDGES],
        dynamic=MANY,
    ),
    case("histogram float64", lambda x: torch.histogram(x, 5), [floats(9, dtype=torch.float64)], opsets=FEW),
    case("histogramdd", lambda x: _flat(torch.histogramdd(x, [2, 3, 4])), [f32(30, 3)], dynamic=MANY, opsets=FEW),
    case(
        "histogramdd with weights as density",
        lambda x, w: torch.histogramdd(x, [2, 3], range=[-1.0, 1, -2, 2], weight=w, density=True)[0],
        [f32(30, 2), f32(30, seed=1).abs()],
        dynamic=WEIGHTED,
        opsets=FEW,
    ),
    case(
        "histogramdd between edges",
        lambda x, e: torch.histogramdd(x, [e.sort()[0], e.sort()[0] + 0.5])[0],
        [f32(5, 6, 2, seed=3), EDGES],
        opsets=FEW,
    ),
]


def _flat(found: tuple) -> list[torch.Tensor]:
    return [found[0], *found[1]]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_case(case: Case) -> None:
    run(case)
