"""What onnxruntime computes in float between two quantized tensors, and the kernels that follow it bit for bit."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from onward.quant import Grid
from onward.quant.exact.integers import dequantize, quantize
from onward.quant.families.resize import resize_linear
from onward.quant.families.softmax import log_softmax, softmax

from .runtime import Graph, assert_same, near, random_grid, random_integers

WIDE = ["uint16", "int16"]
TYPES = ["uint8", "int8", *WIDE]
OPERATIONS = [(op, function, dtype) for op, function, types in [
    ("Sub", torch.sub, TYPES), ("Div", torch.div, TYPES), ("Min", torch.minimum, TYPES), ("Max", torch.maximum, TYPES),
    ("Add", torch.add, WIDE), ("Mul", torch.mul, WIDE),  # of 8 bits they have integer kernels
] for dtype in types]  # fmt: skip


@pytest.mark.parametrize(("op", "function", "dtype"), OPERATIONS)
def test_two_operands(op: str, function: Callable[..., Tensor], dtype: str) -> None:
    generator = torch.Generator().manual_seed(0)
    for index in range(12):
        two = index % 2 == 0
        ga, gb = (random_grid(generator, dtype, power_of_two=two) for _ in range(2))
        gy = Grid(near(generator, ga.scale + gb.scale, two), random_grid(generator, dtype).zero_point, dtype)
        a = random_integers(generator, (9, 33), ga)
        b = random_integers(generator, (33,) if index % 3 else (9, 33), gb)
        ours = quantize(function(dequantize(a, ga), dequantize(b, gb)), gy)
        graph = Graph(21)
        node = graph.node(op, graph.dq(graph.input(a), ga), graph.dq(graph.input(b), gb))
        assert_same(ours, graph.run(graph.q(node, gy), ours)[0])


@pytest.mark.parametrize(("op", "kernel"), [("Softmax", softmax), ("LogSoftmax", log_softmax)])
@pytest.mark.parametrize("axis", [-1, 0, 1])
def test_softmaxes(op: str, kernel: Callable[[Tensor, int], Tensor], axis: int) -> None:
    """A mask among the numbers; rows of lengths that are no multiple of a vector's."""
    x = torch.randn(5, 37, 21, generator=torch.Generator().manual_seed(0)) * 4
    x[:, 3] = -torch.inf
    ours = kernel(x, axis)
    graph = Graph(17)
    theirs, _ = graph.run(graph.node(op, graph.input(x), axis=axis), ours)
    torch.testing.assert_close(ours, theirs, rtol=0, atol=0, equal_nan=True)
    expected = torch.softmax(x, axis) if op == "Softmax" else torch.log_softmax(x, axis)
    torch.testing.assert_close(ours, expected, equal_nan=True)


SIZES = [((7, 9), (14, 18)), ((7, 9), (10, 27)), ((8, 8), (4, 3)), ((1, 5), (4, 1)), ((6, 1), (6, 7)), ((5, 5), (1, 1))]


@pytest.mark.parametrize("align_corners", [False, True], ids=["half pixel", "corners"])
@pytest.mark.parametrize(("size", "result"), SIZES, ids=str)
def test_resize_bilinear(size: tuple[int, int], result: tuple[int, int], align_corners: bool) -> None:
    generator = torch.Generator().manual_seed(1)
    for index in range(12):
        dtype = "uint8" if index % 4 else "int8"
        gx = random_grid(generator, dtype, power_of_two=index % 2 == 0)
        gy = gx if index % 3 == 0 else Grid(near(generator, gx.scale, index % 2 == 0), gx.zero_point, dtype)
        x = random_integers(generator, (2, 3, *size), gx)
        scales = [after / before for after, before in zip(result, size, strict=True)]
        ours = quantize(resize_linear(dequantize(x, gx), result, scales, align_corners), gy)
        expected = F.interpolate(dequantize(x, gx), result, mode="bilinear", align_corners=align_corners)
        steps = (expected / gy.scale + gy.zero_point).clamp(gy.low, gy.high)
        assert (steps - ours.int()).abs().max() < 0.51
        graph = Graph([13, 17, 21][index % 3])
        sizes = graph.constant([2, 3, *result], torch.int64)
        mode = "align_corners" if align_corners else "half_pixel"
        value = graph.dq(graph.input(x), gx)
        node = graph.node("Resize", value, "", "", sizes, mode="linear", coordinate_transformation_mode=mode)
        assert_same(ours, graph.run(graph.q(node, gy), ours)[0])


@pytest.mark.parametrize("scales", [(2.0, 2.0), (1.5, 2.7), (1.0, 3.0), (0.5, 0.5)], ids=str)
def test_resize_bilinear_by_scales(scales: tuple[float, float]) -> None:
    generator = torch.Generator().manual_seed(2)
    for index in range(12):
        gx = random_grid(generator, power_of_two=index % 2 == 0)
        x = random_integers(generator, (1, 4, 8, 6), gx)
        result = int(8 * scales[0]), int(6 * scales[1])
        ours = quantize(resize_linear(dequantize(x, gx), result, scales), gx)
        graph = Graph(17)
        factors = graph.constant(torch.tensor([1.0, 1.0, *scales]))
        node = graph.node("Resize", graph.dq(graph.input(x), gx), "", factors, mode="linear")
        assert_same(ours, graph.run(graph.q(node, gx), ours)[0])


def test_nearest_neighbours_are_copied() -> None:
    generator = torch.Generator().manual_seed(3)
    gx = random_grid(generator)
    x = random_integers(generator, (2, 3, 5, 7), gx)
    ours = F.interpolate(x, (10, 21), mode="nearest")
    graph = Graph(13)
    sizes = graph.constant([2, 3, 10, 21], torch.int64)
    options = dict(mode="nearest", coordinate_transformation_mode="asymmetric", nearest_mode="floor")
    node = graph.node("Resize", graph.dq(graph.input(x), gx), "", "", sizes, **options)
    theirs, ran = graph.run(graph.q(node, gx), ours)
    assert ran == ["Resize"]
    assert_same(ours, theirs)
