"""Pixel shuffles, sliding windows, diagonals, strided views."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
import torch
import torch.nn.functional as F

import onward

from ..harness import NEWEST, SOME_OPSETS, Case, case, check, f32, floats, ints, run

BATCH = {0: {0: "batch"}}
IMAGE = {0: {0: "batch", 2: "height", 3: "width"}}
FEW = (9, 11, 13, NEWEST)
DTYPES = (torch.float64, torch.float16, torch.int64, torch.int32, torch.uint8, torch.bool)


def _fold_in_steps(x: torch.Tensor) -> torch.Tensor:
    """The leftover of the steps is another one at odd sizes."""
    return F.fold(F.unfold(x, 2, stride=2), x.shape[2:], 2, stride=2)


CASES = [
    case("pixel_shuffle", lambda x: F.pixel_shuffle(x, 2), [f32(2, 8, 3, 4)], dynamic=IMAGE),
    case("pixel_shuffle of one image", lambda x: F.pixel_shuffle(x, 2), [f32(8, 3, 4)], dynamic={0: {1: "height"}}),
    case("pixel_shuffle of videos", lambda x: F.pixel_shuffle(x, 3), [f32(2, 2, 9, 3, 4)],
         dynamic={0: {0: "batch", 1: "frames"}}),
    case("pixel_unshuffle", lambda x: F.pixel_unshuffle(x, 2), [f32(2, 3, 4, 6)], dynamic=IMAGE, sizes=(2, 4),
         inputs_at=lambda n: [f32(n, 3, 2 * n, 4 * n)]),
    case("pixel_unshuffle of one channel", lambda x: F.pixel_unshuffle(x, 2), [f32(2, 1, 4, 6)], dynamic=BATCH,
         opsets=SOME_OPSETS),
    case("pixel_unshuffle of one image", lambda x: F.pixel_unshuffle(x, 2), [f32(3, 4, 6)], opsets=SOME_OPSETS),
    case("pixel_unshuffle of videos", lambda x: F.pixel_unshuffle(x, 2), [f32(2, 2, 3, 4, 6)], dynamic=BATCH,
         opsets=SOME_OPSETS),
    case("channel_shuffle", lambda x: F.channel_shuffle(x, 3), [f32(2, 6, 3, 4)], dynamic=IMAGE),
    case("unfold", lambda x: x.unfold(1, 3, 2), [f32(2, 8, 3)], dynamic=BATCH),
    case("unfold a dynamic axis", lambda x: x.unfold(0, 3, 2), [f32(8, 3)], dynamic=BATCH, sizes=(3, 6)),
    case("unfold by sizes", lambda x: x.unfold(0, x.size(0) // 3 + 1, x.size(0) // 4 + 1), [f32(8, 3)], dynamic=BATCH,
         sizes=(1, 2, 3, 6, 13)),
    case("unfold twice", lambda x: x.unfold(2, 2, 2).unfold(3, 2, 2), [f32(2, 3, 4, 6)], dynamic=BATCH,
         opsets=SOME_OPSETS),
    case("im2col", lambda x: F.unfold(x, (2, 3), dilation=(1, 2), padding=(1, 2), stride=(2, 1)), [f32(2, 3, 6, 7)],
         dynamic=IMAGE),
    case("im2col of one image", lambda x: F.unfold(x, 2), [f32(3, 6, 7)], opsets=SOME_OPSETS),
    case("patches", lambda x: F.unfold(x, 2, stride=2), [f32(2, 3, 4, 6)], dynamic=BATCH, opsets=SOME_OPSETS),
    case("col2im", lambda x: F.fold(x, (5, 6), (2, 3), padding=(1, 1), stride=(2, 1)), [f32(2, 18, 18)], dynamic=BATCH),
    case("col2im with dilation", lambda x: F.fold(x, (7, 8), (2, 3), dilation=(2, 1), stride=2), [f32(2, 12, 9)],
         opsets=SOME_OPSETS),
    case("col2im of one image", lambda x: F.fold(x, (4, 4), 2, stride=2), [f32(12, 4)], opsets=SOME_OPSETS),
    case("col2im to a computed size", lambda x: F.fold(F.unfold(x, 2), x.shape[2:], 2),
         [f32(2, 3, 4, 6)], dynamic=IMAGE, sizes=(2, 3), inputs_at=lambda n: [f32(n, 3, 2 * n - 1, 4 * n)]),
    case("col2im to a computed size in steps", _fold_in_steps,
         [f32(2, 3, 4, 6)], dynamic=IMAGE, since=18, sizes=(2, 3), inputs_at=lambda n: [f32(n, 3, 2 * n - 1, 4 * n)]),
    case("fold of unfold", lambda x: F.fold(F.unfold(x, 3, padding=1), (4, 5), 3, padding=1), [f32(2, 3, 4, 5)],
         dynamic=BATCH, opsets=SOME_OPSETS),
    case("diagonal", lambda x: x.diagonal(), [f32(3, 4)]),
    case("diagonals of a batch", lambda x: x.diagonal(1, 1, 2), [f32(2, 3, 4)], dynamic=BATCH),
    case("diagonal below", lambda x: x.diagonal(-1, -1, 0), [f32(4, 2, 3)], opsets=SOME_OPSETS),
    case("diagonal of a dynamic square", lambda x: x.diagonal(), [f32(4, 4)], dynamic={0: {0: "n", 1: "n"}}),
    case("diagonal of a dynamic rectangle", lambda x: x.diagonal(-1), [f32(4, 4)], dynamic=BATCH, sizes=(2, 5, 7)),
    case("diag_embed", lambda x: torch.diag_embed(x), [f32(2, 3)], dynamic={0: {0: "batch", 1: "n"}}),
    case("diag_embed above", lambda x: torch.diag_embed(x, 1), [f32(2, 3)], dynamic=BATCH, opsets=SOME_OPSETS),
    case("diag_embed below", lambda x: torch.diag_embed(x, -2, 0, 2), [f32(2, 3)], dynamic={0: {1: "n"}},
         opsets=SOME_OPSETS),
    case("diag", lambda x, y: [torch.diag(x), torch.diag(y, 1)], [f32(3), f32(3, 3)], opsets=SOME_OPSETS),
    case("as_strided", lambda x: x.as_strided((2, 2), (3, 1), 1), [f32(3, 3)]),
    case("as_strided windows", lambda x: x.as_strided((3, 4), (2, 1)), [f32(8)], opsets=FEW),
    *[
        case(f"windows of {dtype}", lambda x: [F.pixel_shuffle(x, 2), x.unfold(2, 2, 1), x.diagonal(0, 2, 3),
                                               F.channel_shuffle(x, 2)],
             [floats(2, 4, 3, 2).to(dtype)], opsets=(9, 11, NEWEST))
        for dtype in DTYPES
    ],
    *[
        case(f"unshuffled {dtype}", lambda x: F.pixel_unshuffle(x, 2), [floats(2, 3, 4, 6).to(dtype)],
             opsets=(9, 11, NEWEST))
        for dtype in DTYPES
    ],
    *[
        case(f"columns of {dtype}", lambda x: F.fold(F.unfold(x, 2), (3, 4), 2), [floats(2, 3, 3, 4).to(dtype)],
             opsets=(9, 13, NEWEST))
        for dtype in (torch.float64, torch.float16)
    ],
    case("diag_embed of integers", lambda x: torch.diag_embed(x), [ints(2, 3)], opsets=FEW),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=str)
def test_case(case: Case) -> None:
    run(case)


COUNTS = [
    (case("super-resolution", lambda x: F.pixel_shuffle(x, 2), [f32(2, 8, 3, 4)], dynamic=IMAGE), {"DepthToSpace": 1}),
    (case("space to depth", lambda x: F.pixel_unshuffle(x, 2), [f32(2, 3, 4, 6)], dynamic=BATCH),
     {"SpaceToDepth": 1, "Gather": 1}),
    (case("shuffle", lambda x: F.channel_shuffle(x, 2), [f32(2, 6, 3, 4)], dynamic=IMAGE), {"Gather": 1}),
    (case("windows", lambda x: x.unfold(1, 3, 2), [f32(2, 8, 3)], dynamic=BATCH), {"Gather": 1, "Transpose": 1}),
    (case("fold", lambda x: F.fold(x, (5, 6), 2), [f32(2, 12, 20)], dynamic=BATCH), {"Col2Im": 1}),
]  # fmt: skip


@pytest.mark.parametrize(("case", "expected"), COUNTS, ids=lambda value: str(value) if isinstance(value, Case) else "")
def test_nodes(case: Case, expected: dict[str, int]) -> None:
    assert dict(Counter(node.op_type for node in check(case, 18).graph.node)) == expected


@pytest.mark.parametrize(
    "shuffle",
    [lambda x: F.channel_shuffle(x, 2), lambda x: F.pixel_shuffle(x, 2), lambda x: F.pixel_unshuffle(x, 2)],
    ids=["channel_shuffle", "pixel_shuffle", "pixel_unshuffle"],
)
@pytest.mark.parametrize("opset", [9, 13, NEWEST])
def test_channels_may_be_dynamic(shuffle: Any, opset: int) -> None:
    example = case("shuffle", shuffle, [f32(2, 8, 4, 6)], dynamic={0: {1: "channels"}}, sizes=(4, 12))
    check(example, opset)


def test_fold_in_steps_needs_col2im_where_the_leftover_varies() -> None:
    axes = {"x": {2: "height", 3: "width"}}
    with pytest.raises(
        onward.LoweringError, match=r"aten.col2im.default has no lowering for opset 17 \(exists from 18\)"
    ):
        onward.export(_fold_in_steps, f32(2, 3, 4, 6), dynamic_axes=axes, opset_version=17)


@pytest.mark.parametrize(
    ("function", "what"),
    [
        (lambda x: F.conv1d(x.t()[None], torch.ones(1, 3, 1), stride=x.size(0) // 3 + 1), "conv1d.default {}stride"),
        (lambda x: F.avg_pool1d(x.t()[None], x.size(0) // 3 + 1), "avg_pool1d.default {}kernel_size"),
        (lambda x: x.diagonal(x.size(0) // 4), "diagonal.default {}offset"),
    ],
)
def test_numbers_that_follow_sizes_are_named_where_there_must_be_fixed_ones(function: Any, what: str) -> None:
    with pytest.raises(onward.ExportError) as caught:
        onward.export(function, torch.randn(6, 3), input_names=["x"], dynamic_axes={"x": {0: "n"}})
    said = "is not supported this way: its "
    assert f"aten.{what.format(said)} depends on sizes" in str(caught.value)
    assert "use numbers that are the same at all sizes there, or ask for a fixed axis" in str(caught.value)
