"""What is patched while tracing is undone on any exit, and other threads are not disturbed."""

from __future__ import annotations

import math
import threading
import warnings
from typing import Any

import pytest
import torch

import onward
from onward.capture import CaptureWarning, is_capturing

from .tracing import ops, traced


def state() -> tuple[Any, ...]:
    return (
        torch.nn.Module.__call__,
        torch.compiler.is_exporting(),
        torch.backends.mha.get_fastpath_enabled(),
        torch._C._len_torch_dispatch_stack(),
        torch._C._len_torch_function_stack(),
        torch.is_grad_enabled(),
        is_capturing(),
        bool((torch.ones(1, requires_grad=True) * 2).requires_grad),
    )


class Failing(torch.nn.Module):
    def __init__(self, error: type[BaseException]) -> None:
        super().__init__()
        self.error = error

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        raise self.error("no")


def test_everything_is_restored_after_success() -> None:
    before = state()
    traced(torch.nn.Linear(2, 3), torch.randn(4, 2))
    assert state() == before


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit])
def test_everything_is_restored_after_failure(error: type[BaseException]) -> None:
    before = state()
    with pytest.raises(onward.CaptureError if error is ValueError else error):
        traced(Failing(error), torch.randn(4, 2))
    assert state() == before


def test_an_error_in_forward_is_told_with_its_line() -> None:
    with pytest.raises(onward.CaptureError, match="Failing raised ValueError in forward: no") as caught:
        traced(Failing(ValueError), torch.randn(4, 2))
    assert f"test_session.py:{Failing.forward.__code__.co_firstlineno + 1}" in str(caught.value)
    assert isinstance(caught.value.__cause__, ValueError)


def test_exporting_is_announced() -> None:
    seen = []

    def function(x: torch.Tensor) -> torch.Tensor:
        seen.append((torch.compiler.is_exporting(), is_capturing()))
        return x + 1

    traced(function, torch.randn(2))
    assert seen == [(True, True)]
    assert not torch.compiler.is_exporting()


def test_several_threads_export_at_once() -> None:
    results: dict[int, Any] = {}

    def work(index: int) -> None:
        model = torch.nn.Sequential(torch.nn.Linear(3, index + 1), torch.nn.ReLU())
        results[index] = traced(model, torch.randn(2, 3), {"input": {0: "batch"}}).outputs[0].shape

    threads = [threading.Thread(target=work, args=(i,)) for i in range(6)]
    before = state()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == {i: ("batch", i + 1) for i in range(6)}
    assert state() == before


def test_a_model_running_in_another_thread_is_not_recorded() -> None:
    started, done = threading.Event(), threading.Event()
    outside: list[torch.Tensor] = []

    def other() -> None:
        started.wait(10)
        outside.append(torch.nn.Linear(2, 2)(torch.ones(1, 2)))
        done.set()

    def function(x: torch.Tensor) -> torch.Tensor:
        started.set()
        assert done.wait(10)
        return x + 1

    thread = threading.Thread(target=other)
    thread.start()
    program = traced(function, torch.randn(2))
    thread.join()
    assert ops(program) == ["aten.add.Tensor"]
    assert type(outside[0]) is torch.Tensor and outside[0].requires_grad


@pytest.mark.parametrize(
    ("function", "how"),
    [
        (lambda x: x * math.exp(x.sum()), ".item(), int() or float()"),
        (lambda x: x * 2 if x.sum() > 0 else x.sum(), "if, while, or bool()"),
        (lambda x: x[: len(range(int(x.abs().max()) + 1))], ".item(), int() or float()"),
        (lambda x: torch.from_numpy(x.numpy()) + x, "numpy"),
    ],
)
def test_reading_data_is_warned_about_once_per_line(function: Any, how: str) -> None:
    with pytest.warns(CaptureWarning) as caught:
        program = traced(lambda x: function(function(x)), torch.rand(3))
    messages = [str(each.message) for each in caught]
    assert len(messages) == 1
    assert f"test_session.py:{function.__code__.co_firstlineno}: " in messages[0]
    assert how in messages[0]
    assert program.warnings == tuple(messages)


def test_scope_and_source_are_on_every_node() -> None:
    model = torch.nn.Sequential(torch.nn.Sequential(torch.nn.Linear(2, 2)), torch.nn.ReLU())
    program = traced(model, torch.randn(1, 2))
    linear, relu = [node for node in program.graph.nodes if node.op == "call_function"]
    assert linear.meta["scope"].path == "0.0"
    assert str(linear.meta["scope"]) == "Sequential/Sequential[0]/Linear[0]"
    assert str(relu.meta["scope"]) == "Sequential/ReLU[1]"
    assert "tracing.py" in str(linear.meta["source"]) or "test_session.py" in str(linear.meta["source"])


@pytest.mark.parametrize("file", ["<stdin>", "<ipython-input-3-0a1b>", "notebook.py"])
def test_code_typed_at_a_prompt_is_the_users(file: str) -> None:
    namespace: dict[str, Any] = {}
    exec(compile("def double(x):\n    return x * 2\n", file, "exec"), namespace)
    program = traced(namespace["double"], torch.randn(2))
    (node,) = [node for node in program.graph.nodes if node.op == "call_function"]
    assert str(node.meta["source"]) == f"{file}:2"


def test_tracing_works_inside_inference_mode_and_no_grad() -> None:
    model = torch.nn.Linear(2, 2)
    for context in (torch.no_grad(), torch.inference_mode(), torch.enable_grad()):
        with context, warnings.catch_warnings():
            warnings.simplefilter("error")
            assert ops(traced(model, torch.randn(1, 2))) == ["aten.linear.default"]
