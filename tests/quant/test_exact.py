"""Evaluation and onnxruntime agree on every element, and nothing is left in float."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from onward.quant import Activations, QuantConfig, Weights

from .harness import left_in_float, quantized, through_onnxruntime

CONFIGS = {
    "default": QuantConfig(),
    "powers of two": QuantConfig(weights=Weights(power_of_two=True), activations=Activations(power_of_two=True)),
    "symmetric": QuantConfig(activations=Activations(symmetric=True)),
    "per tensor": QuantConfig(weights=Weights(per_channel=False)),
    "four bits": QuantConfig(weights=Weights(bits=4), activations=Activations(bits=4)),
}


class Block(nn.Module):
    def __init__(self, channels: int, groups: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.norm1 = nn.BatchNorm2d(channels)
        self.conv2 = nn.Conv2d(channels, channels, 3, padding="same", groups=groups)
        self.norm2 = nn.BatchNorm2d(channels)
        self.relu = nn.ReLU(inplace=True)

    def forward(self, x: Tensor) -> Tensor:
        y = self.relu(self.norm1(self.conv1(x)))
        y = self.norm2(self.conv2(y))
        y += x
        return self.relu(y)


class Residual(nn.Module):
    """Batch norms, depthwise convolutions, in-place sums, one activation used twice, shapes that move."""

    def __init__(self, channels: int = 16) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, channels, 3, stride=2, padding=1)
        self.norm = nn.BatchNorm2d(channels)
        self.blocks = nn.Sequential(Block(channels, channels), Block(channels, 1))
        self.head = nn.Linear(channels, 10)

    def forward(self, x: Tensor) -> Tensor:
        x = self.blocks(F.relu6(self.norm(self.stem(x))))
        return self.head(x.flatten(2).permute(0, 2, 1))


def with_statistics(model: nn.Module) -> nn.Module:
    """Batch norms as after some training."""
    for module in model.modules():
        if isinstance(module, nn.modules.batchnorm._BatchNorm):
            module.running_mean.normal_(0, 0.3)
            module.running_var.uniform_(0.5, 2)
            nn.init.uniform_(module.weight, -1.5, 1.5)
            nn.init.normal_(module.bias, 0, 0.2)
    return model


@pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS)
def test_a_residual_network(config: QuantConfig, tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = quantized(with_statistics(Residual()), lambda: torch.randn(4, 3, 32, 32), config)
    outcome = through_onnxruntime(
        model, torch.randn(2, 3, 32, 32), tmp_path, fresh=torch.randn(16, 3, 32, 32), dynamic_axes={"x": {0: "n"}}
    )
    assert outcome.equal == 1
    assert left_in_float(outcome) == {}
    assert outcome.fused["QLinearConv"] == 5
    assert outcome.fused["QLinearAdd"] == 2
    assert outcome.fused["QGemm"] == 1


@pytest.mark.parametrize("opset", [13, 21, 23, 25])
def test_halves_rounded_up(opset: int, tmp_path: Path) -> None:
    """Arithmetic says so, with any scales; what is added up are integers."""
    torch.manual_seed(0)
    config = QuantConfig(rounding="half_up")
    model = quantized(with_statistics(Residual()), lambda: torch.randn(4, 3, 32, 32), config)
    fresh = torch.randn(2, 3, 32, 32)
    outcome = through_onnxruntime(model, torch.randn(2, 3, 32, 32), tmp_path, fresh=fresh, opset=opset)
    assert outcome.equal == 1
    assert left_in_float(outcome) == {}
    assert (outcome.fused["ConvInteger"], outcome.fused["QGemm"]) == (5, 1)


def test_sizes_are_read_from_integers_where_halves_are_rounded_up(tmp_path: Path) -> None:
    """A size asked of the floats would keep the Conv that these come from, next to the integer one."""

    class Resized(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv = nn.Conv2d(3, 4, 3)

        def forward(self, x: Tensor) -> Tensor:
            y = F.relu(self.conv(x))
            return F.interpolate(y, size=(y.shape[2] * 2, y.shape[3] * 2))

    model = quantized(Resized(), lambda: torch.randn(2, 3, 12, 12), QuantConfig(rounding="half_up"))
    axes = {"x": {0: "n", 2: "h", 3: "w"}}
    fresh = torch.randn(3, 3, 14, 17)
    outcome = through_onnxruntime(model, torch.randn(2, 3, 12, 12), tmp_path, fresh=fresh, dynamic_axes=axes)
    assert outcome.equal == 1
    assert left_in_float(outcome) == {}


@pytest.mark.parametrize("opset", [13, 17, 21, 23])
def test_by_opset(opset: int, tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = quantized(with_statistics(Residual()), lambda: torch.randn(4, 3, 32, 32))
    outcome = through_onnxruntime(model, torch.randn(2, 3, 32, 32), tmp_path, opset=opset)
    assert outcome.equal == 1
    assert left_in_float(outcome) == {}


@pytest.mark.parametrize(
    ("config", "opset"),
    [
        (QuantConfig(weights=Weights(per_channel=False)), 10),  # no scale for each channel, and no Gemm without a bias
        (QuantConfig(weights=Weights(per_channel=False), rounding="half_up"), 10),
        (QuantConfig(rounding="half_up"), 23),  # a DequantizeLinear that could give another type than its scale's
        (QuantConfig(activations=Activations(bits=16)), 23),
        (QuantConfig(activations=Activations(bits=16)), 26),
    ],
)
def test_sums_and_products_without_a_bias_by_opset(config: QuantConfig, opset: int, tmp_path: Path) -> None:
    class Sums(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv, self.head = nn.Conv2d(6, 6, 3, padding=1, bias=False), nn.Linear(6, 5, bias=False)

        def forward(self, x: Tensor) -> Tensor:
            result: Tensor = self.head((x + torch.relu(self.conv(x))).mean((2, 3)))
            return result

    torch.manual_seed(0)
    model = quantized(Sums(), lambda: torch.randn(2, 6, 9, 9), config)
    outcome = through_onnxruntime(model, torch.randn(2, 6, 9, 9), tmp_path, fresh=torch.randn(2, 6, 9, 9), opset=opset)
    assert outcome.equal == 1


def test_an_mlp(tmp_path: Path) -> None:
    torch.manual_seed(0)
    layers = [nn.Linear(20, 64), nn.BatchNorm1d(64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 5)]
    model = quantized(with_statistics(nn.Sequential(*layers)), lambda: torch.randn(8, 20))
    outcome = through_onnxruntime(model, torch.randn(64, 20), tmp_path)
    assert outcome.equal == 1
    assert outcome.fused["QGemm"] == 3


def test_a_batch_norm_over_another_axis_than_that_of_a_linear_layer(tmp_path: Path) -> None:
    """Of sequences [batch, 6, 20] the norm takes six channels, and the layer makes as many of the last axis."""
    torch.manual_seed(0)
    model = with_statistics(nn.Sequential(nn.Linear(20, 6), nn.BatchNorm1d(6), nn.ReLU(), nn.Linear(6, 4))).eval()
    x = torch.randn(8, 6, 20)
    wanted = model(x)
    quantized(model, lambda: x)
    assert (model(x) - wanted).abs().max() < 0.05 * wanted.abs().max()
    outcome = through_onnxruntime(model, x, tmp_path)
    assert outcome.equal == 1
    assert left_in_float(outcome) == {}
