"""Padding in every mode."""

from __future__ import annotations

from collections import Counter

import pytest
import torch
import torch.nn.functional as F

from ..harness import NEWEST, SOME_OPSETS, Case, case, check, f32, floats, ints, run

BATCH = {0: {0: "batch"}}
IMAGE = {0: {0: "batch", 2: "height", 3: "width"}}
FEW = (9, 11, 13, NEWEST)
DTYPES = (torch.float64, torch.float16, torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool)

CASES = [
    case("replicate where all is cut off", lambda x: F.pad(x, (-4, 5, 2, -4), mode="replicate"), [f32(2, 3, 4, 4)]),
    case(
        "replicate where all may be cut off",
        lambda x: F.pad(x, (-2, 4), mode="replicate"),
        [f32(2, 3, 5)],
        dynamic={0: {2: "n"}},
        opsets=(9, 11, 20, NEWEST),
    ),
    case("constant", lambda x: F.pad(x, (1, 2, 3, 4)), [f32(2, 3, 4, 5)], dynamic=IMAGE),
    case("constant with a value", lambda x: F.pad(x, (1, 2), value=-1.5), [f32(2, 3)], dynamic=BATCH),
    case("constant infinity", lambda x: F.pad(x, (1, 0), value=float("-inf")), [f32(2, 3)], opsets=FEW),
    case("constant_pad_nd", lambda x: torch.constant_pad_nd(x, (1, 1), 2), [f32(2, 3)], opsets=FEW),
    case("constant that float32 lacks", lambda x: F.pad(x, (1, 2), value=0.1), [floats(2, 3, dtype=torch.float64)],
         dynamic=BATCH, opsets=FEW),
    case("crop", lambda x: F.pad(x, (-1, -2)), [f32(2, 6)], dynamic=BATCH),
    case("crop a dynamic axis", lambda x: F.pad(x, (0, 0, -1, 0)), [f32(4, 6)], dynamic=BATCH, opsets=SOME_OPSETS),
    case("crop and pad", lambda x: F.pad(x, (-1, 2, 3, -1)), [f32(4, 6)], dynamic=BATCH, opsets=SOME_OPSETS),
    case("no padding", lambda x: F.pad(x, (0, 0)) + 1, [f32(2, 3)], opsets=FEW),
    case("by a size", lambda x: F.pad(x, (0, 0, 1, x.size(0)), value=2.0), [f32(4, 5)], dynamic=BATCH),
    case("up to a length", lambda x: F.pad(x, (0, 8 - x.size(1))), [f32(4, 5)], dynamic={0: {1: "length"}},
         sizes=(1, 5, 11)),
    case("reflect", lambda x: F.pad(x, (1, 2, 2, 1), mode="reflect"), [f32(2, 3, 4, 5)], dynamic=IMAGE, sizes=(3, 5)),
    case("reflect 1d", lambda x: F.pad(x, (2, 1), mode="reflect"), [f32(2, 3, 4)], dynamic=BATCH, opsets=SOME_OPSETS),
    case("reflect 3d", lambda x: F.pad(x, (1, 1, 1, 0, 0, 1), mode="reflect"), [f32(2, 1, 3, 3, 3)], opsets=FEW),
    case("reflect and crop", lambda x: F.pad(x, (-1, 3), mode="reflect"), [f32(2, 3, 4)], dynamic=BATCH,
         opsets=SOME_OPSETS),
    case("reflect by a size", lambda x: F.pad(x, (0, x.size(2) - 1), mode="reflect"), [f32(2, 3, 4)],
         dynamic={0: {2: "length"}}, sizes=(2, 5)),
    case("reflection_pad2d", lambda x: torch.ops.aten.reflection_pad2d(x, (1, 1, 1, 1)), [f32(2, 3, 4)], opsets=FEW),
    case("replicate", lambda x: F.pad(x, (1, 2, 0, 3), mode="replicate"), [f32(2, 3, 4, 5)], dynamic=IMAGE),
    case("replicate 1d", lambda x: F.pad(x, (2, 1), mode="replicate"), [f32(2, 3, 4)], opsets=SOME_OPSETS),
    case("replicate 3d", lambda x: F.pad(x, (1, 1, 1, 0, 0, 1), mode="replicate"), [f32(2, 1, 3, 3, 3)], opsets=FEW),
    case("replicate and crop", lambda x: F.pad(x, (-1, 2, 1, -1), mode="replicate"), [f32(2, 3, 4, 5)], opsets=FEW),
    case("replicate by a size", lambda x: F.pad(x, (x.size(2), 0), mode="replicate"), [f32(2, 3, 4)],
         dynamic={0: {2: "length"}}, opsets=SOME_OPSETS),
    case("circular", lambda x: F.pad(x, (1, 2, 2, 1), mode="circular"), [f32(2, 3, 4, 5)], dynamic=IMAGE, sizes=(3, 5)),
    case("circular 1d", lambda x: F.pad(x, (4, 2), mode="circular"), [f32(2, 3, 4)], dynamic=BATCH),
    case("circular and crop", lambda x: F.pad(x, (-1, 2), mode="circular"), [f32(2, 3, 4)], opsets=SOME_OPSETS),
    case("modules", torch.nn.Sequential(torch.nn.ReflectionPad2d(1), torch.nn.ZeroPad2d(1),
                                        torch.nn.ReplicationPad2d(2), torch.nn.ConstantPad2d(1, 3.0)),
         [f32(1, 2, 3, 4)], dynamic=BATCH, opsets=FEW),
    *[
        case(f"constant of {dtype}", lambda x: F.pad(x, (1, 2), value=1), [floats(2, 3).to(dtype)],
             opsets=(9, 10, 11, 13, NEWEST))
        for dtype in DTYPES
    ],
    *[
        case(f"{mode} of {dtype}", lambda x, mode=mode: F.pad(x, (1, 2), mode=mode), [floats(2, 3, 4).to(dtype)],
             opsets=(9, 11, NEWEST))
        for mode in ("reflect", "replicate", "circular")
        for dtype in (torch.float64, torch.float16, torch.int64)
        if (mode, dtype) != ("replicate", torch.int64)  # PyTorch has no kernel
    ],
    case("big integers keep every digit", lambda x: F.pad(x, (1, 1), value=3), [ints(2, 3) + 2**60], opsets=FEW),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=str)
def test_case(case: Case) -> None:
    run(case)


@pytest.mark.parametrize("mode", ["constant", "reflect", "replicate", "circular"])
def test_one_node(mode: str) -> None:
    padded = case(mode, lambda x: F.pad(x, (1, 1, 1, 1), mode=mode), [f32(2, 3, 4, 5)], dynamic=IMAGE, sizes=(2, 5))
    assert Counter(node.op_type for node in check(padded, NEWEST).graph.node) == {"Pad": 1}
