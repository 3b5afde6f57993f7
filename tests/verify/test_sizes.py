"""Which other sizes a model is verified at."""

from __future__ import annotations

import pytest
import torch
from torch.export import Dim

import onward
from onward.verify import sizes_to_try
from onward.verify.other_sizes import more_sizes, too_large


@pytest.mark.parametrize(
    ("example", "low", "high", "sizes"),
    [
        (6, 1, None, [1, 2, 7, 24]),
        (1, 1, None, [2, 4]),
        (4, 3, 7, [3, 5, 7]),
        (4, 4, 5, [5]),
        (64, 2, 64, [2, 3]),
        (3, 3, 3, []),
    ],
)
def test_sizes_to_try(example: int, low: int, high: int | None, sizes: list[int]) -> None:
    assert sizes_to_try(example, low, high) == sizes


def test_more_sizes_are_within_the_bounds() -> None:
    assert list(more_sizes(4, (8, 13), 1, None)) == [8, 13, 6, 3, 2]
    assert list(more_sizes(4, (8, 13), 3, 9)) == [8, 6, 3]


def test_inputs_that_need_a_lot_of_memory_are_not_tried() -> None:
    pixels, ids = torch.empty(1, device="meta").expand(1 << 14, 1 << 13), torch.empty(1, 8192, dtype=torch.int64)
    assert "134217728 elements are too large" in str(too_large([pixels], [torch.zeros(2)]))
    assert "8192 ids is too large" in str(too_large([ids], [ids[:, :2048]]))
    assert too_large([ids], [ids]) is None


def test_a_size_that_is_too_large_to_try_is_in_the_table() -> None:
    program = onward.export(
        lambda ids: ids + 1, (torch.zeros(2000, dtype=torch.int64),), dynamic_axes={"ids": {0: "n"}}
    )
    skipped = {check.label: check.skipped for check in program.verify().checks if check.skipped}
    assert skipped == {"n=8000": "an input of 8000 ids is too large to try here"}


def test_axes_that_follow_are_resized_with_their_root() -> None:
    n = Dim("n", min=3, max=10)
    seen = []

    def model(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        if type(x) is torch.Tensor:
            seen.append((x.shape[0], y.shape[0]))
        return torch.cat([x, x, x[:1]]) * y

    program = onward.export(model, (torch.randn(4, 2), torch.randn(9, 2)), dynamic_shapes=({0: n}, {0: 2 * n + 1}))
    seen.clear()
    assert program.verify().ok
    assert seen == [(4, 9), (4, 9), (3, 7), (5, 11), (10, 21)]
