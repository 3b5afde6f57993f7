"""Pooling, with windows of a given size and to a given size."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

import onward
from tests.opsets import NEWEST

from ..harness import SOME_OPSETS, case, check, f32, floats, ints, run

FEW = (9, 10, 13, 22, NEWEST)
BATCH = {0: {0: "batch"}}
LINE = {0: {0: "batch", 2: "length"}}
IMAGE = {0: {0: "batch", 2: "height", 3: "width"}}
WIDE = torch.float64

line, image, volume = f32(2, 3, 9), f32(2, 3, 8, 9), f32(2, 3, 6, 7, 8)
wide = floats(2, 3, 8, 9, dtype=WIDE)


def pool(function, *args, **kwargs):
    return lambda x: function(x, *args, **kwargs)


def maximum(*args, **kwargs):
    """With indices, so that both are tested."""
    return lambda x: getattr(F, f"max_pool{x.dim() - 2}d")(x, *args, return_indices=True, **kwargs)


MAXIMUM = [
    case("max_pool1d", pool(F.max_pool1d, 3, 2, 1), [line], dynamic=LINE),
    case("max_pool2d", pool(F.max_pool2d, 3, 2, 1), [image], dynamic=IMAGE),
    case("max_pool3d", pool(F.max_pool3d, 2), [volume], dynamic=BATCH),
    case("max_pool1d with indices", maximum(3, 2, 1), [line], dynamic=LINE),
    case("max_pool2d with indices", maximum((2, 3), (2, 1)), [image], dynamic=IMAGE, sizes=(3, 6)),
    case("max_pool3d with indices", maximum(2), [volume], dynamic=BATCH, opsets=FEW),
    case("no batch axis", pool(F.max_pool2d, 3, 2, return_indices=True), [f32(3, 7, 8)], opsets=FEW),
    case("no batch axis, one dimension", pool(F.max_pool1d, 3, 2), [f32(3, 7)], opsets=FEW),
    case("ceil_mode", maximum(3, 2, ceil_mode=True), [image], dynamic=IMAGE, sizes=(3, 4, 5, 6), opsets=SOME_OPSETS),
    case("ceil_mode, static", maximum(3, 2, 1, ceil_mode=True), [image], dynamic=BATCH),
    case("ceil_mode, the last window would start outside", maximum(2, 3, 1, ceil_mode=True), [f32(2, 3, 7, 9)],
         dynamic=BATCH, opsets=SOME_OPSETS),
    case("ceil_mode, the last window may start outside", maximum(2, 3, 1, ceil_mode=True), [f32(2, 3, 7, 9)],
         dynamic=IMAGE, sizes=(4, 5, 6, 7), since=10, opsets=SOME_OPSETS),
    case("dilation", maximum(2, 1, 1, (2, 1)), [image], dynamic=IMAGE, sizes=(4, 5), since=10),
    case("dilation and ceil_mode", maximum(2, 3, 1, 2, ceil_mode=True), [image], dynamic=IMAGE, sizes=(4, 5, 6, 7),
         since=10),
    case("dilation and ceil_mode, static", maximum(2, 3, 1, 2, ceil_mode=True), [f32(2, 3, 8, 8)], since=10,
         opsets=FEW),
    case("dilation and ceil_mode, a window less", maximum(2, 3, 1, 2, ceil_mode=True), [f32(2, 3, 9, 9)], since=10,
         opsets=FEW),
    case("float64", maximum(3, 2, 1), [wide], dynamic=IMAGE, opsets=FEW),
    case("float16", maximum(3, 2, 1), [floats(2, 3, 8, 9, dtype=torch.float16)], dynamic=IMAGE, opsets=FEW),
    case("int64", pool(F.max_pool2d, 3, 2, 1), [ints(2, 3, 8, 9)], dynamic=IMAGE, opsets=FEW),
    case("int32", pool(F.max_pool2d, 3, 2), [ints(2, 3, 8, 9, dtype=torch.int32)], opsets=FEW),
    case("uint8", pool(F.max_pool2d, 3, 2), [ints(2, 3, 8, 9, low=0, dtype=torch.uint8)], opsets=FEW),
    case("max_unpool2d", lambda x: F.max_unpool2d(*F.max_pool2d(x, 2, return_indices=True), 2), [f32(2, 3, 8, 6)],
         dynamic=BATCH, opsets=FEW),
]  # fmt: skip

PADDED = [
    case("maximum with zeros around", lambda x: F.max_pool2d(F.pad(x, (1, 1, 1, 1)), 3, 2), [-image.abs() - 1],
         dynamic=IMAGE),
    case("maximum with zeros around, ceil_mode", lambda x: F.max_pool2d(F.pad(x, (1, 1, 1, 1)), 3, 2, ceil_mode=True),
         [-image.abs() - 1], dynamic=BATCH),
    case("maximum with zeros around, padding", lambda x: F.max_pool2d(F.pad(x, (1, 1, 1, 1)), 3, 2, 1),
         [-image.abs() - 1], dynamic=BATCH, opsets=FEW),
    case("maximum and indices with zeros around",
         lambda x: F.max_pool2d(F.pad(x, (1, 1, 1, 1)), 3, 2, return_indices=True), [-image.abs() - 1], opsets=FEW),
]  # fmt: skip

AVERAGE = [
    case("avg_pool1d", pool(F.avg_pool1d, 3, 2, 1), [line], dynamic=LINE),
    case("avg_pool2d", pool(F.avg_pool2d, 3, 2, 1), [image], dynamic=IMAGE),
    case("avg_pool3d", pool(F.avg_pool3d, 2), [volume], dynamic=BATCH),
    case("no batch axis, average", pool(F.avg_pool2d, 3, 2), [f32(3, 7, 8)], opsets=FEW),
    case("padding not counted", pool(F.avg_pool2d, 3, 2, 1, count_include_pad=False), [image], dynamic=IMAGE),
    case("average, ceil_mode", pool(F.avg_pool2d, 3, 2, 1, ceil_mode=True), [image], dynamic=IMAGE,
         sizes=(2, 3, 4, 5), opsets=SOME_OPSETS),
    case("average, ceil_mode, static", pool(F.avg_pool2d, 3, 2, 1, ceil_mode=True), [image], dynamic=BATCH),
    case("average, ceil_mode, padding not counted", pool(F.avg_pool2d, 3, 2, 1, True, False), [image], dynamic=IMAGE),
    case("average, the last window would start outside", pool(F.avg_pool2d, 2, 3, 1, ceil_mode=True),
         [f32(2, 3, 7, 9)], dynamic=BATCH),
    case("average, the last window may start outside", pool(F.avg_pool2d, 2, 3, 1, ceil_mode=True), [f32(2, 3, 7, 9)],
         dynamic=IMAGE, sizes=(4, 5, 6, 7), opsets=SOME_OPSETS),
    case("divisor", pool(F.avg_pool2d, 3, 2, 1, divisor_override=5), [image], dynamic=IMAGE),
    case("divisor and ceil_mode", pool(F.avg_pool2d, 3, 2, 1, ceil_mode=True, divisor_override=5), [image],
         dynamic=IMAGE),
    case("divisor, the last window would start outside", pool(F.avg_pool2d, 2, 3, 1, True, True, 3), [f32(2, 3, 7, 9)],
         opsets=FEW),
    case("divisor, the last window may start outside", pool(F.avg_pool2d, 2, 3, 1, True, True, 3), [f32(2, 3, 7, 9)],
         dynamic=IMAGE, sizes=(4, 5, 6, 7), opsets=FEW),
    case("average, float64", pool(F.avg_pool2d, 3, 2, 1), [wide], dynamic=IMAGE, opsets=SOME_OPSETS),
    case("average, float64, ceil_mode", pool(F.avg_pool2d, 3, 2, 1, ceil_mode=True), [wide], dynamic=IMAGE, opsets=FEW),
    case("average, float64, padding not counted", pool(F.avg_pool2d, 3, 2, 1, True, False), [wide], dynamic=IMAGE,
         opsets=FEW),
    case("average, float64, divisor", pool(F.avg_pool3d, 2, 2, 1, True, True, 7), [floats(2, 3, 5, 6, 7, dtype=WIDE)],
         dynamic=BATCH, opsets=FEW),
    case("average, int64", pool(F.avg_pool2d, 3, 2, 1), [ints(2, 3, 8, 9)], dynamic=IMAGE, opsets=FEW),
    case("average, int64, padding not counted", pool(F.avg_pool2d, 3, 2, 1, True, False), [ints(2, 3, 8, 9)],
         opsets=FEW),
    case("average, int64, divisor", pool(F.avg_pool3d, 2, 2, 1, True, True, 3), [ints(2, 3, 5, 6, 7)], opsets=FEW),
    case("average, float16", pool(F.avg_pool2d, 3, 2, 1), [floats(2, 3, 8, 9, dtype=torch.float16)], opsets=FEW),
    case("lp_pool2d", pool(F.lp_pool2d, 2, 3, 2), [image], dynamic=IMAGE, sizes=(3, 6), opsets=FEW),
    case("lp_pool1d", pool(F.lp_pool1d, 3, 3, 2, ceil_mode=True), [line], dynamic=BATCH, opsets=FEW),
]  # fmt: skip


def adaptive(kind, size):
    if kind == "avg":
        return lambda x: getattr(F, f"adaptive_avg_pool{x.dim() - 2}d")(x, size)
    return lambda x: getattr(F, f"adaptive_max_pool{x.dim() - 2}d")(x, size, return_indices=True)


def _adaptive_cases(kind):
    cases = [
        case("to one, 1d", adaptive(kind, 1), [line], dynamic=LINE),
        case("to one, 2d", adaptive(kind, 1), [image], dynamic=IMAGE),
        case("to one, 3d", adaptive(kind, 1), [volume], dynamic={0: {0: "batch", 2: "depth"}}),
        case("evenly, 1d", adaptive(kind, 3), [line], dynamic=BATCH),
        case("evenly, 2d", adaptive(kind, (4, 3)), [image], dynamic=BATCH),
        case("evenly, 3d", adaptive(kind, (3, 7, 2)), [volume], dynamic=BATCH, opsets=FEW),
        case("unevenly, 1d", adaptive(kind, 4), [line], dynamic=BATCH, opsets=SOME_OPSETS),
        case("unevenly, 2d", adaptive(kind, (3, 5)), [image], dynamic=BATCH, opsets=SOME_OPSETS),
        case("unevenly, 3d", adaptive(kind, (4, 3, 5)), [volume], dynamic=BATCH, opsets=FEW),
        case("to more than there is", adaptive(kind, 13), [line], opsets=FEW),
        # adaptive_max_pool2d takes plain ints, so that a size that is passed on would be frozen
        case(
            "one axis kept", adaptive(kind, (3, None)), [image], dynamic=IMAGE if kind == "avg" else BATCH, opsets=FEW
        ),
        case("one axis to one", adaptive(kind, (1, 4)), [image], dynamic=BATCH, opsets=FEW),
        case("dynamic sizes", adaptive(kind, (3, 4)), [image], dynamic=IMAGE, opsets=SOME_OPSETS),
        case("float64", adaptive(kind, (4, 5)), [wide], dynamic=BATCH, opsets=FEW),
        case("float64 to one", adaptive(kind, 1), [wide], dynamic=IMAGE, opsets=FEW),
        case("float16", adaptive(kind, (4, 5)), [floats(2, 3, 8, 9, dtype=torch.float16)], opsets=FEW),
        case("no batch axis", pool(getattr(F, f"adaptive_{kind}_pool2d"), (3, 2)), [f32(3, 7, 8)], opsets=FEW),
    ]
    return [pytest.param(each, id=f"{kind} {each}") for each in cases]


@pytest.mark.parametrize("case", [*MAXIMUM, *PADDED, *AVERAGE], ids=str)
def test_windows(case):
    run(case)


@pytest.mark.parametrize("case", [*_adaptive_cases("avg"), *_adaptive_cases("max")])
def test_adaptive(case):
    run(case)


@pytest.mark.parametrize(
    ("function", "nodes"),
    [
        (pool(F.max_pool2d, 3, 2, 1), ["MaxPool"]),
        (pool(F.max_pool2d, 3, 2, ceil_mode=True), ["MaxPool"]),
        (pool(F.avg_pool2d, 3, 2, 1), ["AveragePool"]),
        (pool(F.adaptive_avg_pool2d, 1), ["GlobalAveragePool"]),
        (pool(F.adaptive_max_pool2d, 1), ["GlobalMaxPool"]),
    ],
)
@pytest.mark.parametrize("opset", FEW)
def test_a_pooling_is_one_node(function, nodes, opset):
    model = check(case("pool", function, [image], dynamic=IMAGE, sizes=(3, 6)), opset)
    assert [node.op_type for node in model.graph.node] == nodes


@pytest.mark.parametrize(
    ("function", "dynamic"),
    [(pool(F.max_pool2d, 2, 1, 0, 2), {}), (pool(F.max_pool2d, 2, 3, 1, ceil_mode=True), IMAGE)],
    ids=["dilation", "ceil_mode"],
)
def test_what_opset_9_cannot_say_is_refused(function, dynamic):
    with pytest.raises(onward.ExportError, match=r"max_pool2d.default has no lowering for opset 9 \(exists from 10\)"):
        check(case("pool", function, [image], dynamic=dynamic), 9)


def test_dilated_windows_that_no_attribute_places_are_refused():
    with pytest.raises(onward.ExportError, match="ceil_mode and dilation with a last window that starts outside"):
        check(case("pool", pool(F.max_pool2d, 2, 3, 1, 2, ceil_mode=True), [image]), 13)


def test_indices_that_nobody_reads_are_not_computed():
    model = check(case("pool", lambda x: F.max_pool2d(x, 2, return_indices=True)[0], [image]), 13)
    assert [(node.op_type, len(node.output)) for node in model.graph.node] == [("MaxPool", 1)]


def test_adaptive_values_and_indices_come_from_one_pooling():
    model = check(case("pool", adaptive("max", (4, 3)), [image], dynamic=BATCH), 13)
    assert [node.op_type for node in model.graph.node] == ["MaxPool", "Mod"]
