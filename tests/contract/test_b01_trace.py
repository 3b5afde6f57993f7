"""B1: a Python loop over the value of a tensor is a Loop; where it cannot be one, a warning names the line."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import pytest
import torch

import onward

from .control import kinds


class Loop(torch.nn.Module):
    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        for i in range(y):
            x = x + i
        return x


def loop_over_an_int(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    for i in range(int(y)):
        x = x + i
    return x


class Listed(torch.nn.Module):
    """What is read out decides which of Python's own things are used."""

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        for i in (0, 1, 2, 3, 4, 7, 7, 8)[:y]:
            x = x + i
        return x


@pytest.mark.parametrize("model", [Loop(), loop_over_an_int], ids=["tensor", "int"])
def test_a_loop_over_a_tensor_is_a_loop_of_the_file(model: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        program = onward.export(model, (torch.zeros(2, 3), torch.tensor(5)), verify=True)
    assert kinds(program) == ["Loop"]
    for times in (0, 1, 4, 9, -2):
        example = torch.randn(2, 3), torch.tensor(times)
        torch.testing.assert_close(program(*example), model(*example))


def test_bounds_of_a_range_may_all_be_tensors() -> None:
    def model(x: torch.Tensor, start: torch.Tensor, stop: torch.Tensor) -> torch.Tensor:
        for i in range(start, stop[0], 2):
            x = x * 2 + i
        return x

    program = onward.export(model, (torch.ones(2), torch.tensor(1), torch.tensor([8])), verify=True)
    for start, stop in ((0, 0), (3, 1), (2, 9), (-4, 5)):
        example = torch.randn(2), torch.tensor(start), torch.tensor([stop])
        torch.testing.assert_close(program(*example), model(*example))


def test_a_loop_that_cannot_be_kept_is_written_out_with_a_warning_that_names_the_line() -> None:
    with pytest.warns(onward.CaptureWarning) as caught:
        program = onward.export(Listed(), (torch.zeros(2, 3), torch.tensor(5)))
    line = Listed.forward.__code__.co_firstlineno + 1
    (message,) = [str(each.message) for each in caught]
    assert message.startswith(f"{Path(__file__)}:{line}: a value was read out of a tensor")
    assert "the file keeps the example's answer (5)" in message
    assert "use torch.where or torch.cond for a choice, or torch.jit.script on the function" in message
    assert message.endswith("which keeps loops and branches.")  # Python goes on with the number: no branch, no loop
    assert program.warnings == (message,)
    assert kinds(program) == ["Add"] * 4 or kinds(program) == ["Add"] * 5
    torch.testing.assert_close(program(torch.zeros(2, 3), torch.tensor(9)), torch.full((2, 3), 10.0))


def test_a_loop_over_a_number_is_written_out_without_one() -> None:
    def loop(x: torch.Tensor, times: int) -> torch.Tensor:
        for i in range(times):
            x = x + i
        return x

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        program = onward.export(loop, (torch.zeros(2), 4))
    torch.testing.assert_close(program(torch.ones(2), 4), torch.full((2,), 7.0))


# What is read out beside something that is kept ----------------------------------------------------------------------


def branch_and_numpy(x: torch.Tensor) -> torch.Tensor:
    largest = float(x.detach().numpy().max())
    if x.sum() > 0:
        return x * largest
    return x - largest


def numpy_on_the_other_side(x: torch.Tensor) -> torch.Tensor:
    if x.sum() > 0:
        return x * 2
    return x - float(x.detach().numpy().max())


def loop_over_an_axis_and_tolist(x: torch.Tensor) -> torch.Tensor:
    y = x * len(set(x.flatten().tolist()[:2]))
    for i in range(x.shape[0]):
        y = y + x[i]
    return y


SCALES = [2.0, 3.0]


def thawed_axis_and_lookup(x: torch.Tensor) -> torch.Tensor:
    y = x * SCALES[int(x.sum() > 0)]
    return y * int(f"{x.shape[0]}")


@pytest.mark.parametrize(
    ("model", "line"),
    [
        (branch_and_numpy, 1),
        (numpy_on_the_other_side, 3),
        (loop_over_an_axis_and_tolist, 1),
        (thawed_axis_and_lookup, 1),
    ],
)
def test_a_value_that_is_read_beside_what_is_kept_is_warned_of(model: Any, line: int) -> None:
    with pytest.warns(onward.CaptureWarning) as caught:
        program = onward.export(model, (torch.ones(6, 2),), dynamic_axes={"x": {0: "n"}})
    (message,) = [str(each.message) for each in caught]
    assert message.startswith(f"{Path(__file__)}:{model.__code__.co_firstlineno + line}: a ")
    assert "read out of" in message and "keeps the example's" in message
    assert message in program.captured.warnings
