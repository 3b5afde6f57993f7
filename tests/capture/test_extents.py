"""The formulas for what operators do to sizes, held against the operators themselves."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest
import torch

from onward.capture.program.facts import SymDim
from onward.capture.sizes.shape_formulas import _RULES, Column, Extent, broadcast

from .tracing import traced

aten = torch.ops.aten
SIZES = (1, 2, 3, 4, 5, 7, 8, 9, 16, 33)
Call = Callable[[int, int], tuple[Any, ...]]


def zeros(*sizes: int) -> torch.Tensor:
    return torch.zeros(sizes, device="meta")


# An operator, and its arguments at two sizes.
CASES: list[tuple[Any, Call]] = [
    *((aten.slice.Tensor, lambda n, m, a=a, b=b, s=s: (zeros(m, n), 1, a, b, s)) for a, b, s in [
        (None, None, 1), (0, 3, 1), (-2, None, 1), (1, -1, 1), (-3, 2, 1), (None, None, 2), (2, 100, 3), (4, 1, 1),
    ]),
    (aten.slice.Tensor, lambda n, m: (zeros(n), 0, m, None)),
    (aten.narrow.default, lambda n, m: (zeros(n, 2), 0, 1, 2)),
    (aten.narrow.default, lambda n, m: (zeros(n, 2), 0, -2, 2)),
    (aten.select.int, lambda n, m: (zeros(n, 2, m), 1, -1)),
    (aten.select.int, lambda n, m: (zeros(m, 3, n), -2, 2)),
    (aten.topk.default, lambda n, m: (zeros(m, n), 3)),
    (aten.topk.default, lambda n, m: (zeros(n, m), m, 0)),
    *((aten.diagonal.default, lambda n, m, k=k: (zeros(n, m), k)) for k in (0, 2, -1)),
    (aten.diagonal.default, lambda n, m: (zeros(n, 3, m), 0, 1, -1)),
    (aten.unfold.default, lambda n, m: (zeros(m, n), 1, 3, 2)),
    (aten.split_with_sizes.default, lambda n, m: (zeros(n), [2, n - 2])),
    (aten.cat.default, lambda n, m: ([zeros(n, 2), zeros(m, 2)],)),
    (aten.cat.default, lambda n, m: ([zeros(n, 2), zeros(m, 2)], 1)),
    (aten.cat.default, lambda n, m: ([zeros(0), zeros(m, 2)], -1)),
    *((op, lambda n, m, lead=lead: ([zeros(*lead, n), zeros(*lead, n)],))
      for op in (aten.vstack.default, aten.hstack.default, aten.dstack.default, aten.column_stack.default)
      for lead in ((), (2,), (2, 3))),
    *((op, lambda n, m: ([zeros(n, m), zeros(n, 3)],)) for op in (aten.hstack.default, aten.column_stack.default)),
    (aten.row_stack.default, lambda n, m: ([zeros(n, 2), zeros(m, 2)],)),
    (aten.constant_pad_nd.default, lambda n, m: (zeros(n, m), [1, 2, -2, 0])),
    (aten.reshape.default, lambda n, m: (zeros(n, m, 4), [n, -1])),
    (aten.reshape.default, lambda n, m: (zeros(n, m), [-1, 2])),
    (aten.reshape.default, lambda n, m: (zeros(n, m), [m, n])),
    (aten.view.default, lambda n, m: (zeros(n, 6), [n, 2, 3])),
    (aten.flatten.using_ints, lambda n, m: (zeros(2, n, m), 1)),
    (aten.unflatten.int, lambda n, m: (zeros(2, n), 1, [2, -1])),
    (aten.repeat.default, lambda n, m: (zeros(n), [2, m])),
    (aten.tile.default, lambda n, m: (zeros(n, m), [3])),
    (aten.tile.default, lambda n, m: (zeros(n), [m, 2])),
    (aten.repeat_interleave.self_int, lambda n, m: (zeros(n, m), 3, 1)),
    (aten.repeat_interleave.self_int, lambda n, m: (zeros(n, m), 2)),
    (aten.pixel_shuffle.default, lambda n, m: (zeros(n, 8, m, 3), 2)),
    (aten.arange.default, lambda n, m: (n,)),
    (aten.arange.start, lambda n, m: (2, n)),
    (aten.arange.start_step, lambda n, m: (0, n, 3)),
    (aten.arange.start_step, lambda n, m: (n, 0, -2)),
    (aten.conv1d.default, lambda n, m: (zeros(n, 2, m), zeros(3, 2, 3), None, [2], [1], [2])),
    (aten.conv2d.default, lambda n, m: (zeros(2, n, m), zeros(3, 2, 3, 2))),
    (aten.conv2d.default, lambda n, m: (zeros(1, 2, n, m), zeros(3, 2, 3, 2), None, [1], [1])),
    (aten.max_pool2d.default, lambda n, m: (zeros(1, 2, n, m), [3, 2], [2, 2], [1, 1])),
    (aten.avg_pool1d.default, lambda n, m: (zeros(2, m, n), [2], [2])),
    (aten.avg_pool2d.default, lambda n, m: (zeros(2, n, m), [2, 2])),
]  # fmt: skip


def column(args: Any, others: list[Any]) -> Any:
    """Arguments at several sizes, as a rule is given them."""
    if isinstance(args, torch.Tensor):
        return Extent(tuple(_joined([other.shape[axis] for other in others]) for axis in range(args.dim())), args.dtype)
    if isinstance(args, (list, tuple)):
        return [column(each, [other[place] for other in others]) for place, each in enumerate(args)]
    return args if args is None or all(other == args for other in others) else tuple(others)


def _joined(values: list[int]) -> Column:
    return values[0] if len(set(values)) == 1 else tuple(values)


@pytest.mark.parametrize("place", range(len(CASES)), ids=lambda place: f"{place}-{CASES[place][0]}")
def test_a_formula_gives_what_the_operator_gives(place: int) -> None:
    op, call = CASES[place]
    pairs = [pair for pair in itertools.product(SIZES, SIZES[:6]) if _answer(op, call, pair) is not None]
    refused = [pair for pair in itertools.product(SIZES, SIZES[:6]) if pair not in pairs]
    assert len(pairs) > 3
    every = [*pairs, *refused]
    calls = [call(*pair) for pair in every]
    shapes = _RULES[op](*column(calls[0], calls))
    shapes = shapes if isinstance(shapes, list) else [shapes]
    for number, pair in enumerate(every):
        found = [tuple(size[number] if isinstance(size, tuple) else size for size in shape) for shape in shapes]
        expected = _answer(op, call, pair)
        assert found == expected if expected is not None else None in itertools.chain(*found), pair


def _answer(op: Any, call: Call, pair: tuple[int, int]) -> list[tuple[int, ...]] | None:
    try:
        result = op(*call(*pair), **({"device": "meta"} if "arange" in str(op) else {}))
    except (RuntimeError, ValueError, IndexError):
        return None
    return [tuple(each.shape) for each in ([result] if isinstance(result, torch.Tensor) else result)]


@pytest.mark.parametrize("op", [aten.chunk.default, aten.split.Tensor])
def test_parts_that_are_missing_at_some_sizes_have_none(op: Any) -> None:
    """How many there are is a branch of its own, which `tensor_queries.py` notes."""
    shapes = _RULES[op](Extent(((6, 5, 1, 2),), torch.float32), 3 if op is aten.chunk.default else 2)
    assert shapes == [((2, 2, 1, 1 if op is aten.chunk.default else 2),), *shapes[1:]]
    assert shapes[1:] == (
        [((2, 2, 0, 1),), ((2, 1, 0, 0),)] if op is aten.chunk.default else [((2, 2, 0, 0),), ((2, 1, 0, 0),)]
    )


def test_sizes_that_do_not_meet_have_no_result() -> None:
    one, other = Extent(((1, 2, 3), 4), torch.float32), Extent(((5, 2, 1), 1), torch.float32)
    assert broadcast(one, other) == ((5, 2, 3), 4)
    assert broadcast(one, Extent(((5, 3, 3), 4), torch.float32)) == ((5, None, 3), 4)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x[:, :2][:, None] * 1,
        lambda x: x[:2].mT * 1,
        lambda x: x[:2].sum(1),
        lambda x: x[:, :2].softmax(1),
    ],
)
def test_a_size_that_looks_like_a_plain_number_is_followed_to_far_sizes(function: Any) -> None:
    """`min(n, 2)` is 2 at all probes; the sizes of such a result are those of the argument everywhere."""
    program = traced(function, torch.randn(6, 5), {"x": {0: "n", 1: "m"}})
    assert all(isinstance(dim, SymDim) and max(dim.values) > 10_000 for dim in program.inputs[0].fact.shape)
