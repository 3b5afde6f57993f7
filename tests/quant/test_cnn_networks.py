"""Whole convolutional networks: every output element equals onnxruntime's, and no product is left in float."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tests.models._torchvision import torchvision_models

from .harness import left_in_float, quantized, through_onnxruntime
from .test_exact import CONFIGS, with_statistics


def step(inputs: int, outputs: int, rank: int = 2, **options: int) -> nn.Sequential:
    conv, norm = ((nn.Conv1d, nn.BatchNorm1d), (nn.Conv2d, nn.BatchNorm2d), (nn.Conv3d, nn.BatchNorm3d))[rank - 1]
    return nn.Sequential(conv(inputs, outputs, 3, padding=1, **options), norm(outputs), nn.ReLU(inplace=True))


class UNet(nn.Module):
    """Down by pools, up by transposed convolutions and by resizing, and side by side with what was there before."""

    def __init__(self, width: int = 8) -> None:
        super().__init__()
        self.down1, self.down2 = step(3, width), step(width, 2 * width)
        self.middle = step(2 * width, 4 * width)
        self.up2, self.up1 = nn.ConvTranspose2d(4 * width, 2 * width, 2, stride=2), nn.Conv2d(2 * width, width, 1)
        self.join2, self.join1 = step(4 * width, 2 * width), step(2 * width, width)
        self.head = nn.Conv2d(width, 5, 1)

    def forward(self, x: Tensor) -> Tensor:
        first = self.down1(x)
        second = self.down2(F.max_pool2d(first, 2))
        middle = self.middle(F.avg_pool2d(second, 2))
        second = self.join2(torch.cat([self.up2(middle), second], 1))
        first = self.join1(torch.cat([self.up1(F.interpolate(second, scale_factor=2.0)), first], 1))
        result: Tensor = self.head(first)
        return result


class Dense(nn.Module):
    """Batch norms that follow no convolution: each is one of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, 8, 3, stride=2, padding=1)
        self.norms = nn.ModuleList(nn.BatchNorm2d(8 + 4 * number) for number in range(3))
        self.convs = nn.ModuleList(nn.Conv2d(8 + 4 * number, 4, 3, padding=1, bias=False) for number in range(3))
        self.head = nn.Linear(20, 7)

    def forward(self, x: Tensor) -> Tensor:
        x = self.first(x)
        for norm, conv in zip(self.norms, self.convs, strict=True):
            x = torch.cat([x, conv(F.relu(norm(x)))], 1)
        result: Tensor = self.head(F.adaptive_avg_pool2d(x, 1).flatten(1))
        return result


def in_line(rank: int) -> nn.Module:
    """One and three dimensions."""
    pools = (nn.MaxPool1d, nn.MaxPool2d, nn.MaxPool3d)
    averages = (nn.AdaptiveAvgPool1d, nn.AdaptiveAvgPool2d, nn.AdaptiveAvgPool3d)
    layers = [step(3, 8, rank), pools[rank - 1](2), step(8, 16, rank, groups=2), step(16, 16, rank, groups=16)]
    return nn.Sequential(*layers, averages[rank - 1](1), nn.Flatten(), nn.Dropout(0.1), nn.Linear(16, 5))


SIZES: dict[str, tuple[int, ...]] = {"one dimension": (200,), "three dimensions": (6, 10, 10)}
NETWORKS: dict[str, Callable[[], nn.Module]] = {
    "u-net": UNet,
    "dense": Dense,
    "one dimension": lambda: in_line(1),
    "three dimensions": lambda: in_line(3),
    "squeezenet": lambda: torchvision_models().squeezenet1_1(num_classes=20),
    "mobilenet_v3": lambda: torchvision_models().mobilenet_v3_small(num_classes=20),
    "shufflenet": lambda: torchvision_models().shufflenet_v2_x0_5(num_classes=20),
}


def example(name: str) -> Tensor:
    return torch.randn(2, 3, *SIZES.get(name, (64, 64)))


@pytest.mark.parametrize("config", ["default", "powers of two"])
@pytest.mark.parametrize("name", NETWORKS)
def test_a_network_equals_onnxruntime(name: str, config: str, tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = quantized(with_statistics(NETWORKS[name]()), lambda: example(name), CONFIGS[config], batches=2)
    outcome = through_onnxruntime(model, example(name), tmp_path, fresh=example(name))
    assert outcome.equal == 1
    assert left_in_float(outcome) == {}
    assert outcome.fused["Relu"] == outcome.fused["Clip"] == 0
    if name not in ("shufflenet", "three dimensions") and config == "default":
        assert outcome.fused["QuantizeLinear"] == outcome.fused["DequantizeLinear"] == 1  # at its ends


@pytest.mark.parametrize("name", NETWORKS)
def test_a_network_trains(name: str) -> None:
    torch.manual_seed(0)
    model = quantized(with_statistics(NETWORKS[name]()), lambda: example(name), batches=2).train()
    (model(example(name)) ** 2).sum().backward()
    missing = [path for path, each in model.named_parameters() if each.grad is None or not each.grad.isfinite().all()]
    assert missing == []
