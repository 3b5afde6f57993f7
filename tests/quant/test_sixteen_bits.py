"""Activations of sixteen bits: evaluation and onnxruntime agree on every element there, too."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from onward.quant import Activations, QuantConfig, Rule
from onward.quant.exact.sums import in_parts, parts_fit

from .harness import IN_FLOAT, Outcome, quantized, through_onnxruntime
from .test_transformers import MODELS, Hidden

ASYMMETRIC = QuantConfig(activations=Activations(bits=16))
SYMMETRIC = QuantConfig(activations=Activations(bits=16, symmetric=True))


def run(model: nn.Module, example: Callable[[], Tensor], config: QuantConfig, folder: Path) -> Outcome:
    torch.manual_seed(0)
    model = quantized(model.eval(), example, config)
    x = example()
    return through_onnxruntime(model, x, folder, fresh=example(), dynamic_axes={"input": {0: "n"}})


def large(layer: nn.Module) -> nn.Module:
    """Weights that are all near the largest: sums of a part reach 2**24."""
    nn.init.uniform_(layer.weight, 0.8, 1.0)  # type: ignore[arg-type]
    return layer


class Twice(nn.Module):
    """Products of two activations."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.two = nn.Linear(12, 40), nn.Linear(12, 40)

    def forward(self, input: Tensor) -> Tensor:
        return torch.matmul(self.one(input), self.two(input).mT) / 7 @ input


# what it is, its input, the products that onnxruntime has in the end
PRODUCTS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...], dict[str, int]]] = {
    "linear": (lambda: nn.Linear(256, 40), (30, 256), {"MatMulInteger": 2}),
    "linear, no bias, three axes": (lambda: nn.Linear(64, 40, bias=False), (3, 5, 64), {"MatMulInteger": 2}),
    "linear, large": (lambda: large(nn.Linear(700, 40)), (9, 700), {"MatMulInteger": 2}),
    "two": (lambda: nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 9)), (30, 64), {"MatMulInteger": 4}),
    "conv1d": (lambda: nn.Conv1d(8, 16, 5, padding=2), (3, 8, 33), {"Conv": 2}),
    "conv2d": (lambda: nn.Conv2d(16, 32, 3, stride=2, padding=1), (3, 16, 21, 21), {"Conv": 2}),
    "conv3d": (lambda: nn.Conv3d(4, 8, 3, dilation=2, bias=False), (2, 4, 7, 7, 7), {"Conv": 2}),
    "depthwise": (lambda: nn.Conv2d(16, 16, 3, padding="same", groups=16), (3, 16, 11, 11), {"Conv": 2}),
    "conv, large": (lambda: large(nn.Conv2d(128, 4, 3, padding=1)), (2, 128, 7, 7), {"ConvInteger": 2}),
    "transposed": (lambda: nn.ConvTranspose2d(16, 8, 3, stride=2, padding=1), (2, 16, 9, 9), {"Conv": 2}),
    "batch norm": (
        lambda: nn.Sequential(nn.Conv2d(3, 16, 3), nn.BatchNorm2d(16), nn.ReLU(), nn.Conv2d(16, 8, 1)),
        (2, 3, 15, 15),
        {"Conv": 4},
    ),
    "of activations": (Twice, (3, 20, 12), {"MatMulInteger": 4, "MatMul": 2}),
}


@pytest.mark.parametrize("config", [ASYMMETRIC, SYMMETRIC], ids=["asymmetric", "symmetric"])
@pytest.mark.parametrize("name", PRODUCTS)
def test_products(name: str, config: QuantConfig, tmp_path: Path) -> None:
    make, shape, products = PRODUCTS[name]
    torch.manual_seed(0)
    outcome = run(make(), lambda: torch.randn(shape), config, tmp_path)
    assert outcome.equal == 1
    fused = outcome.fused
    both = {
        "MatMulInteger": fused["MatMulInteger"] + fused["MatMulIntegerToFloat"],
        "ConvInteger": fused["ConvInteger"],
    }
    found = both | {op: fused[op] for op in IN_FLOAT}
    assert {op: count for op, count in found.items() if count} == products


def test_parts() -> None:
    c = torch.arange(-65535, 65536)
    high, low = in_parts(c)
    assert torch.equal(high - low, c.float())
    assert float(low.abs().max()) == 128 and float(high.abs().max()) == 65536
    assert bool((high % 256 == 0).all())


def test_whether_parts_fit() -> None:
    ones = torch.ones(1, 516, dtype=torch.int8)
    assert parts_fit(127 * ones[:, :516]) and not parts_fit(127 * torch.ones(2, 517, dtype=torch.int8))


class After(nn.Module):
    """A function of an activation."""

    def __init__(self, function: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.linear, self.function = nn.Linear(16, 64), function

    def forward(self, input: Tensor) -> Tensor:
        return self.function(self.linear(input))


class RMSNorm(nn.Module):
    """A norm that is written out."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.rand(64))

    def forward(self, x: Tensor) -> Tensor:
        return self.weight * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6))


class QuickGELU(nn.Module):
    """So is this activation."""

    def forward(self, x: Tensor) -> Tensor:
        return x * torch.sigmoid(1.702 * x)


# the function, and the nodes by which it is known that it is computed so that it is exact
FUNCTIONS: dict[str, tuple[Callable[[Tensor], Tensor], dict[str, int]]] = {
    "gelu": (F.gelu, {"GatherElements": 1}),
    "silu": (F.silu, {"GatherElements": 1}),
    "glu": (F.glu, {"GatherElements": 1}),
    "softplus": (F.softplus, {"GatherElements": 1}),
    "sqrt of relu": (lambda x: torch.sqrt(F.relu(x)), {"GatherElements": 1}),
    "leaky relu": (F.leaky_relu, {"LeakyRelu": 1}),
    "softmax": (lambda x: torch.softmax(x, -1), {"Softmax": 1}),
    "softmax, first axis": (lambda x: torch.softmax(x, 0), {"Softmax": 1}),
    "log_softmax": (lambda x: F.log_softmax(x, 1), {"LogSoftmax": 1}),
    "layer_norm": (lambda x: F.layer_norm(x, (20, 64), eps=1e-3), {"ReduceMean": 2}),
    "rms_norm": (lambda x: F.rms_norm(x, (64,)), {"ReduceMean": 1}),
    "group_norm": (lambda x: F.group_norm(x, 5, torch.arange(20.0), torch.ones(20)), {"ReduceMean": 2}),
    "instance_norm": (F.instance_norm, {"ReduceMean": 2}),
    "cos": (lambda x: torch.cos(x) * x, {"Cos": 1}),
    "a norm written out": (RMSNorm(), {"ReduceMean": 1, "SimplifiedLayerNormalization": 0}),
    "an activation written out": (QuickGELU(), {"GatherElements": 1, "QuickGelu": 0, "Sigmoid": 0}),
    "mean": (lambda x: x.mean((0, 1)), {"ReduceMean": 1}),
    "bilinear": (lambda x: F.interpolate(x[:, None], scale_factor=1.7, mode="bilinear"), {"Resize": 1}),
    "linear": (lambda x: F.interpolate(x, scale_factor=1.7, mode="linear", align_corners=True), {"Resize": 1}),
    "bicubic": (lambda x: F.interpolate(x[:, None], (31, 64), mode="bicubic", align_corners=True), {"Resize": 1}),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions(name: str, tmp_path: Path) -> None:
    function, nodes = FUNCTIONS[name]
    torch.manual_seed(0)
    for config in (ASYMMETRIC, SYMMETRIC):
        outcome = run(After(function), lambda: torch.randn(40, 20, 16), config, tmp_path)
        assert outcome.equal == 1
        assert {op: outcome.fused[op] for op in nodes} == nodes


SUMS: dict[str, Callable[[Tensor], Tensor]] = {
    "mean": lambda x: x.mean(0),
    "sum": lambda x: x.sum(0),
    "global": lambda x: F.adaptive_avg_pool1d(x.flatten(1).mT, 1),
}


@pytest.mark.parametrize("name", SUMS)
def test_sums_beyond_2_to_the_24(name: str, tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = After(lambda x: SUMS[name](torch.sigmoid(x)))
    outcome = run(model, lambda: torch.randn(600, 40, 16), ASYMMETRIC, tmp_path)
    assert outcome.equal == 1


class Squared(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x @ x.mT


# eight bits of 1024 numbers, or channels, come in, and sixteen go out
WIDER: dict[str, tuple[Callable[[], nn.Module], bool]] = {
    "linear": (lambda: nn.Linear(1024, 64), False),
    "conv": (lambda: nn.Conv1d(1024, 64, 3), True),
    "transposed": (lambda: nn.ConvTranspose1d(1024, 16, 3, stride=2), True),
    "of activations": (Squared, False),
    "layer_norm": (lambda: nn.LayerNorm(1024), False),
    "gelu": (nn.GELU, False),
    "group_norm": (lambda: nn.GroupNorm(4, 1024), True),
}


@pytest.mark.parametrize("name", WIDER)
def test_eight_bits_come_in_and_sixteen_go_out(name: str, tmp_path: Path) -> None:
    torch.manual_seed(0)
    make, of_channels = WIDER[name]
    layers = nn.Sequential(nn.Conv1d(8, 1024, 1) if of_channels else nn.Linear(8, 1024), make())
    config = QuantConfig(rules=[Rule("1", activations={"bits": 16})])
    outcome = run(layers, lambda: torch.randn((2, 8, 64) if of_channels else (128, 8)), config, tmp_path)
    assert outcome.equal == 1


def test_a_table_of_eight_bits_is_read_by_sixteen(tmp_path: Path) -> None:
    torch.manual_seed(0)
    layers = nn.Sequential(nn.Embedding(50, 1024), nn.Linear(1024, 64), nn.LayerNorm(64))
    assert run(layers, lambda: torch.randint(0, 50, (20, 9)), ASYMMETRIC, tmp_path).equal == 1


@pytest.mark.parametrize("name", ["gpt2", "llama"])
def test_transformers(name: str, tmp_path: Path) -> None:
    torch.manual_seed(0)
    make, example, is_sequence = MODELS[name]
    model = quantized(Hidden(make().eval()), lambda: example(2, 9), ASYMMETRIC)
    axes = {0: "batch", 1: "length"} if is_sequence else {0: "batch"}
    outcome = through_onnxruntime(model, example(2, 9), tmp_path, fresh=example(9, 7), dynamic_axes={"x": axes})
    assert outcome.equal == 1
