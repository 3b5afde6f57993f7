"""Sizes through everything that Python does with numbers: exported, and run in onnxruntime at other sizes."""

from __future__ import annotations

import functools
import json
import math
import re
import warnings
from collections.abc import Callable
from typing import Any

import numpy
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import onward

whole = int  # calls of `int` itself are followed, and need no thawing

AXES = {"x": {0: "batch", 2: "height", 3: "width"}}
OTHERS = ((1, 3, 14, 21), (2, 3, 21, 14), (2, 3, 28, 33), (3, 3, 7, 30), (2, 3, 49, 63))
TABLES: dict[Any, Tensor] = {}


@functools.lru_cache
def grid(height: int, width: int) -> Tensor:
    return torch.arange(height)[:, None].float() + torch.arange(width).float()


@functools.lru_cache(maxsize=32)
def half(size: int) -> int:
    return whole(size / 2)


def rounded_up(x: Tensor) -> Tensor:
    height, width = numpy.ceil(numpy.array([x.shape[2], x.shape[3]]) / 2).astype(int)
    return x[:, :, :height, :width]


def both_parts(x: Tensor) -> Tensor:
    whole, rest = divmod(x.shape[2], 3)
    return F.pad(x[:, :, :whole], (0, rest))


def both_plain_parts(x: Tensor) -> Tensor:
    times, rest = divmod(whole(x.shape[2]), 3)
    return F.pad(x[:, :, :times], (0, rest))


def through_json(x: Tensor) -> Tensor:
    height, width = json.loads(json.dumps({"size": [x.shape[2], x.shape[3]]}))["size"]
    return x.reshape(-1, 3, height * width)


def table_by_text(x: Tensor) -> Tensor:
    key = str(x.shape[3])
    if key not in TABLES:
        TABLES[key] = torch.arange(whole(x.shape[3])).float()
    return x + TABLES[key]


def table_by_size(x: Tensor) -> Tensor:
    key = (x.shape[2], x.shape[3])
    if key not in TABLES:
        TABLES[key] = grid(*key)
    return x + TABLES[key]


def split_in_two(x: Tensor) -> Tensor:
    quarter = whole(x.shape[2] * 0.25)
    first, second = x.split([quarter, x.shape[2] - quarter], 2)
    return first.mean() + second


def area(x: Tensor) -> Tensor:
    return x.flatten(2)[:, :, : whole(x.shape[2] / 4) * whole(x.shape[3] / 4)]


def multiple_of_eight(x: Tensor) -> Tensor:
    width = x.shape[3]
    return F.pad(x, (0, whole(math.ceil(width / 8) * 8 - width)))


# a function, and the formulas that it is thawed into; none where a size stays one all the way
ROWS: list[tuple[Callable[[Tensor], Tensor], list[str]]] = [
    (lambda x: x[:, :, : whole(x.shape[2] * 0.5)], ["int(height * 0.5)"]),
    (lambda x: x[:, :, : math.ceil(x.shape[2] / 2)], []),
    (lambda x: x[:, :, : math.ceil(whole(x.shape[2]) / 3)], ["(height + 2) // 3"]),
    (lambda x: x[:, :, : math.floor(x.shape[2] / 3)], []),
    (lambda x: x[:, :, : math.trunc(whole(x.shape[2]) * 0.75)], ["(height * 3) // 4"]),
    (lambda x: x[:, :, : round(x.shape[2] / 3)], []),
    (lambda x: x[:, :, : round(whole(x.shape[2]) / 3)], ["(height + 1) // 3"]),
    (lambda x: x[:, :, : round(whole(x.shape[2]) / 2)], ["round(height / 2)"]),
    (both_parts, []),
    (both_plain_parts, ["height // 3", "height % 3"]),
    (lambda x: x.reshape(-1, 3, whole(x.shape[2] * x.shape[3])), ["height * width"]),
    (lambda x: x.reshape(-1, 3, whole(x.shape[2]) * whole(x.shape[3])), ["height * width"]),
    (
        lambda x: torch.arange(whole((x.shape[2] * x.shape[3]) ** 0.5)) + x.mean(),
        ["int(float(height * width) ** 0.5)"],
    ),
    (area, ["int(height / 4) * int(width / 4)"]),
    (rounded_up, ["ceil(height / 2)", "ceil(width / 2)"]),
    (lambda x: x * whole(numpy.prod(x.shape[2:])), ["height * width"]),
    (lambda x: x[:, :, : whole(numpy.round(x.shape[2] * 0.25))], ["round(height / 4)"]),
    (lambda x: x[:, :, : numpy.int64(x.shape[2]) // 2], ["height // 2"]),
    (lambda x: x * torch.tensor(numpy.array(x.shape[2:]) * 0.5).float().sum(), ["height * 0.5", "width * 0.5"]),
    (lambda x: x[:, :, : whole(str(x.shape[2])) // 2], ["height // 2"]),
    (lambda x: x * float(f"{x.shape[2]}"), ["height"]),
    (through_json, ["height * width"]),
    (table_by_text, ["width"]),
    (table_by_size, ["height", "width"]),
    (lambda x: x + grid(x.shape[2], x.shape[3]), ["height", "width"]),
    (lambda x: x[:, :, : half(x.shape[2])], ["int(height / 2)"]),
    (lambda x: torch.arange(whole(x.shape[2] / 2)) + x.mean(), ["int(height / 2)"]),
    (lambda x: x * torch.tensor([x.shape[2], x.shape[3]]).sum(), []),
    (lambda x: x * torch.tensor([whole(x.shape[2]), whole(x.shape[3])]).sum(), ["height", "width"]),
    (lambda x: x * torch.tensor(float(x.shape[2])), []),
    (lambda x: x[:, :, : max(x.shape[2] // 2, 3), : min(x.shape[3], 7)], []),
    (lambda x: F.pad(x, (0, abs(whole(x.shape[2]) - whole(x.shape[3])))), ["abs(height - width)"]),
    (lambda x: torch.arange(whole(numpy.sort(list(x.shape[2:]))[0])) + x.mean(), ["min(height, width)"]),
    (lambda x: torch.arange(sum(whole(size) for size in x.shape[2:])) + x.mean(), ["height + width"]),
    (lambda x: F.interpolate(x, size=(whole(x.shape[2] / 2), 9)), ["int(height / 2)"]),
    (lambda x: x * (x.shape[2] / 7), []),
    (lambda x: x * (whole(x.shape[2]) / whole(x.shape[3])), ["height / width"]),
    (lambda x: F.pad(x, (0, (-x.shape[3]) % 8)), []),
    (lambda x: F.pad(x, (0, (-whole(x.shape[3])) % 8)), ["(0 - width) % 8"]),
    (multiple_of_eight, ["(ceil(width / 8) * 8) - width"]),
    (lambda x: x.view(x.shape[0], 3, whole(x.shape[2] // 7), 7, x.shape[3]), ["height // 7"]),
    (split_in_two, ["int(height * 0.25)", "((height * 3) + 3) // 4"]),
]


@pytest.mark.parametrize("shape", [(2, 3, 14, 21), (2, 3, 21, 14)])
def test_sizes_that_are_sorted_are_kept_as_a_branch(shape: tuple[int, ...]) -> None:
    def function(x: Tensor) -> Tensor:
        return torch.arange(sorted(x.shape[2:])[0]) + x.mean()

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        program = onward.export(function, (torch.randn(shape),), input_names=["x"], dynamic_axes=AXES)
    assert program.inputs[0].shape == ("batch", 3, "height", "width")
    assert [text.split(": ")[1] for text in program.warnings] == ["`if` kept as If (width < height)"]
    for other in (*OTHERS, (2, 3, 9, 9), (1, 3, 1, 5), (1, 3, 5, 1)):
        x = torch.randn(other)
        torch.testing.assert_close(program(x), function(x), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("function", "formulas"), ROWS)
def test_stays_dynamic(function: Callable[[Tensor], Tensor], formulas: list[str]) -> None:
    torch.manual_seed(0)
    program = onward.export(function, (torch.randn(2, 3, 14, 21),), input_names=["x"], dynamic_axes=AXES)
    assert program.inputs[0].shape == ("batch", 3, "height", "width")
    assert [re.search("recovered as `(.*?)`", text)[1] for text in program.warnings] == formulas  # type: ignore[index]
    compared = 0
    for shape in OTHERS:
        x = torch.randn(shape)
        try:
            expected = function(x)
        except RuntimeError:  # no multiple of 7
            continue
        torch.testing.assert_close(program(x), expected, rtol=1e-4, atol=1e-5)
        compared += 1
    assert compared >= 3


class Kept(nn.Module):
    """Tables by size, as people keep them."""

    def __init__(self) -> None:
        super().__init__()
        self.tables: dict[Any, Tensor] = {}

    def forward(self, x: Tensor) -> Tensor:
        key = f"{x.shape[2]} by {x.shape[3]}"
        if key not in self.tables:
            self.tables[key] = grid(whole(x.shape[2]), whole(x.shape[3]))
        return x + self.tables[key] + grid(x.shape[2], x.shape[3])


def test_what_a_model_keeps_by_size_is_left_as_it_was() -> None:
    model, x = Kept(), torch.randn(2, 3, 15, 22)
    grid.cache_clear()
    for _ in range(2):  # a second export finds nothing that the first has left
        program = onward.export(model, (x,), input_names=["x"], dynamic_axes=AXES)
        other = torch.randn(1, 3, 9, 40)
        torch.testing.assert_close(program(other), other + 2 * grid.__wrapped__(9, 40))
        assert model.tables == {}
        assert type(grid(15, 22)) is Tensor


def test_code_that_takes_no_size_at_all_says_so_and_where_sizes_part() -> None:
    def function(x: Tensor) -> Tensor:
        return x * {14: 2.0}[x.shape[2]]

    with pytest.raises(onward.CaptureError) as caught:
        onward.export(function, (torch.randn(2, 3, 14, 21),), input_names=["x"], dynamic_axes=AXES)
    line = function.__code__.co_firstlineno + 1
    assert str(caught.value) == (
        f"function raised TypeError in forward: unhashable type: non-nested SymInt\n  at {__file__}:{line}\n"
        "  with plain numbers for sizes: the model fails at batch = 4, height = 43, width = 106: 43\n"
        "  the model works when it is called without the export, so this is a limit of onward: write this line with "
        "tensor operations"
    )


@functools.lru_cache(maxsize=32)
def centers(height: int, width: int) -> Tensor:
    rows, columns = torch.arange(0.5, height) / height, torch.arange(0.5, width) / width
    return 2.0 * torch.stack(torch.meshgrid(rows, columns, indexing="ij"), -1).flatten(0, 1) - 1.0


def test_a_cached_table_that_is_computed_with() -> None:
    """Asking whether a size can be another number is no operation of the model's, in a run that others are compared
    with either."""

    class Angles(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("frequencies", torch.rand(4))

        def forward(self, x: Tensor) -> Tensor:
            table = centers(x.shape[2] // 8, x.shape[3] // 8)
            angles = (6.28 * table[:, :, None] * self.frequencies[None, None, :]).flatten(1, 2).tile(2)
            return torch.cos(angles).sum(0) + x.sum()

    model, axes = Angles(), {"x": {2: "height", 3: "width"}}
    program = onward.export(model, (torch.rand(1, 3, 64, 48),), input_names=["x"], dynamic_axes=axes)
    for height, width in ((64, 48), (40, 72), (70, 90)):
        x = torch.rand(1, 3, height, width)
        torch.testing.assert_close(program(x), model(x), rtol=1e-4, atol=1e-3)
