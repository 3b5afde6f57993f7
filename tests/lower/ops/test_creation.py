"""Tensors made from sizes and numbers, copies and casts."""

from __future__ import annotations

import math

import pytest
import torch

import onward
from tests.opsets import NEWEST

from ..harness import SOME_OPSETS, bools, case, check, f32, floats, ints, run

FEW = (9, 11, 13, 18, NEWEST)
BATCH = {0: {0: "batch"}}
BOTH = {0: {0: "batch", 1: "width"}}
x = f32(2, 3)
i64, i32, f64, f16 = torch.int64, torch.int32, torch.float64, torch.float16
DTYPES = (torch.float32, f64, f16, i64, i32, torch.int16, torch.int8, torch.uint8, torch.bool)

CREATION = [
    case("zeros", lambda x: torch.zeros(x.shape[0], 2), [x], dynamic=BATCH),
    case("zeros of dtypes", lambda x: tuple(torch.zeros(x.shape[0], dtype=d) for d in DTYPES), [x], dynamic=BATCH),
    case("ones of dtypes", lambda x: tuple(torch.ones(x.shape[0], dtype=d) for d in DTYPES), [x], dynamic=BATCH),
    case("ones of bfloat16", lambda x: torch.ones(x.shape[0], dtype=torch.bfloat16), [x], dynamic=BATCH, since=13),
    case("ones", lambda x: torch.ones(x.shape[0], x.shape[1]), [x], dynamic=BOTH),
    case("full", lambda x: torch.full((3, x.shape[0]), 2.5), [x], dynamic=BATCH),
    case("full of an integer", lambda x: (torch.full(x.shape, 7), torch.full(x.shape, True)), [x], dynamic=BOTH),
    case("full cut to integers", lambda x: torch.full(x.shape, 2.7, dtype=i64), [x], dynamic=BATCH, opsets=FEW),
    case("full of a size", lambda x: torch.full((2, 2), x.shape[0]) * 2, [x], dynamic=BATCH),
    case("full of minus infinity", lambda x: torch.full(x.shape, -math.inf), [x], dynamic=BOTH, opsets=FEW),
    case("empty, then written", lambda x: torch.empty(x.shape[0], 2).fill_(3.0), [x], dynamic=BATCH),
    case("new_zeros", lambda x: (x.new_zeros(x.shape[0], 2), x.new_zeros((2, 2), dtype=i64) + 1), [x], dynamic=BATCH),
    case("new_ones", lambda x: (x.new_ones(x.shape), x.new_ones((x.shape[0],), dtype=torch.bool)), [x], dynamic=BOTH),
    case("new_full", lambda x: (x.new_full((2, len(x)), 1.5), x.new_full(x.shape, 3, dtype=i32)), [x], dynamic=BOTH),
    case("new_empty, then written", lambda x: x.new_empty(x.shape).fill_(2), [x], dynamic=BOTH),
    case("zeros_like", lambda x: (torch.zeros_like(x), torch.zeros_like(x, dtype=i64)), [x], dynamic=BOTH),
    case("ones_like", lambda x: (torch.ones_like(x), torch.ones_like(x, dtype=torch.bool)), [x], dynamic=BOTH),
    case("full_like", lambda x: (torch.full_like(x, 2.5), torch.full_like(x, 3, dtype=i64)), [x], dynamic=BOTH),
    case("empty_like, then written", lambda x: torch.empty_like(x).copy_(x + 1), [x], dynamic=BOTH),
    case("like, with fixed sizes", lambda x: (torch.zeros_like(x), torch.full_like(x, 4), x.new_ones(2)), [x]),
    case("fill_ and zero_", lambda x: (x.clone().fill_(2), x.clone().zero_()), [x], dynamic=BATCH),
    case("fill_ with a tensor", lambda x, v: x.clone().fill_(v), [x, torch.tensor(2.5)], dynamic=BATCH),
    case("fill_ a part", lambda x: _part(x, lambda view: view.fill_(2)), [x], opsets=FEW),
    case("scalar_tensor", lambda x: torch.scalar_tensor(x.shape[0]) + x, [x], dynamic=BATCH),
    case("tensor of a size", lambda x: x * torch.ones(()).new_full((), x.shape[1]), [x], dynamic=BOTH, opsets=FEW),
]  # fmt: skip

SEQUENCES = [
    case("arange", lambda x: torch.arange(x.shape[0]), [x], dynamic=BATCH),
    case("arange from one", lambda x: torch.arange(1, x.shape[0] + 1), [x], dynamic=BATCH),
    case("arange from a size", lambda x: torch.arange(x.shape[0], 2 * x.shape[0] + 3), [x], dynamic=BATCH),
    case("arange by two", lambda x: torch.arange(0, x.shape[0], 2), [x], dynamic=BATCH, sizes=(1, 4, 5)),
    case("arange by three from one", lambda x: torch.arange(1, 2 * x.shape[0], 3), [x], dynamic=BATCH, sizes=(2, 3, 7)),
    case("arange backwards", lambda x: torch.arange(x.shape[0], 0, -1), [x], dynamic=BATCH),
    # onnxruntime 1.31 makes a Slice of a Gather by a Range, for which negative ends count from the back
    case("arange of places, backwards", lambda x: x[torch.arange(x.shape[0] - 1, -1, -1)], [x], dynamic=BATCH),
    case("arange of places, by two", lambda x: x[torch.arange(x.shape[0] - 1, -1, -2)], [x], dynamic=BATCH,
         sizes=(1, 4, 5)),
    case("arange of places from the back", lambda x: x[torch.arange(-x.shape[0], 0)], [x], dynamic=BATCH),
    case("arange by a size", lambda x: torch.arange(0, 20, x.shape[0]), [x], dynamic=BATCH, sizes=(1, 3, 7)),
    *(case(f"arange of {dtype}", lambda x, d=dtype: torch.arange(x.shape[0], dtype=d), [x], dynamic=BATCH)
      for dtype in (torch.float32, f64, f16, i32, torch.int16, torch.int8, torch.uint8)),
    case("arange of floats", lambda x: torch.arange(0.5, x.shape[0]), [x], dynamic=BATCH, sizes=(1, 2, 9)),
    case("arange of small steps", lambda x: torch.arange(0, x.shape[0], 0.1), [x], dynamic=BATCH, sizes=(1, 3, 50)),
    case("arange with a 0-d end", lambda x, n: torch.arange(x.shape[0]) + n, [x, torch.tensor(3)], dynamic=BATCH,
         opsets=FEW),
    case("arange in use", lambda x: x + torch.arange(x.shape[1], dtype=x.dtype)[None], [x], dynamic=BOTH),
    case("linspace", lambda x: torch.linspace(-1, 2, x.shape[0]), [x], dynamic=BATCH, sizes=(1, 2, 11)),
    case("linspace of tensors", lambda a, b: torch.linspace(a, b, 5), [torch.tensor(0.5), torch.tensor(3.0)]),
    case("linspace float64", lambda x: torch.linspace(0, 1, x.shape[0], dtype=f64), [x], dynamic=BATCH, opsets=FEW),
    case("eye", lambda x: torch.eye(x.shape[0]), [x], dynamic=BATCH),
    case("eye of two sizes", lambda x: (torch.eye(x.shape[0], 4), torch.eye(3, x.shape[1])), [x], dynamic=BOTH),
    case("eye of dtypes", lambda x: tuple(torch.eye(x.shape[0], dtype=d) for d in DTYPES), [x], dynamic=BATCH),
    case("dim_arange", lambda x: torch._dim_arange(x, 0), [x], dynamic=BATCH),
]  # fmt: skip

numbers = torch.tensor([-2.7, -1.5, -0.3, 0.0, 0.3, 1.5, 2.7, 100.9])
COPIES = [
    case("float to integers", lambda x: (x.long(), x.int(), x.short(), x.to(torch.int8)), [numbers]),
    case("float to bool", lambda x: x.bool(), [numbers]),
    case("float to uint8", lambda x: x.abs().byte(), [numbers]),
    case("integers to integers", lambda x: (x.int(), x.short(), x.to(torch.int8), x.byte(), x.bool(), x.float()),
         [ints(8, low=-300, high=300)]),
    case("bool to all", lambda x: (x.long(), x.int(), x.float(), x.half(), x.double(), x.byte()), [bools(8)]),
    case("floats to floats", lambda x: (x.half(), x.double(), x.half().float()), [numbers], dynamic=BATCH),
    case("bfloat16", lambda x: x.bfloat16().float(), [numbers], since=13),
    case("bfloat16 as it is", lambda x: (x, x.cummin(0)[0], torch.cond(x.sum() > 0, torch.neg, torch.abs, (x,))),
         [floats(4, dtype=torch.bfloat16)], opsets=(16, 18, NEWEST)),
    case("bfloat16 step by step", lambda x: (x, *x.cummin(0), x.cumprod(0)), [floats(4, dtype=torch.bfloat16)],
         opsets=(13, 14, 15)),
    case("bfloat16 as input", lambda x: (x.float(), x.long(), x.bool()), [floats(4, dtype=torch.bfloat16)], since=13),
    case("to", lambda x, y: (x.to(f64), x.to("cpu"), x.to(y), x.type_as(y), x.to("cpu", f16), x.type(i64)),
         [x, ints(2, 3)], dynamic={0: {0: "batch"}, 1: {0: "batch"}}),
    case("copies", lambda x: (x.clone() + 1, x.detach() + 2, x.contiguous() + 3, x.data + 4), [x], dynamic=BATCH),
    case("copy_ broadcasts and casts", lambda x, y: torch.zeros_like(x).copy_(y), [x, ints(3)], dynamic=BATCH),
    case("copy_ of a number", lambda x: x.clone().copy_(torch.tensor(3)), [x], opsets=FEW),
    case("copy_ to integers", lambda x, y: torch.zeros_like(y).copy_(x), [x * 3, ints(2, 3)], opsets=FEW),
    case("the input itself", lambda x: x.to(torch.float32), [x], opsets=FEW),
]  # fmt: skip


def _part(x, write):
    copy = x.clone()
    write(copy[:, 1])
    return copy


@pytest.mark.parametrize("case", CREATION + SEQUENCES + COPIES, ids=str)
def test_case(case) -> None:
    run(case)


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (lambda x: torch.zeros_like(x), ["Shape", "ConstantOfShape"]),
        (lambda x: x.clone().to("cpu").contiguous() + 1, ["Add"]),
        (lambda x: x.long(), ["Cast"]),
        (lambda x: torch.arange(x.shape[0]), ["Shape", "Squeeze", "Range"]),
    ],
)
def test_no_more_nodes_than_needed(function, expected) -> None:
    proto = check(case("", function, [x], dynamic={0: {0: "batch", 1: "width"}}, opsets=SOME_OPSETS), 17)
    assert [node.op_type for node in proto.graph.node] == expected


@pytest.mark.parametrize(
    ("dtype", "opset", "first"),
    [
        (torch.float8_e4m3fn, 18, 19),
        (torch.float8_e5m2, 9, 19),
        (torch.float8_e8m0fnu, 23, 24),
        (torch.bfloat16, 12, 13),
    ],
    ids=str,
)
def test_a_cast_that_onnx_does_not_know_yet_is_refused(dtype: torch.dtype, opset: int, first: int) -> None:
    reason = rf"{dtype} to torch.float32 has no lowering for opset {opset} \(exists from {first}\)"
    with pytest.raises(onward.errors.LoweringError, match=reason):
        onward.export(lambda x: x.float(), (f32(4).to(dtype),), opset_version=opset)


@pytest.mark.parametrize("opset", [9, 11, 12])
def test_bfloat16_that_only_passes_through_needs_opset_13(opset: int) -> None:
    with pytest.raises(onward.errors.LoweringError, match=rf"Identity does not take torch.bfloat16 at opset {opset}"):
        onward.export(lambda x: x, (floats(4, dtype=torch.bfloat16),), opset_version=opset)


def test_a_branch_does_not_carry_bfloat16_before_opset_16() -> None:
    with pytest.raises(onward.errors.LoweringError, match=r"If does not take torch.bfloat16 at opset 15"):
        onward.export(
            lambda x: torch.cond(x.sum() > 0, torch.neg, torch.abs, (x,)),
            (floats(4, dtype=torch.bfloat16),),
            opset_version=15,
        )
