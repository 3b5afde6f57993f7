"""Transposed convolutions, written as convolutions of all phases, against onnxruntime: bit for bit."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

from onward.errors import InputError
from onward.quant import Grid
from onward.quant.kernels import conv, conv_transpose
from onward.quant.kernels.transposed import (
    as_convolution,
    output_scales,
    phases,
    spread,
    turned,
    weave,
)

from .runtime import Graph, assert_same, near, random_grid, random_integers, random_scale

CASES: dict[str, dict[str, Any]] = {
    "1d": dict(x=(2, 3, 9), w=(3, 5, 4), stride=[2], padding=[1]),
    "stride 1": dict(x=(2, 4, 7, 6), w=(4, 3, 3, 3), stride=[1, 1], padding=[1, 1]),
    "doubling": dict(x=(1, 6, 5, 7), w=(6, 4, 2, 2), stride=[2, 2]),
    "kernel 4": dict(x=(2, 6, 5, 7), w=(6, 4, 4, 4), stride=[2, 2], padding=[1, 1]),
    "kernel 3": dict(x=(2, 6, 5, 7), w=(6, 4, 3, 3), stride=[2, 2], padding=[1, 1], output_padding=[1, 1]),
    "kernel below stride": dict(x=(1, 3, 5, 5), w=(3, 2, 2, 1), stride=[3, 2], output_padding=[2, 1]),
    "uneven, dilated": dict(x=(1, 4, 6, 5), w=(4, 3, 3, 2), stride=[2, 3], padding=[2, 1], dilation=[2, 1]),
    "grouped": dict(x=(2, 6, 6, 6), w=(6, 2, 4, 4), stride=[2, 2], padding=[1, 1], groups=3),
    "depthwise": dict(x=(2, 5, 6, 6), w=(5, 1, 3, 3), stride=[2, 2], groups=5),
    "padding beyond the kernel": dict(x=(1, 3, 9), w=(3, 2, 2), stride=[1], padding=[3]),
    "3d": dict(x=(1, 3, 4, 5, 3), w=(3, 2, 2, 3, 4), stride=[2, 1, 2], padding=[0, 1, 1]),
}


def lowered(graph: Graph, value: str, like: Any, options: dict[str, Any], crops: list[int]) -> str:
    """The phases woven by nodes."""
    stride, groups, rank = options["stride"], options["groups"], len(options["stride"])
    sizes = [(n + a + b) // s for n, a, b, s in zip(like.shape[2:], crops[:rank], crops[rank:], stride, strict=True)]
    value = graph.node("Transpose", value, perm=[0, *range(2, 2 + rank), 1])
    parts = [like.shape[0], *sizes, groups, *stride, like.shape[1] // groups]
    value = graph.node("Reshape", value, graph.constant(parts, torch.int64))
    order = [each for axis in range(rank) for each in (1 + axis, 2 + rank + axis)]
    value = graph.node("Transpose", value, perm=[0, *order, 1 + rank, 2 + 2 * rank])
    woven = [like.shape[0], *(n * s for n, s in zip(sizes, stride, strict=True)), like.shape[1]]
    value = graph.node("Reshape", value, graph.constant(woven, torch.int64))
    value = graph.node("Transpose", value, perm=[0, 1 + rank, *range(1, 1 + rank)])
    begins = graph.constant(crops[:rank], torch.int64)
    ends = graph.constant([n + a for n, a in zip(like.shape[2:], crops[:rank], strict=True)], torch.int64)
    return graph.node("Slice", value, begins, ends, graph.constant(list(range(2, 2 + rank)), torch.int64))


@pytest.mark.parametrize("power_of_two", [False, True], ids=["float", "2^k"])
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_conv_transpose(case: dict[str, Any], power_of_two: bool) -> None:
    generator = torch.Generator().manual_seed(1)
    none, ones = [0] * len(case["stride"]), [1] * len(case["stride"])
    options = dict(padding=none, output_padding=none, dilation=ones, groups=1) | {
        name: value for name, value in case.items() if name not in "xw"
    }
    for index in range(9):
        gx = random_grid(generator, power_of_two=power_of_two)
        axis = None if index % 3 == 0 else 0 if case["w"][1] == 1 else 1
        channels = None if axis is None else case["w"][axis]
        gw = Grid(random_scale(generator, power_of_two, channels), 0, "int8", axis=axis)
        x, w = random_integers(generator, case["x"], gx), random_integers(generator, case["w"], gw)
        outputs = w.shape[1] * options["groups"]
        bias = torch.randint(-9000, 9000, (outputs,), generator=generator, dtype=torch.int32)
        size = gx.scale * gw.scale.mean() * 60 * math.sqrt(w[:, 0].numel() / math.prod(options["stride"]))
        gy = Grid(near(generator, size, power_of_two), random_grid(generator).zero_point)
        ours = conv_transpose(x, gx, w, gw, bias, gy, **options)

        stride, groups = options["stride"], options["groups"]
        plan = phases(w.shape[2:], stride, options["padding"], options["output_padding"], options["dilation"])
        kernel = as_convolution(turned(w, groups), plan.taps, stride, options["dilation"], groups)
        count = math.prod(stride)
        scales = output_scales(gw, w, groups)
        scales = spread(scales, count, groups) if scales.dim() else scales
        gw = Grid(scales, 0, "int8", axis=0 if scales.dim() else None)
        bias = spread(bias, count, groups)
        woven = conv(x, gx, kernel, gw, bias, gy, padding=plan.pads, groups=groups)
        assert_same(ours, weave(woven, stride, plan.crops, groups))

        graph = Graph([13, 17, 21][index % 3])
        weight, offset = (
            graph.dq(graph.constant(kernel), gw),
            graph.dq(graph.constant(bias), Grid(gx.scale * scales, 0, "int32", axis=gw.axis)),
        )
        node = graph.node("Conv", graph.dq(graph.input(x), gx), weight, offset, pads=plan.pads, group=options["groups"])
        result = lowered(graph, graph.q(node, gy), ours, options, plan.crops)
        theirs, ran = graph.run(result, ours)
        assert "QLinearConv" in ran and "DequantizeLinear" not in ran
        assert_same(ours, theirs)


def test_refuses() -> None:
    w = torch.zeros(4, 2, 3, dtype=torch.int8)
    with pytest.raises(InputError, match="cannot have one scale for each index of its weight's axis 0"):
        output_scales(Grid(torch.ones(4), 0, "int8", axis=0), w, 2)


@pytest.mark.parametrize("groups", [1, 3])
def test_weights_turned_around_come_back(groups: int) -> None:
    w = torch.randn(6, 2, 3, 4)
    assert turned(w, groups).shape == (2 * groups, 6 // groups, 3, 4)
    assert_same(turned(turned(w, groups), groups), w)
