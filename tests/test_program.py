"""The program that `export` returns, the bytes that it becomes, and what verification notices."""

from __future__ import annotations

import gc
import io
import os
import runpy
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import pytest
import torch

import onward
from tests.opsets import DEFAULT

from .contract.running import assert_same, load, run, shapes

X = torch.randn(2, 4)
AXES = {"x": {0: "batch"}}


class Model(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(11)
        self.first, self.second = torch.nn.Linear(4, 8), torch.nn.Linear(8, 3)

    def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        hidden = self.first(x).relu()
        return {"logits": self.second(hidden), "hidden": hidden}


@pytest.fixture
def program() -> onward.Program:
    return onward.export(Model(), X, dynamic_axes=AXES)


# Its surface ---------------------------------------------------------------------------------------------------------


def test_model_is_the_graph(program: onward.Program) -> None:
    assert isinstance(program.model, ir.Model)
    assert [value.name for value in program.model.graph.inputs] == ["x"]
    assert {"first.weight", "second.bias"} <= set(program.model.graph.initializers)
    assert program.opset_version == program.model.opset_imports[""]


def test_proto_is_what_is_written(program: onward.Program, tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    written = program.save(path)
    assert (written.path, written.data_path, written.bytes) == (str(path), None, path.stat().st_size)
    proto = program.proto()
    onnx.checker.check_model(proto, full_check=True)
    assert proto == load(path)
    x = torch.randn(5, 4)
    assert_same(run(proto.SerializeToString(), [x]), run(path, [x]))


def test_save_takes_streams_and_paths(program: onward.Program, tmp_path: Path) -> None:
    buffer = io.BytesIO()
    program.save(buffer)
    program.save(str(tmp_path / "model.onnx"))
    assert (tmp_path / "model.onnx").read_bytes() == buffer.getvalue()


def test_inputs_and_outputs_know_names_types_and_axes(program: onward.Program) -> None:
    (x,) = program.inputs
    logits, hidden = program.outputs
    assert (x.name, x.dtype, x.shape, x.axes) == ("x", torch.float32, ("batch", 4), {0: "batch"})
    assert (logits.name, logits.shape, logits.axes) == ("logits", ("batch", 3), {0: "batch"})
    assert (hidden.name, hidden.shape) == ("hidden", ("batch", 8))
    assert str(logits) == "float32[batch, 3]"
    assert program.warnings == ()


def test_calling_it_runs_it_and_answers_as_the_model_does(program: onward.Program) -> None:
    x = torch.randn(7, 4)
    result, expected = program(x), Model()(x)
    assert list(result) == ["logits", "hidden"]
    assert_same(list(result.values()), list(expected.values()))
    assert_same([program(x=x)["logits"]], [expected["logits"]])


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ((), r"the arguments do not fit Model.forward\(x\): missing a required argument: 'x'"),
        ((X, X), r"the arguments do not fit Model.forward\(x\): too many positional arguments"),
        (
            (X.numpy(),),
            r"the argument 'x' is of type ndarray, not a tensor\n  call the program as the model was called",
        ),
        ((X.double(),), r"the input 'x' is a tensor\(double\), and the model takes a tensor\(float\)"),
        ((torch.randn(2, 5),), r"the input 'x' has the shape \[2, 5\], and the model takes \[batch, 4\]"),
    ],
)
def test_calling_it_wrongly_is_told(program: onward.Program, args: tuple, message: str) -> None:
    with pytest.raises(onward.InputError, match=message):
        program(*args)


def test_repr_says_what_it_is(program: onward.Program) -> None:
    assert repr(program) == (
        f"Program(Model, opset {DEFAULT}, 3 nodes)\n"
        "  inputs   x: float32[batch, 4]\n"
        "  outputs  logits: float32[batch, 3], hidden: float32[batch, 8]\n"
        "  not verified"
    )


# Verification --------------------------------------------------------------------------------------------------------


def test_verification_covers_the_example_fresh_values_and_other_sizes_of_every_axis() -> None:
    program = onward.export(lambda x, y: (x * 2, y + 1), (torch.randn(3, 4), X), dynamic_axes={"x": [0, 1], "y": [0]})
    labels = [check.label for check in program.verify().checks]
    assert labels == [
        "example", "fresh values", "x_axis_0=1", "x_axis_0=2", "x_axis_0=4", "x_axis_0=12", "x_axis_1=1", "x_axis_1=2",
        "x_axis_1=5", "x_axis_1=16", "y_axis_0=1", "y_axis_0=3", "y_axis_0=8",
    ]  # fmt: skip


def test_a_size_that_the_model_refuses_is_said_and_replaced_by_another() -> None:
    def pairs(x: torch.Tensor) -> torch.Tensor:
        return x.reshape(-1, 2, 4).sum(1)

    checks = onward.export(pairs, torch.randn(6, 4), dynamic_axes={"x": {0: "rows"}}).verify().checks
    assert checks[2].label == "rows=1" and checks[2].skipped.startswith("the model refuses it: shape '[-1, 2, 4]'")
    ran = [int(check.label.removeprefix("rows=")) for check in checks[2:] if check.skipped is None]
    assert ran == [2, 24]


def test_further_sizes_are_looked_for_where_the_model_refuses_most() -> None:
    def thirds(x: torch.Tensor) -> torch.Tensor:
        return x.reshape(-1, 3, 4).sum(1)

    checks = onward.export(thirds, torch.randn(9, 4), dynamic_axes={"x": {0: "rows"}}).verify().checks
    assert [check.label for check in checks[2:] if check.skipped is None] == ["rows=36", "rows=18"]


def tamper(program: onward.Program, name: str, change: Any) -> None:
    value = program.model.graph.initializers[name]
    value.const_value = ir.Tensor(change(value.const_value.numpy().copy()), name=name)


def test_a_wrong_weight_is_caught_with_output_size_and_error(program: onward.Program) -> None:
    assert program.verify().ok
    program(X)  # a session is open: it must not hide the change
    tamper(program, "second.bias", lambda bias: bias + np.array([0, 0.25, 0], np.float32))
    with pytest.raises(onward.VerifyError) as caught:
        program.verify()
    lines = str(caught.value).splitlines()
    assert lines[0] == "onnxruntime and PyTorch disagree"
    labels = ["example", "fresh values", "batch=1", "batch=3", "batch=8"]
    assert [line.split(":")[0].strip() for line in lines[1:6]] == labels
    for line, count in zip(lines[1:6], (2, 2, 1, 3, 8), strict=True):
        assert f"output 'logits' differs in {count} of {3 * count} elements: max error 0.25 (" in line
        assert "tolerance rtol 0.0001, atol 5e-05 x scale; worst at [" in line
    assert lines[6].startswith("  the first value that is wrong is 'logits', which Gemm node 'second.linear' computes")
    assert lines[9:] == ["  this is a defect of the export, worth reporting"]


def test_a_small_error_is_caught_too(program: onward.Program) -> None:
    tamper(program, "first.weight", lambda weight: weight * np.float32(1.002))
    with pytest.raises(onward.VerifyError, match="output 'hidden' differs"):
        program.verify()


def test_a_wrong_node_is_caught(program: onward.Program) -> None:
    (relu,) = [node for node in program.model.graph if node.op_type == "Relu"]
    relu.op_type = "Neg"
    with pytest.raises(onward.VerifyError, match="output 'logits' differs"):
        program.verify()


def test_a_model_that_is_right_on_the_example_alone_is_caught(program: onward.Program) -> None:
    """A graph with the example's size baked in agrees on the example; the other sizes tell."""

    def doubled(x: torch.Tensor) -> torch.Tensor:
        return x * x.shape[0]

    static = onward.export(doubled, X)
    dynamic = onward.export(doubled, X, dynamic_axes=AXES)
    static.model.graph.inputs[0].shape = static.model.graph.outputs[0].shape = ir.Shape(("batch", 4))
    dynamic.model = static.model
    with pytest.raises(onward.VerifyError) as caught:
        dynamic.verify()
    assert "batch=1: output 'output' differs" in str(caught.value) and "example" not in str(caught.value)


def test_a_file_can_be_verified_later(program: onward.Program, tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    program.save(path)
    assert program.verify(path).ok
    proto = onnx.load(path)
    proto.graph.initializer[0].raw_data = bytes(len(proto.graph.initializer[0].raw_data))
    onnx.save(proto, path)
    with pytest.raises(onward.VerifyError, match="onnxruntime and PyTorch disagree"):
        program.verify(path)
    path.write_bytes(b"not a model")
    with pytest.raises(onward.VerifyError, match="onnxruntime does not load the model"):
        program.verify(path)


# Axes that the model freezes -----------------------------------------------------------------------------------------


def running_sums(x: torch.Tensor) -> list[torch.Tensor]:
    """As many results as there are rows, which no file can have."""
    totals = [x[0]]
    for i in range(1, x.shape[0]):
        totals.append(totals[-1] * 0.5 + x[i])
    return totals


def test_a_frozen_axis_is_written_as_fixed_if_allowed(tmp_path: Path) -> None:
    path, axes = tmp_path / "model.onnx", {"x": {0: "steps", 1: "features"}}
    with pytest.raises(onward.FrozenAxisError, match="allow_static_axes=True"):
        onward.export(running_sums, X, path, dynamic_axes=axes)
    assert not path.exists()
    with pytest.warns(onward.CaptureWarning) as caught:
        program = onward.export(running_sums, X, path, dynamic_axes=axes, allow_static_axes=True, verify=True)
    (warning,) = [str(each.message) for each in caught]
    assert warning.startswith("written as fixed: dynamic axis 'steps' (= 2) is frozen by the model")
    assert f"{__file__}:{running_sums.__code__.co_firstlineno + 3}" in warning and "allow_static_axes" not in warning
    assert caught[0].filename == __file__ and program.warnings == (warning,)
    assert shapes(load(path).graph.input) == {"x": (2, "features")}
    other = torch.randn(2, 9)
    assert_same(run(path, [other]), running_sums(other))


def test_allow_static_axes_changes_nothing_where_nothing_is_frozen() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        program = onward.export(Model(), X, dynamic_axes=AXES, allow_static_axes=True)
    assert program.inputs[0].shape == ("batch", 4)


# Bytes ---------------------------------------------------------------------------------------------------------------

SCRIPT = """
import torch, onward

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.convolution = torch.nn.Conv2d(3, 40, 3)
        self.norm = torch.nn.BatchNorm2d(40)
        self.head = torch.nn.Linear(40, 30)

    def forward(self, x, *, mask, scales):
        y = self.norm(self.convolution(x)).relu().mean((2, 3)) * scales["a"] + scales["b"]
        return {"y": self.head(y).softmax(-1), "n": torch.zeros(x.shape[0]) + mask}

x, mask = torch.ones(2, 3, 8, 8), torch.ones(2)
scales = {"a": torch.ones(40), "b": torch.ones(40)}
axes = {"x": {0: "batch", 2: "height", 3: "width"}, "mask": {0: "batch"}}
for name, external in (("one.onnx", False), ("two.onnx", True)):
    kwargs = {"mask": mask, "scales": scales}
    onward.export(Model(), x, name, kwargs=kwargs, dynamic_axes=axes, external_data=external)
"""


def make(folder: Path) -> Path:
    folder.mkdir()
    return folder


def test_two_processes_write_the_same_bytes(tmp_path: Path, monkeypatch) -> None:
    """Hash seeds differ between processes, and with them the order of every set; so do addresses."""
    script, here, there = tmp_path / "script.py", make(tmp_path / "here"), make(tmp_path / "there")
    script.write_text(SCRIPT)
    seed = "2" if os.environ.get("PYTHONHASHSEED") == "1" else "1"
    source = str(Path(onward.__file__).resolve().parent.parent)
    environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": source}
    subprocess.run([sys.executable, str(script)], env=environment, cwd=there, check=True)
    monkeypatch.chdir(here)
    runpy.run_path(str(script))
    names = ["one.onnx", "two.onnx", "two.onnx.data"]
    assert sorted(path.name for path in here.iterdir()) == sorted(path.name for path in there.iterdir()) == names
    for name in names:
        assert (here / name).read_bytes() == (there / name).read_bytes(), name


@pytest.mark.parametrize("external", [None, True], ids=["one file", "external data"])
def test_two_exports_are_the_same_bytes(external: bool | None, tmp_path: Path) -> None:
    contents = []
    for model in (Model(), Model()):
        onward.export(model, X, tmp_path / "model.onnx", dynamic_axes=AXES, external_data=external)
        contents.append([path.read_bytes() for path in sorted(tmp_path.iterdir())])
    assert contents[0] == contents[1]


class Tied(torch.nn.Module):
    """An embedding whose table is the output layer's weight, as in most language models."""

    def __init__(self, tied: bool) -> None:
        super().__init__()
        self.embedding = torch.nn.Embedding(6000, 64)
        self.head = torch.nn.Linear(64, 6000, bias=False)
        if tied:
            self.head.weight = self.embedding.weight

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return self.head(self.embedding(ids))


class TiedLayers(torch.nn.Module):
    """One layer's weight in two layers, and in a buffer too."""

    def __init__(self, tied: bool) -> None:
        super().__init__()
        self.layers = torch.nn.Sequential(*(torch.nn.Linear(160, 160, bias=False) for _ in range(3)))
        if tied:
            self.layers[1].weight = self.layers[0].weight
            self.layers[2].weight = torch.nn.Parameter(self.layers[0].weight.data)  # another parameter, the same memory

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return self.layers(ids.float().repeat(1, 160 // ids.shape[1]))


@pytest.mark.parametrize("external", [None, True], ids=["one file", "external data"])
@pytest.mark.parametrize(
    ("kind", "table", "copies"), [(Tied, 6000 * 64 * 4, 2), (TiedLayers, 160 * 160 * 4, 3)], ids=["table", "layers"]
)
def test_tied_weights_are_stored_once(
    kind: Any, table: int, copies: int, external: bool | None, tmp_path: Path
) -> None:
    ids, sizes = torch.tensor([[1, 2], [3, 4]]), []
    for tied in (True, False):
        model, folder = kind(tied), make(tmp_path / str(tied))
        path = folder / "model.onnx"
        onward.export(model, ids, path, dynamic_axes={"ids": {0: "batch"}}, external_data=external, verify=True)
        sizes.append(sum(path.stat().st_size for path in folder.iterdir()))
        assert_same(run(path, [ids[:1]]), [model(ids[:1])])
    assert table <= sizes[0] < 1.3 * table
    assert copies * table <= sizes[1]


def test_the_garbage_collector_runs_again_after_an_export_that_failed() -> None:
    def fails(x: torch.Tensor) -> torch.Tensor:
        assert not gc.isenabled()
        raise ValueError("no")

    with pytest.raises(onward.CaptureError):
        onward.export(fails, torch.randn(2))
    assert gc.isenabled()
    gc.disable()
    try:
        onward.export(lambda x: x + 1, torch.randn(2))
        assert not gc.isenabled()
    finally:
        gc.enable()
