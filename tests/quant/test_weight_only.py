"""Weights in integers, activations in float: what is stored, what onnxruntime makes of it, and how near evaluation is.

MatMulNBits rounds its activations to 8 bits, block by block, at the accuracy level that onnxruntime gives to it behind
DequantizeLinear. Evaluation does the same, so the two differ by what float32 sums differ by, 1e-6 of the largest value,
and by half a percent where a sum is rounded the other way in the layer behind (one row in a hundred).
"""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import numpy
import onnx
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import onward
from onward.errors import InputError
from onward.quant import Activations, QuantConfig, Rule, Weights, initialise

from .harness import left_in_float, quantized, through_onnxruntime

FOUR = QuantConfig(weights=Weights(bits=4, block_size=32), weight_only=True)
CONFIGS = {
    "4 bits, blocks of 32": FOUR,
    "4 bits, blocks of 16": QuantConfig(weights=Weights(bits=4, block_size=16), weight_only=True),
    "4 bits, blocks of 128": QuantConfig(weights=Weights(bits=4, block_size=128, range="mse"), weight_only=True),
    "8 bits, blocks of 32": QuantConfig(weights=Weights(block_size=32), weight_only=True),
    "8 bits by channel": QuantConfig(weight_only=True),
    "4 bits, one scale": QuantConfig(weights=Weights(bits=4, per_channel=False), weight_only=True),
}


class Layers(nn.Module):
    """Widths that are multiples of a block and others, a weight that is no layer's, three axes."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.two = nn.Linear(64, 96), nn.Linear(96, 40, bias=False)
        self.three = nn.Parameter(torch.randn(40, 24) / 6)

    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(self.two(torch.tanh(self.one(x)))) @ self.three


@pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS)
@pytest.mark.parametrize("opset", [17, 21, 25])
def test_linear_layers(config: QuantConfig, opset: int, tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = Layers()
    x = torch.randn(2, 5, 64)
    with torch.no_grad():
        wanted = model(x)
    initialise(model, config)
    outcome = through_onnxruntime(
        model.eval(),
        x,
        tmp_path,
        fresh=torch.randn(3, 50, 64),
        opset=opset,
        dynamic_axes={"x": {0: "batch", 1: "length"}},
    )
    assert outcome.close >= 0.99  # within a millionth of the largest value
    assert outcome.steps < 5000
    assert outcome.fused["MatMulNBits"] == 3
    assert left_in_float(outcome) == {}
    noise = float((model(x) - wanted).detach().norm() / wanted.norm())
    assert noise < (0.02 if config.weights.bits == 8 else 0.3)
    stored = {each.data_type for each in onnx.load(outcome.path).graph.initializer if numpy.prod(each.dims) > 400}
    kinds = {17: onnx.TensorProto.UINT8}.get(
        opset, onnx.TensorProto.INT8 if config.weights.bits == 8 else onnx.TensorProto.INT4
    )
    assert stored == {kinds}


@pytest.mark.parametrize("rows", [1, 2, 100, 1000])  # the runtime has several kernels
@pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS)
def test_one_layer(config: QuantConfig, rows: int, tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = initialise(nn.Linear(256, 64), config).eval()
    assert through_onnxruntime(model, torch.randn(rows, 256), tmp_path).steps < 3  # in millionths of the largest value


class Others(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(20, 16)
        self.conv = nn.Conv1d(16, 16, 3, padding=1)
        self.grow = nn.ConvTranspose1d(16, 16, 2, stride=2)
        self.lstm = nn.LSTM(16, 16, batch_first=True)
        self.attention = nn.MultiheadAttention(16, 4, batch_first=True)
        self.norm = nn.LayerNorm(16)

    def forward(self, x: Tensor) -> Tensor:
        y = self.words(x).transpose(1, 2)
        y = self.lstm(self.grow(self.conv(y)).transpose(1, 2))[0]
        return self.norm(y + self.attention(y, y, y)[0])


@pytest.mark.parametrize("config", [FOUR, QuantConfig(weight_only=True)], ids=["4 bits", "8 bits"])
def test_everything_that_has_weights(config: QuantConfig, tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = initialise(Others(), config).eval()
    x = torch.randint(0, 20, (2, 5))
    outcome = through_onnxruntime(model, x, tmp_path, fresh=torch.randint(0, 20, (2, 5)))
    assert outcome.worst < 2e-3  # one rounding of an activation that goes the other way
    assert outcome.fused["MatMulNBits"] == 4
    floats = [each for each in onnx.load(outcome.path).graph.initializer if each.data_type == onnx.TensorProto.FLOAT]
    assert max(int(numpy.prod(each.dims)) for each in floats) <= 128  # biases and scales


@pytest.mark.parametrize("opset", [10, 13])
@pytest.mark.parametrize("groups", [1, 2, 8])
def test_every_output_channel_of_a_transposed_convolution_has_a_scale(groups: int, opset: int, tmp_path: Path) -> None:
    """Also where these are spread over groups. One scale for all would leave nothing of the smallest."""
    torch.manual_seed(0)
    model = nn.ConvTranspose1d(8, 16, 3, stride=2, groups=groups, bias=False)
    sizes = torch.logspace(0, 4, 16).reshape(groups, 1, -1, 1)
    with torch.no_grad():
        model.weight *= sizes.expand(groups, 8 // groups, -1, 1).flatten(0, 1)
        x = torch.randn(2, 8, 9)
        wanted = model(x)
    initialise(model, QuantConfig(weight_only=True))
    trained = model.train()(x).detach()
    outcome = through_onnxruntime(model.eval(), x, tmp_path, opset=opset)
    assert outcome.close == 1
    assert outcome.fused == {"ConvTranspose": 1}  # what makes numbers of the integers is done when the file is loaded
    kinds = [each.data_type for each in onnx.load(outcome.path).graph.initializer if numpy.prod(each.dims) > 16]
    assert kinds == [onnx.TensorProto.INT8]
    largest = wanted.abs().amax((0, 2), True)
    assert float(((model(x).detach() - wanted) / largest).abs().max()) < 0.02
    torch.testing.assert_close(trained / largest, model(x).detach() / largest)


class Again(nn.Module):
    """A layer that runs twice, and a copy of it."""

    def __init__(self) -> None:
        super().__init__()
        self.one = nn.Linear(32, 32)
        self.copy = copy.deepcopy(self.one)

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.copy(F.gelu(self.one(F.gelu(self.one(x)))))
        return result


@pytest.mark.parametrize("bits", [4, 8])
def test_layers_with_the_same_weights(bits: int, tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = initialise(Again(), QuantConfig(weights=Weights(bits=bits, block_size=32), weight_only=True)).eval()
    outcome = through_onnxruntime(model, torch.randn(3, 32), tmp_path)
    assert outcome.fused["MatMulNBits"] == 3
    assert left_in_float(outcome) == {}


def test_no_calibration_is_needed(tmp_path: Path) -> None:
    torch.manual_seed(0)
    x = torch.randn(4, 64)
    program = onward.quantize(Layers(), [x], tmp_path / "model.onnx", config=FOUR, opset_version=21)
    assert program is not None
    assert (tmp_path / "model.onnx").stat().st_size < 64 * 96 + 96 * 40 + 40 * 24


def test_training() -> None:
    torch.manual_seed(0)
    model = initialise(Layers(), FOUR).train()
    x, target = torch.randn(32, 64), torch.randn(32, 24)
    optimizer = torch.optim.Adam(model.parameters(), 3e-3)
    losses = []
    for _ in range(30):
        loss = (model(x) - target).square().mean()
        losses.append(float(loss.detach()))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert losses[-1] < 0.8 * losses[0]
    evaluated = float((model.eval()(x) - target).square().mean().detach())
    assert evaluated < 1.05 * losses[-1]


class Mixed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.third, self.last = (nn.Linear(32, 32) for _ in range(4))

    def forward(self, x: Tensor) -> Tensor:
        for layer in (self.first, self.second, self.third):
            x = torch.relu(layer(x)) + x
        return self.last(x)


RULES: dict[str, tuple[dict[str, Any], dict[str, int]]] = {
    "one off": ({"off": True}, {"QGemm": 3, "Gemm": 1}),
    "one of 16 bits": ({"activations": {"bits": 16}}, {"QGemm": 4}),  # what comes in has 8, what goes out 16
    "one of 4 bits": ({"weights": {"bits": 4}, "activations": {"bits": 4}}, {"QGemm": 4}),
    "one with weights alone": (
        {"weight_only": True, "weights": {"bits": 4, "block_size": 32}},
        {"QGemm": 3, "MatMulNBits": 1},
    ),
}


@pytest.mark.parametrize("name", RULES)
def test_mixed_precision(name: str, tmp_path: Path) -> None:
    torch.manual_seed(0)
    changes, products = RULES[name]
    config = QuantConfig(rules=[Rule("second", **changes)])
    model = quantized(Mixed(), lambda: torch.randn(64, 32), config)
    outcome = through_onnxruntime(model, torch.randn(64, 32), tmp_path, fresh=torch.randn(64, 32))
    assert outcome.close >= 0.999
    assert outcome.steps < 1.01
    assert {op: outcome.fused[op] for op in ("QGemm", "Gemm", "MatMulNBits") if outcome.fused[op]} == products


@pytest.mark.parametrize("symmetric", [False, True])
def test_sixteen_bits_of_activations(symmetric: bool, tmp_path: Path) -> None:
    """W8A16: no integer kernels, weights of 8 bits, floats between grids of 65536 steps."""
    torch.manual_seed(0)
    x = torch.randn(64, 32)
    model = Mixed()
    with torch.no_grad():
        wanted = model(x)
    quantized(model, lambda: x, QuantConfig(activations=Activations(bits=16, symmetric=symmetric)))
    outcome = through_onnxruntime(model, x, tmp_path)
    assert outcome.close >= 0.999
    assert outcome.steps < 2.01
    stored = [each for each in onnx.load(outcome.path).graph.initializer if list(each.dims) == [32, 32]]
    assert [each.data_type for each in stored] == [onnx.TensorProto.INT8] * 4
    assert outcome.fused["QGemm"] == 0  # nor is it made of floats by the runtime
    assert float((model(x) - wanted).detach().norm() / wanted.norm()) < 0.01


def test_sixteen_bits_need_opset_21(tmp_path: Path) -> None:
    model = quantized(Mixed(), lambda: torch.randn(4, 32), QuantConfig(activations=Activations(bits=16)))
    with pytest.raises(onward.errors.ExportError, match="21"):
        onward.export(model, (torch.randn(4, 32),), tmp_path / "model.onnx", opset_version=17)


def test_blocks_and_integer_kernels_exclude_each_other() -> None:
    with pytest.raises(InputError, match="weight-only"):
        QuantConfig(weights=Weights(bits=4, block_size=32))
