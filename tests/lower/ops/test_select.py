"""Parts of a tensor by position, and copies of it."""

from __future__ import annotations

from collections import Counter

import pytest
import torch

import onward

from ..harness import NEWEST, SOME_OPSETS, Case, case, check, f32, floats, ints, run

BATCH = {0: {0: "batch"}}
FEW = (9, 13, NEWEST)
LAST = 9223372036854775807
DTYPES = (torch.float64, torch.float16, torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool)

CASES = [
    case("select", lambda x: x[:, 1], [f32(2, 3)], dynamic=BATCH),
    case("select from the end", lambda x: x[:, -1], [f32(2, 3)], dynamic=BATCH),
    case("select the last of a dynamic axis", lambda x: x[-1], [f32(2, 3)], dynamic=BATCH),
    case("select before the last", lambda x: x.select(0, -2), [f32(4, 3)], dynamic=BATCH, sizes=(2, 5)),
    case("select the only one", lambda x: x[:, 0], [f32(2, 1)], dynamic=BATCH, opsets=FEW),
    case("select by a size", lambda x: x.select(0, x.size(0) // 2), [f32(4, 3)], dynamic=BATCH),
    case("select by a size from the end", lambda x: x.select(0, -(x.size(0) // 2)), [f32(4, 3)], dynamic=BATCH,
         sizes=(2, 5)),
    case("slice", lambda x: x[:, 1:3], [f32(2, 5)], dynamic=BATCH),
    case("slice a dynamic axis", lambda x: x[1:], [f32(3, 5)], dynamic=BATCH),
    case("slice from the end", lambda x: x[-2:, :-1], [f32(3, 5)], dynamic=BATCH, sizes=(2, 5)),
    case("slice between signs", lambda x: x[1:-1], [f32(4, 5)], dynamic=BATCH),
    case("slice with a step", lambda x: x[:, ::2], [f32(2, 5)], dynamic=BATCH),
    case("slice a dynamic axis with a step", lambda x: x[1::3], [f32(6, 5)], dynamic=BATCH),
    case("slice with a step that follows a size", lambda x: x[1 :: x.size(0) // 3 + 1], [f32(6, 5)], dynamic=BATCH,
         sizes=(1, 2, 3, 7, 12)),
    case("slice all numbers with a size as step", lambda x: x.ravel()[:: x.size(0)], [f32(6, 5)], dynamic=BATCH),
    case("slice with far bounds", lambda x: torch.ops.aten.slice.Tensor(x, 1, -LAST, LAST, 1) + 1, [f32(2, 5)],
         dynamic=BATCH, opsets=SOME_OPSETS),
    case("slice without bounds", lambda x: torch.ops.aten.slice.Tensor(x, 1, None, None, 2), [f32(2, 5)], opsets=FEW),
    case("slice to nothing", lambda x: x[:, 3:1], [f32(2, 5)], opsets=SOME_OPSETS),
    case("slice beyond", lambda x: x[:, -9:9] + 1, [f32(2, 5)], opsets=FEW),
    case("slice by a size", lambda x: x[: x.size(0) // 2], [f32(4, 3)], dynamic=BATCH, sizes=(2, 5)),
    case("slice from a size", lambda x: x[x.size(0) // 2 :], [f32(4, 3)], dynamic=BATCH),
    case("slice by a negative size", lambda x: [x[-(x.size(0) // 2) :], x[: -(x.size(0) // 2)]], [f32(4, 3)],
         dynamic=BATCH),
    case("slice by another's size", lambda x, y: x[:, : y.size(1)], [f32(2, 9), f32(2, 4)],
         dynamic={0: {0: "batch"}, 1: {0: "batch", 1: "length"}}),
    case("halves of both axes", lambda x: x[x.size(0) // 2 :, -3:-1], [f32(4, 5)], dynamic=BATCH, opsets=SOME_OPSETS),
    case("even and odd", lambda x: torch.stack([-x[..., 1::2], x[..., ::2]], -1).flatten(-2), [f32(2, 3, 4)],
         dynamic={0: {0: "batch", 1: "length"}}, opsets=SOME_OPSETS),
    case("narrow", lambda x: x.narrow(1, 1, 2), [f32(2, 5)], dynamic=BATCH),
    case("narrow from the end", lambda x: x.narrow(0, -2, 2), [f32(4, 5)], dynamic=BATCH, sizes=(2, 5)),
    case("narrow to a size", lambda x, y: x.narrow(0, 1, y.size(0)), [f32(9, 5), f32(3)],
         dynamic={1: {0: "length"}}, opsets=SOME_OPSETS),
    case("flip", lambda x: x.flip(0), [f32(3, 4)], dynamic=BATCH),
    case("flip both", lambda x: x.flip(0, -1), [f32(3, 4)], dynamic=BATCH),
    case("flip nothing", lambda x: x.flip(()) + 1, [f32(3, 4)], opsets=FEW),
    case("fliplr and flipud", lambda x: [x.fliplr(), x.flipud()], [f32(3, 4)], opsets=FEW),
    case("rot90", lambda x: torch.rot90(x, 1, (0, 1)), [f32(3, 4)], dynamic=BATCH, opsets=SOME_OPSETS),
    case("roll", lambda x: x.roll(2, 1), [f32(2, 5, 3)], dynamic=BATCH),
    case("roll the last axis", lambda x: x.roll(-2, -1), [f32(2, 5)], dynamic=BATCH),
    case("roll a dynamic axis by one", lambda x: [x.roll(1, 0), x.roll(-1, 0)], [f32(4, 5)], dynamic=BATCH),
    case("roll an axis that may be empty", lambda x: x[1::2].roll(3, 0), [f32(4, 5)], dynamic=BATCH, sizes=(1, 2, 5)),
    case("roll a dynamic axis round and round", lambda x: [x.roll(3, 0), x.roll(-7, 0)], [f32(4, 5)], dynamic=BATCH),
    case("roll two axes", lambda x: x.roll((-1, 3), (0, 1)), [f32(4, 5)], dynamic=BATCH, opsets=SOME_OPSETS),
    case("roll flat", lambda x: x.roll(3), [f32(4, 5)], dynamic=BATCH, opsets=SOME_OPSETS),
    case("roll by a size", lambda x: x.roll(x.size(0) // 2, 0), [f32(4, 5)], dynamic=BATCH),
    case("roll a whole turn", lambda x: x.roll(5, 1) + 1, [f32(4, 5)], opsets=FEW),
    case("repeat", lambda x: x.repeat(2, 3), [f32(2, 3)], dynamic=BATCH),
    case("repeat with new axes", lambda x: x.repeat(2, 1, 3), [f32(2, 3)], dynamic=BATCH),
    case("repeat by a size", lambda x: x.repeat(x.size(0), 2), [f32(2, 3)], dynamic=BATCH),
    case("repeat a row", lambda x, y: y.repeat(x.size(0), 1, 1), [f32(2, 3), f32(1, 3, 4)], dynamic=BATCH),
    case("repeat zero times", lambda x: x.repeat(0, 2), [f32(2, 3)], opsets=SOME_OPSETS),
    case("repeat a scalar", lambda x: x.repeat(3), [f32()], opsets=FEW),
    case("tile with fewer counts", lambda x: torch.tile(x, (2,)), [f32(2, 3)], dynamic=BATCH, opsets=SOME_OPSETS),
    case("repeat_interleave", lambda x: x.repeat_interleave(2, 1), [f32(2, 3)], dynamic=BATCH),
    case("repeat_interleave a dynamic axis", lambda x: x.repeat_interleave(2, 0), [f32(2, 3)], dynamic=BATCH),
    case("repeat_interleave flat", lambda x: x.repeat_interleave(3), [f32(2, 3)], dynamic=BATCH, opsets=SOME_OPSETS),
    case("repeat_interleave by counts", lambda x: x.repeat_interleave(torch.tensor([1, 0, 2]), 1), [f32(2, 3)],
         dynamic=BATCH, opsets=SOME_OPSETS),
    *[
        case(f"selections of {dtype}", lambda x: [x[:, 1], x[1:, ::2], x.flip(0), x.roll(1, 1), x.repeat(2, 1),
                                                  x.repeat_interleave(2, 0)],
             [floats(2, 3).to(dtype)], opsets=(9, 10, 13, NEWEST))
        for dtype in DTYPES
    ],
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=str)
def test_case(case: Case) -> None:
    run(case)


COUNTS = [
    (case("last step", lambda x: x[:, -1], [f32(2, 3, 4)], dynamic={0: {0: "batch", 1: "length"}}), {"Gather": 1}),
    (case("whole axis", lambda x: x[:, : x.size(1)] + 1, [f32(2, 3)], dynamic={0: {0: "batch", 1: "length"}}),
     {"Add": 1}),
    (case("crop", lambda x: x[:, :, 1:-1, 1:-1], [f32(2, 3, 4, 5)], dynamic=BATCH), {"Slice": 1}),
    (case("both ways", lambda x: x.flip(0, 1), [f32(2, 3)], dynamic=BATCH), {"Slice": 1}),
    (case("shift windows", lambda x: x.roll((-2, -2), (1, 2)), [f32(2, 4, 4, 3)], dynamic=BATCH), {"Gather": 2}),
    (case("grouped heads", lambda x: x.repeat_interleave(4, 1), [f32(2, 2, 3, 4)], dynamic=BATCH), {"Gather": 1}),
    (case("rows", lambda x, y: y.repeat(x.size(0), 1, 1), [f32(2, 3), f32(1, 3, 4)], dynamic=BATCH),
     {"Shape": 1, "Concat": 1, "Expand": 1}),
]  # fmt: skip


@pytest.mark.parametrize(("case", "expected"), COUNTS, ids=lambda value: str(value) if isinstance(value, Case) else "")
def test_nodes(case: Case, expected: dict[str, int]) -> None:
    assert dict(Counter(node.op_type for node in check(case, 18).graph.node)) == expected


def test_computed_repeats() -> None:
    class Model(torch.nn.Module):
        def forward(self, x: torch.Tensor, counts: torch.Tensor) -> torch.Tensor:
            return torch.ops.aten.repeat_interleave.self_Tensor(x, counts, 0)

    program = onward.export(Model(), (f32(3, 2), ints(3, low=1, high=4)))
    for counts in ([0, 0, 0], [2, 0, 5]):
        inputs = f32(3, 2), torch.tensor(counts)
        torch.testing.assert_close(program(*inputs), Model()(*inputs))
