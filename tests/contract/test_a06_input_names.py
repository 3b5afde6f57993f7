"""A6: names for fewer tensors than there are, and for more: they run on into the parameters."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

import onward

from ..models._torchvision import torchvision_models
from . import weighted
from .running import assert_same, load, run


class Two(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(3, 4)

    def forward(self, first: torch.Tensor, second: torch.Tensor) -> torch.Tensor:
        return self.layer(first - second)


X = (torch.randn(2, 3), torch.randn(2, 3))


@pytest.mark.parametrize(
    ("names", "expected"), [(None, ["first", "second"]), (["a"], ["a", "second"]), (["a", "b"], ["a", "b"])]
)
def test_fewer_names_than_inputs(names: list[str] | None, expected: list[str]) -> None:
    program = onward.export(Two(), X, input_names=names)
    assert weighted.inputs(program.proto()) == expected


@pytest.mark.parametrize("opset", [9, 20])
def test_alexnets_sixteen_parameters(opset: int) -> None:
    torch.manual_seed(0)
    model = torchvision_models().alexnet().eval()
    names = ["actual_input_1"] + [f"learned_{i}" for i in range(16)]
    x = torch.randn(1, 3, 224, 224)
    program = onward.export(model, x, input_names=names, output_names=["output1"], opset_version=opset)
    stored = {value.name: value.const_value for value in program.model.graph.initializers.values()}
    assert {name for name in names if name in stored} == set(names[1:])
    for name, (_, parameter) in zip(names[1:], model.named_parameters(), strict=True):
        assert tuple(stored[name].shape.numpy()) == tuple(parameter.shape)  # type: ignore[union-attr]
    assert_same([program(x)], [model(x)])


def test_as_inputs(tmp_path: Path) -> None:
    model = Two()
    names = ["a", "b", "learned_0"]
    onward.export(model, X, tmp_path / "m.onnx", input_names=names, export_params=False)
    assert weighted.inputs(load(tmp_path / "m.onnx")) == ["a", "b", "learned_0", "layer.bias"]
    assert_same(run(tmp_path / "m.onnx", [*X, *model.parameters()]), [model(*X)])


def test_buffers_keep_their_names() -> None:
    model, x, _ = weighted.models()["convolutional"]
    names = ["x", *(f"learned_{i}" for i in range(5))]
    program = onward.export(model, x, input_names=names, export_params=False)
    given = weighted.inputs(program.proto())
    assert given[:6] == ["x", "learned_0", "learned_1", "learned_2", "norm.running_mean", "norm.running_var"]
    assert given[6:8] == ["learned_3", "learned_4"]


def test_what_is_made_of_a_parameter_is_named_after_it() -> None:
    model, x, _ = weighted.models()["convolutional"]
    names = ["x", *(f"learned_{i}" for i in range(5))]
    stored = weighted.initializers(onward.export(model, x, input_names=names).proto())
    assert any(name.startswith("learned_0.") for name in stored)  # conv + batch norm
    assert any(name.startswith("learned_4.") for name in stored)  # spectral norm


def test_a_name_that_another_weight_has() -> None:
    program = onward.export(Two(), X, input_names=["a", "b", "layer.bias"], export_params=False)
    assert weighted.inputs(program.proto()) == ["a", "b", "layer.bias", "layer.bias_1"]


def test_too_many_names_are_counted() -> None:
    with pytest.raises(onward.InputError) as caught:
        onward.export(Two(), X, input_names=list("abcdef"))
    assert str(caught.value) == (
        "input_names has 6 names, and there are 2 tensors among the arguments (first, second) and 2 parameters in the "
        "model\n  give at most one name per tensor and parameter; buffers keep theirs"
    )


def test_names_twice() -> None:
    with pytest.raises(onward.InputError, match="'a' more than once"):
        onward.export(Two(), X, input_names=["a", "b", "a"])
