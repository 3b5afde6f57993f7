"""Norms and activations, as layers and written out by whoever made the model: one grid before, one behind."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from onward.quant import QuantConfig, Rule
from onward.quant.grids.sites import ranges_of
from onward.quant.run.calls import is_one_function

from .harness import quantized, through_onnxruntime


class MyRMSNorm(nn.Module):
    def __init__(self, size: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.rand(size) + 0.5)

    def forward(self, x: Tensor) -> Tensor:
        return self.weight * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6))


class NewGELU(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * torch.pow(x, 3))))


class Between(nn.Module):
    """A linear layer on both sides."""

    def __init__(self, middle: nn.Module) -> None:
        super().__init__()
        self.before, self.middle, self.after = nn.Linear(12, 16), middle, nn.Linear(16, 5)

    def forward(self, x: Tensor) -> Tensor:
        return self.after(self.middle(self.before(x)))


MIDDLES = {
    "LayerNorm": (lambda: nn.LayerNorm(16), "LayerNormalization"),
    "no weights": (lambda: nn.LayerNorm(16, elementwise_affine=False), "LayerNormalization"),
    "RMSNorm": (lambda: nn.RMSNorm(16, eps=1e-6), "SimplifiedLayerNormalization"),
    "RMSNorm, written out": (lambda: MyRMSNorm(16), "SimplifiedLayerNormalization"),
    "GELU, written out": (NewGELU, "FastGelu"),
    "softmax": (lambda: nn.Softmax(-1), "Softmax"),
    "log_softmax": (lambda: nn.LogSoftmax(-1), "LogSoftmax"),
}


@pytest.mark.parametrize("opset", [13, 21])
@pytest.mark.parametrize("name", MIDDLES)
def test_from_grid_to_grid(name: str, opset: int, tmp_path: Path) -> None:
    torch.manual_seed(0)
    make, op = MIDDLES[name]
    model = quantized(Between(make()), lambda: torch.randn(64, 12))
    outcome = through_onnxruntime(
        model, torch.randn(64, 12), tmp_path, fresh=torch.randn(500, 12), opset=opset, dynamic_axes={"x": {0: "n"}}
    )
    assert outcome.close >= 0.999
    assert outcome.steps < 1.01
    assert outcome.fused["QGemm"] == 2
    floats = 1 if op == "LayerNormalization" else 2  # which reads the sums of the first layer as they are
    assert outcome.fused["DequantizeLinear"] == floats
    if opset >= 17 or name != "no weights":  # whose steps onnxruntime does not recognise
        assert outcome.fused[op] == 1
    own = [key for key in ranges_of(model) if key.startswith("middle.")]
    assert len(own) == (0 if name == "softmax" else 1)


def test_a_norm_that_is_switched_off_has_no_grid(tmp_path: Path) -> None:
    torch.manual_seed(0)
    config = QuantConfig(rules=[Rule(type="MyRMSNorm", off=True)])
    model = quantized(Between(MyRMSNorm(16)), lambda: torch.randn(64, 12), config)
    assert not [key for key in ranges_of(model) if key.startswith("middle.")]
    assert through_onnxruntime(model, torch.randn(64, 12), tmp_path).close >= 0.999


def test_gradients_reach_a_norm_that_is_written_out() -> None:
    torch.manual_seed(0)
    model = quantized(Between(MyRMSNorm(16)), lambda: torch.randn(64, 12)).train()
    model(torch.randn(64, 12)).square().mean().backward()
    assert all(each.grad is not None and bool(each.grad.any()) for each in model.parameters())


def test_what_is_one_function() -> None:
    class ProjectedRMSNorm(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.matrix = nn.Parameter(torch.randn(4, 4))

    assert is_one_function(MyRMSNorm(4))
    assert is_one_function(NewGELU())
    assert not is_one_function(ProjectedRMSNorm())  # has a product inside
    assert not is_one_function(Between(MyRMSNorm(16)))
    assert not is_one_function(nn.LayerNorm(4))  # calls F.layer_norm
