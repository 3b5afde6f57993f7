"""Reading at indices: advanced indexing, gather, take, masks, nonzero."""

from __future__ import annotations

import pytest
import torch

import onward
from tests.lower.harness import SOME_OPSETS, bools, case, check, f32, floats, ints, run
from tests.opsets import NEWEST

FEW = (9, 11, 13, 18, NEWEST)
X = f32(4, 5, 6)
ROW = torch.tensor([0, 2, -1])
MASK = torch.tensor([True, True, False, True])  # another count at other sizes
GRID = torch.tensor([[1, 0, 1, 0, 0], [0, 0, 1, 0, 0], [1, 1, 1, 0, 1], [0, 0, 0, 0, 1]]).bool()
BATCH = {0: {0: "batch"}}


def at(size: int):
    """Inputs for `x[mask]` where x and the mask share a dynamic axis."""
    mask = torch.arange(size) % 3 != 1
    return [f32(size, 5, 6, seed=size), mask]


CASES = [
    case("index one axis", lambda x, i: x[i], [X, ROW]),
    case("index one axis, dynamic", lambda x, i: x[i], [X, ROW], dynamic={1: {0: "n"}}, opsets=FEW),
    case("index one axis, dynamic data", lambda x, i: x[:, i], [X, ROW], dynamic=BATCH, opsets=FEW),
    case("index second axis of two axes", lambda x, i: x[:, i], [X, ROW.view(3, 1)], opsets=FEW),
    case("index last axis", lambda x, i: x[..., i], [X, ROW.int()], opsets=FEW),
    case(
        "negative index on a dynamic axis",
        lambda x, i: x[i],
        [X, torch.tensor([-1, 0, -1])],
        dynamic=BATCH,
        opsets=FEW,
    ),
    case("index two leading axes", lambda x, i, j: x[i, j], [X, ROW, ROW]),
    case("index two leading axes, broadcast", lambda x, i, j: x[i.unsqueeze(1), j], [X, ROW, ROW], opsets=FEW),
    case("index two trailing axes", lambda x, i, j: x[:, i, j], [X, ROW, ROW], dynamic=BATCH),
    case(
        "index three axes", lambda x, i, j, k: x[i, j, k], [X, ROW, ROW, ROW], dynamic={i: {0: "n"} for i in (1, 2, 3)}
    ),
    case("index apart", lambda x, i, j: x[i, :, j], [X, ROW, ROW]),
    case("index apart, dynamic middle", lambda x, i, j: x[i, :, j], [X, ROW, ROW], dynamic={0: {1: "m"}}, opsets=FEW),
    case("index apart by two", lambda x, i, j: x[:, i, :, j], [f32(2, 3, 4, 5), ROW, ROW], dynamic=BATCH, opsets=FEW),
    case("index middle two of four", lambda x, i, j: x[:, i, j], [f32(2, 4, 5, 3), ROW, ROW.view(3, 1)], opsets=FEW),
    case("index with arange", lambda x, i: x[torch.arange(x.shape[0]), i], [X, ints(4, low=0, high=5)]),
    case(
        "index with arange, dynamic",
        lambda x, i: x[torch.arange(x.shape[0]), i],
        [X, ints(4, low=0, high=5)],
        dynamic={0: {0: "batch"}, 1: {0: "batch"}},
    ),
    case("index by constant", lambda x: x[:, torch.tensor([1, -1]), torch.tensor([0, 2])], [X], dynamic=BATCH),
    case("index by constant list", lambda x: x[:, [1, -1]], [X], dynamic=BATCH, opsets=FEW),
    case("index with None", lambda x, i: x[:, None, i], [X, ROW], opsets=FEW),
    case("index by 0-d tensors", lambda x, i, j: x[i, :, j], [X, torch.tensor(2), torch.tensor(-1)], opsets=FEW),
    case("index int64", lambda x, i, j: x[i, j], [ints(4, 5), ROW, ROW], opsets=FEW),
    case("index bool", lambda x, i, j: x[i, j], [bools(4, 5), ROW, ROW], opsets=FEW),
    case("index float16", lambda x, i, j: x[i, j], [floats(4, 5, dtype=torch.float16), ROW, ROW], opsets=FEW),
    case("mask", lambda x, m: x[m], [X, MASK]),
    case("mask, dynamic", lambda x, m: x[m] * 2, [X, MASK], dynamic={0: {0: "b"}, 1: {0: "b"}}, inputs_at=at),
    case("mask on second axis", lambda x, m: x[:, m], [f32(3, 4, 2), MASK], dynamic=BATCH, opsets=FEW),
    case("mask of two axes", lambda x, m: x[m], [X, GRID]),
    case("mask of two trailing axes", lambda x, m: x[:, m], [f32(3, 4, 5), GRID], dynamic=BATCH, opsets=FEW),
    case("mask of all axes", lambda x, m: x[m], [f32(4, 5), GRID]),
    case("mask computed", lambda x: x[x > 0.5], [X], dynamic=BATCH),
    case("mask constant", lambda x: x[:, torch.tensor([True, False, True, True, False])], [X], dynamic=BATCH),
    case("mask uint8", lambda x, m: x[m.to(torch.uint8) > 0], [X, MASK], opsets=FEW),
    case("size after a mask", lambda x: torch.ones(x[x > 0].shape[0], 2), [X], dynamic=BATCH, opsets=FEW),
    case("index_select", lambda x, i: x.index_select(1, i), [X, ints(4, low=0, high=5)]),
    case("index_select dynamic", lambda x, i: x.index_select(-1, i), [X, ROW.abs()], dynamic={**BATCH, 1: {0: "n"}}),
    case("index_select by 0-d", lambda x, i: x.index_select(0, i), [X, torch.tensor(2)], opsets=FEW),
    case("index_select int32", lambda x, i: x.index_select(0, i), [ints(4, 5), ROW.abs().int()], opsets=FEW),
    case("gather", lambda x, i: x.gather(1, i), [X, ints(4, 3, 6, low=0, high=5)]),
    case("gather smaller", lambda x, i: x.gather(2, i), [X, ints(3, 2, 7, low=0, high=6)]),
    case(
        "gather dynamic",
        lambda x, i: x.gather(1, i),
        [X, ints(4, 3, 6, low=0, high=5)],
        dynamic={0: {0: "b"}, 1: {0: "b", 1: "n"}},
    ),
    case("gather negative dim", lambda x, i: x.gather(-1, i), [X, ints(4, 5, 2, low=0, high=6)], opsets=FEW),
    case("gather 0-d", lambda x, i: x.gather(0, i), [torch.tensor(2.5), torch.tensor(0)], opsets=FEW),
    case("gather 0-d index", lambda x, i: x.gather(0, i), [f32(5), torch.tensor(3)], opsets=FEW),
    case("gather int32 data", lambda x, i: x.gather(0, i), [ints(4, 5).int(), ints(2, 5, low=0, high=4)], opsets=FEW),
    case("take", lambda x, i: x.take(i), [X, torch.tensor([[0, 7], [-1, 29]])], dynamic=BATCH, opsets=SOME_OPSETS),
    case("take_along_dim", lambda x, i: torch.take_along_dim(x, i, 1), [X, ints(4, 3, 1, low=0, high=5)]),
    case("take_along_dim flat", lambda x, i: torch.take_along_dim(x, i), [X, ints(7, low=0, high=100)], opsets=FEW),
    case("nonzero", torch.nonzero, [GRID]),
    case("nonzero of one number", lambda x: (x[0].nonzero(), torch.argwhere(x[1])), [torch.tensor([0.0, 2.0])]),
    case("nonzero dynamic", lambda x: x.nonzero(), [ints(4, 5, low=0, high=2)], dynamic={0: {0: "a", 1: "b"}}),
    case("nonzero as tuple", lambda x: x.nonzero(as_tuple=True), [GRID.float()], opsets=FEW),
    case("nonzero of tiny doubles", torch.nonzero, [GRID.double() * 1e-300], opsets=FEW),
    case("nonzero int8", torch.nonzero, [GRID.to(torch.int8)], opsets=FEW),
    case("argwhere", torch.argwhere, [GRID], opsets=FEW),
    case("where with one argument", lambda x: torch.where(x > 0), [X], opsets=FEW),
    case("masked_select", torch.masked_select, [f32(4, 5), GRID]),
    case("masked_select broadcast", lambda x, m: x.masked_select(m.unsqueeze(1)), [f32(5, 2, 4), GRID.t()[:, :4]]),
    case("masked_select dynamic", lambda x: x.masked_select(x > 0.3), [X], dynamic={0: {0: "a", 1: "b"}}, opsets=FEW),
    case("masked_select int", lambda x, m: x.masked_select(m), [ints(4, 5), GRID], opsets=FEW),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_case(case):
    run(case)


@pytest.mark.parametrize("opset", FEW)
def test_a_mask_compresses(opset):
    proto = check(case("mask", lambda x, m: x[m], [X, MASK]), opset)
    assert [node.op_type for node in proto.graph.node] == ["Compress"]


def test_bfloat16_needs_opset_13():
    class Model(torch.nn.Module):
        def forward(self, x):
            return x[:, torch.tensor([1, 0])].float()

    with pytest.raises(onward.ExportError, match=r"opset 12 \(exists from 13\)"):
        onward.export(Model(), (floats(2, 3, dtype=torch.bfloat16),), opset_version=12)


@pytest.mark.parametrize("opset", FEW)
def test_a_mask_beside_an_index_has_to_fit_it(opset: int) -> None:
    """As many places as the index has: the model works at no other number, and the graph is made for that one."""
    with pytest.warns(onward.CaptureWarning, match="the result of nonzero is depends on data"):
        program = onward.export(lambda x, m, i: x[m, i], (X, MASK, ROW), opset_version=opset)
    for mask in (MASK, MASK.flip(0)):
        torch.testing.assert_close(program(X, mask, ROW), X[mask, ROW])
