"""The emitter and the walk: sharing, identities, sizes, names, types, errors."""

from __future__ import annotations

import math
import operator
from typing import Any

import onnx
import onnx_ir as ir
import pytest
import torch

from onward.capture.program.facts import Constant, SizeFact, SymDim, TensorFact
from onward.errors import LoweringError, UnsupportedOpError
from onward.lower.emitter import Emitter
from onward.lower.registry import Registry
from onward.lower.sizes import SizeValue
from onward.lower.walk import lower_program
from tests.opsets import NEWEST

aten = torch.ops.aten
f32 = torch.float32
batch, seq = SymDim((2, 5, 11), "batch"), SymDim((3, 7, 13), "seq")
OPSETS = (9, 11, 13, 18, NEWEST)

rows = Registry()


def lowering(*ops: Any) -> Any:
    def decorate(function: Any) -> Any:
        for op in ops:
            rows.register(op, function)
        return function

    return decorate


@lowering(aten.add.Tensor, aten.add.Scalar)
def add(g: Emitter, x: ir.Value, y: Any, alpha: Any = 1) -> ir.Value:
    x, y = g.promote(x, y)
    return g.op.Add(x, g.op.Mul(y, g.like(y, alpha)))


@lowering(aten.reshape.default)
def reshape(g: Emitter, x: ir.Value, shape: list[Any]) -> ir.Value:
    return g.reshape(x, shape)


@lowering(aten.linear.default)
def linear(g: Emitter, x: ir.Value, weight: ir.Value, bias: ir.Value | None) -> ir.Value:
    y = g.op.MatMul(x, g.op.Transpose(weight, perm=[1, 0]))
    return y if bias is None else g.op.Add(y, bias)


@lowering(aten.softmax.int)
def softmax(g: Emitter, x: ir.Value, dim: int, dtype: torch.dtype | None) -> ir.Value:
    return g.softmax(x, dim)


@lowering(aten.embedding.default)
def embedding(g: Emitter, weight: ir.Value, indices: ir.Value) -> ir.Value:
    return g.op.Gather(weight, indices, axis=0)


@lowering(aten.sin.default)
def sin(g: Emitter, x: ir.Value) -> ir.Value:
    raise g.unsupported("angles")


@lowering(aten.cos.default)
def cos(g: Emitter, x: ir.Value) -> ir.Value:
    return g.op.Cos(x, 3)


@pytest.fixture
def g() -> Emitter:
    return Emitter(18)


def call(graph: Any, target: Any, *args: Any, fact: Any) -> Any:
    node = graph.call_function(target, args)
    node.meta["val"] = fact
    return node


# A program, end to end


@pytest.mark.parametrize("opset", OPSETS)
def test_a_small_program(opset: int, program: Any, run: Any) -> None:
    weight, bias = torch.randn(6, 4), torch.randn(6)

    def nodes(graph: Any, inputs: list[Any]) -> Any:
        x = inputs[0]
        n = call(graph, aten.sym_size.int, x, 0, fact=SizeFact(batch.values))
        s = call(graph, aten.sym_size.int, x, 1, fact=SizeFact(seq.values))
        y = call(
            graph,
            aten.linear.default,
            x,
            graph.get_attr("w"),
            graph.get_attr("b"),
            fact=TensorFact(f32, (batch, seq, 6)),
        )
        y = call(graph, aten.add.Scalar, y, 2, fact=TensorFact(f32, (batch, seq, 6)))
        y = call(graph, aten.softmax.int, y, 1, fact=TensorFact(f32, (batch, seq, 6)))
        split = call(graph, aten.reshape.default, y, [n, s, 2, 3], fact=TensorFact(f32, (batch, seq, 2, 3)))
        ns = call(graph, operator.mul, n, s, fact=SizeFact((6, 35, 143)))
        flat = call(graph, aten.reshape.default, y, [ns, 6], fact=TensorFact(f32, (SymDim((6, 35, 143), "both"), 6)))
        return split, flat, split, x

    outs = [TensorFact(f32, (batch, seq, 2, 3)), TensorFact(f32, (SymDim((6, 35, 143), "both"), 6))]
    outs += [outs[0], TensorFact(f32, (batch, seq, 4))]
    constants = {"w": Constant("fc.weight", weight, "parameter"), "b": Constant("fc.bias", bias, "parameter")}
    made = program(nodes, [TensorFact(f32, (batch, seq, 4))], outs, constants)
    model = lower_program(made, opset, registry=rows)
    for shape in ((2, 3, 4), (1, 9, 4)):
        x = torch.randn(shape)
        want = (torch.nn.functional.linear(x, weight, bias) + 2).softmax(1)
        split, flat, again, same = run(model, [x])
        torch.testing.assert_close(split, want.reshape(*shape[:2], 2, 3))
        torch.testing.assert_close(flat, want.reshape(-1, 6))
        torch.testing.assert_close(again, split)
        torch.testing.assert_close(same, x)

    ops = [node.op_type for node in model.graph]
    assert "Shape" not in ops and "Concat" not in ops
    assert ops.count("Identity") == 2
    assert [value.name for value in model.graph.outputs] == ["y0", "y1", "y2", "y3"]
    assert list(model.graph.outputs[0].shape) == ["batch", "seq", 2, 3]
    assert {"fc.weight.transpose", "fc.bias"} <= set(model.graph.initializers)
    matmul = model.graph.node(0)
    assert matmul.name == "block.0.linear.MatMul"
    assert matmul.metadata_props == {
        "onward.aten": "aten.linear.default",
        "onward.scope": "block.0",
        "onward.source": "model.py:42",
    }
    assert model.graph.opset_imports == {"": opset}
    assert model.ir_version == onnx.helper.find_min_ir_version_for([onnx.helper.make_opsetid("", opset)])


def test_a_weight_used_both_ways_is_stored_once(program: Any, run: Any) -> None:
    table = torch.randn(1024, 300)

    def nodes(graph: Any, inputs: list[Any]) -> Any:
        weight = graph.get_attr("w")
        x = call(graph, aten.embedding.default, weight, inputs[0], fact=TensorFact(f32, (batch, 300)))
        return call(graph, aten.linear.default, x, weight, fact=TensorFact(f32, (batch, 1024)))

    made = program(
        nodes,
        [TensorFact(torch.int64, (batch,))],
        [TensorFact(f32, (batch, 1024))],
        {"w": Constant("wte.weight", table, "parameter")},
    )
    model = lower_program(made, 18, registry=rows)
    assert [node.op_type for node in model.graph] == ["Transpose", "Gather", "MatMul"]
    assert list(model.graph.initializers) == ["wte.weight"]
    places = torch.tensor([3, 1, 7])
    torch.testing.assert_close(run(model, [places])[0], table[places] @ table.t(), rtol=1e-4, atol=1e-4)


def test_all_missing_lowerings_are_named_at_once(program: Any) -> None:
    table = rows.child()
    table.register(aten.det.default, lambda g, x: g.op.Det(x), since=11)

    def nodes(graph: Any, inputs: list[Any]) -> Any:
        fact = TensorFact(f32, (2, 2))
        x = call(graph, aten.erfinv.default, inputs[0], fact=fact)
        x = call(graph, aten.erfinv.default, x, fact=fact)
        return call(graph, aten.det.default, x, fact=TensorFact(f32, ()))

    made = program(nodes, [TensorFact(f32, (2, 2))], [TensorFact(f32, ())])
    with pytest.raises(UnsupportedOpError) as caught:
        lower_program(made, 9, registry=table)
    text = str(caught.value)
    assert "2 operators have no lowering for opset 9" in text
    assert "aten.erfinv.default: 2 calls, first at model.py:42 in block.0" in text
    assert "aten.det.default: 1 call (exists from 11)" in text
    assert text.endswith(
        "  register them:\n"
        '    onward.register_custom_op_symbolic("aten::erfinv", function, 9)\n'
        '    onward.register_custom_op_symbolic("aten::det", function, 9)'
    )


def test_a_single_missing_lowering_reads_as_one_sentence(program: Any) -> None:
    table = Registry()
    table.register(aten.det.default, lambda g, x: g.op.Det(x), since=11)
    out = TensorFact(f32, ())
    made = program(
        lambda graph, inputs: call(graph, aten.det.default, inputs[0], fact=out), [TensorFact(f32, (2, 2))], [out]
    )
    with pytest.raises(UnsupportedOpError) as caught:
        lower_program(made, 9, registry=table)
    assert str(caught.value) == (
        "aten.det.default has no lowering for opset 9 (exists from 11)\n"
        "  at model.py:42 in block.0\n"
        '  try opset_version=11, or register one: onward.register_custom_op_symbolic("aten::det", function, 9)'
    )


def test_a_result_that_a_lowering_leaves_out_is_an_error_only_if_read(program: Any) -> None:
    table = Registry()
    table.register(aten.max.dim, lambda g, x, dim, keepdim: [g.reduce("ReduceMax", x, [dim], keepdim)])
    facts = (TensorFact(f32, (batch,)), TensorFact(torch.int64, (batch,)))

    def nodes(graph: Any, inputs: list[Any], read: int) -> Any:
        both = call(graph, aten.max.dim, inputs[0], 1, False, fact=facts)
        items = [call(graph, operator.getitem, both, i, fact=fact) for i, fact in enumerate(facts)]
        return items[read]

    source = [TensorFact(f32, (batch, 4))]
    lower_program(program(lambda a, b: nodes(a, b, 0), source, facts[:1]), 18, registry=table)
    with pytest.raises(LoweringError, match="aten.max.dim is not supported this way: its result 1 is not computed"):
        lower_program(program(lambda a, b: nodes(a, b, 1), source, facts[1:]), 18, registry=table)


def test_what_onnxruntime_has_no_kernel_for_is_known() -> None:
    assert Emitter(21).can_run("RandomNormal") and not Emitter(22).can_run("RandomNormal")
    assert Emitter(22).can_run("GroupNormalization") and not Emitter(26).can_run("Swish")
    assert not Emitter(9).can_run("Gelu") and Emitter(20).can_run("Gelu")


@pytest.mark.parametrize(
    ("op", "text"),
    [
        (aten.sin.default, "aten.sin.default is not supported this way: angles\n  at model.py:42 in block.0"),
        (aten.cos.default, "the lowering of aten.cos.default failed: TypeError: Cos: input 1 is a int"),
    ],
)
def test_errors_say_where(op: Any, text: str, program: Any) -> None:
    fact = TensorFact(f32, (2,))
    made = program(lambda graph, inputs: call(graph, op, inputs[0], fact=fact), [fact], [fact])
    with pytest.raises(LoweringError) as caught:
        lower_program(made, 18, registry=rows)
    assert text in str(caught.value)
    assert (caught.value.module, caught.value.source) == ("block.0", "model.py:42")


def test_a_lowering_that_contradicts_capture_is_caught(program: Any) -> None:
    table = Registry()
    table.register(aten.relu.default, lambda g, x: g.unsqueeze(x, [0]))
    fact = TensorFact(f32, (batch, 2))
    made = program(lambda graph, inputs: call(graph, aten.relu.default, inputs[0], fact=fact), [fact], [fact])
    with pytest.raises(LoweringError, match=r"gives a tensor of shape \[1, batch, 2\], PyTorch one of \[batch, 2\]"):
        lower_program(made, 18, registry=table)


# Sharing and identities


def test_equal_nodes_are_shared_and_random_ones_are_not(g: Emitter) -> None:
    x = g.input("x", f32, (batch, 3))
    assert g.op.Relu(x) is g.op.Relu(x)
    assert g.op.Softmax(x, axis=1) is not g.op.Softmax(x, axis=0)
    assert g.op.LeakyRelu(x, alpha=0.0) is not g.op.LeakyRelu(x, alpha=-0.0)
    assert g.op.RandomNormalLike(x) is not g.op.RandomNormalLike(x)


def test_small_constants_are_shared_by_value(g: Emitter) -> None:
    assert g.const([1, 2]) is g.const_tensor(torch.tensor([1, 2]))
    assert g.const(1) is not g.const(1.0)
    assert g.const(1) is not g.const([1])
    assert g.const(0.0) is not g.const(-0.0)
    assert g.const([0, 0, 12, 64]).name == "i64_0_0_12_64"


def test_identities_vanish(g: Emitter) -> None:
    x = g.input("x", f32, (batch, 3, 4))
    assert g.cast(x, f32) is x
    assert g.op.Transpose(x, perm=[0, 1, 2]) is x
    assert g.op.Transpose(g.op.Transpose(x, perm=[2, 0, 1]), perm=[1, 2, 0]) is x
    assert g.squeeze(g.unsqueeze(x, [1]), [1]) is x
    assert g.squeeze(g.unsqueeze(x, [0]), [0]) is x
    assert g.flatten(g.unsqueeze(x, [1]), 0, 1) is x
    assert g.op.Add(x, g.const(0.0)) is x
    assert g.op.Mul(g.const([1.0]), x) is x
    assert g.op.Div(x, g.const(1.0)) is x
    assert g.op.Concat(x, axis=0) is x
    assert g.reshape(x, [batch, -1, 4]) is x
    assert g.expand(x, [-1, 3, 4]) is x
    assert g.slice(x, [0], [2**62], [1]) is x
    assert g.op.Sub(g.const(0.0), x) is not x
    wide = g.op.Add(x, g.const_tensor(torch.zeros(1, 1, 1, 1)))
    assert wide is not x and g.rank(wide) == 4


def test_a_cast_there_and_back(g: Emitter) -> None:
    half, ints = g.input("h", torch.float16, (2,)), g.input("i", torch.int64, (2,))
    assert g.cast(g.cast(half, f32), torch.float16) is half
    assert g.cast(g.cast(ints, f32), torch.int64) is not ints  # 2**53 + 1 would not survive


def test_wrong_calls_are_named(g: Emitter) -> None:
    x, i = g.input("x", f32, (2,)), g.input("i", torch.int64, (2,))
    with pytest.raises(TypeError, match=r"Add: input 1 is a int \(2\), not a Value; use g.const"):
        g.op.Add(x, 2)
    with pytest.raises(TypeError, match=r"Add: inputs of one type \(T\) are torch.float32 and torch.int64"):
        g.op.Add(x, i)
    with pytest.raises(TypeError, match="Relu has no attribute alpha"):
        g.op.Relu(x, alpha=1)
    with pytest.raises(LoweringError, match=r"has no lowering for opset 18 \(exists from 20\)\n  try opset_version=20"):
        g.op.Gelu(x)
    with pytest.raises(LoweringError, match="torch.complex64 has no ONNX operators"):
        g.const_tensor(torch.zeros(2, dtype=torch.complex64))


# The dtype bridge


@pytest.mark.parametrize(
    ("opset", "op", "dtype", "chain"),
    [
        (9, "Add", torch.int8, ["Cast", "Add", "Cast"]),
        (14, "Add", torch.int8, ["Add"]),
        (18, "Relu", torch.bfloat16, ["Cast", "Relu", "Cast"]),
        (18, "Relu", torch.float16, ["Relu"]),
        (18, "Neg", torch.uint8, ["Cast", "Neg", "Cast"]),
    ],
)
def test_types_without_a_kernel_are_computed_in_another(opset: int, op: str, dtype: Any, chain: list[str]) -> None:
    g = Emitter(opset)
    x = g.input("x", dtype, (2,))
    y = g.node(op, [x, x] if op == "Add" else [x])
    assert g.dtype(y) is dtype
    assert [node.op_type for node in g.nodes] == chain


# Sizes


def test_sizes_come_from_the_input_and_adjacent_ones_together(g: Emitter) -> None:
    x = g.input("x", f32, (batch, seq, 4))
    y = g.op.Relu(x)
    assert g.size(g.dim_size(y, 0)) is g.size(g.dim_size(x, 0))
    shape = g.shape([batch, seq, 2, 2])
    concat = shape.producer()
    assert [value.producer() and value.producer().op_type for value in concat.inputs] == ["Shape", None]
    assert concat.inputs[0].producer().inputs[0] is x


@pytest.mark.parametrize("opset", OPSETS)
def test_arithmetic_on_sizes(opset: int, check: Any) -> None:
    cases = [
        (operator.add, (1,)), (operator.sub, (9,)), (operator.mul, (3,)), (operator.floordiv, (2,)),
        (operator.floordiv, (-2,)), (operator.mod, (3,)), (operator.mod, (-3,)), (operator.truediv, (3,)),
        (operator.neg, ()), (operator.pow, (2,)), (operator.pow, (5,)), (torch.sym_max, (4,)), (torch.sym_min, (4,)),
        (torch.sym_float, ()), (operator.lt, (3,)), (operator.ge, (3,)), (operator.eq, (3,)), (operator.ne, (3,)),
    ]  # fmt: skip

    def lowered(g: Emitter, x: ir.Value) -> list[ir.Value]:
        n = g.dim_size(x, 0)
        made = [SizeValue.of(function, n, *rest) for function, rest in cases]
        made.append(SizeValue.of(math.ceil, n / 3))
        made.append(SizeValue.of(math.floor, -n / 3))
        made.append(SizeValue.of(torch.sym_int, -n / 3))
        made.append(SizeValue.of(torch.sym_ite, SizeValue.of(operator.gt, n, 3), n, 7))
        return [g.scalar(size) for size in made]

    def reference(x: torch.Tensor) -> list[torch.Tensor]:
        n = x.shape[0]
        made = [function(n, *rest) for function, rest in cases]
        made += [math.ceil(n / 3), math.floor(-n / 3), math.trunc(-n / 3), n if n > 3 else 7]
        return [torch.tensor(v, dtype=torch.float64) if isinstance(v, float) else torch.tensor(v) for v in made]

    check(opset, lowered, reference, torch.zeros(3), dynamic={0: (0,)})


def test_min_and_max_are_computed_even_if_the_probes_agree(check: Any) -> None:
    """Every probe is below 100, so the fingerprint of min(n, 100) is that of n; another size may differ."""
    made = check(
        18,
        lambda g, x: g.scalar(SizeValue.of(torch.sym_min, g.dim_size(x, 0), 100)),
        lambda x: torch.tensor(min(x.shape[0], 100)),
        torch.zeros(3),
        dynamic={0: (0,)},
    )
    assert "Min" in made.ops


def test_a_dynamic_reshape_says_zero_and_minus_one(g: Emitter) -> None:
    x = g.input("x", f32, (batch, seq, 8))
    y = g.reshape(x, [batch, seq, 2, 4])
    assert g.value_of(y.producer().inputs[1]).tolist() == [0, 0, 2, 4]
    z = g.reshape(g.op.Transpose(y, perm=[0, 2, 1, 3]), [batch, 2, -1])
    assert g.value_of(z.producer().inputs[1]).tolist() == [0, 2, -1]
    assert [node.op_type for node in g.nodes] == ["Reshape", "Transpose", "Reshape"]


def test_result_type_is_pytorchs(g: Emitter) -> None:
    x, scalar, ints = g.input("x", f32, (2,)), g.input("s", torch.float64, ()), g.input("i", torch.int32, (3,))
    assert g.result_type(x, scalar) is f32
    assert g.result_type(ints, scalar) is torch.float64
    assert g.result_type(ints, 2) is torch.int32
    assert g.result_type(ints, 2.5) is f32
    assert g.result_type(x, ints) is f32


# Subgraphs


@pytest.mark.parametrize("opset", OPSETS)
def test_a_loop_may_read_the_outer_graph(opset: int, check: Any) -> None:
    def lowered(g: Emitter, x: ir.Value) -> ir.Value:
        double, shape = g.op.Mul(x, g.const(2.0)), g.op.Shape(x)
        body = g.subgraph("body")
        body.input("i", torch.int64, ())
        keep = body.input("keep", torch.bool, ())
        total = body.input("total", f32, g.dims(x))
        assert body.op.Mul(x, body.const(2.0)) is not double  # onnxruntime may fuse it with others
        assert body.op.Shape(x) is shape
        inner = body.op.Relu(x)
        graph = body.graph([keep, body.op.Add(total, body.op.Add(double, inner))])
        result = g.node("Loop", [g.const(3), g.const(True), x], {"body": graph})
        assert g.op.Relu(x) is not inner
        return g.annotate(result, g.dims(x), f32)

    check(opset, lowered, lambda x: x + 3 * (2 * x + x.relu()), torch.randn(2, 3), dynamic={0: (0,)})
