"""Transposed convolutions through everything: integers in onnxruntime, for any size and batch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import onward
from onward.quant import Activations, QuantConfig, Weights
from onward.quant.grids.grid import Grid
from onward.quant.run.overflow import largest_sum

from .harness import left_in_float, quantized, through_onnxruntime
from .test_exact import CONFIGS, with_statistics

UP: dict[str, tuple[type[nn.Module], dict[str, Any], tuple[int, ...]]] = {
    "doubling": (nn.ConvTranspose2d, dict(kernel_size=2, stride=2), (7, 6)),
    "kernel 4": (nn.ConvTranspose2d, dict(kernel_size=4, stride=2, padding=1), (7, 6)),
    "groups": (
        nn.ConvTranspose2d, dict(kernel_size=3, stride=2, padding=1, output_padding=1, groups=2), (7, 6),
    ),
    "depthwise": (nn.ConvTranspose2d, dict(kernel_size=3, stride=2, groups=8, bias=False), (7, 6)),
    "dilated": (nn.ConvTranspose2d, dict(kernel_size=(3, 2), stride=(2, 3), padding=(2, 1), dilation=(2, 1)), (7, 6)),
    "padding beyond the kernel": (nn.ConvTranspose1d, dict(kernel_size=2, padding=2), (9,)),
    "one dimension": (nn.ConvTranspose1d, dict(kernel_size=4, stride=2, padding=1), (7,)),
    "three dimensions": (
        nn.ConvTranspose3d, dict(kernel_size=(2, 3, 4), stride=(2, 1, 2), padding=(0, 1, 1)), (4, 5, 3),
    ),
}  # fmt: skip


def network(kind: type[nn.Module], options: dict[str, Any], rank: int) -> nn.Sequential:
    """A batch norm is folded into it, groups or not."""
    conv, norm = ((nn.Conv1d, nn.BatchNorm1d), (nn.Conv2d, nn.BatchNorm2d), (nn.Conv3d, nn.BatchNorm3d))[rank - 1]
    layers = [conv(8, 8, 1), nn.ReLU(), kind(8, 8, **options), norm(8), nn.ReLU(), conv(8, 4, 1)]
    return nn.Sequential(*layers)


@pytest.mark.parametrize("config", ["default", "powers of two"])
@pytest.mark.parametrize("name", UP)
def test_a_transposed_convolution_runs_in_integers(name: str, config: str, tmp_path: Path) -> None:
    torch.manual_seed(0)
    kind, options, sizes = UP[name]
    model = with_statistics(network(kind, options, len(sizes)))
    quantized(model, lambda: torch.randn(2, 8, *sizes), CONFIGS[config])
    outcome = through_onnxruntime(
        model,
        torch.randn(2, 8, *sizes),
        tmp_path,
        fresh=torch.randn(3, 8, sizes[0] + 3, *sizes[1:]),
        input_names=["x"],
        dynamic_axes={"x": {0: "batch", 2: "size"}},
    )
    assert outcome.equal == 1
    assert outcome.fused["QLinearConv"] == 3
    assert outcome.fused["QuantizeLinear"] == outcome.fused["DequantizeLinear"] == 1  # at the ends
    assert left_in_float(outcome) == {}


HALF_UP = {
    "float scales": QuantConfig(rounding="half_up"),
    "as a chip has them": QuantConfig(
        weights=Weights(per_channel=False, power_of_two=True),
        activations=Activations(symmetric=True, power_of_two=True),
        rounding="half_up",
    ),
}


@pytest.mark.parametrize(("config", "opset"), [("float scales", 21), ("as a chip has them", 10)])
@pytest.mark.parametrize("name", ["kernel 4", "groups", "padding beyond the kernel", "three dimensions"])
def test_halves_rounded_up_are_sums_of_integers_too(name: str, config: str, opset: int, tmp_path: Path) -> None:
    torch.manual_seed(0)
    kind, options, sizes = UP[name]
    model = with_statistics(network(kind, options, len(sizes)))
    quantized(model, lambda: torch.randn(2, 8, *sizes), HALF_UP[config])
    outcome = through_onnxruntime(
        model,
        torch.randn(2, 8, *sizes),
        tmp_path,
        fresh=torch.randn(3, 8, sizes[0] + 3, *sizes[1:]),
        opset=opset,
        input_names=["x"],
        dynamic_axes={"x": {0: "batch", 2: "size"}},
    )
    assert outcome.equal == 1
    assert outcome.fused["ConvInteger"] == 3
    assert left_in_float(outcome) == {}


@pytest.mark.parametrize("rounding", ["half_even", "half_up"])
def test_sums_beyond_2_to_the_24_are_exact(rounding: str, tmp_path: Path) -> None:
    """A float32 accumulator would lose their last bits."""
    torch.manual_seed(0)
    up = nn.ConvTranspose2d(600, 2, 2, stride=1)
    nn.init.uniform_(up.weight, 0.9, 1.0)
    model = quantized(up, lambda: torch.rand(2, 600, 4, 4), QuantConfig(rounding=rounding))
    outcome = through_onnxruntime(model, torch.rand(2, 600, 4, 4), tmp_path)
    q = (up.weight.detach() / up.weight.abs().amax((0, 2, 3), keepdim=True) * 127).round().to(torch.int8)
    assert largest_sum(Grid(torch.ones(())), q.transpose(0, 1), None) > 2**25
    assert outcome.equal == 1


def test_without_a_batch(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = quantized(
        nn.Sequential(nn.Conv1d(4, 6, 3), nn.ReLU(), nn.ConvTranspose1d(6, 4, 2, stride=2)), lambda: torch.randn(4, 20)
    )
    outcome = through_onnxruntime(model, torch.randn(4, 20), tmp_path)
    assert outcome.equal == 1
    assert outcome.fused["QLinearConv"] == 2


def test_training_rounds_as_evaluation_does() -> None:
    """A scale for every output channel, also where these are spread over groups."""
    torch.manual_seed(0)
    up = nn.ConvTranspose1d(4, 4, 3, stride=2, groups=2, bias=False)
    with torch.no_grad():
        up.weight *= torch.tensor([1.0, 10.0, 100.0, 1000.0]).reshape(2, 1, 2, 1).expand(2, 2, 2, 1).reshape(4, 2, 1)
    model = quantized(up, lambda: torch.randn(2, 4, 9), QuantConfig(outputs=False))
    x = torch.randn(2, 4, 9)
    trained = model.train()(x)
    evaluated = model.eval()(x)
    size = evaluated.abs().amax((0, 2), True)
    torch.testing.assert_close(trained.detach() / size, evaluated / size)
    trained.square().sum().backward()
    assert up.weight.grad is not None and bool(up.weight.grad.ne(0).any())


def test_16_bits_of_a_chip_warn_where_float_sums_round() -> None:
    """Where halves are rounded up it is no convolution of phases."""
    torch.manual_seed(0)
    up = nn.Sequential(nn.ConvTranspose1d(4, 4, 2, stride=2))
    config = QuantConfig(activations=Activations(bits=16), rounding="half_up")
    model = quantized(up, lambda: torch.randn(2, 4, 9), config)
    with pytest.warns(onward.QuantizationWarning, match=r"0 \(conv_transpose_0\) .* may exceed 2\*\*24"):
        model(torch.randn(2, 4, 9))
