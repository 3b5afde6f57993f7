"""Two branches on the sizes of one axis: one side of the first does for both, and both sides of the second matter."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F

from onward.capture.program.execute import execute

from ..tracing import traced

ROWS = {"x": {0: "batch", 1: "length"}, "weight": {0: "batch", 1: "length"}}


def _in_blocks(x: torch.Tensor) -> torch.Tensor:
    """The sum over blocks of eight places; the last one is filled up with zeros."""
    missing = (8 - x.shape[1] % 8) % 8
    if missing > 0:
        x = F.pad(x, (0, 0, 0, missing))
    return x.reshape(x.shape[0], -1, 8, x.shape[2]).sum(2)


def weighted_but_single(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    if x.shape[1] != 1:
        x = x * weight[..., None]
    return _in_blocks(x)


def weighted_where_long(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    total = _in_blocks(x).sum(1)
    return total * weight.sum(1, keepdim=True) if x.shape[1] > 12 else total


def in_blocks_behind_the_branch(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    x = x + 1
    if x.shape[1] > 12:
        return _in_blocks(x).sum(1)
    return x.sum(1) * weight.sum(1, keepdim=True)


def without_a_weight(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    kept = None if x.shape[1] == 1 else weight[..., None]
    for _ in range(2):
        if kept is not None:
            x = x * kept
        x = x + _in_blocks(x).sum(1, keepdim=True)
    return x


@pytest.mark.parametrize(
    "function", [weighted_but_single, weighted_where_long, in_blocks_behind_the_branch, without_a_weight]
)
@pytest.mark.parametrize("length", [7, 8, 20])
def test_the_second_branch_is_kept(function: Callable[..., torch.Tensor], length: int) -> None:
    torch.manual_seed(0)
    program = traced(function, (torch.randn(2, length, 3), torch.rand(2, length)), ROWS)
    assert not program.warnings and not program.limits
    for size in (1, 2, 8, 9, 12, 13, 16, 31):
        inputs = [torch.randn(3, size, 3), torch.rand(3, size)]
        torch.testing.assert_close(execute(program, inputs)[0], function(*inputs))


def in_pairs(x: torch.Tensor) -> torch.Tensor:
    """Each side of the branch is refused by the reshape at the sizes of the other side."""
    if x.shape[0] % 2:
        x = F.pad(x, (0, 0, 0, 1))
    return x.reshape(x.shape[0] // 2, 2 * x.shape[1])


@pytest.mark.parametrize("rows", [4, 5, 6, 11])
def test_each_side_fails_where_the_other_one_is_taken(rows: int) -> None:
    program = traced(in_pairs, (torch.randn(rows, 3),), {"x": {0: "rows"}})
    assert not program.warnings and not program.limits
    for other in (1, 2, 3, 8, 9, 30, 31):
        x = torch.randn(other, 3)
        torch.testing.assert_close(execute(program, (x,)), [in_pairs(x)])
