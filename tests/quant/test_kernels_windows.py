"""Pools, concatenation and selection against onnxruntime, bit for bit."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F

from onward.quant import Grid
from onward.quant.exact.integers import dequantize, quantize
from onward.quant.families.averages import (
    Windows,
    average_by_kernel,
    averaging_weights,
    global_average_pool,
    pads_for_ceil,
)
from onward.quant.families.elementwise import add

from .runtime import Graph, assert_same, near, random_grid, random_integers

SCALES = pytest.mark.parametrize("power_of_two", [False, True], ids=["float", "2^k"])
TYPES = pytest.mark.parametrize("dtype", ["uint8", "int8"])
ROUNDS = 9


def grids(generator: torch.Generator, dtype: str, power_of_two: bool) -> tuple[Grid, Grid]:
    """Of an input, and of an output about as wide."""
    gx = random_grid(generator, dtype, power_of_two=power_of_two)
    scale = near(generator, gx.scale / 2, power_of_two)
    return gx, Grid(scale, random_grid(generator, dtype).zero_point, dtype)


@TYPES
@SCALES
@pytest.mark.parametrize("shape", [(2, 3, 50), (1, 17, 7, 7), (3, 8, 4, 5, 6), (2, 1, 9, 9)], ids=str)
def test_global_average_pool(shape: tuple[int, ...], dtype: str, power_of_two: bool) -> None:
    generator = torch.Generator().manual_seed(1)
    for index in range(ROUNDS):
        gx, gy = grids(generator, dtype, power_of_two)
        x = random_integers(generator, shape, gx)
        ours = global_average_pool(x, gx, gy)
        graph = Graph([13, 17, 21][index % 3])
        theirs, ran = graph.run(graph.q(graph.node("GlobalAveragePool", graph.dq(graph.input(x), gx)), gy), ours)
        assert ran == ["QLinearGlobalAveragePool"]
        assert_same(ours, theirs)


POOLS: dict[str, dict[str, Any]] = {
    "1d": dict(x=(2, 3, 20), kernel=(3,), stride=(2,)),
    "2d": dict(x=(2, 5, 9, 11), kernel=(3, 2), stride=(2, 1), padding=(1, 1)),
    "2d without the padding": dict(x=(2, 5, 9, 11), kernel=(3, 3), padding=(1, 1), count_include_pad=False),
    "ceil": dict(x=(1, 4, 10, 10), kernel=(3, 3), stride=(2, 2), ceil_mode=True, count_include_pad=False),
    "adaptive": dict(x=(2, 3, 12, 8), kernel=(4, 2)),
    "whole image": dict(x=(2, 6, 7, 5), kernel=(7, 5)),
    "3d": dict(x=(1, 3, 6, 7, 8), kernel=(2, 3, 2), stride=(1, 2, 2), padding=(1, 1, 0), count_include_pad=False),
}


@TYPES
@SCALES
@pytest.mark.parametrize("case", POOLS.values(), ids=POOLS)
def test_average_pool(case: dict[str, Any], dtype: str, power_of_two: bool) -> None:
    generator = torch.Generator().manual_seed(3)
    kernel = case["kernel"]
    padding = case.get("padding", (0,) * len(kernel))
    counted = case.get("count_include_pad", True)
    at = Windows([*kernel], [*case.get("stride", kernel)], [*padding], case.get("ceil_mode", False), counted)
    for index in range(ROUNDS):
        gx, gy = grids(generator, dtype, power_of_two)
        x = random_integers(generator, case["x"], gx)
        ours = average_by_kernel(x, gx, gy, at, by_convolution=False)
        graph = Graph([13, 17, 21][index % 3])
        node = graph.node(
            "AveragePool",
            graph.dq(graph.input(x), gx),
            kernel_shape=kernel,
            strides=case.get("stride", kernel),
            pads=padding * 2,
            ceil_mode=int(case.get("ceil_mode", False)),
            count_include_pad=int(case.get("count_include_pad", True)),
        )
        theirs, ran = graph.run(graph.q(node, gy), ours)
        assert ran == ["QLinearAveragePool"]
        assert_same(ours, theirs)


@pytest.mark.parametrize("kernel", [2, 3, 4])
@pytest.mark.parametrize("stride", [1, 2, 3, 5])
def test_average_pool_over_the_end(kernel: int, stride: int) -> None:
    """ceil_mode with count_include_pad has torch's windows and divisors, not the runtime's."""
    generator = torch.Generator().manual_seed(4)
    for size in range(4, 12):
        for padding in range(kernel // 2 + 1):
            gx, gy = grids(generator, "uint8", False)
            x = random_integers(generator, (2, 3, size), gx)
            ours = average_by_kernel(x, gx, gy, Windows([kernel], [stride], [padding], True, True), False)
            expected = F.avg_pool1d((x.int() - gx.zero_point) * gx.scale, kernel, stride, padding, True, True)
            steps = (expected / gy.scale + gy.zero_point).clamp(0, 255)
            assert (steps - ours).abs().max() < 0.51
            begins, ends = pads_for_ceil([size], [kernel], [stride], [padding])
            graph = Graph()
            pads = graph.constant([0, 0, *begins, 0, 0, *ends], torch.int64)
            padded = graph.node("Pad", graph.input(x), pads, graph.constant(gx.zero_point, torch.uint8))
            node = graph.node("AveragePool", graph.dq(padded, gx), kernel_shape=[kernel], strides=[stride], ceil_mode=1)
            theirs, ran = graph.run(graph.q(node, gy), ours)
            assert "AveragePool" not in ran
            assert_same(ours, theirs)


@TYPES
@pytest.mark.parametrize("opset", [12, 13, 21])
def test_max_pool(opset: int, dtype: str) -> None:
    generator = torch.Generator().manual_seed(5)
    gx = random_grid(generator, dtype)
    x = random_integers(generator, (2, 5, 11, 12), gx)
    ours = F.max_pool2d(x.float(), (3, 2), (2, 2), (1, 1), (2, 1), ceil_mode=True).to(x.dtype)
    attributes = dict(kernel_shape=(3, 2), strides=(2, 2), pads=(1, 1, 1, 1), dilations=(2, 1), ceil_mode=1)
    graph = Graph(opset)
    assert_same(ours, graph.run(graph.node("MaxPool", graph.input(x), **attributes), ours)[0])
    if opset > 12:
        graph = Graph(opset)
        theirs, ran = graph.run(graph.q(graph.node("MaxPool", graph.dq(graph.input(x), gx), **attributes), gx), ours)
        assert ran == ["MaxPool"]
        assert_same(ours, theirs)


@TYPES
@SCALES
def test_concat_and_where(dtype: str, power_of_two: bool) -> None:
    generator = torch.Generator().manual_seed(6)
    for index in range(2 * ROUNDS):
        ga, gy = grids(generator, dtype, power_of_two)
        gb = gy if index % 2 else random_grid(generator, dtype, power_of_two=power_of_two)
        a, b = random_integers(generator, (2, 3, 7), ga), random_integers(generator, (2, 5, 7), gb)
        ours = quantize(torch.cat([dequantize(a, ga), dequantize(b, gb)], 1), gy)
        graph = Graph([13, 17, 21][index % 3])
        node = graph.node("Concat", graph.dq(graph.input(a), ga), graph.dq(graph.input(b), gb), axis=1)
        theirs, ran = graph.run(graph.q(node, gy), ours)
        assert ran == ["QLinearConcat"]
        assert_same(ours, theirs)

        condition = torch.rand(2, 1, 7, generator=generator) < 0.5
        b = b[0, 0] if index % 3 else b[:, :3].contiguous()
        ours = quantize(torch.where(condition, dequantize(a, ga), dequantize(b, gb)), gy)
        graph = Graph([13, 17, 21][index % 3])
        node = graph.node("Where", graph.input(condition), graph.dq(graph.input(a), ga), graph.dq(graph.input(b), gb))
        theirs, ran = graph.run(graph.q(node, gy), ours)
        assert ran == ["QLinearWhere"]
        assert_same(ours, theirs)


@SCALES
def test_between_two_grids(power_of_two: bool) -> None:
    """Where the runtime would merge two pairs of nodes, had they nothing between them."""
    generator = torch.Generator().manual_seed(7)
    for index in range(3 * ROUNDS):
        first, second = grids(generator, "uint8", power_of_two)
        x = torch.randn(40, 50, generator=generator) * first.scale * 60
        other = random_integers(generator, (40, 50), second)
        moved = quantize(dequantize(quantize(x, first), first), second)
        ours = add(moved, second, other, second, second)
        graph = Graph([13, 17, 21][index % 3])
        value = graph.dq(graph.q(graph.input(x), first), first)
        value = graph.dq(graph.q(graph.node("LeakyRelu", value, alpha=1.0), second), second)
        node = graph.node("Add", value, graph.dq(graph.input(other), second))
        theirs, ran = graph.run(graph.q(node, second), ours)
        assert ran == ["QuantizeLinear", "QLinearLeakyRelu", "QLinearAdd"]
        assert_same(ours, theirs)


@pytest.mark.parametrize(("kernel", "stride", "padding"), [((2, 2), (2, 2), (0, 0)), ((3, 5), (1, 2), (1, 2))], ids=str)
def test_average_by_convolution(kernel: tuple[int, int], stride: tuple[int, int], padding: tuple[int, int]) -> None:
    generator = torch.Generator().manual_seed(8)
    for index in range(ROUNDS):
        gx, gy = grids(generator, "uint8", index % 2 == 0)
        x = random_integers(generator, (2, 7, 12, 13), gx)
        w, gw = averaging_weights(7, kernel)
        at = Windows([*kernel], [*stride], [*padding], counted=True)
        ours = average_by_kernel(x, gx, gy, at, by_convolution=True)
        expected = F.avg_pool2d((x.int() - gx.zero_point) * gx.scale, kernel, stride, padding)
        assert ((expected / gy.scale + gy.zero_point).clamp(0, 255) - ours).abs().max() < 0.51
        graph = Graph([13, 17, 21][index % 3])
        inputs = graph.dq(graph.input(x), gx), graph.dq(graph.constant(w), gw)
        node = graph.node("Conv", *inputs, strides=stride, pads=padding * 2, group=7)
        theirs, ran = graph.run(graph.q(node, gy), ours)
        assert "QLinearConv" in ran
        assert_same(ours, theirs)
