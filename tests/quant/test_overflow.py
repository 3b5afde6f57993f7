"""Sums beyond the 32 bits of integer kernels: told beforehand, and the same number in evaluation and in onnxruntime."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import onward
from onward.quant import QuantConfig, Rule, Weights

from .harness import quantized, through_onnxruntime

COUNT = 200_000


def large(layer: Any) -> nn.Module:
    """Weights near the end of their grid: of one sign, of the other, of both."""
    nn.init.uniform_(layer.weight, 0.5, 1)
    with torch.no_grad():
        rows = layer.weight.flatten(1) if not isinstance(layer, nn.ConvTranspose1d) else layer.weight[:, :, 0].T
        rows[1].neg_()
        rows[2, ::2].neg_()
        if layer.bias is not None:
            layer.bias.fill_(2e4)
    return nn.Sequential(layer)


class Product(nn.Module):
    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return x @ y


def linear(**options: Any) -> nn.Module:
    return large(nn.Linear(COUNT, 3, **options))


FORMS: dict[str, tuple[Any, tuple[tuple[int, ...], ...], QuantConfig, str]] = {
    "linear": (linear, ((2, COUNT),), QuantConfig(), "QGemm"),
    "without a bias": (lambda: linear(bias=False), ((2, COUNT),), QuantConfig(), "QGemm"),
    "float result": (linear, ((2, COUNT),), QuantConfig(outputs=False), "QGemm"),
    "halves up": (linear, ((2, COUNT),), QuantConfig(rounding="half_up"), "QGemm"),
    "conv": (lambda: large(nn.Conv1d(COUNT // 2, 3, 2)), ((1, COUNT // 2, 3),), QuantConfig(), "QLinearConv"),
    "conv, halves up": (
        lambda: large(nn.Conv1d(COUNT // 2, 3, 2)), ((1, COUNT // 2, 3),), QuantConfig(rounding="half_up"),
        "ConvInteger",
    ),
    "transposed, halves up": (
        lambda: large(nn.ConvTranspose1d(COUNT, 3, 1)), ((1, COUNT, 2),), QuantConfig(rounding="half_up"),
        "ConvInteger",
    ),
    "two activations": (Product, ((2, COUNT), (COUNT, 3)), QuantConfig(), "QLinearMatMul"),
    "two activations, float result": (
        Product, ((2, COUNT), (COUNT, 3)), QuantConfig(outputs=False), "MatMulIntegerToFloat",
    ),
}  # fmt: skip


def single(shape: tuple[int, ...]) -> Tensor:
    """The range of a full tensor, next to nothing in its sums."""
    x = torch.zeros(shape)
    x.view(-1)[0] = 1
    return x


@pytest.mark.filterwarnings("ignore::onward.QuantizationWarning")
@pytest.mark.parametrize("name", FORMS)
def test_sums_go_on_from_the_other_end(name: str, tmp_path: Path) -> None:
    torch.manual_seed(0)
    make, shapes, config, kernel = FORMS[name]
    model = quantized(make(), lambda: tuple(map(single, shapes)), config, batches=1)
    given = tuple(0.9 + 0.1 * torch.rand(shape) for shape in shapes)
    outcome = through_onnxruntime(model, given, tmp_path)
    assert outcome.equal == 1
    assert outcome.fused[kernel] == 1
    with torch.no_grad():
        true = given[0] @ given[1] if len(given) > 1 else model[0].__class__.forward(model[0], *given)
    assert float(true.abs().max()) * 255 * 127 > 2**31  # they did: weights and activations are up to 1


def test_a_warning_says_what_helps(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = quantized(linear(), lambda: single((2, COUNT)), batches=1)
    wanted = (
        r"0 \(linear_0\) adds up 200000 products, whose sums may exceed the 32 bits of integer kernels.* "
        r"Rule\('0', weights={'bits': 6}\) keeps them inside, Rule\('0', off=True\) leaves it in float"
    )
    with pytest.warns(onward.QuantizationWarning, match=wanted):
        model(torch.rand(2, COUNT))
    again = quantized(linear(), lambda: torch.rand(2, COUNT), QuantConfig(rules=[Rule("0", weights={"bits": 6})]))
    with warnings.catch_warnings():
        warnings.simplefilter("error", onward.QuantizationWarning)
        assert through_onnxruntime(again, torch.ones(2, COUNT), tmp_path).equal == 1


def test_nor_is_a_product_of_activations(tmp_path: Path) -> None:
    given = (torch.ones(2, COUNT), torch.ones(COUNT, 3))
    model = quantized(Product(), lambda: given, batches=1)
    with pytest.raises(
        onward.errors.QuantizationError, match=r"itself \(matmul_0\) adds up 200000 products, and what cali"
    ):
        onward.export(model, given, tmp_path / "model.onnx")


def test_what_calibration_saw_overflow_is_not_exported(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = quantized(linear(bias=False), lambda: torch.ones(2, COUNT), QuantConfig(weights=Weights()), batches=1)
    with pytest.warns(onward.QuantizationWarning, match="may exceed"):
        model(torch.ones(2, COUNT))
    with pytest.raises(onward.errors.QuantizationError, match="what calibration saw of them is more") as raised:
        onward.export(model, (torch.ones(2, COUNT),), tmp_path / "model.onnx")
    assert "Rule('0', off=True) leaves it in float" in str(raised.value)
