"""Functions of one number against onnxruntime: their float32 bits, and the tables made of them."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from onward.quant import Grid
from onward.quant.kernels import (
    hardsigmoid,
    hardswish,
    leaky_relu,
    lookup,
    runtime_function,
    sigmoid,
    silu,
    tanh,
)

from .runtime import Graph, assert_same, near, random_grid, random_integers

Build = Callable[[Graph, str], str]


def one(op: str, **attributes: float | str) -> Build:
    return lambda graph, x: graph.node(op, x, **attributes)


FUNCTIONS: dict[str, tuple[Callable[[Tensor], Tensor], Build, int, str | None]] = {
    "sigmoid": (sigmoid, one("Sigmoid"), 13, "QLinearSigmoid"),
    "tanh": (tanh, one("Tanh"), 13, None),
    "silu": (silu, lambda graph, x: graph.node("Mul", x, graph.node("Sigmoid", x)), 13, None),
    "hardsigmoid": (hardsigmoid, one("HardSigmoid", alpha=1 / 6, beta=0.5), 13, None),
    "hardswish": (hardswish, one("HardSwish"), 14, None),
    "leaky_relu": (lambda x: leaky_relu(x, 0.2), one("LeakyRelu", alpha=0.2), 13, "QLinearLeakyRelu"),
    "gelu": (runtime_function("Gelu", 20), one("Gelu"), 20, None),
    "gelu, tanh": (runtime_function("Gelu", 20, approximate="tanh"), one("Gelu", approximate="tanh"), 20, None),
    "elu": (runtime_function("Elu", 13), one("Elu"), 13, None),
    "exp": (runtime_function("Exp", 13), one("Exp"), 13, None),
}
CASES = pytest.mark.parametrize(("function", "build", "opset", "fused"), FUNCTIONS.values(), ids=FUNCTIONS)


@CASES
def test_float_bits(function: Callable[[Tensor], Tensor], build: Build, opset: int, fused: str | None) -> None:
    generator = torch.Generator().manual_seed(0)
    x = torch.cat([torch.randn(30001, generator=generator) * each for each in (0.1, 2, 9)])
    ours = function(x)
    graph = Graph(opset)
    assert_same(ours, graph.run(build(graph, graph.input(x)), ours)[0])


@CASES
@pytest.mark.parametrize("dtype", ["uint8", "int8"])
def test_lookup(function: Callable[[Tensor], Tensor], build: Build, opset: int, fused: str | None, dtype: str) -> None:
    generator = torch.Generator().manual_seed(1)
    for index in range(12):
        gx = random_grid(generator, dtype, power_of_two=index % 2 == 0)
        scale = near(generator, gx.scale, index % 2 == 0)
        gy = Grid(scale, random_grid(generator, dtype).zero_point, dtype)
        x = random_integers(generator, (3, 5, 70), gx)
        ours = lookup(x, gx, function, gy)
        graph = Graph(max(opset, [13, 17, 21][index % 3]))
        theirs, ran = graph.run(graph.q(build(graph, graph.dq(graph.input(x), gx)), gy), ours)
        assert ran == [fused] if fused else "QuantizeLinear" in ran
        assert_same(ours, theirs)


@pytest.mark.parametrize("dtype", ["uint16", "int16"])
def test_lookup_of_16_bits(dtype: str) -> None:
    generator = torch.Generator().manual_seed(2)
    gx, gy = random_grid(generator, dtype), Grid(torch.tensor(2.0**-15), 0, dtype)
    x = random_integers(generator, (400,), gx)
    ours = lookup(x, gx, tanh, gy)
    graph = Graph(21)
    assert_same(ours, graph.run(graph.q(graph.node("Tanh", graph.dq(graph.input(x), gx)), gy), ours)[0])
