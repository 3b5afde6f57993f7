"""Tensors put together and taken apart."""

from __future__ import annotations

from collections import Counter

import pytest
import torch

from ..harness import NEWEST, SOME_OPSETS, Case, bools, case, check, f32, floats, ints, run

BATCH = {0: {0: "batch"}}
BOTH = {0: {0: "batch"}, 1: {0: "batch"}}
FEW = (9, 13, NEWEST)
DTYPES = (torch.float64, torch.float16, torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool)

CASES = [
    case("cat", lambda x, y: torch.cat([x, y], 1), [f32(2, 3), f32(2, 4)], dynamic=BOTH),
    case("cat along dynamic axes", lambda x, y: torch.cat([x, y], -2), [f32(2, 3), f32(3, 3)],
         dynamic={0: {0: "first"}, 1: {0: "second"}}),
    case("cat of mixed dtypes", lambda x, y: torch.concat([x, y]), [f32(2, 3), ints(1, 3)], opsets=FEW),
    case("cat with an empty vector", lambda x: torch.cat([torch.empty(0), x, x], 1), [f32(2, 3)], opsets=FEW),
    case("cat with a constant", lambda x: torch.cat([torch.ones(2, 1), x], 1), [f32(2, 3)], opsets=FEW),
    case("concatenate one", lambda x: torch.concatenate([x]) * 1.5, [f32(2, 3)], opsets=FEW),
    case("stack", lambda x, y: torch.stack([x, y]), [f32(2, 3), f32(2, 3)], dynamic=BOTH),
    case("stack three", lambda x, y: torch.stack([x, y, x], 1), [f32(2, 3), f32(2, 3)], dynamic=BOTH),
    case("stack three first", lambda x, y: torch.stack([x, y, x]), [f32(2, 3), f32(2, 3)], dynamic=BOTH),
    case("stack two dynamic axes", lambda x: torch.stack([x, x, x], 1), [f32(2, 3, 4)],
         dynamic={0: {0: "batch", 1: "a", 2: "b"}}, opsets=SOME_OPSETS),
    case("stack at the end", lambda x, y: torch.stack([x, y, y], -1), [f32(2, 3), f32(2, 3)], dynamic=BOTH),
    case("stack scalars", lambda x, y: torch.stack([x, y]), [f32(), f32(seed=1)], opsets=FEW),
    case("stack mixed dtypes", lambda x, y: torch.stack([x, y]), [ints(3), f32(3)], opsets=FEW),
    case("hstack, vstack, dstack", lambda x, y: [torch.hstack([x, x]), torch.vstack([x, x]), torch.dstack([x, x]),
                                                 torch.hstack([y, y]), torch.vstack([y, y]),
                                                 torch.column_stack([y, y])],
         [f32(2, 3), f32(4)], opsets=FEW),
    case("hstack of scalars", lambda x: [torch.hstack([x, x]), torch.vstack([x, x])], [f32()], opsets=FEW),
    case("split", lambda x: x.split(2, 1), [f32(2, 5)], dynamic=BATCH),
    case("split evenly", lambda x: x.split(3, -1), [f32(2, 6)], dynamic=BATCH),
    case("split whole", lambda x: [part * 2 for part in x.split(9, 1)], [f32(2, 5)], opsets=FEW),
    case("split by a size", lambda x: x.split(x.size(0) // 2), [f32(4, 3)], dynamic=BATCH, sizes=(2, 6),
         opsets=FEW, warns="number_of_pieces"),
    case("split sizes", lambda x: x.split([2, 3], -1), [f32(2, 5)], dynamic=BATCH),
    case("split sizes with an empty one", lambda x: x.split([2, 0, 3], 1), [f32(2, 5)], opsets=SOME_OPSETS),
    case("split a dynamic axis", lambda x: x.split([x.size(0) - 1, 1]), [f32(4, 3)], dynamic=BATCH, sizes=(2, 5)),
    case("unsafe_split", lambda x: torch.unsafe_split(x, 2, 1), [f32(2, 5)], opsets=FEW),
    case("chunk", lambda x: x.chunk(3, -1), [f32(2, 5)], dynamic=BATCH),
    case("chunk fewer", lambda x: x.chunk(4, 1), [f32(2, 6)], opsets=FEW),
    case("chunk one", lambda x: x.chunk(1)[0] + 1, [f32(2, 6)], opsets=FEW),
    case("chunk a dynamic axis", lambda x: x.chunk(2), [f32(4, 3)], dynamic=BATCH, sizes=(2, 5, 7),
         warns="number_of_chunks"),
    case("tensor_split", lambda x: x.tensor_split(3, 1), [f32(2, 7)], dynamic=BATCH, opsets=SOME_OPSETS),
    case("tensor_split a dynamic axis", lambda x: x.tensor_split(3), [f32(6, 2)], dynamic=BATCH, sizes=(3, 5, 7)),
    case("tensor_split at indices", lambda x: x.tensor_split((1, 4), 1), [f32(2, 6)], dynamic=BATCH,
         opsets=SOME_OPSETS),
    case("hsplit, vsplit, dsplit", lambda x: [*x.hsplit(3), *x.vsplit([1]), *x.dsplit(2)], [f32(2, 3, 4)],
         opsets=FEW),
    case("unbind", lambda x: x.unbind(1), [f32(2, 3)], dynamic=BATCH),
    case("unbind the first", lambda x: x.unbind(), [f32(3, 2)], dynamic={0: {1: "width"}}),
    case("unbind one", lambda x: x.unbind(-1), [f32(2, 1)], dynamic=BATCH, opsets=FEW),
    case("iterate", lambda x: [row * 2 for row in x], [f32(3, 2)], opsets=FEW),
    *[
        case(f"join ops of {dtype}",
             lambda x: [*torch.cat([x, x], 1).split([1, 5], 1), *torch.stack([x, x, x]).unbind()],
             [floats(2, 3).to(dtype)], opsets=(9, 11, 13, NEWEST))
        for dtype in DTYPES
    ],
    case("join ops of bfloat16", lambda x: [*torch.cat([x, x], 1).split([1, 5], 1), *torch.stack([x, x]).unbind()],
         [floats(2, 3).to(torch.bfloat16)], opsets=(13, NEWEST)),
    case("cat of bools and ints", lambda x, y: torch.cat([x, y]), [bools(2), ints(2)], opsets=FEW),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=str)
def test_case(case: Case) -> None:
    run(case)


COUNTS = [
    (case("qkv", lambda x: x.unbind(0), [f32(3, 2, 4)], dynamic={0: {1: "batch"}}), {"Gather": 3}),
    (case("unused parts", lambda x: x.unbind(0)[1], [f32(3, 2, 4)]), {"Gather": 1}),
    (case("gates", lambda x: x.chunk(4, -1), [f32(2, 8)], dynamic=BATCH), {"Split": 1}),
    (
        case("halves", lambda x: x.chunk(2), [f32(4, 3)], dynamic=BATCH, sizes=(2, 5), warns="number_of_chunks"),
        {"Split": 1},
    ),
    (case("many", lambda x: torch.stack([x] * 5, 1), [f32(2, 3)], dynamic=BATCH), {"Concat": 1, "Reshape": 1}),
]


@pytest.mark.parametrize(("case", "expected"), COUNTS, ids=lambda value: str(value) if isinstance(value, Case) else "")
def test_nodes(case: Case, expected: dict[str, int]) -> None:
    assert dict(Counter(node.op_type for node in check(case, 18).graph.node)) == expected
