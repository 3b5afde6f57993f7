"""A14: `DataParallel`, `DistributedDataParallel` and `torch.compile`d wrappers are unwrapped."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import distributed
from torch.nn import DataParallel
from torch.nn.parallel import DistributedDataParallel

import onward

from .running import assert_same, load, run

X = torch.randn(2, 3)
AXES = {"x": {0: "batch"}}


class Model(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(5)
        self.linear = torch.nn.Linear(3, 4)
        self.dropout = torch.nn.Dropout(0.5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.dropout(self.linear(x)).relu() * x.shape[0]


def never(*_: Any) -> Any:
    raise AssertionError("the export compiled the model")


def compiled(model: Any) -> Any:
    return torch.compile(model, backend=never)


@pytest.fixture(scope="module")
def group() -> Iterator[None]:
    """One process that is its own group, without a network."""
    distributed.init_process_group("gloo", store=distributed.HashStore(), rank=0, world_size=1)
    yield
    distributed.destroy_process_group()


WRAPPERS = {
    "DataParallel": DataParallel,
    "DistributedDataParallel": DistributedDataParallel,
    "torch.compile": compiled,
    "torch.compile of DataParallel": lambda model: compiled(DataParallel(model)),
    "DataParallel of torch.compile": lambda model: DataParallel(compiled(model)),
    "DistributedDataParallel of torch.compile": lambda model: DistributedDataParallel(compiled(model)),
    "torch.compile twice": lambda model: compiled(compiled(model)),
}


def exported(model: Any) -> bytes:
    buffer = io.BytesIO()
    onward.export(model, X, buffer, dynamic_axes=AXES)
    return buffer.getvalue()


@pytest.mark.parametrize("wrap", WRAPPERS.values(), ids=WRAPPERS.keys())
def test_a_wrapped_model_gives_the_file_of_the_model_inside(wrap: Any, group: None, tmp_path: Path) -> None:
    path, model = tmp_path / "model.onnx", Model()
    wrapped = wrap(model)
    program = onward.export(wrapped, X, path, dynamic_axes=AXES, verify=True)
    assert path.read_bytes() == exported(Model())
    assert {each.name for each in load(path).graph.initializer} >= {"linear.weight", "linear.bias"}
    assert [port.name for port in program.inputs] == ["x"]
    other = torch.randn(5, 3)
    assert_same(run(path, [other]), [model.eval()(other)])


@pytest.mark.parametrize("wrap", WRAPPERS.values(), ids=WRAPPERS.keys())
def test_wrapper_and_model_keep_their_modes(wrap: Any, group: None) -> None:
    model = Model()
    wrapped = wrap(model)
    model.train()
    model.dropout.eval()
    modules = [*model.modules(), *(wrapped.modules() if isinstance(wrapped, torch.nn.Module) else ())]
    before = [module.training for module in modules]
    onward.export(wrapped, X, verify=True)
    assert [module.training for module in modules] == before
    assert set(before) == {True, False}


@pytest.mark.parametrize("wrap", [lambda model: model.forward, lambda model: compiled(model.forward)])
def test_forward_of_a_model_is_the_model(wrap: Any) -> None:
    assert exported(wrap(Model())) == exported(Model())


class WithMethod(Model):
    def encode(self, x: torch.Tensor) -> torch.Tensor:
        return self.dropout(self.linear(x))


def test_another_method_runs_in_the_mode_of_its_model(tmp_path: Path) -> None:
    path, model = tmp_path / "model.onnx", WithMethod().train()
    onward.export(model.encode, X, path, verify=True)
    assert model.training and model.dropout.training
    assert_same(run(path, [X]), [model.eval().encode(X)])


# Compiled parts ------------------------------------------------------------------------------------------------------


class CompiledParts(torch.nn.Module):
    """Wrappers that are not the outermost thing: a submodule, a method, a function that forward calls."""

    def __init__(self, how: Any) -> None:
        super().__init__()
        self.inner = how(Model())
        self.helper = how(lambda x: x.reshape(x.shape[0], -1) + 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.helper(self.inner(x))


def test_parts_that_are_compiled_run_as_they_are_written(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    onward.export(CompiledParts(compiled), X, path, dynamic_axes=AXES, verify=True)
    other, plain = torch.randn(5, 3), CompiledParts(lambda part: part).eval()
    assert_same(run(path, [other]), [plain(other)])


def test_a_model_that_was_compiled_in_place(tmp_path: Path) -> None:
    path, model = tmp_path / "model.onnx", Model()
    model.compile(backend=never)
    onward.export(model, X, path, dynamic_axes=AXES, verify=True)
    assert path.read_bytes() == exported(Model())
    with pytest.raises(Exception, match="the export compiled the model"):
        model(X)  # it is still compiled


def test_compiled_functions(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"

    @torch.compile(backend=never)
    def function(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return x - y * x.shape[0]

    program = onward.export(function, (X, X), path, dynamic_axes={"x": {0: "n"}, "y": {0: "n"}}, verify=True)
    assert [port.name for port in program.inputs] == ["x", "y"]
    x, y = torch.randn(2, 4, 3)
    assert_same(run(path, [x, y]), [x - y * 4])


def test_compiling_goes_on_after_an_export_and_after_a_failed_one() -> None:
    calls = []

    def counting(graph: Any, inputs: Any) -> Any:
        calls.append(graph)
        return graph.forward

    model = torch.compile(Model(), backend=counting)
    onward.export(model, X)
    with pytest.raises(onward.InputError):
        onward.export(model, (X, X, X))
    assert calls == []
    model(X)
    assert len(calls) == 1
