"""Reshapes, squeezes, permutations, broadcasts, and how many nodes they take."""

from __future__ import annotations

from collections import Counter

import pytest
import torch

from ..harness import NEWEST, SOME_OPSETS, Case, bools, case, check, f32, floats, run

BATCH = {0: {0: "batch"}}
BATCH_SEQUENCE = {0: {0: "batch", 1: "sequence"}}
FEW = (9, 13, NEWEST)

CASES = [
    case("view", lambda x: x.view(3, 8), [f32(2, 3, 4)]),
    case("view with -1", lambda x: x.view(-1, 2, 6), [f32(2, 3, 4)], dynamic=BATCH),
    case("view by size", lambda x: x.view(x.size(0), x.size(1), 2, 2), [f32(2, 3, 4)], dynamic=BATCH_SEQUENCE),
    case("merge two dynamic axes", lambda x: x.reshape(x.shape[0] * x.shape[1], 4), [f32(2, 3, 4)],
         dynamic=BATCH_SEQUENCE),
    case("merge and split again", lambda x: x.reshape(-1, 4).relu().reshape(x.shape[0], x.shape[1], 4),
         [f32(2, 3, 4)], dynamic=BATCH_SEQUENCE, opsets=SOME_OPSETS),
    case("reshape a transposed tensor", lambda x: x.transpose(1, 2).reshape(x.size(0), -1), [f32(2, 3, 4)],
         dynamic=BATCH, opsets=SOME_OPSETS),
    case("reshape to a scalar", lambda x: x.reshape(()), [f32(1, 1)], opsets=FEW),
    case("reshape from a scalar", lambda x: x.reshape(1, 1), [f32()], opsets=FEW),
    case("reshape of nothing", lambda x: x.reshape(4, 0, 3), [f32(2, 0, 6)], opsets=SOME_OPSETS),
    case("move elements between dynamic axes", lambda x: x.reshape(x.size(0) * 2, x.size(1) // 2, 4),
         [f32(2, 6, 4)], dynamic=BATCH_SEQUENCE, opsets=SOME_OPSETS, sizes=(2, 4),
         inputs_at=lambda n: [f32(n + 1, n, 4)]),
    case("view_as", lambda x, y: x.view_as(y), [f32(2, 6), f32(2, 3, 2)], opsets=SOME_OPSETS,
         dynamic={0: {0: "batch"}, 1: {0: "batch"}}),
    case("reshape_as", lambda x, y: x.reshape_as(y), [f32(6, 2), f32(3, 4)], opsets=FEW),
    case("flatten", lambda x: x.flatten(), [f32(2, 3, 4)], dynamic=BATCH),
    case("flatten features", lambda x: x.flatten(1), [f32(2, 3, 4, 5)], dynamic=BATCH),
    case("flatten the middle", lambda x: x.flatten(1, 2), [f32(2, 3, 4, 5)], dynamic=BATCH_SEQUENCE),
    case("flatten dynamic height and width", lambda x: x.flatten(2).transpose(1, 2), [f32(2, 3, 4, 5)],
         dynamic={0: {0: "batch", 2: "height", 3: "width"}}, opsets=SOME_OPSETS),
    case("flatten a scalar", lambda x: x.flatten(), [f32()], opsets=FEW),
    case("flatten one axis", lambda x: x.flatten(1, 1) * 2, [f32(2, 3)], opsets=FEW),
    case("ravel", lambda x: x.ravel(), [f32(2, 3)], dynamic=BATCH, opsets=FEW),
    case("unflatten", lambda x: x.unflatten(1, (3, -1)), [f32(2, 12)], dynamic=BATCH),
    case("unflatten the last", lambda x: x.unflatten(-1, (2, 2)), [f32(2, 3, 4)], dynamic=BATCH_SEQUENCE, opsets=FEW),
    case("unflatten a dynamic axis", lambda x: x.unflatten(0, (-1, 2)), [f32(4, 3)], dynamic=BATCH, sizes=(2, 6),
         opsets=SOME_OPSETS),
    case("squeeze", lambda x: x.squeeze(), [f32(1, 3, 1, 2)]),
    case("squeeze a dim", lambda x: x.squeeze(1), [f32(2, 1, 3)], dynamic=BATCH),
    case("squeeze a negative dim", lambda x: x.squeeze(-1), [f32(2, 3, 1)], dynamic=BATCH, opsets=SOME_OPSETS),
    case("squeeze a dim that is not 1", lambda x: x.squeeze(1) + 1, [f32(2, 3)], opsets=FEW),
    case("squeeze dims", lambda x: x.squeeze((0, -1, 2)), [f32(1, 3, 2, 1)], opsets=SOME_OPSETS),
    case("squeeze a scalar", lambda x: x.squeeze() + 1, [f32()], opsets=FEW),
    case("unsqueeze", lambda x: x.unsqueeze(1), [f32(2, 3)], dynamic=BATCH),
    case("unsqueeze at the end", lambda x: x.unsqueeze(-1), [f32(2, 3)], dynamic=BATCH),
    case("unsqueeze a scalar", lambda x: x.unsqueeze(0), [f32()], opsets=FEW),
    case("index with None", lambda x: x[:, None, :, None], [f32(2, 3)], dynamic=BATCH, opsets=SOME_OPSETS),
    case("atleast", lambda x, y, z: [torch.atleast_1d(x), torch.atleast_2d(y), torch.atleast_3d(y),
                                     torch.atleast_3d(x), torch.atleast_3d(z)],
         [f32(), f32(3), f32(2, 3)], opsets=FEW),
    case("permute", lambda x: x.permute(0, 2, 1), [f32(2, 3, 4)], dynamic=BATCH),
    case("permute with negative dims", lambda x: x.permute(-1, 0, -2), [f32(2, 3, 4)], opsets=SOME_OPSETS),
    case("transpose", lambda x: x.transpose(-1, 0), [f32(2, 3, 4)], dynamic=BATCH),
    case("transpose a scalar", lambda x: x.transpose(0, -1) + 1, [f32()], opsets=FEW),
    case("t", lambda x: x.t(), [f32(2, 3)], dynamic=BATCH),
    case("t of a vector", lambda x: x.t() + 1, [f32(3)], opsets=FEW),
    case("T", lambda x: x.permute(*range(x.dim() - 1, -1, -1)), [f32(2, 3, 4)], opsets=FEW),
    case("numpy_T", lambda x: torch.ops.aten.numpy_T(x), [f32(2, 3, 4)], opsets=FEW),
    case("mT, mH, H, adjoint", lambda x: [x.mT, x.mH, x[0].H, torch.adjoint(x)], [f32(2, 3, 4)], opsets=FEW),
    case("movedim", lambda x: x.movedim(0, -1), [f32(2, 3, 4)], dynamic=BATCH, opsets=SOME_OPSETS),
    case("movedim of several", lambda x: torch.moveaxis(x, (0, 1), (-1, 0)), [f32(2, 3, 4)], opsets=FEW),
    case("swapaxes", lambda x: x.swapaxes(0, 2) + x.swapdims(0, 2), [f32(2, 3, 4)], opsets=FEW),
    case("expand", lambda x: x.expand(4, 3), [f32(1, 3)]),
    case("expand with new axes", lambda x: x.expand(2, -1, 3), [f32(4, 1)], dynamic=BATCH),
    case("expand by a size", lambda x, y: x.expand(y.shape[0], -1, y.shape[1]), [f32(1, 3, 1), f32(2, 4)],
         dynamic={1: {0: "batch", 1: "sequence"}}),
    case("expand a mask", lambda m: m[:, None, None, :].expand(m.size(0), 1, m.size(1), m.size(1)), [bools(2, 3)],
         dynamic=BATCH_SEQUENCE, opsets=SOME_OPSETS),
    case("broadcast_to", lambda x: torch.broadcast_to(x, (2, 3)), [f32(3)], opsets=SOME_OPSETS),
    case("expand_as", lambda x, y: x.expand_as(y), [f32(1, 3), f32(2, 3)], dynamic={1: {0: "batch"}}),
    case("expand_as with more axes", lambda x, y: x.expand_as(y), [f32(3, 1), f32(2, 3, 4)],
         dynamic={1: {0: "batch", 2: "width"}}, opsets=SOME_OPSETS),
    case("broadcast_tensors", lambda x, y: torch.broadcast_tensors(x, y), [f32(2, 1), f32(3)], dynamic=BATCH),
    case("meshgrid", lambda x, y: torch.meshgrid(x, y, indexing="ij"), [f32(3), f32(2)],
         dynamic={0: {0: "rows"}, 1: {0: "columns"}}),
    case("meshgrid xy", lambda x, y, z: torch.meshgrid(x, y, z, indexing="xy"), [f32(3), f32(2), f32(4)],
         opsets=FEW),
    case("shape as a tensor", lambda x: torch._shape_as_tensor(x) + 0, [f32(2, 3)], opsets=SOME_OPSETS),
    *[
        case(f"shape ops of {dtype}", lambda x: x.view(2, 6).t().unsqueeze(0).expand(2, -1, -1).flatten(1),
             [floats(2, 3, 2).to(dtype)], opsets=(9, 11, 13, NEWEST))
        for dtype in (torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.int16, torch.int8,
                      torch.uint8, torch.bool)
        if dtype is not torch.bfloat16
    ],
    case("shape ops of bfloat16", lambda x: x.view(2, 6).t().unsqueeze(0).expand(2, -1, -1).flatten(1),
         [floats(2, 3, 2).to(torch.bfloat16)], opsets=(13, NEWEST)),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=str)
def test_case(case: Case) -> None:
    run(case)


def nodes(case: Case, opset: int = 18) -> dict[str, int]:
    return dict(Counter(node.op_type for node in check(case, opset).graph.node))


COUNTS = [
    (case("heads", lambda x: x.view(x.size(0), x.size(1), 12, 64).transpose(1, 2), [f32(2, 3, 768)],
          dynamic=BATCH_SEQUENCE), {"Reshape": 1, "Transpose": 1}),
    (case("heads, as -1", lambda x: x.view(*x.shape[:-1], -1, 64).transpose(1, 2), [f32(2, 3, 768)],
          dynamic=BATCH_SEQUENCE), {"Reshape": 1, "Transpose": 1}),
    (case("heads merged", lambda x: x.transpose(1, 2).reshape(x.size(0), -1, 6), [f32(2, 3, 5, 2)],
          dynamic={0: {0: "batch", 2: "sequence"}}), {"Reshape": 1, "Transpose": 1}),
    (case("features", lambda x: x.flatten(1), [f32(2, 3, 4, 5)], dynamic=BATCH), {"Flatten": 1}),
    (case("features by view", lambda x: x.view(x.size(0), -1), [f32(2, 3, 4, 5)], dynamic=BATCH), {"Reshape": 1}),
    (case("tokens", lambda x: x.reshape(x.shape[0] * x.shape[1], 4), [f32(2, 3, 4)], dynamic=BATCH_SEQUENCE),
     {"Reshape": 1}),
    (case("patches", lambda x: x.flatten(2).transpose(1, 2), [f32(2, 3, 4, 5)],
          dynamic={0: {0: "batch", 2: "height", 3: "width"}}), {"Reshape": 1, "Transpose": 1}),
    (case("class token", lambda x: torch.cat([torch.ones(1, 1, 4).expand(x.size(0), -1, -1), x], 1), [f32(2, 3, 4)],
          dynamic=BATCH), {"Shape": 1, "Concat": 2, "Expand": 1}),
    (case("mask", lambda m: m[:, None, None, :].expand(m.size(0), 1, m.size(1), m.size(1)), [bools(2, 3)],
          dynamic=BATCH_SEQUENCE), {"Unsqueeze": 1, "Shape": 1, "Concat": 1, "Expand": 1}),
    (case("as another", lambda x, y: x.expand_as(y), [f32(1, 3, 1), f32(2, 3, 4)],
          dynamic={1: {0: "batch", 2: "width"}}), {"Shape": 1, "Expand": 1}),
    (case("nothing to do", lambda x: x.expand(x.size(0), -1).reshape(-1, 3).squeeze(1) + 1, [f32(2, 3)],
          dynamic=BATCH), {"Add": 1}),
    (case("there and back", lambda x: x.reshape(-1, 4).view(x.shape) + x.unsqueeze(1).squeeze(1), [f32(2, 3, 4)],
          dynamic=BATCH_SEQUENCE), {"Add": 1}),
    (case("view of a view", lambda x: x.flatten(1).unsqueeze(0).view(-1, 3, 2, 2), [f32(2, 3, 4)], dynamic=BATCH),
     {"Reshape": 1}),
    (case("new axes", lambda x: x[:, None, :, None].unsqueeze(0), [f32(2, 3)], dynamic=BATCH), {"Unsqueeze": 1}),
    (case("two transposes", lambda x: x.transpose(0, 1).permute(1, 2, 0), [f32(2, 3, 4)]), {"Transpose": 1}),
    (case("transposed back", lambda x: x.t().t() + 1, [f32(2, 3)]), {"Add": 1}),
    (case("constants fold", lambda x: x + torch.ones(3, 2).t().unsqueeze(0).expand(2, 2, 3).reshape(4, 3), [f32(4, 3)]),
     {"Add": 1}),
]  # fmt: skip


@pytest.mark.parametrize(("case", "expected"), COUNTS, ids=lambda value: str(value) if isinstance(value, Case) else "")
def test_nodes(case: Case, expected: dict[str, int]) -> None:
    assert nodes(case) == expected
