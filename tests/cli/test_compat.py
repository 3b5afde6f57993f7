"""`onward inspect --for`: where a file would run."""

from __future__ import annotations

import importlib
import json
from pathlib import Path

import onnx
import pytest

from tests.cli.models import TEXT, save
from tests.cli.running import invoke


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return save(tmp_path / "m.onnx")


def test_conditions_are_no_problems(model: Path) -> None:
    done = invoke("inspect", model, "--for", "opset-8", "--for", "onnxruntime")
    assert done.exit_code == 0, done.stderr
    assert "opset 8: 1 condition" in done.stdout and "loads the model" in done.stdout
    assert "source: The definitions of operators: onnx" in done.stdout


def test_the_file_is_read_once(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read = []
    loading = importlib.import_module("onward.files.load")  # the function of this name hides the module
    monkeypatch.setattr(loading, "_read", lambda path: read.append(path) or Path(path).read_bytes())
    invoke("inspect", model, "--for", "opset-8", "--for", "onnxruntime", "--for", "coreml", "--json")
    assert read == [str(model)]


def test_a_problem_is_the_exit_code_and_named_with_its_source(tmp_path: Path) -> None:
    path = save(tmp_path / "m.onnx", TEXT.replace("Relu (product)", "Gelu (product)"))
    done = invoke("inspect", path, "--for", "opset-13", "--for", "tensorrt")
    assert done.exit_code == 1 and done.stderr == ""
    first, second = done.stdout.split("\n\n")
    assert first.startswith("opset 13: 1 problem") and "problem  Gelu" in first and "exists from opset 20 on" in first
    assert "the node of 'y'" in first and "a problem means: the node as it stands is not one of opset 13" in first
    assert second.startswith("TensorRT 10.15: 1 condition") and "onnx/onnx-tensorrt@fa5aa9f61e77" in second


def test_what_is_not_known_is_no_problem(tmp_path: Path) -> None:
    text = TEXT.replace('["" : 20]', '["" : 20, "my.ops" : 1]').replace("Identity (x)", "my.ops.Same (x)")
    done = invoke("inspect", save(tmp_path / "m.onnx", text), "--for", "openvino")
    assert (
        done.exit_code == 0 and "1 thing that is not known" in done.stdout and "not known  my.ops.Same" in done.stdout
    )


def test_for_machines(model: Path) -> None:
    done = invoke("inspect", model, "--for", "coreml", "--for", "coreml", "--json")
    told = json.loads(done.stdout)
    (found,) = told["compatibility"]
    assert told["nodes"] == 4 and done.exit_code == 0
    assert found["target"] == "coreml" and found["ok"] is True and found["problems"] == []
    assert [each["operator"] for each in found["unknown"]] == ["Add"]
    assert found["unknown"][0]["nodes"][0]["output"] == "file" and found["unknown"][0]["source"] in found["sources"]


@pytest.mark.parametrize("target", ["tensorr", "opset-99", "opset-"])
def test_targets_that_are_none(target: str, model: Path) -> None:
    done = invoke("inspect", model, "--for", target)
    assert done.exit_code == 2 and done.stdout == "" and "choose one of" in done.stderr


def test_names_of_a_file_cannot_command_the_terminal(tmp_path: Path) -> None:
    proto = onnx.load(save(tmp_path / "m.onnx"))
    proto.graph.node[2].name, proto.graph.node[2].op_type = "\x1b[2Jgone", "\x1b[2J"
    onnx.save(proto, tmp_path / "m.onnx")
    done = invoke("inspect", tmp_path / "m.onnx", "--for", "tensorrt")
    assert "\x1b" not in done.stdout and "\\x1b[2Jgone" in done.stdout
