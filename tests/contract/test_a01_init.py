"""A1: one function under three names, and PyTorch's back again."""

from __future__ import annotations

import threading
from pathlib import Path

import onnx
import pytest
import torch
import torch.onnx
import torch.onnx.utils

import onward
import onward.onnx

PYTORCHS = torch.onnx.export


@pytest.fixture(autouse=True)
def routing_ends():
    yield
    onward.restore()


class Flatten(torch.nn.Module):
    """Freezes its first axis when asked to."""

    def __init__(self, freeze: bool = False) -> None:
        super().__init__()
        self.freeze = freeze

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.freeze:
            return x * pow(7, int(x.shape[0]), 101)  # no formula has these numbers
        return x.flatten(1) * 2


X = torch.randn(2, 3, 4)


def test_export_is_one_function() -> None:
    assert onward.onnx.export is onward.export
    assert onward.onnx.utils.export is onward.export


def test_after_init_pytorchs_name_is_ours_until_restore(tmp_path: Path) -> None:
    theirs = torch.onnx.utils.export
    onward.init()
    assert torch.onnx.export is onward.export
    assert torch.onnx.utils.export is onward.export
    torch.onnx.export(Flatten(), (X,), tmp_path / "m.onnx", dynamic_axes={"x": {0: "batch"}})
    assert onnx.load(tmp_path / "m.onnx").producer_name == "onward"
    onward.restore()
    assert torch.onnx.export is PYTORCHS
    assert torch.onnx.utils.export is theirs


def test_as_a_context_manager_nested_and_after_an_error() -> None:
    with onward.init() as outer:
        with onward.init():
            assert torch.onnx.export is onward.export
        assert torch.onnx.export is onward.export
        assert repr(outer) == "onward.init() in force"
    assert torch.onnx.export is PYTORCHS
    assert repr(outer) == "onward.init() ended"
    with pytest.raises(ZeroDivisionError), onward.init():
        1 / 0  # noqa: B018
    assert torch.onnx.export is PYTORCHS


def test_restore_ends_every_init_and_may_be_called_without_one() -> None:
    onward.restore()
    onward.init()
    with onward.init():
        onward.restore()
        assert torch.onnx.export is PYTORCHS
    assert torch.onnx.export is PYTORCHS
    onward.restore()
    assert torch.onnx.export is PYTORCHS


def test_a_script_as_it_was_written_for_pytorch_1(tmp_path: Path) -> None:
    """The import under another name came before `init`; positional parameters as they were up to 2.4."""
    import torch.onnx as exporter

    onward.init()
    path = str(tmp_path / "m.onnx")
    exporter.export(Flatten(), X, path, True, False, False, ["x"], ["y"], dynamic_axes={"x": [0], "y": [0]})
    model = onnx.load(path)
    assert [each.name for each in (*model.graph.input, *model.graph.output)] == ["x", "y"]
    assert model.graph.input[0].type.tensor_type.shape.dim[0].dim_param == "x_axis_0"


def test_init_may_set_defaults_that_a_call_overrides() -> None:
    axes = {"dynamic_axes": {"x": {0: "batch"}}}
    with onward.init(allow_static_axes=True):
        with pytest.warns(onward.CaptureWarning, match="written as fixed"):
            program = torch.onnx.export(Flatten(freeze=True), (X,), **axes)
        assert program.inputs[0].shape == (2, 3, 4)
        with pytest.raises(onward.FrozenAxisError):
            torch.onnx.export(Flatten(freeze=True), (X,), **axes, allow_static_axes=False)
        with onward.init(allow_static_axes=False), pytest.raises(onward.FrozenAxisError):
            torch.onnx.export(Flatten(freeze=True), (X,), **axes)
    with pytest.raises(onward.FrozenAxisError):
        onward.export(Flatten(freeze=True), (X,), **axes)
    with pytest.raises(onward.InputError, match="verify must be True, False or None, not 'yes'"):
        onward.init(verify="yes")  # type: ignore[arg-type]
    assert torch.onnx.export is PYTORCHS


def test_from_several_threads() -> None:
    """PyTorch's function is back only when the last block has ended, in whatever order they end."""
    inside, leave, seen = threading.Barrier(5), threading.Event(), []

    def work() -> None:
        with onward.init():
            inside.wait(20)
            seen.append(torch.onnx.export is onward.export)
            leave.wait(20)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    inside.wait(20)
    leave.set()
    for thread in threads:
        thread.join(20)
    assert seen == [True] * 4
    assert torch.onnx.export is PYTORCHS


def test_names_that_pytorch_still_has_are_left_alone() -> None:
    theirs = torch.onnx.OperatorExportTypes
    with onward.init():
        assert torch.onnx.OperatorExportTypes is theirs


def test_names_that_pytorch_no_longer_has_are_there_meanwhile() -> None:
    had = hasattr(torch.onnx, "set_training")
    with onward.init():
        with torch.onnx.set_training(Flatten(), onward.TrainingMode.TRAINING):
            pass
        assert torch.onnx.operators.shape_as_tensor(X).tolist() == [2, 3, 4]
    assert hasattr(torch.onnx, "set_training") == had


def test_except_clauses_keep_working() -> None:
    with onward.init(), pytest.raises(torch.onnx.errors.OnnxExporterError):
        torch.onnx.export(Flatten(), (X,), dynamic_axes={"y": [0]}, output_names=["z"])
    assert issubclass(onward.UnsupportedOpError, torch.onnx.errors.UnsupportedOperatorError)
