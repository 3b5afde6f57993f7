"""A3, what goes in and what comes out: number, order and names, whatever the model does with the tensors."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch

import onward
from tests.opsets import NEWEST

from .running import assert_same, load, run, tensors_in

X, Y = torch.randn(2, 3), torch.randn(2, 3)


@dataclasses.dataclass
class Registered:
    logits: torch.Tensor
    hidden: list[torch.Tensor]
    loss: torch.Tensor | None = None


torch.export.register_dataclass(Registered, serialized_type_name="tests.contract.io.Registered")


class Pair(NamedTuple):
    first: torch.Tensor
    second: dict[str, torch.Tensor]


class Model(torch.nn.Module):
    """A model with parameters whose names somebody else wants too."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(3, 3))
        self.linear = torch.nn.Linear(3, 3)
        self.register_buffer("mean", torch.randn(3))
        self.function = function

    def forward(self, x: Any, y: Any) -> Any:
        return self.function(self, x, y)


RETURNED: dict[str, tuple[Callable[..., Any], list[str]]] = {
    "an unused input": (lambda m, x, y: x + 1, ["output"]),
    "no input used": (lambda m, x, y: m.mean + 1, ["output"]),
    "the same tensor three times": (lambda m, x, y: [x + y] * 3, ["output_0", "output_1", "output_2"]),
    "an input": (lambda m, x, y: x, ["output"]),
    "inputs exchanged": (lambda m, x, y: (y, x), ["output_0", "output_1"]),
    "an input twice": (lambda m, x, y: (x, x, x + y), ["output_0", "output_1", "output_2"]),
    "a view of an input": (lambda m, x, y: (x.t(), x[0], x.view(-1)), ["output_0", "output_1", "output_2"]),
    "a parameter": (lambda m, x, y: (m.weight, x @ m.weight), ["output_0", "output_1"]),
    "a parameter and its transpose": (
        lambda m, x, y: (m.weight, m.weight.t(), x @ m.weight.t()),
        ["output_0", "output_1", "output_2"],
    ),
    "a buffer twice": (lambda m, x, y: (m.mean, m.mean, x), ["output_0", "output_1", "output_2"]),
    "constants": (lambda m, x, y: (torch.arange(3), torch.tensor(2.5), x), ["output_0", "output_1", "output_2"]),
    "None and numbers": (lambda m, x, y: {"loss": None, "sum": x + y, "n": 3, "s": "a", "f": 0.5}, ["sum"]),
    "a registered dataclass": (lambda m, x, y: Registered(x + y, [x, y]), ["logits", "hidden_0", "hidden_1"]),
    "a named tuple": (lambda m, x, y: Pair(x + y, {"a": x}), ["first", "second_a"]),
    "names of inputs": (lambda m, x, y: {"x": x + 1, "y": y}, ["x_out", "y_out"]),
    "names of parameters": (lambda m, x, y: {"weight": x @ m.weight, "mean": x + m.mean}, ["weight", "mean"]),
    "a parameter under its own name": (lambda m, x, y: {"weight": m.weight, "x.y": x}, ["weight", "x.y"]),
    "names of layers": (lambda m, x, y: {"linear": m.linear(x), "relu": x.relu() + 1}, ["linear", "relu"]),
    "names that flatten to one": (lambda m, x, y: {"a": [x + 1], "a_0": y + 1}, ["a_0", "a_0_1"]),
    "names that look like ours": (
        lambda m, x, y: {"a": [x + 1], "a_0": x + 2, "a_0_1": x + 3, "output": x + 4, "x_out": x + 5, "x": x + 6},
        ["a_0", "a_0_2", "a_0_1", "output", "x_out", "x_out_1"],
    ),
}


@pytest.mark.parametrize(("opset", "optimize"), [(9, True), (20, True), (20, False), (NEWEST, True)])
@pytest.mark.parametrize(("function", "names"), RETURNED.values(), ids=RETURNED.keys())
def test_what_comes_out(function: Any, names: list[str], opset: int, optimize: bool, tmp_path: Path) -> None:
    path, model = tmp_path / "model.onnx", Model(function)
    axes = {"x": {0: "batch"}, "y": {0: "batch"}}
    program = onward.export(
        model,
        (X, Y),
        path,
        dynamic_axes=axes,
        opset_version=opset,
        optimize=optimize,
        verify=optimize,
        allow_constant_outputs=True,
    )
    proto = load(path)
    assert [value.name for value in proto.graph.input] == ["x", "y"]
    assert [value.name for value in proto.graph.output] == names
    made = [name for node in proto.graph.node for name in node.output]
    made += [value.name for value in (*proto.graph.input, *proto.graph.initializer)]
    assert len(made) == len(set(made))
    other = (torch.randn(5, 3), torch.randn(5, 3))
    expected = model(*other)
    assert_same(run(path, other), list(tensors_in(expected)))
    result = program(*other)
    assert type(result) is type(expected)
    assert_same(list(tensors_in(result)), list(tensors_in(expected)))


def test_names_are_the_same_on_every_run() -> None:
    def export() -> list[str]:
        torch.manual_seed(0)
        model = Model(lambda m, x, y: {"x": m.linear(x) @ m.weight + m.mean, "weight": y, "a": [x + 1], "a_0": y + 1})
        return [name for node in onward.export(model, (X, Y)).proto().graph.node for name in (node.name, *node.output)]

    assert export() == export()


# What goes in --------------------------------------------------------------------------------------------------------

GIVEN: dict[str, tuple[Any, list[str] | None, list[str]]] = {
    "parameters of one name": ((X, Y), ["weight", "linear.weight"], ["weight", "linear.weight"]),
    "a chosen name that is a later default": ((X, Y), ["y"], ["y", "y_1"]),
    "paths that flatten to one": (({"a": {"b": X}, "a_b": Y}, Y), None, ["x_a_b", "x_a_b_1", "y"]),
    "names that look like ours": (
        ({"a": {"b": X}, "a_b": Y, "a_b_1": X}, Y),
        None,
        ["x_a_b", "x_a_b_2", "x_a_b_1", "y"],
    ),
    "a name of an intermediate value": ((X, Y), ["linear.linear", "output"], ["linear.linear", "output"]),
}


@pytest.mark.parametrize(("args", "chosen", "names"), GIVEN.values(), ids=GIVEN.keys())
def test_what_goes_in(args: Any, chosen: list[str] | None, names: list[str], tmp_path: Path) -> None:
    def function(m: Model, x: Any, y: Any) -> Any:
        tensors = list(tensors_in((x, y)))
        return m.linear(sum(tensors[1:], tensors[0])) @ m.weight

    path, model = tmp_path / "model.onnx", Model(function)
    program = onward.export(model, args, path, input_names=chosen, verify=True)
    proto = load(path)
    assert [value.name for value in proto.graph.input] == names == [port.name for port in program.inputs]
    assert_same(run(path, list(tensors_in(args))), [model(*args)])
    assert_same([program(*args)], [model(*args)])


def test_an_output_name_gives_way_to_an_input_name() -> None:
    program = onward.export(lambda x, y: (x + y, x - y), (X, Y), input_names=["output_0", "output_1"])
    assert [port.name for port in program.outputs] == ["output_0_out", "output_1_out"]


@pytest.mark.parametrize("names", [["x"], ["z", "z"]])
def test_names_that_the_user_chose_are_not_changed_behind_his_back(names: list[str]) -> None:
    with pytest.raises(onward.InputError, match=f"'{names[0]}' names more than one input or output"):
        onward.export(lambda x: (x + 1, x * 2), X, output_names=names)
