"""Sizes that pass through plain Python numbers and stay dynamic all the same."""

from __future__ import annotations

import math
import warnings
from typing import Any

import pytest
import torch
from torch.nn import functional as F

import onward
from onward.capture.execute import execute

from .tracing import traced

AXES = {"x": {0: "batch", 2: "height", 3: "width"}}


def half_size(x: torch.Tensor) -> torch.Tensor:
    height, width = int(x.shape[2] * 0.5), int(x.shape[3] * 0.5)
    return x[:, :, :height, :width]


def padded_to_even(x: torch.Tensor) -> torch.Tensor:
    width = int(x.shape[3])
    return F.pad(x, (0, math.ceil(width / 2) * 2 - width))


def whole_pool(x: torch.Tensor) -> torch.Tensor:
    return F.max_pool1d(x.flatten(0, 1), int(x.size(3)))


def made_from_numbers(x: torch.Tensor) -> torch.Tensor:
    rows = torch.arange(int(x.shape[2]), dtype=x.dtype)
    return x + rows[None, None, :, None] + torch.ones(int(x.shape[0]), 1, 1, int(x.shape[3]))


def scaled_by_area(x: torch.Tensor) -> torch.Tensor:
    return x / (int(x.shape[2]) * int(x.shape[3])) + 1.0 / math.sqrt(int(x.shape[3]))


def resized(x: torch.Tensor) -> torch.Tensor:
    return F.interpolate(x, size=(int(x.shape[2]) * 2, int(x.shape[3]) * 2), mode="nearest")


def after_a_layer(x: torch.Tensor) -> torch.Tensor:
    y = F.avg_pool2d(x, 2)
    return y.reshape(int(y.shape[0]), -1, int(y.shape[2]) * int(y.shape[3]))


def length(x: torch.Tensor) -> torch.Tensor:
    return x * len(x)


@pytest.mark.parametrize(
    "function",
    [half_size, padded_to_even, made_from_numbers, scaled_by_area, resized, after_a_layer, length],
    ids=lambda f: f.__name__,
)
def test_thawed(function: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        program = traced(function, torch.randn(2, 3, 8, 12), AXES)
    assert program.inputs[0].shape == ("batch", 3, "height", "width")
    for shape in ((1, 3, 8, 12), (5, 3, 9, 12), (2, 3, 7, 15), (3, 3, 31, 2)):
        x = torch.randn(shape)
        torch.testing.assert_close(execute(program, [x])[0], function(x))


def test_a_kernel_size_that_is_the_whole_axis() -> None:
    program = traced(whole_pool, torch.randn(2, 3, 8, 12), {"x": {3: "width"}})
    x = torch.randn(2, 3, 8, 5)
    torch.testing.assert_close(execute(program, [x])[0], whole_pool(x))


def test_a_number_that_hides_in_a_tensor_is_not_believed() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        return x + torch.tensor([float(int(x.shape[0]))]) * torch.ones(int(x.shape[0]), 1)

    with pytest.raises(onward.FrozenAxisError, match="it could not be thawed: no formula of the axes that fits"):
        traced(function, torch.randn(4, 3), {"x": {0: "batch"}})
