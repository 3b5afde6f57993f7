"""Names for people: after modules and operators, parameters by their state-dict name, the same on every run."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import onnx_ir as ir
import pytest
import torch
from torch import nn

import onward
from tests.opsets import DEFAULT, NEWEST


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm, self.attention = nn.LayerNorm(16), nn.MultiheadAttention(16, 2, batch_first=True)
        self.mlp = nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.Linear(32, 16))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.norm(x)
        x = x + self.attention(y, y, y, need_weights=False)[0]
        return x + self.mlp(x)


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(3)
        self.stem = nn.Sequential(nn.Conv2d(3, 16, 4, stride=4), nn.BatchNorm2d(16), nn.ReLU())
        self.blocks = nn.ModuleList([Block(), Block()])
        self.rnn = nn.LSTM(16, 8, batch_first=True, bidirectional=True)
        self.register_buffer("offset", torch.rand(1, 16, 1, 1))

    def forward(self, image: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        x = self.stem(image) + self.offset
        x = x.flatten(2).transpose(1, 2)
        x = x + torch.linspace(0, 1, 16 * 80).reshape(80, 16)[: x.shape[1]]  # a constant that the model makes itself
        for block in self.blocks:
            x = block(x)
        y, (h, _) = self.rnn(x)
        return y, h


def export(opset: int = DEFAULT) -> onward.Program:
    axes = {"image": {0: "batch", 2: "rows"}}
    return onward.export(Model().eval(), torch.rand(1, 3, 16, 20), dynamic_axes=axes, opset_version=opset)


def all_nodes(program: onward.Program) -> Iterator[ir.Node]:
    return iter(ir.traversal.RecursiveGraphIterator(program.model.graph))


@pytest.mark.parametrize("opset", [9, 13, 17, 20, NEWEST])
def test_every_node_is_named_after_its_module_and_operator(opset: int) -> None:
    program = export(opset)
    names = [node.name for node in all_nodes(program)]
    assert len(set(names)) == len(names)
    for node in all_nodes(program):
        metadata = node.metadata_props
        if "onward.aten" not in metadata:
            assert node.op_type == "Transpose" and node.name in {value.name for value in node.outputs}, node
            continue
        scope, op = metadata["onward.scope"], metadata["onward.aten"].split(".")[1]
        assert node.name.startswith(f"{scope}.{op}" if scope else op), node
        assert metadata["onward.classes"].startswith("Model") and metadata["onward.source"].startswith("test_names.py:")


def test_values_are_named_after_their_node_and_outputs_by_name() -> None:
    program = export()
    for node in all_nodes(program):
        for value in node.outputs:
            assert value.is_graph_output() or value.name.startswith(node.name) or "batch_norm" in value.name, value
    assert "stem.0.conv2d" in {node.name for node in program.model.graph}
    assert "blocks.1.mlp.1.gelu" in {node.name for node in program.model.graph}


def test_weights_have_their_state_dict_name_and_what_is_made_of_them_says_so() -> None:
    state = set(Model().state_dict())
    for name, value in export().model.graph.initializers.items():
        if value.const_value.size > 64:
            assert name in state or name.rpartition(".")[0] in state or name == "constant", name
    assert {"blocks.0.norm.weight", "offset", "stem.0.weight.folded"} <= set(export().model.graph.initializers)


def digest() -> str:
    path = Path(os.environ["ONWARD_TEST_FOLDER"]) / f"{os.getpid()}.onnx"
    export().save(path)
    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_two_exports_and_two_processes_write_the_same_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ONWARD_TEST_FOLDER", str(tmp_path))
    digests = {digest(), digest()}
    root = Path(__file__).resolve().parent.parent
    for seed in ("1", "77"):
        environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": f"{root / 'src'}{os.pathsep}{root}"}
        code = "import tests.test_names as t; print(t.digest())"
        ran = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
        digests.add(ran.stdout.split()[-1])
    assert len(digests) == 1
