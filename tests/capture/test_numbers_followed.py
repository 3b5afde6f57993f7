"""What Python computes with sizes is followed, or it is an error: no formula is made up that fits some sizes."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from math import log as natural
from math import sqrt as root
from typing import Any

import pytest
import torch
from torch.nn import functional as F

import onward

SIZES = (1, 2, 3, 4, 7, 8, 15, 16, 17, 20, 31, 32, 37, 63, 64, 65, 100, 101, 127, 128, 384, 513, 1024)


def _three_strides(x: torch.Tensor) -> torch.Tensor:
    """As Moonshine works out how many frames there are."""
    n = x.shape[0] + 700
    for window, stride in ((127, 64), (7, 3), (3, 2)):
        n = int((n - window) / stride + 1)
    return x * n


FOLLOWED: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "root": lambda x: x * int(math.sqrt(x.shape[0])),
    "isqrt": lambda x: x * math.isqrt(x.shape[0]),
    "strides": _three_strides,
    "log2": lambda x: x * math.floor(math.log2(x.shape[0] + 1)),
    "log2 of a power": lambda x: x * int(math.log2(x.shape[0])),
    "log10": lambda x: x * int(math.log10(x.shape[0])),
    "log": lambda x: x * int(math.log(x.shape[0])),
    "log of a base": lambda x: x * math.log(x.shape[0] + 1, 3),
    "next power": lambda x: F.pad(x, (0, 0, 0, 2 ** math.ceil(math.log2(x.shape[0])) - x.shape[0])),
    "divided": lambda x: x + int(6 // x.shape[0]),
    "exp": lambda x: x * math.exp(-x.shape[0] / 100),
    "bit_length": lambda x: x * x.shape[0].bit_length(),
    "bits": lambda x: x * (x.shape[0] & 1) + ((x.shape[0] - 1) | 1),
    "float": lambda x: x * float(x.shape[0]) / 3,
    "round": lambda x: x * round(x.shape[0] * 0.75),
    "at most": lambda x: x.topk(min(50, x.shape[0]), 0)[0],
    "sym_min": lambda x: x[: torch.sym_min(x.shape[0], 100)] * 2,
    "first": lambda x: x[:512].shape[0] * x,
    "share": lambda x: x * min(1.0, 100 / x.shape[0]),
    "at least": lambda x: F.pad(x, (0, 0, 0, max(x.shape[0], 3) - x.shape[0])),
    "isinstance": lambda x: x * 2 if isinstance(x.shape[0], int) else x,
    "type": lambda x: x * 2 if type(x.shape[0]) is int else x,
    "type of a tensor": lambda x: x * 2 if type(x) is torch.Tensor else x,
}


@pytest.mark.parametrize("name", FOLLOWED)
@pytest.mark.parametrize("example", [4, 10])
def test_a_number_follows_its_size(name: str, example: int) -> None:
    function = FOLLOWED[name]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        program = onward.export(function, torch.randn(example, 3), dynamic_axes={"x": {0: "n"}}, verify=True)
    for size in SIZES:
        x = torch.randn(size, 3)
        torch.testing.assert_close(program(x), function(x), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    "function", [lambda x: x * int(root(x.shape[0])), lambda x: x * int(natural(x.shape[0]))], ids=["root", "log"]
)
def test_a_number_that_nobody_follows_is_an_error(function: Any) -> None:
    """Lines go through the numbers of a few sizes, and are not taken for the formula."""
    with pytest.raises(onward.FrozenAxisError):
        onward.export(function, torch.randn(4, 3), dynamic_axes={"x": {0: "n"}})


@pytest.mark.parametrize(
    ("function", "flip"),
    [
        (lambda x: x * 2 if x.shape[0] > 100 else x + 1, 101),
        (lambda x: x * 2 if tuple(x.shape) == (23, 3) else x + 1, 23),
        (lambda x: x * 2 if x.numel() > 1000 else x + 1, 334),
        (lambda x: F.pad(x, (0, 0, 0, 16 - x.shape[0] % 16)) if x.shape[0] % 16 else x, 16),
    ],
)
@pytest.mark.filterwarnings("error::onward.CaptureWarning")
def test_a_branch_that_flips_far_from_the_example_is_kept(function: Any, flip: int) -> None:
    program = onward.export(function, torch.randn(10, 3), dynamic_axes={"x": {0: "n"}})
    for rows in (1, flip - 1, flip, flip + 1):
        x = torch.randn(rows, 3)
        torch.testing.assert_close(program(x), function(x))


@pytest.mark.parametrize(
    ("function", "flip"),
    [
        (lambda x: x * 2 if x.shape[0] == 37 else x + 1, 37),
        (lambda x: x * 2 if x.shape[0] * 2 + 1 == 275 else x + 1, 137),
    ],
)
def test_a_branch_that_flips_at_one_size_far_away_is_told(function: Any, flip: int) -> None:
    with pytest.warns(onward.CaptureWarning, match="n = [0-9]+ would take the other branch"):
        program = onward.export(function, torch.randn(10, 3), dynamic_axes={"x": {0: "n"}})
    x = torch.randn(flip - 1, 3)
    torch.testing.assert_close(program(x), function(x))


def test_a_count_from_data_is_no_size_of_an_axis() -> None:
    """Both are the same for every example that is drawn like this one."""

    def function(x: torch.Tensor) -> torch.Tensor:
        y = (x > 0).nonzero().shape[0] + x
        return torch.take_along_dim(y, y % y.size(0), 0)

    program = onward.export(function, torch.tensor([3]), dynamic_axes={"x": {0: "n"}})
    for x in (torch.tensor([3, 2]), torch.tensor([3, 0, 0]), torch.tensor([0, 5, 0, 1])):
        torch.testing.assert_close(program(x), function(x))
