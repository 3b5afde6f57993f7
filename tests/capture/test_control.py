"""Branches, loops and numbers that depend on data, as the tracer records them."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch

import onward
from onward.capture.program.execute import execute
from onward.capture.program.regions import branch, loop
from tests.opsets import NEWEST

from .tracing import traced


def nodes(program: Any, target: Callable[..., Any]) -> list[Any]:
    return [node for node in program.graph.nodes if node.target is target]


def choose(x: torch.Tensor) -> torch.Tensor:
    return torch.cond(x.sum() > 0, lambda x: x + 1, lambda x: x * 2, (x,))


def test_a_captured_branch_runs_in_pytorch() -> None:
    program = traced(choose, torch.ones(3))
    assert len(nodes(program, branch)) == 1
    for x in (torch.ones(3), -torch.ones(3)):
        torch.testing.assert_close(execute(program, [x])[0], x + 1 if x.sum() > 0 else x * 2)


def test_writes_inside_a_branch_reach_outside_and_nothing_else_does() -> None:
    """Views of what was written, and what was not, each as eager has it; the side that is not taken leaves no mark."""

    def forward(x: torch.Tensor, flag: torch.Tensor) -> tuple[torch.Tensor, ...]:
        memory = x * 1
        row = memory[1]

        def yes(m: torch.Tensor) -> torch.Tensor:
            m[0].add_(10)
            return m.sum()

        def no(m: torch.Tensor) -> torch.Tensor:
            row.mul_(3)
            return m.max()

        result = torch.cond(flag, yes, no, (memory,))
        return result, memory, row, memory + 0

    def eager(x: torch.Tensor, flag: bool) -> tuple[torch.Tensor, ...]:
        memory = x * 1
        if flag:
            memory[0].add_(10)
            return memory.sum(), memory, memory[1], memory
        memory[1].mul_(3)
        return memory.max(), memory, memory[1], memory

    x = torch.randn(2, 3)
    program = onward.export(forward, (x, torch.tensor(True)))
    for flag in (True, False):
        for got, expected in zip(program(x, torch.tensor(flag)), eager(x, flag), strict=True):
            torch.testing.assert_close(got, expected)


def test_writes_inside_a_loop_are_carried() -> None:
    @torch.jit.script
    def forward(x: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
        memory = torch.zeros(4, 3)
        for i in range(int(n)):
            memory[i] = x * i
        return memory + 1

    program = onward.export(forward, (torch.ones(3), torch.tensor(2)))
    for n in (0, 1, 4):
        torch.testing.assert_close(program(torch.ones(3), torch.tensor(n)), forward(torch.ones(3), torch.tensor(n)))


def test_a_captured_loop_runs_in_pytorch() -> None:
    @torch.jit.script
    def forward(x: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
        for i in range(int(n)):
            x = torch.cat([x, x[:1] * i])
        return x

    program = traced(forward, (torch.ones(3), torch.tensor(2)))
    assert len(nodes(program, loop)) == 1
    for n in (0, 5):
        torch.testing.assert_close(
            execute(program, [torch.ones(3), torch.tensor(n)])[0], forward(torch.ones(3), torch.tensor(n))
        )


def number(x: torch.Tensor, n: torch.Tensor) -> tuple[torch.Tensor, ...]:
    k = n.item()
    head = x[:k]
    return head * 2 + x[:k], x * k, torch.arange(k).reshape(k, 1) + 0, x[k // 2 :].sum(0)


@pytest.mark.parametrize("opset", (9, 11, 13, 20, NEWEST))
def test_a_number_from_a_tensor_is_followed(opset: int) -> None:
    """Also where a slice is shorter than the number says, and where nothing is left."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        program = onward.export(number, (torch.randn(8, 2), torch.tensor(3)), opset_version=opset)
    for n in (0, 1, 5, 20):
        x = torch.randn(8, 2)
        for got, expected in zip(program(x, torch.tensor(n)), number(x, torch.tensor(n)), strict=True):
            torch.testing.assert_close(got, expected)


def test_a_tensor_that_leaves_its_branch_is_refused() -> None:
    kept = []

    def forward(x: torch.Tensor) -> torch.Tensor:
        def yes(x: torch.Tensor) -> torch.Tensor:
            kept.append(x * 2)
            return x

        torch.cond(x.sum() > 0, yes, lambda x: x.clone(), (x,))
        return kept[0] + 1

    with pytest.raises(onward.CaptureError, match="a tensor that was made inside a branch or a loop is used outside"):
        onward.export(forward, (torch.ones(2),))


def test_pytorchs_control_flow_is_itself_again_afterwards() -> None:
    onward.export(choose, (torch.ones(3),))
    torch.testing.assert_close(choose(-torch.ones(3)), -2 * torch.ones(3))
    scripted = torch.jit.script(lambda_like)
    onward.export(scripted, (torch.ones(3),))
    assert scripted(torch.ones(3)).tolist() == [2.0, 2.0, 2.0]


def lambda_like(x: torch.Tensor) -> torch.Tensor:
    return x + 1
