"""Pools, means, concatenation, selection and softmax against onnxruntime, bit for bit."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from onward.errors import InputError
from onward.quant import Grid
from onward.quant.kernels import (
    add,
    average_pool,
    averaging_weights,
    concat,
    conv,
    global_average_pool,
    max_pool,
    mean,
    quantize,
    regrid,
    softmax,
    where,
)
from onward.quant.kernels.pool import pads_for_ceil

from .runtime import Graph, assert_same, near, random_grid, random_integers

SCALES = pytest.mark.parametrize("power_of_two", [False, True], ids=["float", "2^k"])
TYPES = pytest.mark.parametrize("dtype", ["uint8", "int8"])
ROUNDS = 9
PROBABILITY = Grid(torch.tensor(1 / 256), 0)


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


@TYPES
@pytest.mark.parametrize("axes", [(0,), (1,), (-1,), (0, 2), (1, 2), (0, 1, 2)], ids=str)
def test_mean(axes: tuple[int, ...], dtype: str) -> None:
    generator = torch.Generator().manual_seed(2)
    shape = (5, 6, 7)
    reduced = [axis % 3 for axis in axes]
    rest = [axis for axis in range(3) if axis not in reduced]
    for index in range(ROUNDS):
        gx, gy = grids(generator, dtype, index % 2 == 0)
        x = random_integers(generator, shape, gx)
        ours = mean(x, gx, axes, gy)
        assert torch.equal(mean(x, gx, axes, gy, keepdim=True).reshape(ours.shape), ours)
        graph = Graph()
        rows = graph.constant([1, -1, math.prod(shape[axis] for axis in reduced)], torch.int64)
        value = graph.node("Reshape", graph.node("Transpose", graph.input(x), perm=rest + reduced), rows)
        value = graph.q(graph.node("GlobalAveragePool", graph.dq(value, gx)), gy)
        result = graph.constant([shape[axis] for axis in rest], torch.int64)
        theirs, ran = graph.run(graph.node("Reshape", value, result), ours)
        assert "QLinearGlobalAveragePool" in ran and "DequantizeLinear" not in ran
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
    options = {name: value for name, value in case.items() if name not in ("x", "kernel")}
    for index in range(ROUNDS):
        gx, gy = grids(generator, dtype, power_of_two)
        x = random_integers(generator, case["x"], gx)
        ours = average_pool(x, gx, kernel, gy, **options)
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
            ours = average_pool(x, gx, [kernel], gy, [stride], [padding], True, True)
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
    ours = max_pool(x, (3, 2), (2, 2), (1, 1), (2, 1), ceil_mode=True)
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
        ours = concat([a, b], [ga, gb], gy, 1)
        graph = Graph([13, 17, 21][index % 3])
        node = graph.node("Concat", graph.dq(graph.input(a), ga), graph.dq(graph.input(b), gb), axis=1)
        theirs, ran = graph.run(graph.q(node, gy), ours)
        assert ran == ["QLinearConcat"]
        assert_same(ours, theirs)

        condition = torch.rand(2, 1, 7, generator=generator) < 0.5
        b = b[0, 0] if index % 3 else b[:, :3].contiguous()
        ours = where(condition, a, ga, b, gb, gy)
        graph = Graph([13, 17, 21][index % 3])
        node = graph.node("Where", graph.input(condition), graph.dq(graph.input(a), ga), graph.dq(graph.input(b), gb))
        theirs, ran = graph.run(graph.q(node, gy), ours)
        assert ran == ["QLinearWhere"]
        assert_same(ours, theirs)


def test_regrid_leaves_a_grid_alone_but_for_its_bounds() -> None:
    grid = Grid(torch.tensor(0.1), 7)
    q = torch.arange(256).to(torch.uint8)
    assert torch.equal(regrid(q, grid, Grid(torch.tensor(0.1), 7)), q)
    assert torch.equal(regrid(q, grid, grid.bounded(low=7)), q.clamp(min=7))


@SCALES
def test_regrid_between_two_grids(power_of_two: bool) -> None:
    """Where the runtime would merge two pairs of nodes, had they nothing between them."""
    generator = torch.Generator().manual_seed(7)
    for index in range(3 * ROUNDS):
        first, second = grids(generator, "uint8", power_of_two)
        x = torch.randn(40, 50, generator=generator) * first.scale * 60
        other = random_integers(generator, (40, 50), second)
        ours = add(regrid(quantize(x, first), first, second), second, other, second, second)
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
        ours = conv(x, gx, w, gw, None, gy, stride, padding, groups=7)
        expected = F.avg_pool2d((x.int() - gx.zero_point) * gx.scale, kernel, stride, padding)
        assert ((expected / gy.scale + gy.zero_point).clamp(0, 255) - ours).abs().max() < 0.51
        graph = Graph([13, 17, 21][index % 3])
        inputs = graph.dq(graph.input(x), gx), graph.dq(graph.constant(w), gw)
        node = graph.node("Conv", *inputs, strides=stride, pads=padding * 2, group=7)
        theirs, ran = graph.run(graph.q(node, gy), ours)
        assert "QLinearConv" in ran
        assert_same(ours, theirs)


@SCALES
@pytest.mark.parametrize("axis", [-1, 1, 0])
@pytest.mark.parametrize("size", [1, 2, 3, 10, 197, 1000])
def test_softmax(size: int, axis: int, power_of_two: bool) -> None:
    generator = torch.Generator().manual_seed(size)
    shape = [4, 6, 5]
    shape[axis] = size
    for index in range(ROUNDS):
        gx = random_grid(generator, power_of_two=power_of_two)
        gx = Grid(gx.scale * [0.25, 1, 8][index % 3], gx.zero_point)
        x = random_integers(generator, shape, gx)
        ours = softmax(x, gx, PROBABILITY, axis)
        graph = Graph([13, 17, 21][index % 3])
        node = graph.node("Softmax", graph.dq(graph.input(x), gx), axis=axis)
        theirs, ran = graph.run(graph.q(node, PROBABILITY), ours)
        assert ran == ["QLinearSoftmax"]
        assert_same(ours, theirs)
        if size > 1:
            steps = torch.softmax((x.double() - gx.zero_point) * gx.scale, axis) * 256
            assert (steps.clamp(max=255) - ours).abs().max() < 0.51


def test_softmax_refuses_int8() -> None:
    with pytest.raises(InputError, match="for uint8 alone"):
        softmax(torch.zeros(2, 2, dtype=torch.int8), Grid(torch.tensor(1.0), 0, "int8"), PROBABILITY)
