"""Dead nodes, in bodies too, and optional outputs that nobody reads."""

from __future__ import annotations

import onnx.parser
import onnx_ir as ir
import pytest

from onward.passes.drop_dead_nodes import drop_dead_nodes

from .running import apply, op_types

HEAD = '<ir_version: 8, opset_import: ["" : 17]>\n'


def test_a_chain_that_leads_nowhere_goes_in_one_run() -> None:
    changed, model = apply(
        drop_dead_nodes,
        HEAD + "g (float[2] x) => (float[2] y) { y = Relu(x)\n a = Exp(x)\n b = Neg(a)\n c = Add(a, b) }",
    )
    assert changed and op_types(model) == ["Relu"]


def test_an_optional_output_goes_and_a_required_one_stays() -> None:
    changed, model = apply(
        drop_dead_nodes,
        HEAD + "g (float[1, 1, 4] x) => (float[1, 1, 2] y, float[1, 1, 2] v) <int64[1] k = {2}>\n"
        "{ y, places = MaxPool<kernel_shape = [2], strides = [2]>(x)\n v, i = TopK(x, k) }",
    )
    assert changed
    assert [len(node.outputs) for node in model.graph] == [1, 2]


def test_variadic_outputs_stay() -> None:
    changed, model = apply(
        drop_dead_nodes, HEAD + "g (float[4] x) => (float[2] a) <int64[2] s = {2, 2}> { a, b = Split(x, s) }"
    )
    assert not changed and len(model.graph[0].outputs) == 2


@pytest.mark.parametrize(
    ("opset", "node", "outputs"),
    [
        (9, "y, m, v, a, b = BatchNormalization(x, one, one, one, one)", 5),
        (15, "y, m, v = BatchNormalization<training_mode = 1>(x, one, one, one, one)", 3),
        (15, "y, m, v = BatchNormalization(x, one, one, one, one)", 1),
    ],
)
def test_a_batch_normalization_in_training_keeps_its_outputs(opset: int, node: str, outputs: int) -> None:
    head = f'<ir_version: 8, opset_import: ["" : {opset}]>\n'
    text = f"{head}g (float[2, 1] x) => (float[2, 1] y) <float[1] one = {{1}}> {{ {node} }}"
    model = ir.from_proto(onnx.parser.parse_model(text))
    assert drop_dead_nodes(model) is (outputs == 1)
    assert len(model.graph[0].outputs) == outputs


def test_bodies_are_cleaned_and_what_only_they_read_stays() -> None:
    changed, model = apply(
        drop_dead_nodes,
        HEAD + "g (float[2] x) => (float[2] y) <bool c = {1}> { t = Exp(x)\n"
        " y = If(c) <then_branch = a () => (float[2] r) { r = Neg(t)\n dead = Abs(t) }, "
        "else_branch = b () => (float[2] s) { s = Identity(x) }> }",
    )
    assert changed and op_types(model) == ["Exp", "If"]
    body = model.graph[1].attributes["then_branch"].as_graph()
    assert [node.op_type for node in body] == ["Neg"]


@pytest.mark.parametrize("text", ["y = Relu(x)", "t = Exp(x)\n y = Neg(t)"])
def test_a_graph_without_dead_nodes_is_left_alone(text: str) -> None:
    changed, _ = apply(drop_dead_nodes, f"{HEAD}g (float[2] x) => (float[2] y) {{ {text} }}")
    assert not changed


def test_functions_are_cleaned() -> None:
    model = ir.from_proto(
        onnx.parser.parse_model(
            '<ir_version: 8, opset_import: ["" : 17, "mine" : 1]>\n'
            "g (float[2] x) => (float[2] y) { y = mine.F(x) }\n"
            '<domain: "mine", opset_import: ["" : 17]> F(x) => (y) { t = Exp(x)\n y = Neg(x) }'
        )
    )
    assert drop_dead_nodes(model)
    (function,) = model.functions.values()
    assert [node.op_type for node in function] == ["Neg"]
