"""Convolutions and transposed convolutions."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from tests.opsets import NEWEST

from ..harness import ALL_OPSETS, SOME_OPSETS, case, check, f32, floats, run

FEW = (9, 11, 13, 22, NEWEST)
BATCH = {0: {0: "batch"}}
IMAGE = {0: {0: "batch", 2: "height", 3: "width"}}


def seeded(make, dtype=torch.float32):
    torch.manual_seed(0)
    return make().to(dtype)


def conv(kind, *args, dtype=torch.float32, **kwargs):
    return seeded(lambda: getattr(nn, kind)(*args, **kwargs), dtype)


CASES = [
    case("conv1d", conv("Conv1d", 3, 4, 3), [f32(2, 3, 9)], dynamic={0: {0: "batch", 2: "length"}}, sizes=(3, 6)),
    case("conv2d", conv("Conv2d", 3, 4, 3, padding=1), [f32(2, 3, 8, 8)], dynamic=IMAGE),
    case("conv3d", conv("Conv3d", 2, 4, 2), [f32(2, 2, 4, 5, 6)], dynamic=BATCH),
    case("conv_transpose1d", conv("ConvTranspose1d", 3, 4, 3), [f32(2, 3, 5)], dynamic={0: {0: "batch", 2: "length"}}),
    case("conv_transpose2d", conv("ConvTranspose2d", 3, 4, 3, stride=2), [f32(2, 3, 4, 5)], dynamic=IMAGE),
    case("conv_transpose3d", conv("ConvTranspose3d", 2, 3, 2), [f32(2, 2, 3, 4, 5)], dynamic=BATCH, opsets=SOME_OPSETS),
    case("without a bias", conv("Conv2d", 3, 4, (3, 1), bias=False), [f32(2, 3, 5, 4)], opsets=FEW),
    case("groups, stride and dilation",
         conv("Conv2d", 4, 6, 3, stride=(2, 1), padding=(1, 2), dilation=(1, 2), groups=2), [f32(2, 4, 9, 8)],
         dynamic=IMAGE, sizes=(3, 6), opsets=FEW),
    case("depthwise", conv("Conv2d", 4, 8, 3, groups=4), [f32(1, 4, 5, 5)], opsets=FEW),
    case("padding same, an odd total", conv("Conv1d", 3, 4, 4, padding="same", dilation=3), [f32(2, 3, 18)],
         opsets=FEW),
    case("padding same", conv("Conv2d", 3, 4, (3, 5), padding="same"), [f32(2, 3, 6, 7)], dynamic=IMAGE, opsets=FEW),
    case("padding valid", conv("Conv2d", 3, 4, 3, padding="valid"), [f32(2, 3, 6, 7)], opsets=FEW),
    case("padding same in three dimensions", conv("Conv3d", 2, 2, 3, padding="same"), [f32(1, 2, 3, 4, 5)], opsets=FEW),
    case("reflected padding", conv("Conv2d", 3, 4, 3, padding=1, padding_mode="reflect"), [f32(2, 3, 6, 7)],
         opsets=FEW),
    case("no batch axis", conv("Conv2d", 3, 4, 3), [f32(3, 6, 7)], dynamic={0: {1: "height"}}, sizes=(3, 5),
         opsets=FEW),
    case("no batch axis, transposed", conv("ConvTranspose1d", 3, 4, 3), [f32(3, 6)], opsets=FEW),
    case("transposed, everything", conv("ConvTranspose2d", 4, 6, 3, stride=2, padding=1, output_padding=1, groups=2,
         dilation=2), [f32(2, 4, 5, 6)], dynamic=IMAGE, opsets=FEW),
    case("transposed, padding beyond the stride", conv("ConvTranspose2d", 2, 3, 3, stride=1, dilation=2,
         output_padding=1), [f32(1, 2, 4, 5)], opsets=FEW),
    case("weights that are inputs", F.conv2d, [f32(2, 3, 8, 8), f32(4, 3, 3, 3), f32(4)], dynamic=IMAGE, sizes=(3, 5),
         opsets=FEW),
    case("convolution", lambda x, w: torch.convolution(x, w, None, [1], [1], [1], False, [0], 1),
         [f32(2, 3, 6), f32(4, 3, 3)], opsets=FEW),
    case("convolution, transposed", lambda x, w: torch.convolution(x, w, None, [2], [1], [1], True, [1], 1),
         [f32(2, 3, 6), f32(3, 4, 3)], opsets=FEW),
    case("conv_tbc", lambda x, w, b: torch.conv_tbc(x, w, b, 1), [f32(5, 2, 3), f32(3, 3, 4), f32(4)],
         dynamic={0: {0: "time", 1: "batch"}}, opsets=FEW),
]  # fmt: skip

HALF, WIDE = torch.float16, torch.float64
DTYPES = [
    case("float16", conv("Conv2d", 3, 4, 3, dtype=HALF), [floats(2, 3, 6, 6, dtype=HALF)], dynamic=BATCH, opsets=FEW),
    case("bfloat16", conv("Conv2d", 3, 4, 3, dtype=torch.bfloat16), [floats(2, 3, 6, 6, dtype=torch.bfloat16)],
         opsets=(13, 22, NEWEST)),
    case("transposed, float16", conv("ConvTranspose2d", 3, 4, 3, dtype=HALF), [floats(2, 3, 6, 6, dtype=HALF)],
         opsets=FEW),
    case("float64", conv("Conv2d", 3, 4, 3, padding=1, dtype=WIDE), [floats(2, 3, 8, 8, dtype=WIDE)], dynamic=IMAGE,
         opsets=SOME_OPSETS),
    case("float64, everything", conv("Conv3d", 4, 6, (2, 3, 2), stride=(1, 2, 1), padding=1, dilation=(1, 1, 2),
         groups=2, dtype=WIDE), [floats(2, 4, 6, 7, 8, dtype=WIDE)], dynamic={0: {0: "batch", 3: "height"}},
         sizes=(3,), opsets=FEW),
    case("float64, no batch axis", conv("Conv1d", 4, 6, 3, bias=False, dtype=WIDE), [floats(4, 9, dtype=WIDE)],
         opsets=FEW),
    case("transposed, float64, with weights from outside",
         lambda x, w: F.conv_transpose2d(x, w, stride=(2, 1), padding=1, output_padding=(1, 0), groups=2, dilation=2),
         [floats(1, 4, 5, 6, dtype=WIDE), floats(4, 3, 3, 2, dtype=WIDE, seed=1)], dynamic={0: {2: "height"}}),
    case("transposed, float64", conv("ConvTranspose3d", 4, 6, (2, 3, 2), stride=(1, 2, 3), padding=1,
         output_padding=(0, 1, 2), dilation=(1, 1, 2), groups=2, dtype=WIDE), [floats(2, 4, 4, 5, 6, dtype=WIDE)],
         dynamic={0: {0: "batch", 3: "height"}}, sizes=(3,), opsets=FEW),
]  # fmt: skip


@pytest.mark.parametrize("case", [*CASES, *DTYPES], ids=str)
@pytest.mark.filterwarnings("ignore:Using padding='same'")
def test_case(case):
    run(case)


@pytest.mark.parametrize("opset", ALL_OPSETS)
def test_a_convolution_is_one_node(opset):
    model = check(case("conv2d", conv("Conv2d", 3, 4, 3, padding=1), [f32(2, 3, 8, 8)], dynamic=IMAGE), opset)
    assert [node.op_type for node in model.graph.node] == ["Conv"]
