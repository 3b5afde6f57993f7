"""B1: a Python loop over the value of a tensor is written out as often as the example says, with a warning."""

from __future__ import annotations

import warnings
from pathlib import Path

import pytest
import torch

import onward

from .control import kinds


class Loop(torch.nn.Module):
    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        for i in range(y):
            x = x + i
        return x


def test_a_loop_over_a_tensor_is_written_out_with_a_warning_that_names_the_line() -> None:
    with pytest.warns(onward.CaptureWarning) as caught:
        program = onward.export(Loop(), (torch.zeros(2, 3), torch.tensor(5)))
    line = Loop.forward.__code__.co_firstlineno + 1
    (message,) = [str(each.message) for each in caught]
    assert message.startswith(f"{Path(__file__)}:{line}: a value was read out of a tensor")
    assert "the file keeps the example's answer (5)" in message
    assert "use torch.where or torch.cond for a choice, or torch.jit.script on the function" in message
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
