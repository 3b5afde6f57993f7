"""A7: `verbose=True` prints the graph for a person; `strip_doc_string=False` keeps the source line in the file."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import onnx
import pytest
import torch
from torch import nn

import onward
from tests.opsets import DEFAULT, NEWEST

from .running import load

HERE = Path(__file__).name


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(nn.Conv2d(3, 8, 3, stride=2, padding=1), nn.ReLU())
        self.classifier = nn.Linear(8, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        pooled = self.features(x).mean((2, 3))
        return self.classifier(pooled)


def line_of(text: str) -> int:
    source, first = inspect.getsourcelines(Net)
    return first + next(place for place, line in enumerate(source) if text in line)


X = torch.randn(2, 3, 16, 16)
NAMES = dict(input_names=["actual_input_1"], output_names=["output1"])


def printed(capsys: pytest.CaptureFixture[str], **options: object) -> list[str]:
    onward.export(Net(), X, **NAMES, verbose=True, **options)
    return capsys.readouterr().out.splitlines()


def test_inputs_weights_statements_and_results(capsys: pytest.CaptureFixture[str]) -> None:
    lines = printed(capsys)
    assert lines[0] == f"graph Net (opset {DEFAULT})"
    assert "    %actual_input_1 : Float(2, 3, 16, 16)" in lines
    assert "    %features.0.weight : Float(8, 3, 3, 3)" in lines
    statement = next(line for line in lines if "onnx::Conv" in line)
    assert statement == (
        "  %features.0.conv2d : Float(2, 8, 8, 8) = onnx::Conv[kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1], "
        "dilations=[1, 1], group=1](%actual_input_1, %features.0.weight, %features.0.bias), "
        f"scope: Net/Sequential[features]/Conv2d[0]  # {HERE}:{line_of('self.features(x)')}"
    )
    assert any(
        re.match(rf"  %output1 : Float\(2, 5\) = .*, scope: Net/Linear\[classifier\]  # {HERE}:", s) for s in lines
    )
    assert lines[-2:] == ["  return (%output1)", "}"]


@pytest.mark.parametrize("opset", [9, 13, 17, 20, NEWEST])
def test_dynamic_axes_are_shown_by_name_at_every_opset(capsys: pytest.CaptureFixture[str], opset: int) -> None:
    axes = {"actual_input_1": {0: "batch", 2: "h", 3: "w"}}
    lines = printed(capsys, dynamic_axes=axes, opset_version=opset)
    assert lines[0] == f"graph Net (opset {opset})"
    assert "    %actual_input_1 : Float(batch, 3, h, w)" in lines
    assert any("%output1 : Float(batch, 5) = " in line for line in lines)


def test_printing_the_program_and_the_file_is_the_same(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "net.onnx"
    program = onward.export(Net(), X, path, **NAMES, verbose=True)
    text = capsys.readouterr().out.rstrip("\n")
    assert str(program) == text
    for model in (program, program.model, program.proto(), path, str(path), path.read_bytes()):
        assert onward.printable(model) == text
    assert "onnx::" not in repr(program)


def test_nothing_is_printed_unless_asked(capsys: pytest.CaptureFixture[str]) -> None:
    onward.export(Net(), X)
    onward.export(Net(), X, verbose=False)
    assert capsys.readouterr().out == ""


def test_strip_doc_string_keeps_or_leaves_out_the_line(tmp_path: Path) -> None:
    onward.export(Net(), X, tmp_path / "bare.onnx")
    onward.export(Net(), X, tmp_path / "told.onnx", strip_doc_string=False)
    assert {node.doc_string for node in load(tmp_path / "bare.onnx").graph.node} == {""}
    told = {node.name: node.doc_string for node in load(tmp_path / "told.onnx").graph.node}
    assert told["features.0.conv2d"] == f"{__file__}:{line_of('self.features(x)')} in forward"
    assert told["classifier.linear"] == f"{__file__}:{line_of('self.classifier(pooled)')} in forward"
    assert all(told.values())


class Normed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv, self.bn = nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4)
        self.scale = nn.Parameter(torch.rand(14))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.bn(self.conv(x))
        return self.scale * (y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + 1e-6))


@pytest.mark.parametrize("opset", [17, 23])
def test_fused_nodes_still_say_where_they_come_from(opset: int) -> None:
    program = onward.export(Normed().eval(), X, opset_version=opset, strip_doc_string=False)
    kinds = [node.op_type for node in program.model.graph]
    assert "BatchNormalization" not in kinds and ("RMSNormalization" in kinds) == (opset >= 23)
    for node in program.model.graph:
        assert node.name and node.doc_string
        assert {"onward.aten", "onward.scope", "onward.classes", "onward.source"} <= set(node.metadata_props)


def test_onnx_reads_what_is_printed_as_metadata(tmp_path: Path) -> None:
    path = tmp_path / "net.onnx"
    onward.export(Net(), X, path)
    node = next(node for node in onnx.load(path).graph.node if node.op_type == "Conv")
    assert {entry.key: entry.value for entry in node.metadata_props} == {
        "onward.aten": "aten.conv2d.default",
        "onward.scope": "features.0",
        "onward.classes": "Net/Sequential[features]/Conv2d[0]",
        "onward.source": f"{HERE}:{line_of('self.features(x)')}",
    }


@pytest.mark.parametrize("parameter", ["verbose", "strip_doc_string"])
def test_what_only_looks_like_a_flag_is_refused(parameter: str) -> None:
    with pytest.raises(onward.InputError, match=f"{parameter} must be True or False, not 'yes'"):
        onward.export(Net(), X, **{parameter: "yes"})
