"""`onward verify`: a file against the model that it should be."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch

import onward as package
from tests.cli import nets
from tests.cli.running import ROOT, invoke, onward

NETS = ROOT / "tests" / "cli" / "nets.py"
AGAINST = ["--against", "tests.cli.nets:Net"]


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """What `onward export` writes with the seed 0."""
    torch.manual_seed(0)
    axes = {"x": {0: "batch"}}
    package.export(nets.Net().eval(), (torch.randn(2, 8),), tmp_path / "m.onnx", dynamic_axes=axes)
    return tmp_path / "m.onnx"


def test_the_real_executable(model: Path) -> None:
    done = onward("verify", str(model), "--against", f"{NETS}:Net")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1].startswith("5 runs agree, largest error")
    labels = [line.split("  ")[0] for line in done.stdout.splitlines() if " ok" in line]
    assert labels == ["example", "fresh values", "batch=1", "batch=3", "batch=8"]


def test_inputs_by_name_by_position_and_of_the_target(model: Path) -> None:
    for more in (["-i", "x:f32[5,8]"], ["-i", "f32[5,8]"], ["-i", "x:f32[5,8]; scale=1.0"]):
        told = json.loads(invoke("verify", model, *AGAINST, *more, "--json").stdout)
        assert told["ok"] and told["runs"] == ["example", "fresh values", "batch=1", "batch=2", "batch=6", "batch=20"]
    told = json.loads(invoke("verify", model, "--against", "tests.cli.nets:with_example", "--json").stdout)
    assert told["ok"] and told["runs"] == ["example", "fresh values", "batch=1", "batch=2", "batch=4", "batch=12"]


def test_two_inputs_in_the_order_of_the_file(tmp_path: Path) -> None:
    torch.manual_seed(0)
    net = nets.Net().eval()
    example = (torch.randn(2, 8), torch.ones(2, 8, dtype=torch.bool))
    package.export(net, example, tmp_path / "m.onnx", input_names=["first", "second"])
    more = ["-i", "second:bool[2,8]", "-i", "first:f32[2,8]"]
    told = json.loads(invoke("verify", tmp_path / "m.onnx", *AGAINST, *more, "--json").stdout)
    assert told["ok"] and told["runs"] == ["example", "fresh values"]
    done = invoke("verify", tmp_path / "m.onnx", *AGAINST, "-i", "first:f32[2,8]")
    assert (
        done.exit_code == 1
        and "input 'second' is not given\n  it has first, second; without any, made-up" in done.stderr
    )


def test_other_weights_disagree(model: Path) -> None:
    done = invoke("verify", model, *AGAINST, "--seed", "1", "-i", "x:f32[2,8]")
    assert done.exit_code == 1
    assert "5 of 5 runs disagree: example; fresh values; batch=1; batch=3; batch=8" in done.stdout
    assert "are the weights the same?" in done.stdout
    assert (
        "the first value that is wrong is 'layers.0.linear', which Gemm node 'layers.0.linear' computes" in done.stdout
    )
    assert "unlike a fresh export: the weight 'layers.0.weight' differs in 64 of 64 elements" in done.stdout
    told = json.loads(invoke("verify", model, *AGAINST, "--seed", "1", "--json").stdout)
    assert not told["ok"] and len(told["disagree"]) == 5


def test_json_has_no_infinities(model: Path) -> None:
    proto = onnx.load(model)
    (bias,) = [each for each in proto.graph.initializer if each.name == "layers.1.bias"]
    bias.CopyFrom(onnx.numpy_helper.from_array(np.full(8, np.inf, dtype=np.float32), bias.name))
    onnx.save(proto, model)

    def refuse(word: str) -> None:
        raise AssertionError(f"{word} is not JSON")

    for arguments in (["verify", str(model), *AGAINST], ["run", str(model)]):
        told = json.loads(invoke(*arguments, "--json").stdout, parse_constant=refuse)
    assert told["outputs"][0]["max"] == "inf"


def test_a_size_that_was_frozen_is_found(model: Path) -> None:
    proto = onnx.load(model)
    graph, known = proto.graph, onnx.helper.make_tensor("known", onnx.TensorProto.INT64, [1], [2])
    graph.initializer.append(known)
    graph.node.extend(
        [
            onnx.helper.make_node("Shape", ["x"], ["rows"], start=0, end=1),
            onnx.helper.make_node("Sub", ["rows", "known"], ["more"]),
            onnx.helper.make_node("Cast", ["more"], ["wrong"], to=onnx.TensorProto.FLOAT),
            onnx.helper.make_node("Add", [graph.output[0].name, "wrong"], ["frozen"]),  # right for two rows
        ]
    )
    graph.output[0].name = "frozen"
    onnx.save(proto, model)
    done = invoke("verify", model, *AGAINST, "-i", "x:f32[2,8]")
    assert done.exit_code == 1
    assert "3 of 5 runs disagree: batch=1; batch=3; batch=8" in done.stdout
    assert "they agree on the example: an axis that was exported as dynamic is not" in done.stdout
    assert "the first value that is wrong is 'frozen', which Add node 'frozen' computes with" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["missing.onnx", *AGAINST], 1, "there is no file 'missing.onnx'"),
        ([str(NETS), *AGAINST], 1, "is no ONNX model"),
        (["MODEL", "--against", "tests.cli.nets:Nett"], 1, "did you mean 'Net'?"),
        (["MODEL", "--against", "tests.cli.nets:broken"], 1, "raised KeyError: 'no such depth'"),
        (["MODEL", *AGAINST, "-i", "x:f32[2,8"], 2, "  x:f32[2,8\n           ^\n"),
        (["MODEL", *AGAINST, "-i", "y:f32[2,8]"], 1, "the model has no input 'y'"),
        (["MODEL", "--against", "tests.cli.nets:ready"], 1, "the model raised RuntimeError on the example"),
        (
            ["MODEL", *AGAINST, "-i", "x:f32[2,8]; mask:bool[2,8]"],
            1,
            "the file has 1 inputs (x), and the model is called",
        ),
        (["MODEL"], 2, "Missing option '--against'"),
    ],
)
def test_mistakes(arguments: list[str], code: int, message: str, model: Path) -> None:
    done = invoke("verify", *(str(model) if each == "MODEL" else each for each in arguments))
    assert done.exit_code == code, done.stderr
    assert message in done.stderr, done.stderr
