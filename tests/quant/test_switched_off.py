"""Activations that a rule leaves in float, in the middle of a quantised model, also where they write in place."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from onward.quant import QuantConfig, Rule

from .harness import quantised, through_onnxruntime

ACTIVATIONS: dict[str, Callable[[], nn.Module]] = {
    "ReLU": nn.ReLU,
    "ReLU6": nn.ReLU6,
    "Hardtanh": lambda: nn.Hardtanh(-0.5, 0.5),
    "SiLU": nn.SiLU,
    "ReLU in place": lambda: nn.ReLU(inplace=True),
    "ReLU6 in place": lambda: nn.ReLU6(inplace=True),
    "Hardtanh in place": lambda: nn.Hardtanh(-0.5, 0.5, inplace=True),
    "SiLU in place": lambda: nn.SiLU(inplace=True),
    "Hardswish in place": lambda: nn.Hardswish(inplace=True),
    "LeakyReLU in place": lambda: nn.LeakyReLU(0.1, inplace=True),
    "ELU in place": lambda: nn.ELU(inplace=True),
    "Threshold in place": lambda: nn.Threshold(0.1, 0.0, inplace=True),
}
READS: dict[str, Callable[[Tensor, nn.Module], Tensor]] = {
    "the result": lambda h, activation: activation(h),
    "what was written to": lambda h, activation: (activation(h), h)[1],
    "what was on a grid": lambda h, activation: (activation(g := h.sigmoid() - 0.5), g)[1],
}


class Between(nn.Module):
    def __init__(self, activation: nn.Module, read: Callable[[Tensor, nn.Module], Tensor]) -> None:
        super().__init__()
        self.a, self.b, self.activation, self.read = nn.Linear(8, 8), nn.Linear(8, 3), activation, read

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.b(self.read(self.a(x), self.activation))
        return y


@pytest.mark.parametrize(
    "rule", [Rule("activation", off=True), Rule("activation", weight_only=True)], ids=["off", "weights"]
)
@pytest.mark.parametrize("read", READS)
@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_an_activation_that_is_left_in_float(activation: str, read: str, rule: Rule, tmp_path: Path) -> None:
    torch.manual_seed(0)
    model, x = Between(ACTIVATIONS[activation](), READS[read]), torch.randn(64, 8)
    with torch.no_grad():
        wanted = copy.deepcopy(model)(x)
    model = quantised(model, lambda: x, QuantConfig(rules=[rule]))
    found = [model.eval()(x), model.train()(x).detach()]
    assert all(float((each - wanted).norm() / wanted.norm()) < 0.03 for each in found)
    assert through_onnxruntime(model.eval(), x, tmp_path).equal == 1
