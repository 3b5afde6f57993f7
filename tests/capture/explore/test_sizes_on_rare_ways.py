"""Branches on sizes that matter only where few inputs lead: no data that is tried would show it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from onward.capture.program.execute import execute

from ..tracing import traced

LINE = {"x": {0: "batch", 1: "length"}}
RARE = 7.03125  # what a sum is of one input in many thousands


def inside(x: torch.Tensor) -> torch.Tensor:
    y = x * 2
    if x.sum() == RARE:
        y = y + 1 if x.shape[1] == 1 else y.sin()
    return y


def before(x: torch.Tensor) -> torch.Tensor:
    y = x + 1 if x.shape[1] == 1 else x.sin()
    if x.sum() == RARE:
        return y
    return x * 2


def far_away(x: torch.Tensor) -> torch.Tensor:
    if x.sum() == RARE:
        return x * 3 if x.shape[1] > 40 else x
    return x * 2


def beside_data(x: torch.Tensor) -> torch.Tensor:
    if x.abs().max() > 1 and (x.shape[1] == 1 or x.sum() == RARE):
        return x - 1
    return x * 2


def padded_by_nothing(x: torch.Tensor) -> torch.Tensor:
    missing = (4 - x.shape[1] % 4) % 4
    if missing:
        x = torch.nn.functional.pad(x, (0, missing))
    return x - 1 if x.sum() == RARE else x * 2


def number_before(x: torch.Tensor) -> torch.Tensor:
    k = 2 if x.shape[1] == 1 else 3
    return x * k if x.sum() == RARE else x + 1


def axis_before(x: torch.Tensor) -> torch.Tensor:
    axis = 0 if x.shape[1] == 1 else 1
    return x.flip(axis) if x.sum() == RARE else x + 1


@pytest.mark.parametrize("function", [inside, before, far_away, beside_data, padded_by_nothing])
@pytest.mark.parametrize("length", [1, 4, 6])
def test_the_other_side_of_a_size_is_kept_behind_a_rare_answer(function: Callable[..., Any], length: int) -> None:
    torch.manual_seed(0)
    program = traced(function, torch.randn(2, length), LINE)
    assert not program.warnings
    for size in (1, 2, 4, 5, 41, 64):
        for x in (torch.randn(2, size), torch.zeros(2, size), torch.rand(1, size) + 1):
            for total in (None, RARE):
                if total is not None:
                    x = torch.zeros_like(x)
                    x[0, 0] = total
                torch.testing.assert_close(execute(program, [x])[0], function(x))


@pytest.mark.filterwarnings("ignore::onward.CaptureWarning")
@pytest.mark.parametrize("function", [number_before, axis_before])
def test_a_plain_number_of_sizes_that_only_a_rare_answer_uses_is_told(function: Callable[..., Any]) -> None:
    program = traced(function, torch.randn(2, 4), LINE)
    assert "only with other answers about data" in program.warnings[0]
