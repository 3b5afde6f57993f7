"""A5: parameters as inputs of the graph, alone or beside their values."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

import onward
from tests.opsets import NEWEST

from . import weighted
from .running import assert_same, load, open_session, run

OPSETS = (9, 13, 17, 20, NEWEST)


@pytest.mark.parametrize("opset", OPSETS)
@pytest.mark.parametrize("name", ["recurrent", "convolutional"])
def test_fed_weights_decide_the_results(name: str, opset: int, tmp_path: Path) -> None:
    model, x, axes = weighted.models()[name]
    file = tmp_path / "m.onnx"
    onward.export(model, x, file, input_names=["x"], dynamic_axes={"x": axes}, opset_version=opset, export_params=False)
    graph_inputs = weighted.inputs(load(file))
    state = model.state_dict()
    assert graph_inputs[0] == "x"
    assert graph_inputs[1:] == [key for key in state if key in graph_inputs]  # in the order of the state dict
    assert not set(weighted.initializers(file)) & set(state)
    for weights in (state, weighted.other_weights(model)):
        fed = {key: weights[key] for key in graph_inputs[1:]}
        assert_same(run(file, {"x": x, **fed}), [weighted.answer(model, weights, x)])


def test_every_parameter_is_there_once(tmp_path: Path) -> None:
    model, x, _ = weighted.models()["recurrent"]
    program = onward.export(model, x, export_params=False)
    names = weighted.inputs(program.proto())
    assert names == ["tokens", *(["shift"]), *(name for name, _ in model.named_parameters())]
    assert "out.weight" in model.state_dict() and "out.weight" not in names  # tied: one tensor, its first name


def test_inputs_keep_their_place_and_a_missing_weight_is_the_runtimes_error(tmp_path: Path) -> None:
    model, x, _ = weighted.models()["convolutional"]
    onward.export(model, x, tmp_path / "m.onnx", export_params=False)
    session = open_session(tmp_path / "m.onnx")
    assert session.get_inputs()[0].name == "image" and session.get_inputs()[1].name == "conv.weight"
    with pytest.raises(ValueError, match=r"conv\.weight"):
        session.run(None, {"image": x.numpy()})


@pytest.mark.parametrize("opset", OPSETS)
def test_both_input_and_initializer(opset: int, tmp_path: Path) -> None:
    model, x, axes = weighted.models()["convolutional"]
    file = tmp_path / "m.onnx"
    onward.export(model, x, file, dynamic_axes={"image": axes}, opset_version=opset, keep_initializers_as_inputs=True)
    names, stored = weighted.inputs(load(file)), weighted.initializers(file)
    state = model.state_dict()
    assert names == ["image", *(key for key in state if key in stored)]
    assert {"conv.weight", "norm.running_var", "head.bias"} <= set(names)
    assert all(torch.equal(stored[key], state[key]) for key in names[1:])
    assert_same(run(file, {"image": x}), [model(x)])
    weights = weighted.other_weights(model)
    fed = {key: weights[key] for key in names[1:]}
    assert_same(run(file, {"image": x, **fed}), [weighted.answer(model, weights, x)])


def test_the_program_feeds_its_weights_itself(tmp_path: Path) -> None:
    model, x, axes = weighted.models()["recurrent"]
    file = tmp_path / "m.onnx"
    program = onward.export(model, x, file, dynamic_axes={"tokens": axes}, export_params=False, verify=True)
    assert [port.name for port in program.inputs] == ["tokens"]
    assert_same([program(x)], [model(x)])
    assert_same([program(x[:3])], [model(x[:3])])
    assert program.verify(file).ok
    assert_same(program.call_reference(x), [model(x)])
    with pytest.raises(onward.InputError, match="missing"):
        program()


def test_a_file_without_weights_is_small(tmp_path: Path) -> None:
    model = nn.Linear(512, 512)
    onward.export(model, torch.randn(1, 512), tmp_path / "m.onnx", export_params=False)
    assert (tmp_path / "m.onnx").stat().st_size < 2000


def test_names_that_meet_an_inputs_name(tmp_path: Path) -> None:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.x = nn.Parameter(torch.randn(3))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x * self.x

    model, x = Model(), torch.randn(2, 3)
    onward.export(model, x, tmp_path / "m.onnx", export_params=False)
    assert weighted.inputs(load(tmp_path / "m.onnx")) == ["x", "x_1"]
    assert_same(run(tmp_path / "m.onnx", [x, model.x.detach()]), [model(x)])


class Gate(nn.Module):
    """Python looks at a weight."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.tensor(2.0))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.scale if self.scale > 1 else x * float(self.scale)


def test_a_branch_on_a_weight_is_warned_about_where_weights_can_be_fed() -> None:
    with pytest.warns(onward.CaptureWarning, match=r"test_a05.*a value was read out of a weight \(if, while, or bool"):
        program = onward.export(Gate(), torch.randn(3), export_params=False)
    assert len(program.warnings) == 1


def test_a_branch_on_a_weight_that_stays_is_none(recwarn: pytest.WarningsRecorder) -> None:
    onward.export(Gate(), torch.randn(3), do_constant_folding=False)
    assert not [each for each in recwarn if each.category is onward.CaptureWarning]


@pytest.mark.parametrize("asked", [{"export_params": False}, {"keep_initializers_as_inputs": True}])
def test_a_function_has_no_parameters_to_give(asked: dict[str, bool]) -> None:
    model = nn.Linear(3, 3)

    def call(x: torch.Tensor) -> torch.Tensor:
        return model(x)

    with pytest.raises(onward.InputError) as caught:
        onward.export(call, torch.randn(2, 3), **asked)  # type: ignore[arg-type]
    parameter = "=".join(map(str, *asked.items()))
    assert str(caught.value) == (
        f"{parameter} makes inputs of a model's parameters, and 'call' is a function, which has none of its own\n"
        f"  export the nn.Module that it calls, or leave out {parameter}"
    )


def test_a_method_has_the_parameters_of_its_model() -> None:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(3, 3)

        def encode(self, x: torch.Tensor) -> torch.Tensor:
            return self.layer(x)

    program = onward.export(Model().encode, torch.randn(2, 3), export_params=False)
    assert weighted.inputs(program.proto()) == ["x", "layer.weight", "layer.bias"]


def test_half_precision_weights(tmp_path: Path) -> None:
    model, x = nn.Sequential(nn.Linear(4, 3), nn.LayerNorm(3)).half(), torch.randn(2, 4).half()
    onward.export(model, x, tmp_path / "m.onnx", export_params=False)
    got = run(tmp_path / "m.onnx", [x, *model.state_dict().values()])
    torch.testing.assert_close(got[0], model(x).detach(), rtol=1e-2, atol=1e-2)
