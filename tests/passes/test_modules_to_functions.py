"""Regions become functions: on graphs that are written down, so that every shape of a region can be tried."""

from __future__ import annotations

from typing import Any

import onnx
import onnx.parser
import onnx_ir as ir
import torch

from onward.lower.regions import FENCE, MODELS_OWN, REGION, REGIONS, ModuleRegion
from onward.passes import modules_to_functions
from onward.verify import Session
from onward.write import to_proto


class Layer:
    """Stands for a module's class."""


class Inner:
    """Another one."""


def make(text: str, regions: dict[str, ModuleRegion], where: dict[str, str], own: tuple[str, ...] = ()) -> ir.Model:
    """A model whose nodes are in regions by the name of their first output; Identity nodes in `where` are fences."""
    model = ir.from_proto(onnx.parser.parse_model(f'<ir_version: 9, opset_import: ["": 18]>\n{text}'))
    for node in model.graph:
        name = node.outputs[0].name or ""
        node.name = name
        if name in where:
            node.metadata_props.update({REGION: where[name]} if where[name] else {})
            node.metadata_props.update({FENCE: ""} if node.op_type == "Identity" else {})
    for value in model.graph.initializers.values():
        value.meta[MODELS_OWN] = value.name in own
    model.meta[REGIONS] = regions
    return model


def converted(model: ir.Model, inputs: list[torch.Tensor]) -> onnx.ModelProto:
    """After the pass: checked, idempotent, and computing the same."""
    before = Session(to_proto(model)).run(inputs)
    modules_to_functions(model)
    assert not modules_to_functions(model), "a second run changed something"
    proto = to_proto(model)
    onnx.checker.check_model(proto, full_check=True)
    for want, got in zip(before, Session(proto).run(inputs), strict=True):
        torch.testing.assert_close(got, want)
    return proto


def op_types(nodes: Any) -> list[str]:
    return [node.op_type for node in nodes]


X = torch.randn(2, 3)
ONE = {"0": ModuleRegion("a", Layer, None)}


def test_fences_vanish_and_equal_regions_share_a_function() -> None:
    model = make(
        """g (float[2,3] x) => (float[2,3] y) <float[3] v = {1, 2, 3}, float[3] w = {4, 5, 6}, float two = {2}> {
            x1 = Identity(x)  a1 = Mul(x1, v)  b1 = Add(a1, two)  y1 = Identity(b1)
            x2 = Identity(y1) a2 = Mul(x2, w)  b2 = Add(a2, two)  y = Identity(b2)
        }""",
        {"0": ModuleRegion("a", Layer, None), "1": ModuleRegion("b", Layer, None)},
        {"x1": "0", "a1": "0", "b1": "0", "y1": "", "x2": "1", "a2": "1", "b2": "1", "y": ""},
        own=("v", "w"),
    )
    proto = converted(model, [X])
    assert op_types(proto.graph.node) == ["Layer", "Layer"]
    assert [list(node.input) for node in proto.graph.node] == [["x", "v"], ["b1", "w"]]
    (function,) = proto.functions
    assert op_types(function.node) == ["Constant", "Mul", "Add"]
    assert {initializer.name for initializer in proto.graph.initializer} == {"v", "w"}


def test_functions_call_functions() -> None:
    model = make(
        """g (float[2,3] x) => (float[2,3] y) {
            x1 = Identity(x)  x2 = Identity(x1)  a = Relu(x2)  y2 = Identity(a)  b = Neg(y2)  y = Identity(b)
        }""",
        {"0": ModuleRegion("a", Layer, None), "1": ModuleRegion("a.i", Inner, "0")},
        {"x1": "0", "x2": "1", "a": "1", "y2": "0", "b": "0", "y": ""},
    )
    proto = converted(model, [X])
    assert op_types(proto.graph.node) == ["Layer"]
    assert {function.name: op_types(function.node) for function in proto.functions} == {
        "Inner": ["Relu"],
        "Layer": ["Inner", "Neg"],
    }


def test_a_body_that_reads_outer_values() -> None:
    model = make(
        """g (float[2,3] x, float[2,3] z, bool c) => (float[2,3] y) <float[3] w = {1, 2, 3}> {
            n = Neg(z)
            y = If(c) <then_branch = t () => (float[2,3] p) { q = Add(x, n) p = Mul(q, w) },
                       else_branch = e () => (float[2,3] r) { r = Relu(x) }>
        }""",
        ONE,
        {"y": "0"},
        own=("w",),
    )
    proto = converted(model, [X, X, torch.tensor(True)])
    (function,) = proto.functions
    assert list(proto.graph.node[-1].input) == ["c", "x", "n", "w"]
    assert list(function.input) == ["input", "input_1", "input_2", "w"]


def test_what_leaves_a_region_and_comes_back_keeps_it_from_being_one_node() -> None:
    model = make(
        "g (float[2,3] x) => (float[2,3] y) { a = Relu(x)  b = Neg(a)  y = Add(a, b) }", ONE, {"a": "0", "y": "0"}
    )
    proto = converted(model, [X])
    assert op_types(proto.graph.node) == ["Relu", "Neg", "Add"]
    assert not proto.functions


def test_a_region_with_nodes_of_others_in_between() -> None:
    model = make(
        """g (float[2,3] x) => (float[2,3] y, float[2,3] z) {
            a = Relu(x)  b = Neg(a)  c = Exp(x)  y = Add(a, c) z = Neg(b)
        }""",
        ONE,
        {"a": "0", "c": "0", "y": "0"},
    )
    proto = converted(model, [X])
    assert sorted(op_types(proto.graph.node)) == ["Layer", "Neg", "Neg"]
    assert len(proto.functions[0].output) == 2


def test_a_region_that_gives_back_what_it_is_given_is_no_function() -> None:
    model = make("g (float[2,3] x) => (float[2,3] y) { x1 = Identity(x)  y = Identity(x1) }", ONE, {"x1": "0", "y": ""})
    proto = converted(model, [X])
    assert op_types(proto.graph.node) == ["Identity"]  # an output that is an input
    assert not proto.functions


def test_one_value_as_two_outputs() -> None:
    model = make(
        "g (float[2,3] x) => (float[2,3] y, float[2,3] z) { a = Relu(x)  y = Identity(a)  z = Identity(a) }",
        ONE,
        {"a": "0", "y": "", "z": ""},
    )
    proto = converted(model, [X])
    assert op_types(proto.graph.node) == ["Layer", "Identity"]
    assert [output.name for output in proto.graph.output] == ["y", "z"]


def test_constants_that_callers_may_feed_stay_outside() -> None:
    model = make("g (float[2,3] x, float two) => (float[2,3] y) <float two = {2}> { y = Mul(x, two) }", ONE, {"y": "0"})
    modules_to_functions(model)
    proto = to_proto(model)
    assert list(proto.graph.node[0].input) == ["x", "two"]
    assert op_types(proto.functions[0].node) == ["Mul"]


def test_a_large_constant_is_an_input() -> None:
    big = ", ".join(["1.0"] * 65)
    model = make(
        f"g (float[65] x) => (float[65] y) <float[65] table = {{{big}}}> {{ y = Mul(x, table) }}", ONE, {"y": "0"}
    )
    proto = converted(model, [torch.randn(65)])
    assert list(proto.graph.node[0].input) == ["x", "table"]


def test_minus_zero_is_another_constant() -> None:
    model = make(
        """g (float[2,3] x) => (float[2,3] y) <float a = {0}, float b = {-0.0}> { t = Max(x, a)  y = Max(t, b) }""",
        {"0": ModuleRegion("a", Layer, None), "1": ModuleRegion("b", Layer, None)},
        {"t": "0", "y": "1"},
    )
    assert [function.name for function in converted(model, [X]).functions] == ["Layer", "Layer_1"]


def test_a_model_without_regions_is_left_alone() -> None:
    model = make("g (float[2,3] x) => (float[2,3] y) { y = Relu(x) }", {}, {})
    assert not modules_to_functions(model)
