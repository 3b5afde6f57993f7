"""F1: `onnx.checker` passes, `onnx.helper.printable_graph` prints it, onnxruntime loads and runs it."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest
import torch
from torch import nn

import onward
from tests.opsets import NEWEST

from .running import assert_same, load, run

OPSETS = [9, 13, 17, 20, NEWEST]


class Convolutions(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2))
        self.head = nn.Linear(8, 4)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        return self.head(self.body(image).mean((2, 3)))


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.rnn = nn.Embedding(20, 8), nn.GRU(8, 6, num_layers=2, bidirectional=True)

    def forward(self, tokens: torch.Tensor) -> dict[str, torch.Tensor]:
        states, last = self.rnn(self.embedding(tokens))
        return {"states": states, "last": last}


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True, activation="gelu")

    def forward(self, x: torch.Tensor, keep: torch.Tensor) -> torch.Tensor:
        return self.layer(x, src_key_padding_mask=~keep)


class Integers(nn.Module):
    def forward(self, scores: torch.Tensor, count: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        values, places = scores.topk(2, dim=1)
        return values.cumsum(1), (places * count).clamp(0, 100)


CASES = [
    pytest.param(Convolutions, (torch.randn(2, 3, 8, 8),), {"image": {0: "batch", 2: "h"}}, id="convolutions"),
    pytest.param(Recurrent, (torch.randint(0, 20, (5, 2)),), {"tokens": {0: "length"}}, id="recurrent"),
    pytest.param(
        Attention,
        (torch.randn(2, 6, 16), torch.tensor([[True] * 6, [True] * 4 + [False] * 2])),
        {"x": {0: "batch"}, "keep": {0: "batch"}},
        id="attention",
    ),
    pytest.param(Integers, (torch.randn(3, 7), torch.tensor(3)), {"scores": {0: "batch", 1: "n"}}, id="integers"),
]


@pytest.mark.parametrize("opset", OPSETS)
@pytest.mark.parametrize(("kind", "args", "axes"), CASES)
def test_checked_printed_loaded_and_run(
    kind: type[nn.Module], args: tuple[torch.Tensor, ...], axes: dict, opset: int, tmp_path: Path
) -> None:
    model, path = kind().eval(), tmp_path / "model.onnx"
    onward.export(model, args, path, dynamic_axes=axes, opset_version=opset)
    proto = load(path)  # with the checker's full check
    assert [(entry.domain, entry.version) for entry in proto.opset_import] == [("", opset)]
    assert proto.ir_version == onnx.helper.OP_SET_ID_VERSION_MAP[("ai.onnx", opset)]

    text = onnx.helper.printable_graph(proto.graph)
    assert text.startswith(f"graph {kind.__name__}") and text.rstrip().endswith("}")
    for node in proto.graph.node:
        assert f" = {node.op_type}" in text

    expected = model(*args)
    wanted = list(expected.values()) if isinstance(expected, dict) else expected
    assert_same(run(path, args), list(wanted) if isinstance(wanted, (tuple, list)) else [wanted])


def test_the_file_is_checked_on_request_and_by_hand(tmp_path: Path) -> None:
    program = onward.export(Convolutions().eval(), torch.randn(1, 3, 8, 8), enable_onnx_checker=True)
    program.check()
    program.save(tmp_path / "model.onnx", external_data=True)
    onnx.checker.check_model(str(tmp_path / "model.onnx"), full_check=True)
