"""Every form that differs between opsets, at every opset, against PyTorch."""
# ruff: noqa: E501  (one row per case)

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import onward

ALL = range(9, 27)
x23 = torch.tensor([[1.5, -2.5, 0.5], [2.0, -0.5, 3.5]])
x234 = torch.arange(24, dtype=torch.float32).reshape(2, 3, 4).sin()
ints = torch.tensor([[7, -7, 3], [-3, 0, 5]])
divisors = torch.tensor([[2, 2, -2], [-2, 5, 3]])
bools = torch.tensor([True, False, True, True])
nan = torch.tensor([1.0, float("nan"), 2.0, float("inf")])
nan2 = torch.tensor([1.0, float("nan"), 3.0, float("inf")])

# name, lowering, reference, inputs, dynamic axes by input
ROWS: list[tuple[str, Callable[..., Any], Callable[..., Any], tuple[torch.Tensor, ...], dict[int, tuple[int, ...]]]] = [
    ("squeeze", lambda g, x: g.squeeze(x, [-2]), lambda x: x.squeeze(-2), (x23[:, None],), {0: (0,)}),
    ("unsqueeze", lambda g, x: g.unsqueeze(x, [-1, 1]), lambda x: x.unsqueeze(-1).unsqueeze(1), (x23,), {0: (0, 1)}),
    ("sum", lambda g, x: g.reduce("ReduceSum", x, [-1], True), lambda x: x.sum(-1, True), (x234,), {0: (0,)}),
    ("sum all", lambda g, x: g.reduce("ReduceSum", x), lambda x: x.sum(), (x234,), {0: (0,)}),
    ("mean", lambda g, x: g.reduce("ReduceMean", x, [0, 2]), lambda x: x.mean((0, 2)), (x234,), {0: (1,)}),
    ("max int", lambda g, x: g.reduce("ReduceMax", x, [1]), lambda x: x.amax(1), (ints,), {}),
    ("max bool", lambda g, x: g.reduce("ReduceMax", x, [0]), lambda x: x.any(0), (bools,), {0: (0,)}),
    ("sum 0-d", lambda g, x: g.reduce("ReduceSum", x, [-1]), lambda x: x.sum(-1), (torch.tensor(2.0),), {}),
    ("slice", lambda g, x: g.slice(x, [1], [-1], [1]), lambda x: x[:, 1:-1], (x234,), {0: (1,)}),
    ("slice steps", lambda g, x: g.slice(x, [0, 1], [9, 2**62], [1, 2], [2, 3]), lambda x: x[:, 0:9:2, 1::3], (x234,), {}),
    ("slice dynamic steps", lambda g, x: g.slice(x, [1], [2**62], [1], [2]), lambda x: x[:, 1::2], (x234,), {0: (1,)}),
    (
        "slice computed",
        lambda g, x: g.slice(x, [0], [g.dim_size(x, 1) - 1], [1]),
        lambda x: x[:, : x.shape[1] - 1],
        (x234,),
        {0: (1,)},
    ),
    (
        "slice by another's size",
        lambda g, x, y: g.slice(x, [0], [g.dims(y)[0]], [0]),
        lambda x, y: x[: y.shape[0]],
        (torch.arange(40.0), bools),
        {1: (0,)},
    ),
    ("split", lambda g, x: g.split(x, [1, 3], -1), lambda x: x.split([1, 3], -1), (x234,), {0: (0,)}),
    ("pad", lambda g, x: g.pad(x, [0, 1, 0, 2], "constant", 1.5), lambda x: torch.nn.functional.pad(x, (1, 2), value=1.5), (x23,), {0: (0,)}),
    ("pad int", lambda g, x: g.pad(x, [0, 1, 0, 2], "constant", 3), lambda x: torch.nn.functional.pad(x, (1, 2), value=3), (ints,), {}),
    ("pad reflect", lambda g, x: g.pad(x, [0, 1, 0, 2], "reflect"), lambda x: torch.nn.functional.pad(x, (1, 2), "reflect"), (x23,), {0: (0,)}),
    ("reshape", lambda g, x: g.reshape(x, [g.dims(x)[0], -1]), lambda x: x.reshape(x.shape[0], -1), (x234,), {0: (0,)}),
    ("flatten", lambda g, x: g.flatten(x, 0, 1), lambda x: x.flatten(0, 1), (x234,), {0: (0, 1)}),
    ("reshape swap", lambda g, x: g.reshape(x, [g.dims(x)[1], g.dims(x)[0], 4]), lambda x: x.reshape(x.shape[1], x.shape[0], 4), (x234,), {0: (0, 1)}),
    ("reshape empty", lambda g, x: g.reshape(x, [3, 0]), lambda x: x.reshape(3, 0), (torch.empty(0, 2),), {}),
    ("expand", lambda g, x: g.expand(x, [5, -1, 3]), lambda x: x.expand(5, -1, 3), (x23[None],), {0: (1,)}),
    (
        "expand like",
        lambda g, x, y: g.expand(x, [g.dims(y)[0], -1]),
        lambda x, y: x.expand(y.shape[0], -1),
        (x23[:1], bools),
        {1: (0,)},
    ),
    ("arange", lambda g, x: g.arange(0, g.dim_size(x, 0)), lambda x: torch.arange(x.shape[0]), (x23,), {0: (0,)}),
    (
        "arange float",
        lambda g, x: g.arange(2, g.dim_size(x, 0) * 4, 3, torch.float32),
        lambda x: torch.arange(2, x.shape[0] * 4, 3, dtype=torch.float32),
        (x23,),
        {0: (0,)},
    ),
    ("topk", lambda g, x: g.topk(x, 2, -1), lambda x: x.topk(2, -1), (x23,), {0: (0,)}),
    ("topk smallest", lambda g, x: g.topk(x, 2, 1, largest=False), lambda x: x.topk(2, 1, largest=False), (x23,), {}),
    ("clip", lambda g, x: g.clip(x, -1, 2), lambda x: x.clamp(-1, 2), (x23,), {0: (0,)}),
    ("clip int", lambda g, x: g.clip(x, -1, 2), lambda x: x.clamp(-1, 2), (ints,), {}),
    ("clip double", lambda g, x: g.clip(x, None, 2), lambda x: x.clamp(None, 2), (x23.double(),), {}),
    ("clip uint8", lambda g, x: g.clip(x, 1, 2), lambda x: x.clamp(1, 2), (torch.tensor([0, 1, 7], dtype=torch.uint8),), {}),
    ("maximum int", lambda g, x, y: g.max(x, y), torch.maximum, (ints, divisors), {}),
    ("minimum", lambda g, x, y: g.min(x, y), torch.minimum, (x23, x23.flip(0)), {}),
    ("minimum int8", lambda g, x, y: g.min(x, y), torch.minimum, (ints.to(torch.int8), divisors.to(torch.int8)), {}),
    ("maximum bool", lambda g, x, y: g.max(x, y), torch.maximum, (bools, ~bools), {}),
    ("equal float", lambda g, x, y: g.equal(x, y), torch.eq, (nan, nan2), {}),
    ("equal number", lambda g, x: g.equal(x, g.like(x, 1)), lambda x: x == 1, (nan,), {}),
    ("not equal int", lambda g, x, y: g.not_equal(x, y), torch.ne, (ints, divisors), {}),
    ("equal bool", lambda g, x, y: g.equal(x, y), torch.eq, (bools, ~bools), {}),
    ("less or equal", lambda g, x, y: g.less_or_equal(x, y), torch.le, (nan, nan2), {}),
    ("greater or equal int", lambda g, x, y: g.greater_or_equal(x, y), torch.ge, (ints, divisors), {}),
    ("where", lambda g, c, x, y: g.where(c, x, y), torch.where, (ints > 0, ints, divisors), {}),
    ("where bool", lambda g, c, x, y: g.where(c, x, y), torch.where, (bools, bools, ~bools), {}),
    ("mod int", lambda g, x, y: g.mod(x, y), torch.remainder, (ints, divisors), {}),
    ("mod float", lambda g, x, y: g.mod(x, y), torch.remainder, (ints * 0.7, divisors * 0.3), {}),
    ("fmod int", lambda g, x, y: g.fmod(x, y), torch.fmod, (ints, divisors), {}),
    ("floor divide", lambda g, x, y: g.floor_divide(x, y), lambda x, y: torch.div(x, y, rounding_mode="floor"), (ints, divisors), {}),
    ("trunc", lambda g, x: g.trunc(x), torch.trunc, (x23,), {}),
    ("round", lambda g, x: g.round(x), torch.round, (x23,), {}),
    ("pow", lambda g, x: g.pow(x, 3), lambda x: x**3, (ints,), {}),
    ("pow tensor", lambda g, x, y: g.pow(x, y), torch.pow, (x23.abs(), x23), {}),
    ("cumsum", lambda g, x: g.cumsum(x, 1), lambda x: x.cumsum(1), (x234,), {0: (1,)}),
    ("cumsum int", lambda g, x: g.cumsum(x, -1), lambda x: x.cumsum(-1), (ints,), {}),
    ("softmax", lambda g, x: g.softmax(x, 1), lambda x: x.softmax(1), (x234,), {0: (0, 1)}),
    ("log softmax", lambda g, x: g.log_softmax(x, -1), lambda x: x.log_softmax(-1), (x234,), {0: (0,)}),
    (
        "layer norm",
        lambda g, x, w, b: g.layer_norm(x, 1, w, b, 1e-5),
        lambda x, w, b: torch.nn.functional.layer_norm(x, (4,), w, b),
        (x234, x234[0, 0], x234[0, 1]),
        {0: (0,)},
    ),
    (
        "gather elements",
        lambda g, x, i: g.gather_elements(x, i, 1),
        lambda x, i: x.gather(1, i),
        (x23, torch.tensor([[2, 0], [1, 1]])),
        {},
    ),
    (
        "gather elements dynamic",
        lambda g, x, i: g.gather_elements(x, i, 1),
        lambda x, i: x.gather(1, i),
        (x234, torch.tensor([[[2, 0, 1], [1, 1, 0]]])),
        {0: (0, 1)},
    ),
    (
        "scatter elements",
        lambda g, x, i, s: g.scatter_elements(x, i, s, 1),
        lambda x, i, s: x.scatter(1, i, s),
        (x23, torch.tensor([[2, 0], [1, 0]]), torch.tensor([[9.0, 8.0], [7.0, 6.0]])),
        {},
    ),
    ("one hot", lambda g, x: g.one_hot(x, 4), lambda x: torch.nn.functional.one_hot(x, 4), (torch.tensor([1, 3, 0]),), {0: (0,)}),
    (
        "resize nearest",
        lambda g, x: g.resize(x, sizes=[*g.dims(x)[:2], 8, 6]),
        lambda x: torch.nn.functional.interpolate(x, (8, 6)),
        (x234.reshape(1, 2, 4, 3),),
        {0: (0,)},
    ),
    ("cast to bool", lambda g, x: g.cast(x, torch.bool), lambda x: x.bool(), (torch.tensor([0.0, 0.5, -2.0]),), {}),
    ("cast truncates", lambda g, x: g.cast(x, torch.int32), lambda x: x.int(), (x23,), {}),
    ("add int8", lambda g, x: g.op.Add(x, x), lambda x: x + x, (torch.tensor([100, -100, 3], dtype=torch.int8),), {}),
    ("add uint8", lambda g, x: g.op.Add(x, x), lambda x: x + x, (torch.tensor([200, 3], dtype=torch.uint8),), {}),
    ("neg int16", lambda g, x: g.op.Neg(x), torch.neg, (ints.short(),), {}),
    ("matmul int32", lambda g, x: g.op.MatMul(x, x), lambda x: x @ x, (ints.int() @ ints.int().t(),), {}),
    ("relu double", lambda g, x: g.op.Relu(x), torch.relu, (x23.double(),), {}),
    ("erf double", lambda g, x: g.op.Relu(g.op.Neg(x)), lambda x: torch.relu(-x), (x23.double(),), {}),
    ("concat negative axis", lambda g, x, y: g.op.Concat(x, y, axis=-1), lambda x, y: torch.cat([x, y], -1), (x23, x23), {}),
    ("argmax uint8", lambda g, x: g.op.ArgMax(x, axis=-1, keepdims=0), lambda x: x.argmax(-1), (torch.tensor([[1, 9, 3]], dtype=torch.uint8),), {}),
]  # fmt: skip


@pytest.mark.parametrize("opset", ALL)
@pytest.mark.parametrize("row", ROWS, ids=[row[0] for row in ROWS])
def test_bridge(row: Any, opset: int, check: Any) -> None:
    _, lowering, reference, inputs, dynamic = row
    check(opset, lowering, reference, *inputs, dynamic=dynamic)


@pytest.mark.parametrize("opset", [9, 13, 20])
@pytest.mark.parametrize(
    "function",
    [
        lambda x: x[:-1, None].reshape(-1, 3, x.shape[2], 4),
        lambda x: x[:-1].flatten(2),
        lambda x: x[1::2].reshape(1, x.shape[0] // 2, 3, x.shape[2] * 4),
        lambda x: x[1::2].reshape(x.shape[0] // 2, 3 * x.shape[2], 4),
    ],
)
def test_a_reshape_with_an_axis_that_is_empty_at_size_1(function: Any, opset: int) -> None:
    """onnxruntime infers no size beside a 0, and takes a computed 0 for the size of the input."""

    class Model(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return function(x)

    axes = {"x": {0: "batch", 2: "length"}}
    exported = onward.export(
        Model(), (torch.randn(6, 3, 2, 4),), input_names=["x"], dynamic_axes=axes, opset_version=opset
    )
    for sizes in ((1, 3, 1, 4), (1, 3, 5, 4), (4, 3, 1, 4)):
        x = torch.randn(sizes)
        torch.testing.assert_close(exported(x), function(x))
