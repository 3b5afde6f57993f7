"""One side of a branch does for both, and on the other there are questions that nobody asks on that side."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import onward
from onward.capture.program.execute import execute
from onward.errors import FrozenAxisError, RefusedSizesError

from ..tracing import traced

AXES = {"x": {0: "height", 1: "width"}}


def or_else(x: Tensor) -> Tensor:
    height, width = x.shape
    if height % 2:
        x = F.pad(x, (0, 0, 0, height % 2))
    elif width > 100:
        x = x * 2
    return x


def single_width(x: Tensor) -> Tensor:
    height, width = x.shape
    if height % 2:
        x = F.pad(x, (0, 0, 0, height % 2))
    elif width == 77:
        return x + 1
    return x


def either_side_by_side(x: Tensor) -> Tensor:
    height, width = x.shape
    if height % 2 or width % 3:
        x = F.pad(x, (0, width % 3, 0, height % 2))
    return x


def first_that_is_odd(x: Tensor) -> Tensor:
    factor = 1
    for axis, size in enumerate(x.shape):
        if size % 2 != 0:
            factor = 2 + axis
            break
    return x * factor


SIZES = [(8, 8), (8, 101), (8, 128), (9, 128), (8, 77), (9, 77), (9, 8), (8, 9), (7, 7), (1, 1)]


@pytest.mark.parametrize("height", [8, 9])
@pytest.mark.parametrize("function", [or_else, single_width, either_side_by_side, first_that_is_odd])
def test_what_is_asked_on_the_other_side_is_seen(function: Callable[[Tensor], Tensor], height: int) -> None:
    program = traced(function, torch.randn(height, 8), AXES)
    assert not program.warnings and not program.limits
    for size in SIZES:
        x = torch.randn(size)
        torch.testing.assert_close(execute(program, [x])[0], function(x))


class Failing(nn.Module):
    """It fails at the example itself, behind a question about a size."""

    def __init__(self, question: Callable[[int], bool]) -> None:
        super().__init__()
        self.question, self.conv = question, nn.Conv2d(4, 8, 3)

    def forward(self, x: Tensor) -> Tensor:
        factor = 2 if self.question(x.shape[2]) else 1
        return self.conv(x) * factor


@pytest.mark.parametrize(
    "question",
    [lambda n: n % 4 != 0, lambda n: n % 4 == 0, lambda n: n > 40, lambda n: n < 40, lambda n: int(n) == 32],
)
def test_a_model_that_fails_at_its_example_says_its_own_error(question: Callable[[int], bool]) -> None:
    with pytest.raises(onward.CaptureError, match="Failing raised RuntimeError in forward: Given groups=1") as caught:
        onward.export(Failing(question), (torch.randn(2, 3, 32, 32),), dynamic_axes={"x": {2: "height"}})
    assert not isinstance(caught.value, FrozenAxisError | RefusedSizesError)
    assert "call the model with the same arguments to see the error without the export" in str(caught.value)


def test_a_model_that_fails_behind_an_operator_that_refuses_sizes_says_its_own_error() -> None:
    class Cut(Failing):
        def forward(self, x: Tensor) -> Tensor:
            return super().forward(x.reshape(2, 3, 32, 32))

    with pytest.raises(onward.CaptureError, match="Cut raised RuntimeError in forward: Given groups=1"):
        onward.export(Cut(lambda n: True), (torch.randn(2, 3, 32, 32),), dynamic_axes={"x": {2: "height"}})
