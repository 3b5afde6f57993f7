"""A13: with and without `torch.no_grad()`; parameters that require grad are no obstacle, and are left able to train."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import onward

from .running import assert_same, load, run

CONTEXTS = {
    "as it is": contextlib.nullcontext,
    "no_grad": torch.no_grad,
    "enable_grad": torch.enable_grad,
    "inference_mode": torch.inference_mode,
    "no_grad inside inference_mode": lambda: stacked(torch.inference_mode(), torch.no_grad()),
}


def stacked(*contexts: Any) -> contextlib.ExitStack:
    stack = contextlib.ExitStack()
    for context in contexts:
        stack.enter_context(context)
    return stack


class Model(torch.nn.Module):
    def __init__(self, requires_grad: bool) -> None:
        super().__init__()
        torch.manual_seed(3)
        self.layers = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.ReLU(), torch.nn.Linear(4, 2))
        self.scale = torch.nn.Parameter(torch.ones(2))
        self.requires_grad_(requires_grad)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layers(x) * self.scale.exp()


@pytest.mark.parametrize("trains", [True, False], ids=["requires grad", "frozen"])
@pytest.mark.parametrize("context", CONTEXTS.values(), ids=CONTEXTS.keys())
def test_every_context_gives_the_same_file(context: Callable[[], Any], trains: bool, tmp_path: Path) -> None:
    model, x, path = Model(trains), torch.randn(2, 3), tmp_path / "model.onnx"
    outside = io.BytesIO()
    onward.export(Model(False), x, outside, dynamic_axes={"x": {0: "batch"}})
    with context():
        grad, inference = torch.is_grad_enabled(), torch.is_inference_mode_enabled()
        program = onward.export(model, x, path, dynamic_axes={"x": {0: "batch"}}, verify=True)
        assert (torch.is_grad_enabled(), torch.is_inference_mode_enabled()) == (grad, inference)
        assert not program(x).requires_grad
    load(path)
    assert path.read_bytes() == outside.getvalue()
    other = torch.randn(5, 3)
    assert_same(run(path, [other]), [model(other)])


@pytest.mark.parametrize("inference", [True, False], ids=["tensors of inference mode", "ordinary tensors"])
def test_a_model_and_inputs_made_in_inference_mode(inference: bool, tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    with torch.inference_mode(inference):
        model, x = Model(True), torch.randn(2, 3)
    assert x.is_inference() is inference
    onward.export(model, x, path, verify=True)
    assert_same(run(path, [x]), [model(x)])


def test_the_model_trains_on_afterwards(tmp_path: Path) -> None:
    model, x = Model(True), torch.randn(2, 3, requires_grad=True)
    path = tmp_path / "model.onnx"
    onward.export(model, x, path, verify=True)
    assert x.requires_grad and x.grad is None and x.is_leaf
    assert all(each.requires_grad and each.grad is None and each.is_leaf for each in model.parameters())

    before = run(path, [x])
    model(x).sum().backward()
    assert x.grad is not None and all(each.grad is not None for each in model.parameters())
    torch.optim.SGD(model.parameters(), lr=0.1).step()
    onward.export(model, x, path)
    assert_same(run(path, [x]), [model(x)])
    assert not torch.allclose(run(path, [x])[0], before[0])


def test_an_input_that_is_the_result_of_a_computation(tmp_path: Path) -> None:
    """It is no leaf, so it could not be copied by `deepcopy`."""
    path = tmp_path / "model.onnx"
    x = torch.randn(2, 3, requires_grad=True) * 2
    onward.export(Model(True), x, path, verify=True)
    assert_same(run(path, [x]), [Model(True)(x)])


def test_gradients_that_are_already_there_stay() -> None:
    model, x = Model(True), torch.randn(2, 3)
    model(x).sum().backward()
    before = [each.grad.clone() for each in model.parameters()]
    onward.export(model, x, verify=True)
    assert all(torch.equal(each.grad, grad) for each, grad in zip(model.parameters(), before, strict=True))
