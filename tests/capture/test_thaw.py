"""Sizes that pass through plain Python numbers and stay dynamic all the same."""

from __future__ import annotations

import math
import re
import warnings
from typing import Any

import numpy
import pytest
import torch
from torch.nn import functional as F

import onward
from onward.capture.program.execute import execute

from .tracing import traced

whole, binary_logarithm = int, math.log2  # calls of `int` and `math.log2` are followed, and need no thawing

AXES = {"x": {0: "batch", 2: "height", 3: "width"}}


def half_size(x: torch.Tensor) -> torch.Tensor:
    height, width = whole(x.shape[2] * 0.5), whole(x.shape[3] * 0.5)
    return x[:, :, :height, :width]


def padded_to_even(x: torch.Tensor) -> torch.Tensor:
    width = whole(x.shape[3])
    return F.pad(x, (0, math.ceil(width / 2) * 2 - width))


def whole_pool(x: torch.Tensor) -> torch.Tensor:
    return F.max_pool1d(x.flatten(0, 1), whole(x.size(3)))


def made_from_numbers(x: torch.Tensor) -> torch.Tensor:
    rows = torch.arange(whole(x.shape[2]), dtype=x.dtype)
    return x + rows[None, None, :, None] + torch.ones(whole(x.shape[0]), 1, 1, whole(x.shape[3]))


def scaled_by_area(x: torch.Tensor) -> torch.Tensor:
    return x / (whole(x.shape[2]) * whole(x.shape[3])) + 1.0 / math.sqrt(whole(x.shape[3]))


def resized(x: torch.Tensor) -> torch.Tensor:
    return F.interpolate(x, size=(whole(x.shape[2]) * 2, whole(x.shape[3]) * 2), mode="nearest")


def after_a_layer(x: torch.Tensor) -> torch.Tensor:
    y = F.avg_pool2d(x, 2)
    return y.reshape(whole(y.shape[0]), -1, whole(y.shape[2]) * whole(y.shape[3]))


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


def test_what_was_thawed_is_told_and_not_warned_about() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        program = traced(padded_to_even, torch.randn(2, 3, 8, 11), AXES)
    line = padded_to_even.__code__.co_firstlineno + 2
    assert program.warnings == () and program.remarks == (
        f"{__file__}:{line}: Python computes a plain number from sizes here (1 in the example). It was recovered as "
        "`width % 2` and confirmed at width = 67 and 44, which were not used to find it. The file computes it anew for "
        "every input: there is nothing to do.",
    )


def test_a_number_is_told_where_python_asked_for_it() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        half = whole(x.shape[2] * 0.5)
        return x[:, :, :half]

    program = traced(function, torch.randn(2, 3, 8, 12), AXES)
    assert [text.split(" and confirmed")[0] for text in program.remarks] == [
        f"{__file__}:{function.__code__.co_firstlineno + 1}: Python computes a plain number from sizes here (4 in the "
        "example). It was recovered as `int(height * 0.5)`"
    ]


def rows(x: torch.Tensor) -> torch.Tensor:
    y = x.sum(2)
    for row in range(whole(x.shape[2] / 2)):
        y = y + x[:, :, row]
    return y.relu()


def one_more(x: torch.Tensor) -> torch.Tensor:
    x = x * 2
    return x.relu() if whole(x.shape[2]) > 20 else x


def some_axes(x: torch.Tensor) -> torch.Tensor:
    return x.new_zeros([whole(size) for size in x.shape if whole(size) < 20]).sum() + x


def either(x: torch.Tensor) -> torch.Tensor:
    return x * 2 if x.shape[2] % 2 == 0 else x.sum(0)


def cubed(x: torch.Tensor) -> torch.Tensor:
    return x * (whole(x.shape[2]) ** 3 % 5)


PARTINGS = [
    (
        rows,
        """the model runs other operations at other sizes. They part after aten.add.Tensor (FILE:3):
    at batch = 2, height = 8, width = 12 comes aten.relu.default (FILE:4)
    at batch = 4, height = 25, width = 61 comes aten.select.int (FILE:3)""",
    ),
    (
        one_more,
        """the model runs other operations at other sizes. They part after aten.mul.Tensor (FILE:1):
    at batch = 2, height = 8, width = 12 the model is done
    at batch = 4, height = 25, width = 61 comes aten.relu.default (FILE:2)""",
    ),
    (
        some_axes,
        """the model runs other operations at other sizes. They part at the very first:
    at batch = 2, height = 8, width = 12 aten.new_zeros.default (FILE:1) takes 4 numbers
    at batch = 4, height = 25, width = 61 aten.new_zeros.default (FILE:1) takes 2 numbers""",
    ),
    (
        either,
        """a branch depends on the size: the model runs other operations at other sizes. They part at the very first:
    at batch = 2, height = 8, width = 12 comes aten.mul.Tensor (FILE:1)
    at batch = 4, height = 25, width = 61 comes aten.sum.dim_IntList (FILE:1)""",
    ),
    (
        cubed,
        """FILE:1 uses a number that no formula of the axes gives:
    2 at batch = 2, height = 8, width = 12
    0 at batch = 4, height = 25, width = 61
    1 at batch = 7, height = 56, width = 25
    4 at batch = 13, height = 19, width = 86""",
    ),
]


@pytest.mark.parametrize(("function", "reason"), PARTINGS, ids=lambda value: getattr(value, "__name__", ""))
def test_what_cannot_be_thawed_says_where_two_sizes_part(function: Any, reason: str) -> None:
    with pytest.raises(onward.FrozenAxisError) as caught:
        traced(function, torch.randn(2, 3, 8, 12), AXES)
    first = function.__code__.co_firstlineno
    lines = re.sub(r"FILE:(\d)", lambda match: f"{__file__}:{first + int(match[1])}", reason)
    assert caught.value.details[-1] == f"it could not be thawed: {lines}"


def test_a_plain_number_inside_a_size_is_not_overlooked() -> None:
    """32 - width, where 32 is only the example's: the sizes that confirm it must not be on the same side."""

    def function(x: torch.Tensor) -> torch.Tensor:
        width = x.shape[3]
        return F.pad(x, (0, 2 ** math.ceil(binary_logarithm(width)) - width))

    with pytest.raises(onward.FrozenAxisError, match="uses a number that no formula of the axes gives"):
        traced(function, torch.randn(2, 3, 14, 21), AXES)


def test_a_number_that_hides_in_memory_is_not_believed() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        return x + torch.from_numpy(numpy.array([float(whole(x.shape[0]))])) * torch.ones(whole(x.shape[0]), 1)

    with pytest.raises(onward.FrozenAxisError, match="it could not be thawed: no formula of the axes that fits"):
        traced(function, torch.randn(4, 3), {"x": {0: "batch"}})


def test_a_number_inside_an_operator_that_pytorch_takes_apart_follows_the_size() -> None:
    """`take_along_dim` computes the remainder of its indices by a size that C++ code asks for as a plain number. Data
    within the example's size, which are all that other sizes are tried with, do not show it."""

    class Model(torch.nn.Module):
        def forward(self, x: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
            return torch.take_along_dim(x, at, 0)

    axes = {"x": {0: "rows"}, "at": {0: "places"}}
    exported = onward.export(
        Model(), (torch.randn(2), torch.tensor([0, 1, 1])), input_names=["x", "at"], dynamic_axes=axes
    )
    x, at = torch.randn(6), torch.tensor([5, 0, 3, 2])
    torch.testing.assert_close(exported(x, at), x[at])
