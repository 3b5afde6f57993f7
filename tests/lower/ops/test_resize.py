"""Interpolation and sampling at computed places."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

import onward
from tests.opsets import NEWEST

from ..harness import ALL_OPSETS, case, check, f32, floats, ints, run

FEW = (9, 10, 11, 13, 18, NEWEST)
BATCH = {0: {0: "batch"}}
SIZES = (5, 4, 9)
EXAMPLES = {1: f32(2, 3, 7), 2: f32(2, 3, 6, 7), 3: f32(1, 2, 4, 5, 6)}
LINEAR = {1: "linear", 2: "bilinear", 3: "trilinear"}


def resized(**kwargs):
    return lambda x: F.interpolate(x, **kwargs)


def _cases(mode, axes, align=None):
    """One mode: by whole and broken factors, to fixed sizes, to sizes of another tensor, at dynamic sizes."""
    x = EXAMPLES[axes]
    kind = {"mode": mode} if align is None else {"mode": mode, "align_corners": align}
    every = {0: {0: "batch", **{axis: f"size_{axis}" for axis in range(2, axes + 2)}}}
    since = 11 if mode == "bicubic" else 9
    other = f32(*(size + 3 for size in x.shape))
    plain = ALL_OPSETS if align is None and axes == 2 else FEW
    return [
        case("twice", resized(scale_factor=2, **kind), [x], dynamic=every, sizes=(1, 3), since=since, opsets=plain),
        case("by 1.7", resized(scale_factor=1.7, **kind), [x], dynamic=every, sizes=(2, 3), since=since, opsets=FEW),
        case("by 0.6", resized(scale_factor=0.6, **kind), [x], dynamic=every, sizes=(2, 3), since=since, opsets=FEW),
        case("to a size", resized(size=SIZES[:axes], **kind), [x], dynamic=BATCH, opsets=FEW),
        case("from any size to one", resized(size=SIZES[:axes], **kind), [x], dynamic=every, since=since, opsets=FEW),
        case("to the size of another", lambda x, y: F.interpolate(x, size=y.shape[2:], **kind), [x, other],
             dynamic={0: {0: "batch"}, 1: {axis: f"size_{axis}" for axis in range(2, axes + 2)}}, since=since,
             opsets=FEW),
    ]  # fmt: skip


def _every_mode():
    for axes in (1, 2, 3):
        for mode in ("nearest", "nearest-exact"):
            yield from (pytest.param(each, id=f"{mode} {axes}d {each}") for each in _cases(mode, axes))
        for align in (False, True):
            corners = "align_corners" if align else "half pixels"
            modes = [LINEAR[axes], "bicubic"] if axes == 2 else [LINEAR[axes]]
            for mode in modes:
                yield from (pytest.param(each, id=f"{mode} {corners} {each}") for each in _cases(mode, axes, align))


WIDE, HALF = torch.float64, torch.float16
OTHERS = [
    case("antialias, bilinear", resized(size=(4, 15), mode="bilinear", antialias=True), [f32(2, 3, 10, 11)],
         opsets=FEW),
    case("antialias, bicubic", resized(size=(4, 15), mode="bicubic", antialias=True), [f32(2, 3, 10, 11)], opsets=FEW),
    case("antialias, bilinear, corners", resized(size=(4, 15), mode="bilinear", antialias=True, align_corners=True),
         [f32(2, 3, 10, 11)], opsets=FEW),
    case("antialias, dynamic", resized(scale_factor=0.5, mode="bicubic", antialias=True), [f32(2, 3, 10, 12)],
         dynamic={0: {2: "height", 3: "width"}}, sizes=(4, 8), since=18, opsets=FEW),
    case("recomputed factor", resized(scale_factor=1.7, recompute_scale_factor=True), [f32(2, 3, 6, 7)],
         dynamic=BATCH, opsets=FEW),
    case("factors computed from sizes",
         lambda x: F.interpolate(x, scale_factor=(7 / x.shape[2], 8 / x.shape[3]), mode="bilinear"),
         [f32(1, 2, 14, 21)], dynamic={0: {2: "height", 3: "width"}}, sizes=(5, 11), opsets=FEW),
    case("factors computed from sizes, nearest",
         lambda x: F.interpolate(x, scale_factor=(7 / x.shape[2], 8 / x.shape[3])),
         [f32(1, 2, 14, 21)], dynamic={0: {2: "height", 3: "width"}}, sizes=(5, 11), opsets=FEW),
    case("a factor computed from a size, corners",
         lambda x: F.interpolate(x, scale_factor=x.shape[2] / 7, mode="bilinear", align_corners=True),
         [f32(1, 2, 14, 21)], dynamic={0: {2: "height", 3: "width"}}, sizes=(5, 11), since=11, opsets=FEW),
    case("a factor that float32 rounds", resized(scale_factor=1 / 3), [f32(1, 2, 9, 21)], dynamic=BATCH, opsets=FEW),
    case("a size that float32 rounds", resized(size=(49, 35)), [f32(1, 2, 7, 41)], opsets=FEW),
    case("the size that it has", resized(size=(6, 7), mode="bilinear"), [f32(2, 3, 6, 7)], opsets=FEW),
    case("nearest, float64", resized(scale_factor=2), [floats(2, 3, 5, 6, dtype=WIDE)], dynamic={0: {2: "height"}},
         opsets=FEW),
    case("bilinear, float64", resized(scale_factor=2, mode="bilinear"), [floats(2, 3, 5, 6, dtype=WIDE)],
         dynamic={0: {2: "height"}}, opsets=FEW),
    case("bicubic, float64", resized(scale_factor=2, mode="bicubic"), [floats(2, 3, 5, 6, dtype=WIDE)], dynamic=BATCH,
         opsets=FEW),
    case("nearest, float16", resized(scale_factor=2), [floats(2, 3, 5, 6, dtype=HALF)], opsets=FEW),
    case("bilinear, float16", resized(scale_factor=2, mode="bilinear"), [floats(2, 3, 5, 6, dtype=HALF)], opsets=FEW),
    case("nearest, uint8", resized(scale_factor=2), [ints(2, 3, 5, 6, low=0, dtype=torch.uint8)], opsets=FEW),
]  # fmt: skip


def sampled(**kwargs):
    return lambda x, grid: F.grid_sample(x, grid, **kwargs)


SHARED = {0: {0: "batch"}, 1: {0: "batch"}}
plane, points = f32(2, 3, 5, 6), f32(2, 4, 4, 2)
GRIDS = [
    case("grid_sample", sampled(align_corners=False), [plane, points], dynamic=SHARED,
         opsets=(9, 13, 16, 18, 20, NEWEST)),
    case("grid_sample, nearest", sampled(mode="nearest", padding_mode="border", align_corners=False), [plane, points],
         dynamic={0: {0: "batch", 2: "height"}, 1: {0: "batch", 1: "rows"}}, opsets=(11, 16, 20, NEWEST)),
    case("grid_sample, bicubic", sampled(mode="bicubic", padding_mode="reflection", align_corners=True),
         [plane, points], dynamic=SHARED, opsets=(16, 20, NEWEST)),
    case("grid_sample in three dimensions", sampled(padding_mode="border", align_corners=True),
         [f32(2, 3, 4, 5, 6), f32(2, 3, 4, 4, 3)], dynamic=SHARED, opsets=(20, NEWEST)),
    case("affine_grid", lambda theta: F.affine_grid(theta, [2, 3, 4, 5], align_corners=False), [f32(2, 2, 3)],
         opsets=FEW),
]  # fmt: skip


@pytest.mark.parametrize("case", _every_mode())
def test_mode(case):
    run(case)


@pytest.mark.parametrize("case", [*OTHERS, *GRIDS], ids=str)
def test_case(case):
    run(case)


@pytest.mark.parametrize(
    ("function", "opset", "nodes"),
    [
        (resized(scale_factor=2), 9, ["Upsample"]),
        (resized(scale_factor=2), 10, ["Resize"]),
        (resized(scale_factor=2), 11, ["Resize"]),
        (resized(scale_factor=1.5, mode="bilinear"), 13, ["Resize"]),
        (resized(scale_factor=2, mode="bicubic", antialias=True), 18, ["Resize"]),
    ],
)
def test_a_factor_at_dynamic_sizes_is_one_node(function, opset, nodes):
    example = case("resize", function, [f32(1, 2, 4, 6)], dynamic={0: {0: "batch", 2: "height", 3: "width"}})
    assert [node.op_type for node in check(example, opset).graph.node] == nodes


@pytest.mark.parametrize("opset", [11, 17, 20])
@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
@pytest.mark.parametrize(
    "how", [{"size": (3, 9)}, {"scale_factor": 0.5}, {"size": (3, 9), "align_corners": True}], ids=str
)
def test_antialiasing_at_dynamic_sizes(mode, how, opset):
    function = resized(mode=mode, antialias=True, **how)
    check(case("resize", function, [f32(1, 2, 4, 6)], dynamic={0: {2: "height"}}, sizes=(2, 9)), opset)


@pytest.mark.parametrize(
    ("function", "opset", "since"),
    [
        (resized(scale_factor=2, mode="bicubic"), 10, 11),
    ],
)
def test_what_needs_resize_is_refused_without_it(function, opset, since):
    example = case("resize", function, [f32(1, 2, 4, 6)], dynamic={0: {2: "height"}})
    with pytest.raises(onward.ExportError, match=rf"has no lowering for opset {opset} \(exists from {since}\)"):
        check(example, opset)


def test_a_factor_that_no_sizes_say_is_refused():
    """A computed factor would be rounded to float32 in the file, and the size with it."""
    function = lambda x: F.interpolate(x, scale_factor=x.shape[2] / 7, mode="bilinear")  # noqa: E731
    example = case("resize", function, [f32(1, 2, 14, 21)], dynamic={0: {2: "height", 3: "width"}})
    hint = r"pass size=, or recompute_scale_factor=True"
    with pytest.raises(onward.ExportError, match=rf"depends on sizes and is not the ratio of two \({hint}\)"):
        check(example, 20)
