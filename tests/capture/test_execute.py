"""A captured program run in PyTorch, and what is left when such a run ends early."""

from __future__ import annotations

import gc

import torch

from onward.capture.program.execute import execute, steps

from .tracing import traced


def test_a_run_that_is_left_in_the_middle_changes_nothing() -> None:
    program = traced(lambda x: torch.relu(x) + 1, torch.ones(2, 3))
    with torch.no_grad():
        run = steps(program, [torch.ones(2, 3)])
        next(run), next(run)
    assert torch.is_grad_enabled()
    del run
    gc.collect()
    assert torch.is_grad_enabled()


def test_values_are_computed_without_gradients() -> None:
    program = traced(lambda x: torch.relu(x) + 1, torch.ones(2, 3))
    (result,) = execute(program, [torch.ones(2, 3, requires_grad=True)])
    assert not result.requires_grad and torch.is_grad_enabled()
