"""The check that decides about a program rejects what a wrong guess would make of a model."""

from __future__ import annotations

import pytest
import torch

import onward
from onward.capture.explore.explorer import Explorer


class _LeftAtOnce(torch.nn.Module):
    """The example leaves the loop in its first turn, so its run shows no more of the loop."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        total = x.sum()
        for number, row in enumerate(x):
            total = total - row.sum()
            if x.max() > total:
                break
            total = total + number * 0.5
        return total


X = torch.tensor([[1.0, 2.0], [-1.0, 0.5], [-2.0, 0.0], [0.5, -3.0], [0.1, 0.2]])


def test_the_turns_of_a_loop_over_an_axis_are_not_written_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Flipping `break` again and again explains every run at the example's sizes, and is wrong at all others."""
    monkeypatch.setattr(Explorer, "_stay", lambda *given: None)
    with pytest.raises(onward.ExportError):
        onward.export(_LeftAtOnce(), (X,), dynamic_axes={"x": {0: "n"}})


def test_a_loop_that_the_example_leaves_at_once_is_kept() -> None:
    model = _LeftAtOnce()
    program = onward.export(model, (X,), dynamic_axes={"x": {0: "n"}})
    for size in (1, 2, 5, 20):
        for shift in (-1.0, 0.0, 1.0):
            x = torch.randn(size, 2) + shift
            torch.testing.assert_close(program(x), model(x))
