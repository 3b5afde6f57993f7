"""Transposed convolutions, written as convolutions of all phases, against onnxruntime: bit for bit."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

from onward.quant import Grid
from onward.quant.exact.sums import requantize
from onward.quant.families.transposed_convolution import (
    Spreading,
    as_convolution,
    conv_transpose,
    phases,
    spread,
    turned,
    weave,
)

from .runtime import Graph, assert_same, near, random_grid, random_integers, random_scale
from .steps import conv

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
    options: dict[str, Any] = dict(padding=none, output_padding=none, dilation=ones, groups=1) | {
        name: value for name, value in case.items() if name not in "xw"
    }
    for index in range(9):
        gx = random_grid(generator, power_of_two=power_of_two)
        outputs = case["w"][1] * options["groups"]
        channels = None if index % 3 == 0 else outputs
        gw = Grid(random_scale(generator, power_of_two, channels), 0, "int8", axis=None if channels is None else 0)
        bounds = Grid(torch.tensor(1.0), 0, "int8", gw.low, gw.high)
        x, w = random_integers(generator, case["x"], gx), random_integers(generator, case["w"], bounds)
        bias = torch.randint(-9000, 9000, (outputs,), generator=generator, dtype=torch.int32)
        size = gx.scale * gw.scale.mean() * 60 * math.sqrt(w[:, 0].numel() / math.prod(options["stride"]))
        gy = Grid(near(generator, size, power_of_two), random_grid(generator).zero_point)
        at = Spreading(**options)
        sums = conv_transpose(x, gx, w, gw, bias, at)
        ours = requantize(sums, gx, gw, None if channels is None else -1 - len(none), gy, "half_even")

        stride, groups = options["stride"], options["groups"]
        plan = phases(w.shape[2:], at)
        kernel = as_convolution(turned(w, groups), plan.taps, at)
        count = math.prod(stride)
        scales = gw.scale if channels is None else spread(gw.scale, count, groups)
        gw = Grid(scales, 0, "int8", axis=gw.axis)
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


@pytest.mark.parametrize("groups", [1, 3])
def test_weights_turned_around_come_back(groups: int) -> None:
    w = torch.randn(6, 2, 3, 4)
    assert turned(w, groups).shape == (2 * groups, 6 // groups, 3, 4)
    assert_same(turned(turned(w, groups), groups), w)
