"""A Function with a `symbolic` as one node: what the node holds, and that it can be run."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.autograd import Function

from onward.capture.program.execute import execute
from onward.capture.program.facts import FunctionCall, Slot
from onward.errors import CaptureError

from .tracing import shapes, traced


class Blend(Function):
    @staticmethod
    def forward(ctx: Any, pair: tuple[torch.Tensor, torch.Tensor], options: dict[str, Any], rows: int) -> torch.Tensor:
        x, y = pair
        return (x * options["weight"] + y)[:rows]

    @staticmethod
    def symbolic(g: Any, *args: Any) -> Any: ...


def blend(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return Blend.apply((x, y), {"weight": 3, "mode": "fast"}, x.shape[0] - 1)


def test_tensors_and_varying_sizes_are_the_nodes_arguments_and_the_rest_is_kept() -> None:
    program = traced(blend, (torch.randn(4, 2), torch.randn(4, 2)), {"x": {0: "n"}, "y": {0: "n"}})
    (node,) = [node for node in program.graph.nodes if isinstance(node.target, FunctionCall)]
    assert node.target.function is Blend
    assert node.target.arguments == ((Slot(0), Slot(1)), {"weight": 3, "mode": "fast"}, Slot(2))
    assert [argument.op for argument in node.args] == ["placeholder", "placeholder", "call_function"]
    assert shapes(program) == [("n - 1", 2)]


def test_a_size_that_does_not_vary_is_a_plain_number() -> None:
    program = traced(blend, (torch.randn(4, 2), torch.randn(4, 2)))
    (node,) = [node for node in program.graph.nodes if isinstance(node.target, FunctionCall)]
    assert node.target.arguments[2] == 3 and type(node.target.arguments[2]) is int


def test_the_captured_program_runs() -> None:
    program = traced(blend, (torch.randn(4, 2), torch.randn(4, 2)), {"x": {0: "n"}, "y": {0: "n"}})
    x, y = torch.randn(7, 2), torch.randn(7, 2)
    torch.testing.assert_close(execute(program, [x, y])[0], blend(x, y))


def test_forward_runs_on_copies() -> None:
    seen: list[int] = []

    class Peek(Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
            assert type(x) is torch.Tensor
            seen.append(x.data_ptr())
            return x + 1

        @staticmethod
        def symbolic(g: Any, x: Any) -> Any: ...

    x = torch.randn(3)
    traced(lambda x: Peek.apply(x), x)
    assert seen and x.data_ptr() not in seen


def test_a_forward_that_refuses_other_sizes_is_named() -> None:
    class Four(Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
            if x.shape[0] != 4:
                raise ValueError("four rows, please")
            return x * 2

        @staticmethod
        def symbolic(g: Any, x: Any) -> Any: ...

    def call(x: torch.Tensor) -> torch.Tensor:
        return Four.apply(x)

    with pytest.raises(CaptureError) as caught:
        traced(call, torch.randn(4, 2), {"x": {0: "n"}})
    assert "Four: four rows, please" in str(caught.value)
    assert f"at {__file__}:{call.__code__.co_firstlineno + 1}" in str(caught.value)
