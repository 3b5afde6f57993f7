"""Recurrent layers: integer weights, grids around them, the recurrence in float as both compute it."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import onnx
import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

import onward
from onward.quant import QuantConfig, Weights
from onward.verify import Session

from .harness import quantized, through_onnxruntime


class Recurrent(nn.Module):
    """Numbers in, a recurrent layer between two linear ones."""

    def __init__(self, kind: type[nn.RNNBase], **how: Any) -> None:
        super().__init__()
        self.before = nn.Linear(6, 8)
        self.layer = kind(8, 12, **how)
        wide = (how.get("proj_size") or 12) * (2 if how.get("bidirectional") else 1)
        self.after = nn.Linear(wide, 5)

    def forward(self, x: Tensor, *states: Tensor) -> tuple[Tensor, Tensor]:
        given = (states if len(states) > 1 else states[0]) if states else None
        y, last = self.layer(self.before(x), given)
        return self.after(y), last[0] if isinstance(last, tuple) else last


LAYERS: dict[str, tuple[type[nn.RNNBase], dict[str, Any], int]] = {
    "lstm": (nn.LSTM, {}, 0),
    "lstm, three layers": (nn.LSTM, {"num_layers": 3}, 0),
    "lstm, both ways": (nn.LSTM, {"num_layers": 2, "bidirectional": True, "batch_first": True}, 0),
    "lstm, states": (nn.LSTM, {"batch_first": True}, 2),
    "lstm, no biases": (nn.LSTM, {"bias": False}, 0),
    "lstm, projected": (nn.LSTM, {"proj_size": 4}, 0),
    "gru": (nn.GRU, {"num_layers": 2}, 0),
    "gru, both ways": (nn.GRU, {"bidirectional": True}, 1),
    "rnn": (nn.RNN, {"num_layers": 2, "bidirectional": True}, 0),
    "rnn, relu": (nn.RNN, {"nonlinearity": "relu"}, 0),
}


@pytest.mark.parametrize("name", LAYERS)
def test_layers(name: str, tmp_path: Path) -> None:
    torch.manual_seed(0)
    kind, how, states = LAYERS[name]
    model = Recurrent(kind, **how)

    def example(length: int = 7) -> tuple[Tensor, ...]:
        first = (3, length) if how.get("batch_first") else (length, 3)
        rows = how.get("num_layers", 1) * (2 if how.get("bidirectional") else 1)
        return (torch.randn(*first, 6), *(torch.randn(rows, 3, 12) * 0.3 for _ in range(states)))

    given = example()
    with torch.no_grad():
        wanted = model(*given)[0]
    quantized(model, lambda: given)
    axis = 1 if how.get("batch_first") else 0
    outcome = through_onnxruntime(model, given, tmp_path, fresh=example(9), dynamic_axes={"x": {axis: "length"}})
    assert outcome.close >= 0.999
    assert outcome.steps < 2.01
    assert outcome.fused["QGemm"] == 2
    assert float((model(*given)[0] - wanted).detach().norm() / wanted.norm()) < 0.05


@pytest.mark.parametrize("name", ["lstm", "lstm, both ways", "gru", "rnn"])
@pytest.mark.parametrize("per_channel", [True, False])
def test_weights_are_stored_as_integers_in_the_order_of_onnx(name: str, per_channel: bool, tmp_path: Path) -> None:
    torch.manual_seed(0)
    kind, how, _ = LAYERS[name]
    model = quantized(
        Recurrent(kind, **how),
        lambda: torch.randn(3, 3, 6),
        QuantConfig(weights=Weights(per_channel=per_channel)),
    )
    outcome = through_onnxruntime(model, torch.randn(3, 3, 6), tmp_path)
    assert outcome.close >= 0.999
    graph = onnx.load(outcome.path).graph
    floats = [each for each in graph.initializer if each.data_type == 1 and len(each.dims) > 2 and each.dims[-1] > 1]
    assert floats == []
    assert not outcome.fused["Cast"]  # onnxruntime has made constants of them, which it packs
    assert {"Split", "Slice", "Concat"} & outcome.nodes.keys() <= ({"Concat"} if how.get("num_layers") else set())


@pytest.mark.parametrize("name", [name for name in LAYERS if name.startswith("lstm") and "projected" not in name])
@pytest.mark.parametrize("opset", [13, 21])
def test_dynamic(name: str, opset: int, tmp_path: Path) -> None:
    """onnxruntime's kernel rounds inputs and states to the range that they have at each step. Evaluation follows it:
    over 50 steps and three layers all elements are equal here."""
    torch.manual_seed(0)
    _, how, states = LAYERS[name]
    model = Recurrent(nn.LSTM, **how)

    def example(length: int) -> tuple[Tensor, ...]:
        first = (3, length) if how.get("batch_first") else (length, 3)
        return (torch.randn(*first, 6), *(torch.randn(1, 3, 12) * 0.3 for _ in range(states)))

    given = example(7)
    with torch.no_grad():
        wanted = model(*given)[0]
    quantized(model, lambda: given, QuantConfig(lstm="dynamic"))
    axis = 1 if how.get("batch_first") else 0
    outcome = through_onnxruntime(
        model, given, tmp_path, fresh=example(50), opset=opset, dynamic_axes={"x": {axis: "length"}}
    )
    assert outcome.close >= 0.999
    assert outcome.steps < 1.01
    assert outcome.nodes["DynamicQuantizeLSTM"] == how.get("num_layers", 1)
    assert not {"Shape", "ConstantOfShape"} & outcome.nodes.keys() - ({"Shape"} if how.get("num_layers") else set())
    assert float((model(*given)[0] - wanted).detach().norm() / wanted.norm()) < 0.06


def test_dynamic_is_verified_on_one_thread(tmp_path: Path) -> None:
    """On several, onnxruntime finds a range for the rows of each: cell states, which lie on no grid, would differ."""
    torch.manual_seed(0)
    model = quantized(nn.LSTM(6, 8), lambda: torch.randn(9, 4, 6), QuantConfig(lstm="dynamic"))
    program = onward.export(model, (torch.randn(9, 4, 6),), tmp_path / "m.onnx", verify=True)
    program.verify(tmp_path / "m.onnx")
    for file in (program.model, tmp_path / "m.onnx"):
        assert [_threads(Session(file, **how)) for how in ({}, {"threads": 2}, {"reproducible": False})] == [1, 2, 0]  # type: ignore[arg-type]


def _threads(session: Session) -> int:
    count: int = session._session.get_session_options().intra_op_num_threads
    return count


def test_dynamic_projected_layers_stay_in_float(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = quantized(Recurrent(nn.LSTM, proj_size=4), lambda: torch.randn(5, 3, 6), QuantConfig(lstm="dynamic"))
    outcome = through_onnxruntime(model, torch.randn(5, 3, 6), tmp_path)
    assert outcome.close >= 0.999
    assert not outcome.nodes["DynamicQuantizeLSTM"]


class Loop(nn.Module):
    def __init__(self, cell: nn.RNNCellBase) -> None:
        super().__init__()
        self.before, self.cell, self.after = nn.Linear(6, 8), cell, nn.Linear(12, 5)

    def forward(self, x: Tensor) -> Tensor:
        x = self.before(x)
        state: Any = None
        for row in x.unbind(0):
            state = self.cell(row, state)
        return self.after(state[0] if isinstance(state, tuple) else state)


@pytest.mark.parametrize(
    "cell", [nn.LSTMCell(8, 12), nn.GRUCell(8, 12), nn.RNNCell(8, 12)], ids=lambda c: type(c).__name__
)
def test_cells(cell: nn.RNNCellBase, tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = quantized(Loop(copy.deepcopy(cell)), lambda: torch.randn(4, 3, 6))
    outcome = through_onnxruntime(model, torch.randn(4, 3, 6), tmp_path, fresh=torch.randn(4, 3, 6))
    assert outcome.close >= 0.999
    assert outcome.steps < 1.01
    graph = onnx.load(outcome.path).graph
    stored = {tuple(each.dims) for each in graph.initializer if each.data_type == onnx.TensorProto.INT8}
    gates = cell.weight_ih.shape[0]
    assert {(gates, 8), (gates, 12)} <= stored


class Packed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.before, self.layer, self.after = nn.Linear(6, 8), nn.LSTM(8, 12, batch_first=True), nn.Linear(12, 5)

    def forward(self, x: Tensor, lengths: Tensor) -> Tensor:
        packed = pack_padded_sequence(self.before(x), lengths, batch_first=True, enforce_sorted=False)
        y, _ = pad_packed_sequence(self.layer(packed)[0], batch_first=True)
        return self.after(y)


def test_packed_sequences(tmp_path: Path) -> None:
    torch.manual_seed(0)
    lengths = torch.tensor([4, 7, 2])
    model = quantized(Packed(), lambda: (torch.randn(3, 7, 6), lengths))
    outcome = through_onnxruntime(
        model, (torch.randn(3, 7, 6), lengths), tmp_path, fresh=(torch.randn(3, 7, 6), lengths)
    )
    assert outcome.close >= 0.999
    assert outcome.steps < 1.01


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU, nn.RNN])
def test_training(kind: type[nn.RNNBase]) -> None:
    torch.manual_seed(0)
    model = quantized(Recurrent(kind, num_layers=2, dropout=0.1), lambda: torch.randn(7, 3, 6)).train()
    model(torch.randn(7, 3, 6))[0].square().mean().backward()
    assert all(each.grad is not None and bool(each.grad.any()) for each in model.parameters())
