"""Which other sizes a model is verified at."""

from __future__ import annotations

import pytest
import torch
from torch.export import Dim

import onward
from onward.verify.sizes import _candidates


@pytest.mark.parametrize(
    ("probed", "low", "high", "sizes"),
    [
        ((4, 8, 13), 1, None, [1, 5, 8, 13, 3, 2]),
        ((1, 2, 3), 1, None, [2, 3]),
        ((4, 6, 7), 3, 7, [3, 5, 6, 7]),
        ((4, 5, 5), 4, 5, [5]),
        ((64, 40, 9), 2, 64, [2, 40, 9, 63, 32]),
    ],
)
def test_candidates(probed: tuple[int, ...], low: int, high: int | None, sizes: list[int]) -> None:
    assert list(_candidates(probed, low, high)) == sizes


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
    assert seen == [(3, 7), (5, 11)]
