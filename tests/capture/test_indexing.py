"""`x[i]` and `x[i] = v` end to end: every kind of index, at other values and other sizes."""

from __future__ import annotations

import pytest
import torch

from tests.lower.harness import case, f32, ints, run
from tests.opsets import NEWEST

OPSETS = (9, 11, 18, NEWEST)
X = f32(4, 5, 6)
ONE = torch.tensor(1)
LAST = torch.tensor(-1)
MASK = torch.tensor([True, True, False, True])
BATCH = {0: {0: "batch"}}
BOTH = {0: {0: "batch"}, 1: {0: "batch"}}
INDEX = torch.tensor([2, 0, -1])


def read(name, function, *args, **options):
    return case(f"read {name}", function, [X, *args], opsets=OPSETS, **options)


def write(name, assign, *args, **options):
    def function(x, *rest):
        y = x * 1
        assign(y, *rest)
        return y, x

    return case(f"write {name}", function, [X, *args], opsets=OPSETS, **options)


def set_(index, value):
    """An assignment: `index` and `value` are functions of what follows x."""

    def assign(y, *rest):
        y[index(*rest)] = value(*rest)

    return assign


class Table(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("table", f32(7, 3, seed=5))

    def forward(self, i):
        return self.table[i] * 2


def into_zeros(x, i):
    y = torch.zeros(4, 6)
    y[i] = x[0, 0]
    y[i, 2] = 5.0
    return y


def double_where(x, y, mask):
    x = x * 1
    x[mask] = x[mask] * 2 + y[mask]
    return x


def double_where_computed(x, y):
    x = x * 1
    x[y > 0] = x[y > 0] * 2 + y[y > 0]
    return x


def through_view(x, i, v):
    y = x * 1
    y[:, 1:4][:, i] = v
    return y


def loop_over_rows(x, order):
    out = torch.zeros_like(x)
    for step in range(3):
        out[order[step]] = x[step] + out[order[step] - 1]
    return out


def add_at(x, i):
    x = x * 1
    x[i] += 1
    return x


def put_rows(cache, rows, places):
    cache = cache * 1
    cache[:, :, places] = rows
    return cache


CASES = [
    read("a number", lambda x, i: x[i], ONE),
    read("a number from the end", lambda x, i: x[i], LAST, dynamic=BATCH),
    read("a number, second axis", lambda x, i: x[:, i], ONE, dynamic=BATCH),
    read("a number, last axis", lambda x, i: x[..., i], LAST, dynamic=BATCH),
    read("two numbers", lambda x, i, j: x[i, :, j], ONE, LAST, dynamic={0: {1: "n"}}),
    read("a number and a slice", lambda x, i: x[i, 1:, ::2], ONE),
    read("a number and an int", lambda x, i: x[0, i, 2], ONE),
    read("a number and None", lambda x, i: x[None, i, :, None], ONE),
    read("a number and an index", lambda x, i, j: x[i, :, j], ONE, INDEX),
    read("a number and a mask", lambda x, m, i: x[m, :, i], MASK, ONE),
    read("a computed number", lambda x: x[x[:, 0, 0].argmax()], dynamic=BATCH),
    read("a number of a vector", lambda x, i: x[i[1]], INDEX),
    case("read a buffer by number", Table(), [torch.tensor(3)], opsets=OPSETS),
    case("read a buffer by numbers", Table(), [torch.tensor([3, 0, -1])], dynamic={0: {0: "n"}}, opsets=OPSETS),
    read("an index between slices", lambda x, i: x[1:, i, :3], INDEX, dynamic={1: {0: "n"}}),
    read("two indices apart", lambda x, i: x[i, :, i], INDEX, dynamic={0: {1: "m"}, 1: {0: "n"}}, sizes=(1, 3)),
    read("a mask", lambda x, m: x[m], MASK, dynamic=BOTH),
    read("a mask, summed", lambda x, m: x[m].sum(0), MASK, dynamic=BOTH),
    read("two masks alike", lambda x, m: x[m] + (x * 2)[m], MASK, dynamic=BOTH),
    read("a mask and its size", lambda x, m: x[m].reshape(x[m].shape[0], -1), MASK, dynamic=BOTH),
    read("a mask of two axes", lambda x: x[x[..., 0] > 0], dynamic=BATCH),
    write("a number", set_(lambda i: i, lambda i: 3.0), ONE, dynamic={0: {1: "n"}}),
    write("a number from the end", set_(lambda i: i, lambda i: 3.0), LAST, dynamic=BATCH),
    write("a row at a number", set_(lambda i, v: i, lambda i, v: v), ONE, f32(5, 6), dynamic=BATCH, sizes=(2, 5)),
    write("a row at a number, broadcast", set_(lambda i, v: i, lambda i, v: v), ONE, f32(1, 1, 6)),
    write("a column at a number", set_(lambda i, v: (slice(None), i), lambda i, v: v), ONE, f32(6), dynamic=BATCH),
    write("an element at two numbers", set_(lambda i, j: (i, 2, j), lambda i, j: -1), ONE, LAST),
    write("a slice at a number", set_(lambda i, v: (i, slice(1, 3)), lambda i, v: v), ONE, f32(2, 6)),
    write("an index at a number", set_(lambda i, j: (i, j), lambda i, j: 2.5), ONE, INDEX),
    write("integers into floats", set_(lambda i, v: i, lambda i, v: v), ONE, ints(5, 6)),
    write("an index", set_(lambda i: i, lambda i: 3.0), INDEX, dynamic={1: {0: "n"}}),
    write("an index, second axis", set_(lambda i: (slice(None), i), lambda i: 3.0), INDEX, dynamic=BATCH),
    write("rows at an index", set_(lambda i, v: (slice(None), i), lambda i, v: v), INDEX, f32(3, 1), dynamic=BATCH),
    write("at two indices apart", set_(lambda i, v: (i, slice(None), i), lambda i, v: v), INDEX, f32(3, 5)),
    write("a mask", set_(lambda m: m, lambda m: -1.0), MASK, dynamic=BOTH),
    write("a mask behind a slice", set_(lambda m: (slice(None), slice(0, 4), 0), lambda m: m), MASK),
    write(
        "a mask of an axis", set_(lambda m: (slice(None, 4), m), lambda m: 9.0), torch.tensor([1, 0, 0, 1, 1]).bool()
    ),
    write("dynamic rows", set_(lambda v: slice(None), lambda v: v), f32(4, 1, 6), dynamic=BOTH),
    write("dynamic rows of a slice", set_(lambda v: (Ellipsis, 0), lambda v: v), f32(4, 5), dynamic=BOTH),
    write("dynamic rows at None", set_(lambda v: (None, slice(None), 2), lambda v: v), f32(4, 6), dynamic=BOTH),
    write(
        "dynamic rows, an axis more",
        set_(lambda v: slice(None), lambda v: v),
        f32(1, 4, 5, 6),
        dynamic={0: {0: "b"}, 1: {1: "b"}},
    ),
    write("dynamic rows at an index", set_(lambda v: (slice(None), [3, 0]), lambda v: v), f32(4, 2, 6), dynamic=BOTH),
    write(
        "dynamic rows at a number", set_(lambda v, i: (slice(None), i), lambda v, i: v), f32(4, 6), ONE, dynamic=BOTH
    ),
    write(
        "dynamic rows at a number of a slice",
        set_(lambda v, i: (slice(None), i, slice(0, 2)), lambda v, i: v),
        f32(4, 2),
        ONE,
        dynamic=BOTH,
    ),
    write(
        "dynamic count at an index",
        set_(lambda i, v: i, lambda i, v: v),
        INDEX,
        f32(3, 5, 6),
        dynamic={1: {0: "n"}, 2: {0: "n"}},
        sizes=(1, 2),
    ),
    write(
        "dynamic count at an index behind",
        set_(lambda i, v: (slice(None), i), lambda i, v: v),
        INDEX,
        f32(4, 3, 6),
        dynamic={0: {0: "b"}, 1: {0: "n"}, 2: {0: "b", 1: "n"}},
        sizes=(1, 2),
    ),
    case("add at an index", add_at, [X, torch.tensor([2, 0])], dynamic={1: {0: "n"}}, sizes=(1, 2), opsets=OPSETS),
    case("add at a mask", add_at, [X, MASK], dynamic=BOTH, opsets=OPSETS),
    case("add at a number", add_at, [X, LAST], dynamic=BATCH, opsets=OPSETS),
    case(
        "batch of one",
        put_rows,
        [f32(1, 3, 8, 4), f32(1, 3, 2, 4), torch.tensor([3, 4])],
        dynamic={0: {0: "b"}, 1: {0: "b"}},
        opsets=OPSETS,
    ),
    case("write a buffer of zeros", into_zeros, [X, ONE], opsets=OPSETS),
    case(
        "write what a mask reads",
        double_where,
        [X, f32(4, 5, 6, seed=2), MASK],
        dynamic={i: {0: "b"} for i in range(3)},
        opsets=OPSETS,
    ),
    case(
        "write what a computed mask reads",
        double_where_computed,
        [X, f32(4, 5, 6, seed=2)],
        dynamic={i: {0: "b"} for i in range(2)},
        opsets=OPSETS,
    ),
    case("write through a view", through_view, [X, torch.tensor([0, -1]), f32(6)], dynamic=BATCH, opsets=OPSETS),
    case("write in a loop", loop_over_rows, [X, torch.tensor([2, 0, 1])], opsets=OPSETS),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_case(case):
    run(case)
