"""Writes into parts of a tensor: in place in the model, functions in the graph."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
import torch

from ..harness import NEWEST, SOME_OPSETS, Case, case, check, f32, floats, run

BATCH = {0: {0: "batch"}}
BATCH_LENGTH = {0: {0: "batch", 1: "length"}}
FEW = (9, 11, 13, NEWEST)
DTYPES = (torch.float64, torch.float16, torch.int64, torch.int32, torch.int16, torch.uint8, torch.bool)
aten = torch.ops.aten


def on_copy(write: Callable[..., Any]) -> Callable[..., torch.Tensor]:
    """The written copy of the first argument."""

    def function(x: torch.Tensor, *others: torch.Tensor) -> torch.Tensor:
        copy = x.clone()
        write(copy, *others)
        return copy

    return function


def put(index: Any, value: Any = None) -> Callable[..., torch.Tensor]:
    """`x[index] = value`, the value being another input where none is given."""

    def write(x: torch.Tensor, *others: torch.Tensor) -> None:
        x[index(x) if callable(index) else index] = others[0] if others else value

    return on_copy(write)


ALL = slice(None)

CASES = [
    case("rows", put(slice(1, 3)), [f32(5, 3), f32(2, 3)]),
    case("rows of a dynamic axis", put(slice(1, 3), 7.0), [f32(5, 3)], dynamic=BATCH, sizes=(3, 6)),
    case("rows with a step that follows a size", put(lambda x: slice(1, None, x.size(0) // 3 + 1), 7.0), [f32(6, 3)],
         dynamic=BATCH, sizes=(1, 2, 3, 7, 12)),
    case("first rows", put(slice(0, 2)), [f32(5, 3), f32(2, 3)], dynamic=BATCH, sizes=(2, 6)),
    case("last rows", put(slice(-2, None)), [f32(5, 3), f32(2, 3)], dynamic=BATCH, sizes=(2, 6)),
    case("all rows", put(ALL), [f32(5, 3), f32(5, 3, seed=1)], dynamic={0: {0: "batch"}, 1: {0: "batch"}}),
    case("inner rows", put(slice(1, -1), 5.0), [f32(4, 3)], dynamic=BATCH),
    case("inner rows between signs", put(slice(-3, 4), 5.0), [f32(5, 3)], dynamic=BATCH, sizes=(1, 2, 9)),
    case("rows counted from the end", put(slice(-3, -1), 5.0), [f32(5, 3)], dynamic=BATCH, sizes=(1, 2, 3, 9)),
    case("added to rows counted from the end", on_copy(lambda x: x[-3:-1].add_(5)), [f32(5, 3)], dynamic=BATCH,
         sizes=(1, 2, 3, 9), opsets=SOME_OPSETS),
    case("inner columns", put((ALL, slice(1, -1)), 5.0), [f32(4, 5)], dynamic=BATCH_LENGTH, opsets=SOME_OPSETS),
    case("columns", put((ALL, slice(1, 3))), [f32(4, 5), f32(4, 2)], dynamic={0: {0: "batch"}, 1: {0: "batch"}}),
    case("columns, one number", put((ALL, slice(1, 3)), 2.5), [f32(4, 5)], dynamic=BATCH),
    case("columns, broadcast", on_copy(lambda x, y: x[:, 1:3].copy_(y[:, None])), [f32(4, 5), f32(4)],
         dynamic={0: {0: "batch"}, 1: {0: "batch"}}, opsets=SOME_OPSETS),
    case("every second row", put(slice(None, None, 2), 7.0), [f32(5, 3)], dynamic=BATCH),
    case("every third row between", put(slice(1, 6, 3), 7.0), [f32(9, 3)], dynamic=BATCH, sizes=(6, 7)),
    case("every second column", put((ALL, slice(0, None, 2))), [f32(2, 5), f32(2, 3)], opsets=SOME_OPSETS),
    case("every second column, one number", put((ALL, slice(1, None, 2)), 0.0), [f32(2, 5)], dynamic=BATCH),
    case("rows from a size", put(lambda x: slice(x.size(0) // 2, None), 0.0), [f32(4, 3)], dynamic=BATCH),
    case("rows up to a size", put(lambda x: slice(None, x.size(0) // 2), 0.0), [f32(4, 3)], dynamic=BATCH,
         sizes=(2, 5)),
    case("rows between sizes", put(lambda x: slice(x.size(0) // 4, x.size(0) // 2), 0.0), [f32(4, 3)], dynamic=BATCH,
         sizes=(2, 5)),
    case("a cache", on_copy(lambda x, y: x[:, 1 : 1 + y.size(1)].copy_(y)), [f32(2, 9), f32(2, 3)],
         dynamic={1: {1: "length"}}),
    case("nothing", put(slice(3, 1), 7.0), [f32(5, 3)], opsets=FEW),
    case("one row", put(1), [f32(4, 3), f32(3)], dynamic={}),
    case("one row of a dynamic axis", put(0), [f32(4, 3), f32(3)], dynamic=BATCH),
    case("the last row of a dynamic axis", put(-1), [f32(4, 3), f32(3)], dynamic=BATCH),
    case("one column", put((ALL, 1)), [f32(4, 3), f32(4)], dynamic={0: {0: "batch"}, 1: {0: "batch"}}),
    case("the last column", put((ALL, -1), 9.0), [f32(4, 3)], dynamic=BATCH),
    case("the last column of a dynamic axis", put((ALL, -1)), [f32(4, 3), f32(4)],
         dynamic={0: {0: "batch", 1: "length"}, 1: {0: "batch"}}),
    case("the only column", put((ALL, 0)), [f32(4, 1), f32(4)], opsets=FEW),
    case("a column broadcast along rows", on_copy(lambda x, y: x[:, 1].copy_(y)), [f32(2, 3, 4), f32(4)],
         dynamic=BATCH, opsets=SOME_OPSETS),
    case("a row by a size", on_copy(lambda x: x.select(0, x.size(0) // 2).fill_(3)), [f32(4, 3)], dynamic=BATCH),
    case("a column by a size", on_copy(lambda x: x.select(1, -(x.size(1) // 2)).fill_(3)), [f32(4, 4)],
         dynamic={0: {1: "length"}}, sizes=(2, 5)),
    case("one element", put((1, 2), 9.0), [f32(4, 3)], opsets=SOME_OPSETS),
    case("through a chain of views", on_copy(lambda x: x.t()[1:2].mul_(2)), [f32(4, 3)], dynamic=BATCH),
    case("through a deep chain", on_copy(lambda x: x[1:].transpose(1, 2)[:, 0, ::2].add_(1)), [f32(3, 4, 5)],
         opsets=SOME_OPSETS),
    case("writes in a loop", on_copy(lambda x: [x[:, i].mul_(i) for i in range(3)]), [f32(4, 3)], dynamic=BATCH,
         opsets=SOME_OPSETS),
    case("diagonal", on_copy(lambda x: x.diagonal().fill_(3.0)), [f32(4, 5)], dynamic=BATCH),
    case("diagonals of a batch", on_copy(lambda x: x.diagonal(1, 1, 2).mul_(2)), [f32(2, 3, 5)], dynamic=BATCH),
    case("diagonal below", on_copy(lambda x: x.diagonal(-1).mul_(2)), [f32(5, 3)], opsets=SOME_OPSETS),
    case("diagonal_scatter", lambda x, y: torch.diagonal_scatter(x, y, -1), [f32(3, 4), f32(2)], opsets=SOME_OPSETS),
    case("slice_scatter", lambda x, y: torch.slice_scatter(x, y, 1, 1, 4, 2), [f32(2, 5), f32(2, 2)],
         dynamic={0: {0: "batch"}, 1: {0: "batch"}}),
    case("select_scatter", lambda x, y: torch.select_scatter(x, y, -1, -2), [f32(2, 5), f32(2)],
         dynamic={0: {0: "batch"}, 1: {0: "batch"}}),
    case("as_strided_scatter", lambda x, y: torch.as_strided_scatter(x, y, (2, 2), (3, 1), 1), [f32(3, 3), f32(2, 2)],
         opsets=SOME_OPSETS),
    *[
        case(f"writes into {dtype}", lambda x: [put((ALL, slice(1, 3)), 1)(x), put((ALL, 1), 1)(x), put(0, 1)(x),
                                                put((ALL, slice(0, None, 2)), 1)(x), put(slice(1, None))(x, x[:1])],
             [floats(2, 4).to(dtype)], opsets=(9, 11, NEWEST))
        for dtype in DTYPES
    ],
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=str)
def test_case(case: Case) -> None:
    run(case)


COUNTS = [
    (case("number into columns", put((ALL, slice(1, 3)), 2.5), [f32(4, 5)], dynamic=BATCH), {"Where": 1}),
    (case("number into a column", put((ALL, 1), 2.5), [f32(4, 5)], dynamic=BATCH), {"Where": 1}),
    (case("column", put((ALL, 1)), [f32(4, 3), f32(4)], dynamic={0: {0: "batch"}, 1: {0: "batch"}}),
     {"Unsqueeze": 1, "Where": 1}),
    (case("row", put(1), [f32(4, 3), f32(3)]), {"ScatterND": 1}),
    (case("first columns", put((ALL, slice(0, 2))), [f32(4, 5), f32(4, 2)],
          dynamic={0: {0: "batch"}, 1: {0: "batch"}}), {"Slice": 1, "Concat": 1}),
    (case("everything", lambda x, y: put(ALL)(x, y) + 1, [f32(5, 3), f32(5, 3)],
          dynamic={0: {0: "batch"}, 1: {0: "batch"}}), {"Add": 1}),
]  # fmt: skip


@pytest.mark.parametrize(("case", "expected"), COUNTS, ids=lambda value: str(value) if isinstance(value, Case) else "")
def test_nodes(case: Case, expected: dict[str, int]) -> None:
    assert dict(Counter(node.op_type for node in check(case, 18).graph.node)) == expected
