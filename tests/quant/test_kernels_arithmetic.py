"""The kernels against onnxruntime, bit for bit: quantize, dequantize, conv, linear, matmul, add, mul.

Every case is also read back after the runtime's optimiser: a pattern that it does not fuse would prove nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from torch import Tensor

from onward.quant import Grid
from onward.quant.exact.integers import dequantize, quantize
from onward.quant.exact.sums import sum_type
from onward.quant.families.elementwise import add, fma, mul

from .runtime import Graph, assert_same, near, random_grid, random_integers, random_scale
from .steps import conv, linear, matmul

SCALES = pytest.mark.parametrize("power_of_two", [False, True], ids=["float", "2^k"])
OPSETS = pytest.mark.parametrize("opset", [13, 17, 21])
ROUNDS = 12


@OPSETS
@SCALES
@pytest.mark.parametrize("dtype", ["uint8", "int8", "uint16", "int16"])
def test_quantize_and_dequantize(dtype: str, power_of_two: bool, opset: int) -> None:
    generator = torch.Generator().manual_seed(opset)
    for _ in range(ROUNDS):
        grid = random_grid(generator, dtype, power_of_two=power_of_two)
        x = torch.randn(2000, generator=generator) * grid.scale * (grid.high - grid.low) / 3
        x[:500] = (x[:500] / grid.scale).round() * grid.scale + grid.scale / 2  # ties
        x[500:503] = torch.tensor([torch.inf, -torch.inf, 0.0])
        ours = quantize(x, grid)
        graph = Graph(opset)
        assert_same(ours, graph.run(graph.q(graph.input(x), grid), ours)[0])
        back = dequantize(ours, grid)
        graph = Graph(opset)
        assert_same(back, graph.run(graph.dq(graph.input(ours), grid), back)[0])


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_quantize_and_dequantize_per_axis(axis: int) -> None:
    generator = torch.Generator().manual_seed(axis)
    x = torch.randn(5, 6, 7, generator=generator)
    grid = Grid(random_scale(generator, False, x.shape[axis]), 0, "int8", axis=axis)
    ours = quantize(x, grid)
    graph = Graph(13)
    assert_same(ours, graph.run(graph.q(graph.input(x), grid), ours)[0])
    back = dequantize(ours, grid)
    graph = Graph(13)
    assert_same(back, graph.run(graph.dq(graph.input(ours), grid), back)[0])


def test_bounds_and_int32() -> None:
    x = torch.tensor([-9.0, -1.0, 0.5, 1.5, 90.0, torch.nan])
    assert quantize(x, Grid(torch.tensor(1.0), 3, low=3, high=9)).tolist() == [3, 3, 3, 5, 9, 3]
    exact = torch.tensor([123456.789], dtype=torch.float64)
    assert quantize(exact, Grid(torch.tensor(2.0**-10), 0, "int32")).item() == round(123456.789 * 1024)


CONVS: dict[str, dict[str, Any]] = {
    "1d": dict(x=(2, 3, 19), w=(5, 3, 3), padding=(1,)),
    "1d strided, dilated": dict(x=(3, 4, 30), w=(6, 4, 3), stride=(2,), dilation=(3,)),
    "pointwise": dict(x=(2, 33, 7, 5), w=(17, 33, 1, 1)),
    "2d": dict(x=(2, 8, 11, 9), w=(16, 8, 3, 3), padding=(1, 1)),
    "2d uneven padding": dict(x=(1, 3, 12, 10), w=(8, 3, 4, 2), padding=(1, 0, 2, 1)),
    "2d strided, dilated": dict(x=(2, 6, 14, 13), w=(7, 6, 3, 2), stride=(2, 3), dilation=(2, 1), padding=(2, 1)),
    "depthwise": dict(x=(2, 16, 10, 10), w=(16, 1, 3, 3), padding=(1, 1), groups=16),
    "depthwise, 1d": dict(x=(2, 7, 20), w=(7, 1, 5), padding=(2,), groups=7),
    "depthwise, multiplier": dict(x=(1, 6, 9, 9), w=(12, 1, 3, 3), groups=6),
    "grouped": dict(x=(2, 12, 8, 8), w=(9, 4, 3, 3), groups=3),
    "3d": dict(x=(2, 4, 6, 7, 5), w=(6, 4, 3, 2, 3), padding=(1, 0, 1), stride=(1, 2, 1)),
    "3d depthwise": dict(x=(1, 5, 6, 6, 6), w=(5, 1, 3, 3, 3), groups=5),
    "many sums": dict(x=(1, 300, 5, 5), w=(4, 300, 5, 5)),
}


@SCALES
@pytest.mark.parametrize("case", CONVS.values(), ids=CONVS)
def test_conv(case: dict[str, Any], power_of_two: bool) -> None:
    generator = torch.Generator().manual_seed(5)
    options = {name: value for name, value in case.items() if name not in "xw"}
    rank = len(case["x"]) - 2
    for index in range(ROUNDS):
        gx = random_grid(generator, power_of_two=power_of_two)
        channels = case["w"][0] if index % 3 else None
        gw = Grid(random_scale(generator, power_of_two, channels), 0, "int8", axis=0 if channels else None)
        x, w = random_integers(generator, case["x"], gx), random_integers(generator, case["w"], gw)
        bias = torch.randint(-20000, 20000, case["w"][:1], generator=generator, dtype=torch.int32)
        sums = gx.scale * gw.scale.mean() * 60 * w[0].numel() ** 0.5
        zero = random_grid(generator).zero_point
        low, high = (zero if index % 2 else 0), (max(200, zero) if index % 4 else 255)
        gy = Grid(near(generator, sums, power_of_two), zero, low=low, high=high)
        ours = conv(x, gx, w, gw, bias if index % 4 else None, gy, **options)

        graph = Graph([13, 17, 21][index % 3])
        inputs = [graph.dq(graph.input(x), gx), graph.dq(graph.constant(w), gw)]
        if index % 4:
            inputs.append(graph.dq(graph.constant(bias), Grid(gx.scale * gw.scale, 0, "int32", axis=gw.axis)))
        padding = options.get("padding", (0,) * rank)
        node = graph.node(
            "Conv",
            *inputs,
            strides=options.get("stride", (1,) * rank),
            dilations=options.get("dilation", (1,) * rank),
            pads=padding * 2 if len(padding) == rank else padding,
            group=options.get("groups", 1),
        )
        bounds = [graph.constant(each, torch.uint8) for each in (gy.low, gy.high)]
        theirs, ran = graph.run(graph.node("Clip", graph.q(node, gy), *bounds), ours)
        assert "QLinearConv" in ran and "Conv" not in ran
        assert_same(ours, theirs)


@OPSETS
@SCALES
@pytest.mark.parametrize("dtype", ["uint8", "int8"])
@pytest.mark.parametrize("shape", [(1, 1, 1), (3, 7, 5), (20, 64, 33), (2, 5000, 9)], ids=str)
def test_linear(shape: tuple[int, int, int], dtype: str, power_of_two: bool, opset: int) -> None:
    generator = torch.Generator().manual_seed(opset)
    rows, size, out = shape
    for index in range(ROUNDS):
        gx = random_grid(generator, dtype, power_of_two=power_of_two)
        channels = out if index % 3 else None
        gw = Grid(random_scale(generator, power_of_two, channels), 0, "int8", axis=0 if channels else None)
        x, w = random_integers(generator, (rows, size), gx), random_integers(generator, (out, size), gw)
        bias = torch.randint(-20000, 20000, (out,), generator=generator, dtype=torch.int32) if index % 4 else None
        scale = near(generator, gx.scale * gw.scale.mean() * 60 * size**0.5, power_of_two)
        gy = Grid(scale, random_grid(generator, dtype).zero_point, dtype) if index % 2 else None
        ours = linear(x, gx, w, gw, bias, gy)

        graph = Graph(opset)
        inputs = [graph.dq(graph.input(x), gx), graph.dq(graph.constant(w), gw)]
        if bias is not None:
            inputs.append(graph.dq(graph.constant(bias), Grid(gx.scale * gw.scale, 0, "int32", axis=gw.axis)))
        node = graph.node("Gemm", *inputs, transB=1)
        theirs, ran = graph.run(graph.q(node, gy) if gy else node, ours)
        assert ran == ["QGemm"]
        assert_same(ours, theirs)
        assert_same(linear(x[:, None], gx, w, gw, bias, gy)[:, 0], theirs)


@SCALES
@pytest.mark.parametrize(
    ("left", "right"),
    [((3, 7), (7, 5)), ((2, 3, 4, 16), (2, 3, 16, 9)), ((2, 3, 4, 16), (16, 9)), ((5, 1, 1), (5, 1, 1)),
     ((2, 900), (900, 3))],
    ids=str,
)  # fmt: skip
def test_matmul(left: Sequence[int], right: Sequence[int], power_of_two: bool) -> None:
    generator = torch.Generator().manual_seed(3)
    for index in range(ROUNDS):
        ga = random_grid(generator, power_of_two=power_of_two)
        gb = random_grid(generator, "int8" if index % 3 == 0 else "uint8", power_of_two=power_of_two)
        a, b = random_integers(generator, left, ga), random_integers(generator, right, gb)
        scale = near(generator, ga.scale * gb.scale * 80 * 80 * left[-1] ** 0.5 / 60, power_of_two)
        gy = Grid(scale, random_grid(generator).zero_point) if index % 2 else None
        ours = matmul(a, ga, b, gb, gy)
        graph = Graph([13, 17, 21][index % 3])
        node = graph.node("MatMul", graph.dq(graph.input(a), ga), graph.dq(graph.input(b), gb))
        theirs, ran = graph.run(graph.q(node, gy) if gy else node, ours)
        assert ran == ["QLinearMatMul" if gy else "MatMulIntegerToFloat"]
        assert_same(ours, theirs)


SHAPES = [
    ((64, 65), (64, 65)), ((2, 8, 9, 9), (1, 8, 1, 1)), ((1, 8, 1, 1), (2, 8, 9, 9)), ((31, 33), (33,)),
    ((33,), (31, 33)), ((33, 1), (1, 31)), ((1, 31), (33, 1)), ((), (100,)), ((100,), ()), ((100, 1), ()),
    ((), (100, 1)), ((), ()),
    ((40, 41, 1), (41, 1)), ((1,), (200, 1)), ((40, 1, 1), (1, 41, 1)),
]  # fmt: skip


@SCALES
@pytest.mark.parametrize("dtype", ["uint8", "int8"])
@pytest.mark.parametrize(("op", "kernel"), [("Add", add), ("Mul", mul)])
@pytest.mark.parametrize("shapes", SHAPES, ids=str)
def test_add_and_mul(shapes: Any, op: str, kernel: Callable[..., Tensor], dtype: str, power_of_two: bool) -> None:
    generator = torch.Generator().manual_seed(11)
    for index in range(ROUNDS):
        ga, gb = (random_grid(generator, dtype, power_of_two=power_of_two) for _ in range(2))
        a, b = random_integers(generator, shapes[0], ga), random_integers(generator, shapes[1], gb)
        size = ga.scale + gb.scale if op == "Add" else ga.scale * gb.scale * 60
        gy = Grid(near(generator, size, power_of_two), random_grid(generator, dtype).zero_point, dtype)
        ours = kernel(a, ga, b, gb, gy)
        graph = Graph([13, 17, 21][index % 3])
        other = graph.constant(b) if index % 2 else graph.input(b)
        node = graph.node(op, graph.dq(graph.input(a), ga), graph.dq(other, gb))
        theirs, ran = graph.run(graph.q(node, gy), ours)
        assert ran == [f"QLinear{op}"]
        assert_same(ours, theirs)


def test_fma_rounds_once() -> None:
    """Where float32(float64(a * b + c)) would round twice: c is a tie that the product's last bits decide."""
    a = torch.tensor([1 + 2.0**-23, 1.0, -1.0])
    b = torch.tensor([2.0**-40, 2.0**-60, 2.0**-60])
    c = torch.tensor([1.0, 2.0**24, 2.0**24])
    assert torch.equal(fma(a, b, c), c)
    generator = torch.Generator().manual_seed(0)
    a, b = (torch.randint(1, 2**24, (2000,), generator=generator).float() for _ in range(2))
    c = torch.exp2(torch.randint(40, 90, (2000,), generator=generator).float()) * (1 + 2.0**-23)
    exact = [int(x) * int(y) + int(z) for x, y, z in zip(a.tolist(), b.tolist(), c.tolist(), strict=True)]

    def rounded(value: int) -> float:
        excess = max(value.bit_length() - 24, 0)
        kept, rest = value >> excess, value & ((1 << excess) - 1)
        half = (1 << excess) >> 1
        up = excess > 0 and (rest > half or (rest == half and kept & 1 == 1))
        return float((kept + up) << excess)

    assert fma(a, b, c).tolist() == [rounded(value) for value in exact]


def test_sums_are_float32_only_where_that_is_exact() -> None:
    grid = Grid(torch.tensor(1.0), 128)
    w = torch.full((2, 1000), 127, dtype=torch.int32)  # 128 * 127 * 1000 is just below 2**24
    bias = torch.full((2,), 2**20, dtype=torch.int32)
    assert sum_type(grid, w, None) == torch.float32
    assert sum_type(grid, w, bias) == torch.float64
    assert sum_type(Grid(torch.tensor(1.0), 0), w, None) == torch.float64
    with torch.autocast("cpu", torch.bfloat16):
        assert sum_type(grid, w, None) == torch.float64
    precision = torch.backends.mkldnn.conv.fp32_precision
    try:
        torch.backends.mkldnn.conv.fp32_precision = "bf16"
        assert sum_type(grid, w, None) == torch.float64
    finally:
        torch.backends.mkldnn.conv.fp32_precision = precision
    assert sum_type(grid, w, None) == torch.float32


def test_add_by_table_is_add() -> None:
    """Tensors with more elements than there are pairs of integers."""
    generator = torch.Generator().manual_seed(0)
    ga, gb, gy = (random_grid(generator) for _ in range(3))
    a = random_integers(generator, (3, 40000), ga)
    for shape in [(3, 40000), (3, 1), (40000,), ()]:
        b = random_integers(generator, shape, gb)
        parts = [
            add(a[:, i : i + 9000], ga, b[..., i : i + 9000] if b.dim() and b.shape[-1] > 1 else b, gb, gy)
            for i in range(0, 40000, 9000)
        ]
        assert_same(add(a, ga, b, gb, gy), torch.cat(parts, 1))
