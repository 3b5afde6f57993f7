"""Normalisations against eager."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from tests.opsets import NEWEST

from ..harness import SOME_OPSETS, case, f32, floats, run

FEW = (9, 13, 17, 21, NEWEST)


def shaken(module: nn.Module) -> nn.Module:
    """A module with parameters and statistics that are not ones and zeros."""
    generator = torch.Generator().manual_seed(1)
    for tensor in (*module.parameters(), *module.buffers()):
        if tensor.is_floating_point():
            tensor.data.copy_(torch.rand(tensor.shape, generator=generator) + 0.5)
    return module


CASES = [
    case("batch_norm 2d", shaken(nn.BatchNorm2d(3)), [f32(2, 3, 4, 5)], dynamic={0: {0: "b", 2: "h"}}),
    case("batch_norm 1d of a matrix", shaken(nn.BatchNorm1d(3)), [f32(2, 3)], opsets=SOME_OPSETS),
    case("batch_norm 3d", shaken(nn.BatchNorm3d(3)), [f32(2, 3, 2, 2, 2)], opsets=FEW),
    case("batch_norm, not affine", shaken(nn.BatchNorm2d(3, affine=False)), [f32(2, 3, 4, 5)], opsets=FEW),
    case("batch_norm without statistics", nn.BatchNorm2d(3, track_running_stats=False), [f32(2, 3, 4, 5)]),
    case(
        "batch_norm in training",
        lambda x, w, b: F.batch_norm(x, None, None, w, b, training=True),
        [f32(4, 3, 5), f32(3, seed=1), f32(3, seed=2)],
        dynamic={0: {0: "b"}},
        sizes=(2, 5),
        opsets=SOME_OPSETS,
    ),
    case(
        "batch_norm float64", shaken(nn.BatchNorm2d(3).double()), [floats(2, 3, 4, 5, dtype=torch.float64)], opsets=FEW
    ),
    case("batch_norm float16", shaken(nn.BatchNorm2d(3).half()), [floats(2, 3, 4, 5, dtype=torch.float16)], opsets=FEW),
    case("layer_norm", shaken(nn.LayerNorm(6)), [f32(2, 3, 6)], dynamic={0: {0: "b", 1: "s"}}),
    case("layer_norm over two axes", shaken(nn.LayerNorm((3, 6))), [f32(2, 3, 6)], opsets=SOME_OPSETS),
    case("layer_norm, not affine", nn.LayerNorm(6, elementwise_affine=False), [f32(2, 6)], opsets=FEW),
    case("layer_norm without bias", shaken(nn.LayerNorm(6, bias=False)), [f32(2, 6)], opsets=FEW),
    case("layer_norm float16", shaken(nn.LayerNorm(6).half()), [floats(2, 6, dtype=torch.float16)], opsets=FEW),
    case(
        "layer_norm bfloat16",
        shaken(nn.LayerNorm(6).bfloat16()),
        [floats(2, 6, dtype=torch.bfloat16)],
        opsets=(17, NEWEST),
    ),
    case("layer_norm float64", shaken(nn.LayerNorm(6).double()), [floats(2, 6, dtype=torch.float64)], opsets=FEW),
    case(
        "layer_norm over a dynamic axis",
        lambda x: F.layer_norm(x, x.shape[1:]),
        [f32(2, 6)],
        dynamic={0: {1: "n"}},
        sizes=(2, 5),
        opsets=FEW,
    ),
    case("rms_norm", shaken(nn.RMSNorm(6)), [f32(2, 3, 6)], dynamic={0: {0: "b", 1: "s"}}),
    case("rms_norm with epsilon", shaken(nn.RMSNorm((3, 6), eps=1e-5)), [f32(2, 3, 6)], opsets=SOME_OPSETS),
    # onnxruntime 1.31 fuses it with an epsilon of 1e-5, whatever is written, if it is float64 and has a Pow
    case("rms_norm float64", shaken(nn.RMSNorm(6, eps=1e-2).double()), [floats(2, 6, dtype=torch.float64)]),
    case("rms_norm, not affine", nn.RMSNorm(6, elementwise_affine=False), [f32(2, 6)], opsets=(9, 23, NEWEST)),
    case("rms_norm float16", shaken(nn.RMSNorm(6).half()), [floats(2, 6, dtype=torch.float16)], opsets=(9, 23, NEWEST)),
    case("instance_norm", shaken(nn.InstanceNorm2d(3, affine=True)), [f32(2, 3, 4, 5)], dynamic={0: {0: "b", 2: "h"}}),
    case("instance_norm, not affine", nn.InstanceNorm1d(3), [f32(2, 3, 4)], opsets=SOME_OPSETS),
    case(
        "instance_norm by statistics",
        shaken(nn.InstanceNorm1d(3, affine=True, track_running_stats=True)),
        [f32(2, 3, 4)],
        opsets=FEW,
    ),
    case("instance_norm unbatched", shaken(nn.InstanceNorm2d(3, affine=True)), [f32(3, 4, 5)], opsets=FEW),
    case(
        "instance_norm float64", nn.InstanceNorm3d(3).double(), [floats(2, 3, 2, 2, 2, dtype=torch.float64)], opsets=FEW
    ),
    case("instance_norm float16", nn.InstanceNorm2d(3).half(), [floats(2, 3, 2, 2, dtype=torch.float16)], opsets=FEW),
    case("group_norm", shaken(nn.GroupNorm(2, 4)), [f32(2, 4, 3, 5)], dynamic={0: {0: "b", 2: "h", 3: "w"}}),
    case("group_norm of a matrix", shaken(nn.GroupNorm(2, 4)), [f32(2, 4)], opsets=FEW),
    case("group_norm, not affine", nn.GroupNorm(2, 4, affine=False), [f32(2, 4, 3)], opsets=FEW),
    case("group_norm float64", shaken(nn.GroupNorm(2, 4).double()), [floats(2, 4, 3, dtype=torch.float64)], opsets=FEW),
    case("group_norm float16", shaken(nn.GroupNorm(2, 4).half()), [floats(2, 4, 3, dtype=torch.float16)], opsets=FEW),
    case(
        "native_layer_norm",
        lambda x: torch.native_layer_norm(x, (3, 4), None, None, 1e-5),
        [f32(2, 3, 4)],
        opsets=FEW,
    ),
    case(
        "native_group_norm",
        lambda x, w, b: torch.native_group_norm(x, w, b, 2, 4, 3, 2, 1e-5),
        [f32(2, 4, 3), f32(4), f32(4, seed=1)],
        opsets=FEW,
    ),
    case(
        "native_batch_norm in training",
        lambda x, w, b: torch.native_batch_norm(x, w, b, None, None, True, 0.1, 1e-5),
        [f32(2, 4, 3), f32(4), f32(4, seed=1)],
        opsets=FEW,
    ),
    case("local_response_norm", nn.LocalResponseNorm(3), [f32(2, 4, 5, 5)], dynamic={0: {0: "b"}}, opsets=FEW),
    case("weight_norm", nn.utils.parametrizations.weight_norm(nn.Linear(4, 3)), [f32(2, 4)], opsets=FEW),
    case(
        "weight_norm of computed weights", lambda v, w: torch._weight_norm(v, w, 0), [f32(3, 4), f32(3, 1)], opsets=FEW
    ),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_case(case):
    run(case)
