"""What scripts call on PyTorch's `ONNXProgram`, called on ours."""

from __future__ import annotations

import inspect
from pathlib import Path

import onnx
import pytest
import torch
import torch.onnx

import onward


class Model(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc = torch.nn.Linear(3, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.fc(x).relu() * 2


X = torch.randn(4, 3)
NOT_OURS = {"exported_program": "there is none: `program.captured` is what the model was lowered from"}


@pytest.fixture
def program() -> onward.Program:
    torch.manual_seed(0)
    return onward.export(Model().eval(), (X,), dynamic_axes={"x": {0: "s0"}})


def test_every_public_name_has_a_counterpart() -> None:
    theirs = {name for name, _ in inspect.getmembers(torch.onnx.ONNXProgram) if not name.startswith("_")}
    assert {name for name in theirs if not hasattr(onward.Program, name)} - set(NOT_OURS) == set()


def test_the_way_of_the_documentation(program: onward.Program, tmp_path: Path) -> None:
    program.optimize()
    program.save(tmp_path / "m.onnx", include_initializers=True, keep_initializers_as_inputs=False)
    assert program.model_proto == program.proto()
    program.initialize_inference_session()
    torch.testing.assert_close(program(X), Model.forward(program._source, X))
    program.release()
    torch.testing.assert_close(program(X), Model.forward(program._source, X))


def test_intermediate_values_and_the_reference_evaluator(program: onward.Program) -> None:
    (relu,) = [str(node.outputs[0].name) for node in program.model.graph if node.op_type == "Relu"]
    (value,) = program.compute_values([relu], (X,))
    torch.testing.assert_close(value * 2, program(X))
    (reference,) = program.call_reference(X)
    torch.testing.assert_close(reference, program(X))


def test_renamed_axes(program: onward.Program) -> None:
    program.rename_axes({"s0": "batch"})
    graph = program.proto().graph
    assert graph.input[0].type.tensor_type.shape.dim[0].dim_param == "batch"
    assert graph.output[0].type.tensor_type.shape.dim[0].dim_param == "batch"
    onnx.checker.check_model(program.proto(), full_check=True)
    with pytest.raises(onward.InputError) as caught:
        program.rename_axes({"s9": "batch"})
    assert str(caught.value) == "no axis of the model is named 's9'\n  its dynamic axes: batch"


def test_weights_as_inputs_are_asked_for_when_exporting(program: onward.Program, tmp_path: Path) -> None:
    with pytest.raises(onward.InputError, match="export with export_params=False, or with keep_initializers_as_inputs"):
        program.save(tmp_path / "m.onnx", include_initializers=False)
    assert not list(tmp_path.iterdir())
