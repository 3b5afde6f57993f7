"""Questions about sizes from data that have one answer, because the sizes are bounded."""

from __future__ import annotations

import operator

import pytest
import torch
from torch import nn

import onward
from onward.capture.decisions.bounds import _image


class Picked(nn.Module):
    """Elements of at most `most`, `times` of them side by side, and a question whether there are more than `limit`."""

    def __init__(self, limit: int, times: int = 1, most: int | None = None) -> None:
        super().__init__()
        self.limit, self.times, self.most = limit, times, most

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        found = x[x > 0]
        found = found[: self.most] if self.most is not None else found
        if torch.cat([found] * self.times).numel() * 2 > self.limit:
            return found.exp()
        return found - 1


@pytest.mark.parametrize(
    ("model", "axes", "kept"),
    [
        (Picked(16), {}, False),
        (Picked(15), {}, True),
        (Picked(120, times=3, most=20), {0: "n"}, False),
        (Picked(119, times=3, most=20), {0: "n"}, True),
        (Picked(1000), {0: "n"}, True),
    ],
)
def test_a_question_is_kept_unless_bounds_answer_it(model, axes, kept) -> None:
    x = torch.randn(8, generator=torch.Generator().manual_seed(0))
    program = onward.export(model, (x,), dynamic_axes={"x": axes} if axes else None, verify=True)
    assert ("If" in {node.op_type for node in program.model.graph}) is kept
    assert len(program.warnings) == kept
    for size in (8, 700) if axes else (8,):
        for y in (torch.ones(size), -torch.ones(size)):
            torch.testing.assert_close(program(y), model(y))


@pytest.mark.parametrize(
    ("function", "intervals", "image"),
    [
        (operator.mul, [(-2, 3), (4, 4)], (-8, 12)),
        (operator.sub, [(0, 3), (0, 5)], (-5, 3)),
        (operator.floordiv, [(0, 9), (2, 3)], (0, 4)),
        (operator.floordiv, [(0, 9), (0, 3)], None),
        (operator.mod, [(0, 9), (2, 2)], None),
        (operator.gt, [(0, 9), (9, 9)], (False, False)),
        (operator.ge, [(0, 9), (9, 9)], (False, True)),
        (operator.eq, [(0, 9), (5, 5)], (False, True)),
        (operator.eq, [(0, 9), (10, 10)], (False, False)),
        (operator.ne, [(0, 9), (10, 10)], (True, True)),
    ],
)
def test_the_interval_of_a_function(function, intervals, image) -> None:
    assert _image(function, intervals) == image
