"""Every kind of model has a row in one table, and a new kind is one class."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
import torch

import onward
from onward.capture.call.inputs import Call
from onward.capture.call.shapes import AskedAxes
from onward.capture.call.weights import Weights
from onward.capture.frontends import front_ends
from onward.capture.frontends.exportable import Exportable
from onward.capture.frontends.exported import Exported, as_module
from onward.capture.frontends.front_end import FrontEnd, PythonModel, Run
from onward.capture.frontends.graph_modules import GraphModule
from onward.capture.frontends.script.front_end import Script
from onward.options import ExportOptions
from onward.parameters import TrainingMode


class Double(torch.nn.Module):
    def forward(self, x: torch.Tensor, scale: float = 2.0) -> torch.Tensor:
        return x * scale


def double(x: torch.Tensor) -> torch.Tensor:
    return x * 2


X = torch.ones(2, 3)
PROGRAM = torch.export.export(Double(), (X,))
KINDS: dict[str, tuple[Any, type, bool, list[str]]] = {
    # a model, its front end, whether it is a model by itself, its parameters
    "module": (Double(), PythonModel, True, ["x", "scale"]),
    "function": (double, PythonModel, False, ["x"]),
    "method": (Double().forward, PythonModel, False, ["x", "scale"]),
    "scripted module": (torch.jit.script(Double()), Script, True, ["x", "scale"]),
    "traced module": (torch.jit.trace(Double(), (X,)), Script, True, ["x"]),
    "scripted function": (torch.jit.script(double), Script, True, ["x"]),
    "program": (PROGRAM, Exported, True, ["x"]),
    "module of a program": (as_module(PROGRAM), Exported, True, ["x"]),
    "graph module": (torch.fx.symbolic_trace(Double()), GraphModule, True, ["x", "scale"]),
}


@pytest.mark.parametrize("name", KINDS)
def test_a_model_has_the_front_end_of_its_kind(name: str) -> None:
    model, kind, is_model, parameters = KINDS[name]
    front_end = front_ends.front_end_of(model)
    assert type(front_end) is kind and front_ends.is_model(model) == is_model
    signature = front_end.signature(model)
    assert signature is not None and list(signature.parameters) == parameters
    program = onward.export(model, X)
    assert torch.equal(program(X), X * 2)


@pytest.mark.skipif(not hasattr(torch.onnx, "ExportableModule"), reason="this PyTorch has no such class")
def test_a_module_that_says_its_example_itself() -> None:
    class Own(Double, torch.onnx.ExportableModule):  # type: ignore[misc, name-defined]
        def example_arguments(self) -> Any:
            return (X,), None

    assert type(front_ends.front_end_of(Own())) is Exportable


def test_modules_inside_of_a_model_are_run_by_their_kind() -> None:
    """A plain module is called as ever, a script and a graph that knows its origin are run by us."""
    assert front_ends.run_of(torch.nn.Linear(2, 3)) is None
    assert front_ends.run_of(torch.jit.script(Double())) is not None
    assert front_ends.run_of(torch.fx.symbolic_trace(Double())) is None  # its nodes do not say where they come from
    assert front_ends.run_of(PROGRAM.module()) is not None


# --- a kind of model that onward does not know -----------------------------------------------------------------------
@dataclass
class Recipe:
    """Not a module, and not callable: a formula and the sizes that it is for."""

    factor: float
    sizes: tuple[int, ...]


class Cooked(torch.nn.Module):
    """What runs in the place of a recipe: it cannot be traced as it is."""

    def __init__(self, recipe: Recipe) -> None:
        super().__init__()
        self.recipe = recipe
        self.factor = torch.nn.Parameter(torch.tensor(recipe.factor))

    def forward(self, *inputs: Any) -> Any:
        return inputs[0] * self.factor


@dataclass
class Recipes(PythonModel):
    """The whole front end."""

    asked: list[str] = field(default_factory=list)

    def takes(self, model: Any) -> bool:
        return isinstance(model, (Recipe, Cooked))

    def opened(self, model: Any) -> Cooked:
        return model if isinstance(model, Cooked) else Cooked(model)

    def signature(self, model: Any) -> inspect.Signature:
        self.asked.append("signature")
        return inspect.Signature([inspect.Parameter("soup", inspect.Parameter.POSITIONAL_ONLY)])

    def example(
        self, model: Any, args: Any, kwargs: Mapping[str, Any] | None, options: ExportOptions
    ) -> tuple[Any, Mapping[str, Any] | None, ExportOptions]:
        self.asked.append("example")
        return (torch.ones(model.recipe.sizes),), None, replace(options, output_names=["meal"])

    def axes(self, model: Any, call: Call, asked: AskedAxes) -> AskedAxes:
        self.asked.append("axes")
        return replace(asked, inputs={"soup": {0: "guests"}})

    def weights(self, model: Any, options: ExportOptions, names: Sequence[str]) -> Weights:
        self.asked.append("weights")
        return super().weights(model, options, names)

    def run(self, module: Any) -> Run:
        self.asked.append("run")
        return lambda tracer, module, args, kwargs: args[0] * module.factor + 1 - 1

    def check_mode(self, model: Any, asked: TrainingMode) -> None:
        self.asked.append("mode")


def test_a_new_kind_of_model_is_one_class_and_one_row(monkeypatch: pytest.MonkeyPatch) -> None:
    recipes = Recipes()
    assert isinstance(recipes, FrontEnd)
    monkeypatch.setattr(front_ends, "FRONT_ENDS", (recipes, *front_ends.FRONT_ENDS))
    program = onward.export(Recipe(3.0, (2, 4)), verify=True)
    (soup,), (meal,) = program.inputs, program.outputs
    assert (soup.name, soup.shape[1], meal.name) == ("soup", 4, "meal")
    assert soup.axes == {0: "guests"}
    assert torch.equal(program(torch.ones(5, 4)), torch.full((5, 4), 3.0))
    assert set(recipes.asked) == {"mode", "example", "signature", "axes", "weights", "run"}
