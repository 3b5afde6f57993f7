"""Activations that a rule leaves in float, in the middle of a quantized model, also where they write in place."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from onward.quant import QuantConfig, Rule

from .harness import quantized, through_onnxruntime

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
    model = quantized(model, lambda: x, QuantConfig(rules=[rule]))
    found = [model.eval()(x), model.train()(x).detach()]
    assert all(float((each - wanted).norm() / wanted.norm()) < 0.03 for each in found)
    assert through_onnxruntime(model.eval(), x, tmp_path).equal == 1


def _relu_of_a_view(h: Tensor) -> Tensor:
    h.view(-1, 2, 4).relu_()
    return h


def _product_with_a_slice(h: Tensor) -> Tensor:
    h[:, :4].mul_(-0.5)
    return h


def _item_of_a_view(h: Tensor) -> Tensor:
    h.view(-1, 2, 4)[:, 0] = 0.25
    return h


def _view_of_a_view(h: Tensor) -> Tensor:
    h.view(-1, 2, 4)[:, 1].t().relu_()
    return h


def _view_before_the_write(h: Tensor) -> Tensor:
    seen = h.view(-1, 2, 4)
    h.relu_()
    return seen.reshape(-1, 8)


def _view_of_data(h: Tensor) -> Tensor:
    h.data.view(-1, 2, 4).relu_()
    return h


def _out_of_nothing(h: Tensor) -> Tensor:
    sums = torch.zeros(h.shape)
    sums.view(-1, 8).add_(h)
    return sums * 1.5 + h


WRITES = [
    _relu_of_a_view,
    _product_with_a_slice,
    _item_of_a_view,
    _view_of_a_view,
    _view_before_the_write,
    _view_of_data,
    _out_of_nothing,
]


class Writes(nn.Module):
    def __init__(self, write: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.write = write

    def forward(self, h: Tensor) -> Tensor:
        return self.write(h)


class EntersBefore(Writes):
    """What is written to has entered a grid before, and is read in float and in integers behind."""

    def __init__(self, write: Callable[[Tensor], Tensor]) -> None:
        super().__init__(write)
        self.a = nn.Linear(8, 8)

    def forward(self, h: Tensor) -> Tensor:
        h = h.cumsum(1)
        y, z = self.a(h), self.write(h)
        total: Tensor = self.a(h) + y + z + h.cumsum(1) * 0.1
        return total


@pytest.mark.parametrize("write", WRITES, ids=lambda write: write.__name__.strip("_"))
@pytest.mark.parametrize(
    ("kind", "rules"),
    [
        (Writes, []),
        (Writes, [Rule("1", off=True)]),
        (Writes, [Rule("1", weight_only=True)]),
        (EntersBefore, []),
    ],
    ids=["quantized", "off", "weights", "entered"],
)
def test_a_write_through_a_view(
    kind: type[Writes], rules: list[Rule], write: Callable[[Tensor], Tensor], tmp_path: Path
) -> None:
    torch.manual_seed(0)
    model, x = nn.Sequential(nn.Linear(8, 8), kind(write), nn.Linear(8, 3)), torch.randn(64, 8)
    with torch.no_grad():
        wanted = copy.deepcopy(model)(x)
    model = quantized(model, lambda: x, QuantConfig(rules=rules))
    assert through_onnxruntime(model, x, tmp_path).equal == 1
    evaluated = model(x)
    with torch.inference_mode():
        assert torch.equal(model(x), evaluated)
    trained = evaluated if write is _view_of_data else model.train()(x).detach()  # which autograd knows nothing of
    assert all(float((each - wanted).norm() / wanted.norm()) < 0.03 for each in (evaluated, trained))
