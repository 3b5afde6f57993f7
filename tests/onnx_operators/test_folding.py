"""Folding: the same answer as onnxruntime, and never a copy of a weight."""

from __future__ import annotations

from typing import Any

import onnx
import onnxruntime
import pytest
import torch
from onnx import helper, numpy_helper

from onward.lower.dtypes import to_onnx
from onward.lower.emitter import Emitter
from onward.onnx_operators import RECORDS
from onward.onnx_operators.folding import fold

floats = torch.tensor([[1.5, -2.5, 0.5], [2.0, -0.5, 3.5]])
ints = torch.tensor([[7, -7, 3], [-3, 9, 5]])
divisors = torch.tensor([[2, 2, -2], [-2, 5, 3]])
bools = torch.tensor([[True, False, True]])


def i64(*values: int) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.int64)


# op, opset, inputs, attributes
ROWS: list[tuple[str, int, list[torch.Tensor], dict[str, Any]]] = [
    ("Transpose", 13, [floats], {"perm": [1, 0]}),
    ("Transpose", 13, [floats], {}),
    ("Reshape", 13, [floats, i64(0, -1)], {}),
    ("Reshape", 14, [floats[:0], i64(0, 3, 1)], {"allowzero": 1}),
    ("Unsqueeze", 11, [floats], {"axes": [0, 3]}),
    ("Unsqueeze", 13, [floats, i64(0, -1)], {}),
    ("Squeeze", 11, [floats[None]], {"axes": [0]}),
    ("Squeeze", 13, [floats[None]], {}),
    ("Expand", 13, [bools, i64(2, 1)], {}),
    ("Slice", 9, [floats], {"starts": [1], "ends": [-1], "axes": [1]}),
    ("Slice", 13, [floats, i64(2), i64(-10), i64(1), i64(-1)], {}),
    ("Slice", 13, [floats, i64(0), i64(100), i64(-1), i64(2)], {}),
    ("Split", 13, [floats, i64(1, 2)], {"axis": 1}),
    ("Split", 11, [floats], {"axis": 1, "split": [1, 2]}),
    ("Concat", 13, [floats, floats], {"axis": -1}),
    ("Gather", 13, [floats, i64(-1, 0)], {"axis": 1}),
    ("Gather", 13, [floats, torch.tensor(1)], {"axis": 0}),
    ("Gather", 13, [floats, torch.tensor([[0, 2], [1, -3]])], {"axis": 1}),
    ("Shape", 13, [floats], {}),
    ("Shape", 15, [floats], {"start": -1}),
    ("Flatten", 13, [floats[None]], {"axis": 2}),
    ("ConstantOfShape", 13, [i64(2, 3)], {"value": torch.tensor([4], dtype=torch.int32)}),
    ("ConstantOfShape", 13, [i64(2)], {}),
    ("Range", 13, [torch.tensor(1), torch.tensor(8), torch.tensor(3)], {}),
    ("Range", 13, [torch.tensor(8), torch.tensor(1), torch.tensor(3)], {}),
    ("Cast", 13, [floats], {"to": 7}),
    ("Cast", 13, [floats], {"to": 9}),
    ("Tile", 13, [floats, i64(2, 1)], {}),
    ("Div", 13, [ints, divisors], {}),
    ("Div", 13, [floats, floats.flip(0)], {}),
    ("Mod", 13, [ints, divisors], {}),
    ("Mod", 13, [ints, divisors], {"fmod": 1}),
    ("Mod", 13, [floats, floats.flip(0)], {"fmod": 1}),
    ("Pow", 13, [ints, torch.tensor(2)], {}),
    ("Pow", 13, [floats, torch.tensor(3.0)], {}),
    ("Add", 13, [ints, torch.tensor(2)], {}),
    ("Max", 13, [ints, divisors], {}),
    ("Min", 13, [floats, floats.flip(1)], {}),
    ("Where", 13, [bools, ints, divisors], {}),
    ("Clip", 13, [floats, torch.tensor(-1.0)], {}),
    ("Round", 13, [floats], {}),
    ("ReduceSum", 11, [floats], {"axes": [1], "keepdims": 0}),
    ("ReduceSum", 13, [floats, i64(-1)], {}),
    ("ReduceMean", 13, [floats], {"keepdims": 0}),
    ("ReduceProd", 18, [ints, i64(0, 1)], {"keepdims": 1}),
    ("ReduceMax", 18, [ints, i64(0)], {"keepdims": 0}),
    ("Not", 13, [bools], {}),
    ("Equal", 13, [ints, divisors], {}),
    ("NonZero", 13, [bools], {}),
]


@pytest.mark.parametrize("row", ROWS, ids=[f"{row[0]}-{row[1]}-{i}" for i, row in enumerate(ROWS)])
def test_fold_answers_as_onnxruntime_does(row: Any) -> None:
    op, opset, inputs, attributes = row
    folded = fold(op, inputs, attributes, opset)
    assert folded is not None
    named = {
        name: numpy_helper.from_array(value.numpy()) if isinstance(value, torch.Tensor) else value
        for name, value in attributes.items()
    }
    names = [f"x{i}" for i in range(len(inputs))]
    outputs = [f"y{i}" for i in range(len(folded))]
    graph = helper.make_graph(
        [helper.make_node(op, names, outputs, **named)],
        "one",
        [
            helper.make_tensor_value_info(n, int(to_onnx(x.dtype)), list(x.shape))
            for n, x in zip(names, inputs, strict=True)
        ],
        [helper.make_empty_tensor_value_info(name) for name in outputs],
    )
    model = onnx.shape_inference.infer_shapes(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    )
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    wanted = session.run(None, dict(zip(names, [x.numpy() for x in inputs], strict=True)))
    for got, want in zip(folded, wanted, strict=True):
        torch.testing.assert_close(got, torch.from_numpy(want))


def test_every_row_is_for_an_operator_that_folds() -> None:
    assert all(RECORDS["", row[0]].can_fold for row in ROWS)


@pytest.mark.parametrize(
    ("op", "inputs", "attributes"),
    [
        ("Squeeze", [floats, i64(0)], {}),
        ("Squeeze", [floats], {"axes": [-1]}),
        ("Div", [ints, torch.tensor(0)], {}),
        ("Mod", [ints, torch.tensor(0)], {}),
        ("Pow", [ints, torch.tensor(-1)], {}),
        ("Reshape", [floats[:0], i64(0, -1)], {}),
        ("ReduceMean", [ints], {}),
        ("ReduceSum", [floats], {"noop_with_empty_axes": 1}),
        ("Acos", [floats], {}),
        ("RandomNormalLike", [floats], {}),
        ("What", [floats], {}),
    ],
)
def test_what_is_for_the_runtime_stays_a_node(op: str, inputs: list[torch.Tensor], attributes: dict[str, Any]) -> None:
    assert fold(op, inputs, attributes, 13) is None


def test_a_transposed_weight_is_a_view() -> None:
    g = Emitter(18)
    weight = torch.randn(1024, 512)
    turned = g.op.Transpose(g.const_tensor(weight, "fc.weight"), perm=[1, 0])
    assert g.value_of(turned).data_ptr() == weight.data_ptr()
    assert turned.name == "fc.weight.transpose"
    assert turned.const_value.tobytes() == weight.t().contiguous().numpy().tobytes()
    assert g.nodes == []


@pytest.mark.parametrize("op", ["Add", "Exp", "Expand", "ConstantOfShape", "Cast"])
def test_what_would_allocate_much_stays_a_node(op: str) -> None:
    g = Emitter(18)
    big = g.const_tensor(torch.zeros(600_000))
    {
        "Add": lambda: g.op.Add(big, g.const(2.0)),
        "Exp": lambda: g.op.Exp(big),
        "Expand": lambda: g.op.Expand(g.const_tensor(torch.zeros(1, 600)), g.const([1000, 600])),
        "ConstantOfShape": lambda: g.op.ConstantOfShape(g.const([1000, 1000])),
        "Cast": lambda: g.cast(big, torch.float64),
    }[op]()
    assert [node.op_type for node in g.nodes] == [op]


def test_what_shrinks_is_folded_however_big() -> None:
    g = Emitter(18)
    big = g.const_tensor(torch.ones(600_000))
    g.cast(big, torch.float16)
    assert g.value_of(g.reduce("ReduceSum", big)).item() == 600_000
    assert g.nodes == []
