"""`onward run`, `inspect` and `optimize`: files of anybody."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import pytest

from onward.cli.files.page_measurements import FileView
from onward.files import load
from onward.report import report_data
from tests.cli.models import TEXT, save
from tests.cli.running import invoke, onward

INPUTS = ["-i", "x:f32[5,4]=ones", "-i", "ids:i64[5]=arange"]


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return save(tmp_path / "m.onnx")


@pytest.mark.parametrize("backend", ["onnxruntime", "onward"])
def test_run_writes_what_the_model_answers(backend: str, model: Path, tmp_path: Path) -> None:
    done = invoke("run", model, *INPUTS, "-o", tmp_path / "out.npz", "--backend", backend)
    assert done.exit_code == 0, done.stderr
    head, first, second, *_ = done.stdout.splitlines()
    assert head.split() == ["output", "type", "shape", "min", "max", "mean"]
    assert first.split()[:3] == ["y", "float32", "5x3"] and second.split() == ["file", "int64", "5", "1", "5", "3"]
    with np.load(tmp_path / "out.npz") as archive:
        written = dict(archive)
    held = {each.name: onnx.numpy_helper.to_array(each) for each in onnx.load(model).graph.initializer}
    assert written["file"].tolist() == [1, 2, 3, 4, 5]  # np.savez could not have written this name
    assert np.allclose(written["y"], np.maximum(np.ones((5, 4)) @ held["weight"] + held["bias"], 0), atol=1e-6)
    done = invoke("run", model, *INPUTS, "-o", tmp_path / "out.npz")
    assert done.exit_code == 1 and "already exists" in done.stderr


def test_the_real_executable_runs_and_inspects(model: Path) -> None:
    told = json.loads(onward("run", str(model), "--json").stdout)  # on made-up inputs
    assert [each["name"] for each in told["outputs"]] == ["y", "file"]
    shown = onward("inspect", str(model)).stdout
    assert "by somebody; opset ai.onnx 20; IR version 9" in shown
    assert "x      float32[n, 4]" in shown and "weight           float32  4x3     48 bytes" in shown
    assert "28 FLOPs at n=1\n" in shown  # a product of 1x4 and 4x3, a Relu of 3 and an Add of 1


def test_inspect_of_a_file_without_dynamic_axes(tmp_path: Path) -> None:
    shown = invoke("inspect", save(tmp_path / "fixed.onnx", TEXT.replace("[n", "[2"))).stdout
    assert "56 FLOPs\n" in shown


CONV = """<ir_version: 9, opset_import: ["" : 20]>
g (float[n, 1, h, 6] x) => (float[n, 2, k, 4] y) <float[2, 1, 3, 3] w> { y = Conv <strides = [2, 1]> (x, w) }"""


@pytest.mark.parametrize(
    ("bounds", "says", "at", "flops"),
    [
        ({"h": "2..32"}, "FLOPs are not known at n=1, h=2: `onward report -i` counts", {"n": 1, "h": 2}, None),
        ({"h": "9..32"}, "576 FLOPs at n=1, h=9\n", {"n": 1, "h": 9}, 576),  # 1x2x4x4 of 9 times 2 each
        ({"h": "9..", "n": "2..8"}, "1.15 k FLOPs at n=2, h=9\n", {"n": 2, "h": 9}, 1152),
        (
            {},
            "FLOPs are not known at n=1, h=1: `onward report -i` counts",
            {"n": 1, "h": 1},
            None,
        ),  # no row is left of one
    ],
)
def test_flops_are_counted_at_sizes_that_the_file_allows(
    bounds: dict[str, str], says: str, at: dict[str, int], flops: int | None, tmp_path: Path
) -> None:
    proto = onnx.parser.parse_model(CONV)
    proto.graph.initializer.append(onnx.numpy_helper.from_array(np.ones((2, 1, 3, 3), np.float32), "w"))
    del proto.graph.value_info[:]
    onnx.helper.set_model_props(proto, {f"onward.axis.{name}": each for name, each in bounds.items()})
    onnx.save(proto, tmp_path / "c.onnx")
    assert says in invoke("inspect", tmp_path / "c.onnx").stdout
    told = json.loads(invoke("inspect", tmp_path / "c.onnx", "--json").stdout)
    assert told["flops_at"] == at and told["flops"] == flops


def test_inspect_counts_what_the_page_counts(tmp_path: Path) -> None:
    text = """<ir_version: 9, opset_import: ["" : 20, "other" : 1]>
    g (float[n, 1, 6, 6] x) => (float[n, 2, k, m] y) <float[2, 1, 3, 3] w> {
        c = Conv (x, w)
        s = Softmax <axis = 1> (c)
        y = other.Own (s)
    }"""
    proto = onnx.parser.parse_model(text)
    proto.graph.initializer.append(onnx.numpy_helper.from_array(np.ones((2, 1, 3, 3), np.float32), "w"))
    onnx.save(proto, tmp_path / "c.onnx")
    assert (
        "736 FLOPs at n=1, without Own\n" in invoke("inspect", tmp_path / "c.onnx").stdout
    )  # 576 and 5 for each of 32
    told = json.loads(invoke("inspect", tmp_path / "c.onnx", "--json").stdout)
    page = report_data(FileView(load(tmp_path / "c.onnx"))).data["totals"]
    assert (told["flops"], told["flops_unknown"]) == (page["flops"], page["flops_unknown"]) == (736, ["Own"])


def test_inspect_for_machines(model: Path) -> None:
    told = json.loads(invoke("inspect", model, "--json", "--top", "1").stdout)
    assert told["ok"] and told["operators"] == {"Add": 1, "Gemm": 1, "Identity": 1, "Relu": 1}
    assert told["inputs"][1] == {"name": "ids", "dtype": "int64", "shape": ["n"]}
    assert told["weights"]["parameters"] == 15 and [each["name"] for each in told["weights"]["largest"]] == ["weight"]
    assert told["bytes"] == model.stat().st_size and told["opsets"] == {"ai.onnx": 20}


def test_names_of_a_file_cannot_command_the_terminal(tmp_path: Path) -> None:
    proto = onnx.load(save(tmp_path / "m.onnx"))
    proto.graph.name, proto.producer_name = "\x1b[2Jgone", "[bold]\nsecond line"
    onnx.save(proto, tmp_path / "m.onnx")
    shown = invoke("inspect", tmp_path / "m.onnx").stdout
    assert "\x1b" not in shown and "\\x1b[2Jgone" in shown and "[bold]\\nsecond line" in shown


def test_optimize(model: Path, tmp_path: Path) -> None:
    done = onward("optimize", str(model), "-o", str(tmp_path / "less.onnx"))
    assert done.returncode == 0, done.stderr
    assert "4 nodes became 3" in done.stdout and "onnxruntime answers as before" in done.stdout
    done = invoke("optimize", model, "-o", tmp_path / "less.onnx", "--force", "--json", *INPUTS)
    assert json.loads(done.stdout)["after"]["nodes"] == 3


@pytest.mark.parametrize("command", ["run", "inspect", "optimize"])
def test_files_that_are_none(command: str, tmp_path: Path) -> None:
    more = ["-o", str(tmp_path / "out.onnx")] if command == "optimize" else []
    (tmp_path / "text.onnx").write_text("hello, I am no model")
    (tmp_path / "empty.onnx").touch()
    proto = onnx.load(save(tmp_path / "m.onnx"))
    onnx.external_data_helper.set_external_data(proto.graph.initializer[1], "../../etc/passwd")
    (tmp_path / "elsewhere.onnx").write_bytes(proto.SerializeToString())
    for name, message in [
        ("missing.onnx", "there is no file"),
        ("text.onnx", "is no ONNX model"),
        ("empty.onnx", "is no ONNX model"),
        ("elsewhere.onnx", "outside the model's folder"),
        (".", "is not a file"),
    ]:
        done = invoke(command, tmp_path / name, *more)
        assert done.exit_code == 1 and message in done.stderr, done.stderr
        assert done.stdout == "" and len(done.stderr.splitlines()) <= 3


@pytest.mark.parametrize(
    ("arguments", "code", "messages"),
    [
        (["-i", "z:f32[5,4]"], 1, ["the model has no input 'z'", "it has x, ids"]),
        (["-i", "idz:i64[5]"], 1, ["did you mean 'ids'?"]),
        (["-i", "x:f32[5,4]"], 1, ["the model's input 'ids' is not given"]),
        (["-i", "f32[5,4];i64[5];i64[5]"], 1, ["the model has 2 inputs (x, ids), and more are given"]),
        (["-i", "x:f32[5,3]; ids:i64[5]"], 1, ["the input 'x' has the shape [5, 3], and the model takes"]),
        (["-i", "x:f64[5,4]; ids:i64[5]"], 1, ["x"]),
        (["-i", "x=3; ids:i64[5]"], 1, ["the input 'x' is no tensor", 'write it as one: "x:f32[]=3"']),
        (["-i", "x:f32[5,4"], 2, ["  x:f32[5,4\n           ^\n"]),
        (["--backend", "tensorrt"], 2, ["'tensorrt' is not one of 'onnxruntime', 'onward'"]),
        (["-o", "/no/such/folder/out.npz"], 1, ["does not exist"]),
    ],
)
def test_inputs_that_do_not_fit(arguments: list[str], code: int, messages: list[str], model: Path) -> None:
    done = invoke("run", model, *arguments)
    assert done.exit_code == code, done.stderr
    assert all(message in done.stderr for message in messages), done.stderr
