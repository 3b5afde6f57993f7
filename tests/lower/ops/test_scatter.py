"""Writing at indices: index_put, scatter and its reductions, index_copy, index_fill, index_add."""

from __future__ import annotations

import pytest
import torch

import onward
from tests.lower.harness import SOME_OPSETS, bools, case, check, f32, floats, ints, run
from tests.opsets import NEWEST

FEW = (9, 11, 13, 16, 18, NEWEST)
X = f32(4, 5, 6)
ROW = torch.tensor([0, 2, -1])
GRID = torch.tensor([[1, 0, 1, 0, 0], [0, 0, 1, 0, 0], [1, 1, 1, 0, 1], [0, 0, 0, 0, 1]]).bool()
BATCH = {0: {0: "batch"}}
PLACES = torch.tensor([[0, 1, 2, 0], [2, 0, 0, 1]])
SOURCE = f32(2, 4, seed=3)


def put(x, indices, values, accumulate=False):
    return torch.ops.aten.index_put(x, indices, values, accumulate)


CASES = [
    case("index_put", lambda x, i, v: put(x, [i], v), [X, ROW, f32(3, 5, 6, seed=1)]),
    case(
        "index_put broadcast",
        lambda x, i, v: put(x, [i], v),
        [X, torch.tensor([0, -1, 0]), f32(6, seed=1)],
        dynamic=BATCH,
    ),
    case("index_put one number", lambda x, i: put(x, [i], torch.tensor(2.5)), [X, ROW], dynamic={1: {0: "n"}}),
    case("index_put second axis", lambda x, i, v: put(x, [None, i], v), [X, ROW, f32(4, 3, 6)], opsets=SOME_OPSETS),
    case("index_put second axis, dynamic", lambda x, i, v: put(x, [None, i], v), [X, ROW, f32(3, 1)], dynamic=BATCH),
    case("index_put two axes", lambda x, i, j, v: put(x, [i, j], v), [X, ROW, ROW, f32(3, 6)]),
    case(
        "index_put two trailing",
        lambda x, i, j, v: put(x, [None, i, j], v),
        [X, ROW, ROW, f32(4, 3)],
        dynamic={0: {0: "b"}, 3: {0: "b"}},
    ),
    case("index_put apart", lambda x, i, j, v: put(x, [i, None, j], v), [X, ROW, ROW, f32(3, 5)], opsets=SOME_OPSETS),
    case("index_put apart, fewer axes", lambda x, i, j, v: put(x, [i, None, j], v), [X, ROW, ROW, f32(5)], opsets=FEW),
    case(
        "index_put broadcast indices",
        lambda x, i, j, v: put(x, [i, j], v),
        [X, ROW.view(3, 1), ROW[:2], f32(2, 6)],
        opsets=FEW,
    ),
    case("index_put accumulate", lambda x, i, v: put(x, [i], v, True), [X, torch.tensor([1, -1, 1]), f32(3, 5, 6)]),
    case(
        "index_put accumulate two axes",
        lambda x, i, j, v: put(x, [i, j], v, True),
        [X, torch.tensor([1, -1, 1]), torch.tensor([0, 2, 0]), f32(3, 6)],
        dynamic={0: {2: "c"}, 3: {1: "c"}},
    ),
    case(
        "index_put accumulate int64",
        lambda x, i, v: put(x, [i], v, True),
        [ints(4, 5), torch.tensor([1, -1, 1]), ints(3, 5)],
        opsets=FEW,
    ),
    case("index_put mask, number", lambda x, m: put(x, [m], torch.tensor(-1.0)), [X, GRID]),
    case("index_put mask, row", lambda x, m, v: put(x, [m], v), [X, GRID, f32(6, seed=2)], opsets=FEW),
    case("index_put mask, row of one", lambda x, m, v: put(x, [m], v), [X, GRID, f32(1, 6, seed=2)], opsets=FEW),
    case(
        "index_put mask behind an axis",
        lambda x, m, v: put(x, [None, m], v),
        [f32(3, 4, 5), GRID, f32(3, 1, seed=2)],
        opsets=FEW,
    ),
    case("index_put mask accumulate", lambda x, m: put(x, [m], torch.tensor(2.0), True), [X, GRID], opsets=FEW),
    case("index_put mask, values in order", lambda x, m: put(x, [m], x[m] * 2), [X, GRID]),
    case("index_put bool", lambda x, i: put(x, [i], torch.tensor(True)), [bools(4, 5), ROW], opsets=FEW),
    case("index_put float16", lambda x, i, v: put(x, [i], v), [X.half(), ROW, f32(6).half()], opsets=FEW),
    case("index_put constant base", lambda i, v: put(torch.zeros(4, 3), [i], v), [ROW, f32(3, 3)], opsets=FEW),
    case("scatter", lambda x, i, s: x.scatter(0, i, s), [f32(3, 4), PLACES[:, :4], SOURCE], opsets=(9,)),
    case("scatter last axis", lambda x, i, s: x.scatter(1, i, s), [f32(2, 6), torch.tensor([[3, 1], [0, 5]]), SOURCE]),
    case(
        "scatter dynamic",
        lambda x, i, s: x.scatter(-1, i, s),
        [f32(2, 6), torch.tensor([[3, 1], [0, 5]]), SOURCE[:, :2]],
        dynamic={i: {0: "b"} for i in range(3)},
    ),
    case(
        "scatter number",
        lambda x, i: x.scatter(1, i, 2.5),
        [f32(2, 6), torch.tensor([[3, 1], [0, 5]])],
        dynamic={i: {0: "b"} for i in range(2)},
    ),
    case("scatter int64", lambda x, i: x.scatter(1, i, 7), [ints(2, 6), torch.tensor([[3, 1], [0, 5]])], opsets=FEW),
    case("scatter bool", lambda x, i: x.scatter(1, i, True), [bools(2, 6), torch.tensor([[3, 1], [0, 5]])], opsets=FEW),
    case(
        "scatter 0-d",
        lambda x, i, s: x.scatter(0, i, s),
        [torch.tensor(1.0), torch.tensor(0), torch.tensor(3.0)],
        opsets=FEW,
    ),
    case(
        "scatter reduce=add",
        lambda x, i, s: x.scatter(1, i, s, reduce="add"),
        [f32(2, 6), PLACES, SOURCE],
        opsets=SOME_OPSETS,
    ),
    case(
        "scatter reduce=multiply",
        lambda x, i, s: x.scatter(1, i, s, reduce="multiply"),
        [f32(2, 6), PLACES, SOURCE],
    ),
    case("scatter number reduce=add", lambda x, i: x.scatter(1, i, 2.0, reduce="add"), [f32(2, 6), PLACES], opsets=FEW),
    case("scatter_add", lambda x, i, s: x.scatter_add(1, i, s), [f32(2, 6), PLACES, SOURCE]),
    case("scatter_add first axis", lambda x, i, s: x.scatter_add(0, i, s), [f32(3, 4), PLACES, SOURCE]),
    case(
        "scatter_add smaller",
        lambda x, i, s: x.scatter_add(0, i, s),
        [f32(3, 6), PLACES, f32(3, 5)],
        opsets=SOME_OPSETS,
    ),
    case(
        "scatter_add dynamic",
        lambda x, i, s: x.scatter_add(1, i, s),
        [f32(2, 6), PLACES, SOURCE],
        dynamic={i: {0: "b"} for i in range(3)},
    ),
    case(
        "scatter_add 1-d, dynamic",
        lambda x, i, s: x.scatter_add(0, i, s),
        [f32(3), PLACES[0], SOURCE[0]],
        dynamic={1: {0: "n"}, 2: {0: "n"}},
    ),
    case(
        "scatter_add of infinities",
        lambda x, i, s: x.scatter_add(1, i, s),
        [f32(2, 6), PLACES, torch.tensor([[1, float("inf"), 2, 3], [float("-inf"), 1, 2, float("nan")]])],
        opsets=FEW,
    ),
    *[
        case(
            f"scatter_reduce {how} smaller {dtype}",
            lambda x, i, s, how=how: x.scatter_reduce(0, i, s, how),
            [ints(3, 6).to(dtype), PLACES, ints(3, 5).to(dtype)],
            opsets=FEW,
        )
        for how in ("prod", "amax", "amin")
        for dtype in (torch.float16, torch.int32, torch.uint8)
    ],
    case(
        "scatter_add of large integers",
        lambda x, i, s: x.scatter_add(1, i, s),
        [ints(2, 6) + 2**60, PLACES, ints(2, 4) - 2**59],
        opsets=FEW,
    ),
    case("scatter_add int64", lambda x, i, s: x.scatter_add(1, i, s), [ints(2, 6), PLACES, ints(2, 4)], opsets=FEW),
    case(
        "scatter_add float16",
        lambda x, i, s: x.scatter_add(1, i, s),
        [f32(2, 6).half(), PLACES, SOURCE.half()],
        opsets=FEW,
    ),
    case(
        "scatter_add float64",
        lambda x, i, s: x.scatter_add(1, i, s),
        [floats(2, 6, dtype=torch.float64), PLACES, SOURCE.double()],
        opsets=FEW,
    ),
    *[
        case(
            f"scatter_reduce {how}{'' if own else ' without self'}",
            lambda x, i, s, how=how, own=own: x.scatter_reduce(1, i, s, how, include_self=own),
            [f32(2, 6), PLACES, SOURCE],
            dynamic={i: {0: "b"} for i in range(3)},
        )
        for how in ("sum", "mean", "prod", "amax", "amin")
        for own in (True, False)
    ],
    case(
        "scatter_reduce mean int64",
        lambda x, i, s: x.scatter_reduce(1, i, s, "mean"),
        [ints(2, 6), PLACES, ints(2, 4)],
        opsets=FEW,
    ),
    case(
        "scatter_reduce amax int64",
        lambda x, i, s: x.scatter_reduce(1, i, s, "amax", include_self=False),
        [ints(2, 6), PLACES, ints(2, 4)],
        opsets=FEW,
    ),
    case("index_copy", lambda x, i, s: x.index_copy(0, i, s), [X, torch.tensor([2, 0]), f32(2, 5, 6, seed=1)]),
    case(
        "index_copy second axis",
        lambda x, i, s: x.index_copy(1, i, s),
        [X, torch.tensor([4, 0]), f32(4, 2, 6, seed=1)],
        dynamic={0: {0: "b"}, 2: {0: "b"}},
    ),
    case(
        "index_copy vector",
        lambda x, i, s: x.index_copy(0, i, s),
        [f32(5), torch.tensor([4, 0]), f32(2, seed=1)],
        opsets=FEW,
    ),
    case("index_fill", lambda x, i: x.index_fill(1, i, -1.5), [X, torch.tensor([3, -5])], dynamic=BATCH),
    case(
        "index_fill first axis",
        lambda x, i: x.index_fill(0, i, 2),
        [X, torch.tensor([3, 0])],
        dynamic={1: {0: "n"}},
        sizes=(2, 3),
    ),
    case(
        "index_fill by a tensor",
        lambda x, i, v: x.index_fill(-1, i, v),
        [X, torch.tensor([3, 0]), torch.tensor(2.5)],
        opsets=FEW,
    ),
    case("index_fill int64", lambda x, i: x.index_fill(0, i, 4), [ints(4, 5), torch.tensor([3, 0])], opsets=FEW),
    case("index_add", lambda x, i, s: x.index_add(0, i, s), [X, torch.tensor([2, 0, 2]), f32(3, 5, 6, seed=1)]),
    case(
        "index_add alpha, second axis",
        lambda x, i, s: x.index_add(1, i, s, alpha=0.5),
        [X, torch.tensor([4, 0, 4]), f32(4, 3, 6, seed=1)],
        dynamic={0: {0: "b"}, 2: {0: "b"}},
    ),
    case(
        "index_add vector",
        lambda x, i, s: x.index_add(0, i, s),
        [f32(5), torch.tensor([4, 0, 4]), f32(3, seed=1)],
        opsets=FEW,
    ),
    case(
        "index_add int64",
        lambda x, i, s: x.index_add(0, i, s),
        [ints(4, 5), torch.tensor([2, 0, 2]), ints(3, 5)],
        opsets=FEW,
    ),
    *[
        case(
            f"index_reduce mean {dtype} {include_self}",
            lambda x, i, s, both=include_self: x.index_reduce(1, i, s, "mean", include_self=both),
            [ints(3, 4, dtype=dtype), torch.tensor([0, 2, 0]), ints(3, 3, dtype=dtype, seed=1)],
            dynamic={0: {0: "n"}, 2: {0: "n"}},
            opsets=(9, 13, 18, NEWEST),
        )
        for dtype in (torch.float32, torch.int64)
        for include_self in (True, False)
    ],
    case(
        "index_reduce of one number",
        lambda x, i, s: [x[0].index_reduce(0, i, s[0], each) for each in ("mean", "prod", "amin", "amax")],
        [f32(2), torch.tensor([0]), f32(2, seed=1)],
        opsets=(9, 13, 18, NEWEST),
    ),
    case(
        "index_reduce prod",
        lambda x, i, s: x.index_reduce(0, i, s, "prod"),
        [X, torch.tensor([2, 0, 2]), f32(3, 5, 6)],
        opsets=FEW,
    ),
    case(
        "index_reduce amax",
        lambda x, i, s: x.index_reduce(1, i, s, "amax", include_self=False),
        [X, torch.tensor([2, 0, 2]), f32(4, 3, 6)],
        opsets=FEW,
    ),
    case(
        "index_put constant index",
        lambda x, v: put(x, [None, torch.tensor([3, -1, 3])], v),
        [X, f32(4, 1, 6, seed=1)],
        dynamic={0: {0: "b"}, 1: {0: "b"}},
        opsets=FEW,
    ),
    case(
        "index_put constant index, rows",
        lambda x, v: put(x, [None, torch.tensor([3, -1])], v),
        [X, f32(2, 6, seed=1)],
        dynamic=BATCH,
        opsets=FEW,
    ),
    case("index_fill constant index", lambda x: x.index_fill(1, torch.tensor([3, -5]), 2), [X], dynamic=BATCH),
    case("put", lambda x, i, s: x.put(i, s), [X, torch.tensor([[0, -1], [7, 3]]), f32(2, 2)], opsets=FEW),
    case(
        "put accumulate",
        lambda x, i, s: x.put(i, s, accumulate=True),
        [f32(4, 5), torch.tensor([0, -1, 7, 7]), f32(4)],
        opsets=FEW,
    ),
    case("masked_scatter", lambda x, m, s: x.masked_scatter(m, s), [f32(4, 5), GRID, f32(20, seed=4)]),
    case(
        "masked_scatter broadcast",
        lambda x, m, s: x.masked_scatter(m, s),
        [X, GRID.unsqueeze(-1), f32(4, 5, 6, seed=4)],
        opsets=FEW,
    ),
    case(
        "masked_scatter dynamic",
        lambda x, s: x.masked_scatter(x > 0, s),
        [X, f32(4, 5, 6, seed=4)],
        dynamic={0: {0: "b"}, 1: {0: "b"}},
    ),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_case(case):
    run(case)


def test_refusal_names_the_opset():
    class Model(torch.nn.Module):
        def forward(self, x, index, source):
            return x.scatter_reduce(0, index, source, "amax")

    with pytest.raises(onward.ExportError, match=r"aten\.scatter_reduce\.two .*opset 17 \(exists from 18\)"):
        onward.export(
            Model(),
            (f32(3, 6), PLACES, f32(3, 5)),
            input_names=["x"],
            dynamic_axes={"x": {1: "n"}},  # covered by the index in part, and nobody knows how far
            opset_version=17,
        )


def test_a_number_at_known_places_is_one_choice():
    row = case("row", lambda x: put(x, [None, torch.tensor([3, -1])], torch.tensor(2.0)), [X], dynamic=BATCH)
    assert [node.op_type for node in check(row, 18).graph.node] == ["Where"]
