"""Files that cannot be walked over: circles, names that nobody computes, functions and lists without an end."""

from __future__ import annotations

import onnx
import pytest
from onnx import TensorProto, helper

import onward
from onward.files import load
from onward.files.inference import infer_by_onnx
from onward.files.inputs import made_up_inputs
from onward.report.contents import contents

_OPSETS = [helper.make_opsetid("", 17), helper.make_opsetid("own", 1)]


def _value(name: str, sizes=None, dtype=TensorProto.FLOAT):
    return helper.make_tensor_value_info(name, dtype, sizes)


def _model(nodes, functions=(), initializers=(), opsets=None) -> onnx.ModelProto:
    graph = helper.make_graph(nodes, "g", [_value("x", [2])], [_value("y")], initializer=list(initializers))
    return helper.make_model(graph, functions=list(functions), opset_imports=opsets or _OPSETS, ir_version=10)


def _function(name: str, nodes) -> onnx.FunctionProto:
    return helper.make_function("own", name, ["a"], ["b"], nodes, _OPSETS)


def _calls(levels: int, times: int) -> onnx.ModelProto:
    """Functions that each call the one before so many times."""
    functions = [_function("f0", [helper.make_node("Relu", ["a"], ["b"])])]
    for level in range(1, levels):
        names = ["a", *(f"v{place}" for place in range(times - 1)), "b"]
        nodes = [
            helper.make_node(f"f{level - 1}", [names[place]], [names[place + 1]], domain="own")
            for place in range(times)
        ]
        functions.append(_function(f"f{level}", nodes))
    return _model([helper.make_node(f"f{levels - 1}", ["x"], ["y"], domain="own")], functions)


def _branch(name: str, nodes, output: str):
    return helper.make_graph(nodes, name, [], [_value(output)])


_TRUE = helper.make_tensor("true", TensorProto.BOOL, [], [True])
_RELU = _branch("e", [helper.make_node("Relu", ["x"], ["e"])], "e")
_REFUSED = {
    "a circle": (
        _model([helper.make_node("Add", ["x", "b"], ["a"], "first"), helper.make_node("Relu", ["a"], ["b"]),
                helper.make_node("Identity", ["b"], ["y"])]),
        "the node 'first' \\(Add\\) needs its own result, in a circle",
    ),
    "a node by itself": (_model([helper.make_node("Add", ["x", "y"], ["y"])]), "in a circle"),
    "a circle through a body": (
        _model([helper.make_node("If", ["true"], ["y"], else_branch=_RELU,
                                 then_branch=_branch("t", [helper.make_node("Relu", ["y"], ["t"])], "t"))],
               initializers=[_TRUE]),
        "'y' \\(If\\) needs its own result",
    ),
    "a circle in a body": (
        _model([helper.make_node("If", ["true"], ["y"], else_branch=_RELU, then_branch=_branch(
            "t", [helper.make_node("Add", ["x", "q"], ["t"]), helper.make_node("Relu", ["t"], ["q"])], "t"))],
               initializers=[_TRUE]),
        "in a circle",
    ),
    "a circle in a function": (
        _model([helper.make_node("f", ["x"], ["y"], domain="own")],
               [_function("f", [helper.make_node("Add", ["a", "b"], ["c"]), helper.make_node("Relu", ["c"], ["b"])])]),
        "in a circle",
    ),
    "a function that calls itself": (
        _model([helper.make_node("f", ["x"], ["y"], domain="own")],
               [_function("f", [helper.make_node("f", ["a"], ["b"], domain="own")])]),
        "its functions call each other in a circle",
    ),
    "functions that double": (_calls(28, 2), "written out, have 268,435,456 nodes|written out, have 402,653,183 nodes"),
    "functions that double, and are not called": (
        _model([helper.make_node("Relu", ["x"], ["y"])], _calls(28, 2).functions), "written out, have [0-9,]* nodes"
    ),
    "functions that go deep": (_calls(2000, 1), "more than 100 levels deep"),
    "an input from nowhere": (
        _model([helper.make_node("Add", ["x", "nope"], ["y"])]), "Add reads 'nope', which nothing computes"
    ),
    "an output from nowhere": (_model([helper.make_node("Relu", ["x"], ["z"])]), "nothing computes the output 'y'"),
    "a body that hands on what is outside": (
        _model([helper.make_node("If", ["true"], ["y"], else_branch=_RELU, then_branch=_branch("t", [], "x"))],
               initializers=[_TRUE]),
        "nothing computes the output 'x'",
    ),
    "a weight of a negative size": (
        _model([helper.make_node("Relu", ["x"], ["y"])],
               initializers=[TensorProto(name="w", data_type=1, dims=[-1], raw_data=b"1234")]),
        "the weight 'w' has the size \\[-1\\]",
    ),
    "content of another type": (
        _model([helper.make_node("Relu", ["x"], ["y"])],
               initializers=[TensorProto(name="w", data_type=16, dims=[2], int64_data=[1, 2])]),
        "the weight 'w' of type BFLOAT16 has its content in int64_data",
    ),
    "content of no type": (
        _model([helper.make_node("Relu", ["x"], ["y"])], initializers=[TensorProto(name="w", dims=[0])]),
        "the weight 'w' has no type",
    ),
    "a version from nowhere": (
        _model([helper.make_node("Relu", ["x"], ["y"])], opsets=[helper.make_opsetid("", 1 << 40)]), "is malformed"
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", _REFUSED)
def test_what_cannot_be_walked_over_is_refused_when_it_is_loaded(case) -> None:
    model, message = _REFUSED[case]
    with pytest.raises(onward.InputError, match=message):
        load(model.SerializeToString())


def test_nodes_out_of_order_are_put_in_order() -> None:
    model = load(_model([helper.make_node("Neg", ["b"], ["y"]), helper.make_node("Relu", ["x"], ["b"])]))
    assert [node.op_type for node in model.graph] == ["Relu", "Neg"]
    assert contents(model, {}).data["totals"]["parameters"] == 0


@pytest.mark.parametrize("start", ["x", "ids", "shape"])
def test_lists_that_double_are_not_followed(start) -> None:
    """Each Concat joins a vector with itself: onnx would make a list of 2**45 entries."""
    nodes = [helper.make_node("Shape", ["x"], ["shape"])]
    name = start
    for place in range(45):
        nodes.append(helper.make_node("Concat", [name, name], [f"c{place}"], axis=0))
        name = f"c{place}"
    ids = helper.make_tensor("ids", TensorProto.INT64, [1], [1])
    model = load(_model([*nodes, helper.make_node("Identity", [name], ["y"])], initializers=[ids]))
    length = contents(model, {"x": [2]}).data["values"][-1]["shape"]
    assert length == [2**45 * (2 if start == "x" else 1)]


def test_sizes_are_still_followed_beside_long_vectors() -> None:
    nodes = [
        helper.make_node("Add", ["long", "long"], ["sum"]),
        helper.make_node("Shape", ["x"], ["shape"]),
        helper.make_node("Concat", ["shape", "one"], ["sizes"], axis=0),
        helper.make_node("Reshape", ["x", "sizes"], ["y"]),
    ]
    model = _model(nodes, initializers=[helper.make_tensor("one", TensorProto.INT64, [1], [1])])
    model.graph.input.append(_value("long", [1 << 40]))
    model.graph.output.append(_value("sum"))
    graph = infer_by_onnx(model)
    shapes = {each.name: [size.dim_value for size in each.type.tensor_type.shape.dim] for each in graph.output}
    assert shapes == {"y": [2, 1], "sum": [1 << 40]}
    assert [node.op_type for node in graph.node] == ["Add", "Shape", "Concat", "Reshape"]


@pytest.mark.parametrize("turns, ends", [(1 << 62, False), (3, True)])
def test_a_loop_without_an_end_is_not_given_to_a_runtime(turns, ends) -> None:
    body = helper.make_graph(
        [helper.make_node("Identity", ["c"], ["k"]), helper.make_node("Neg", ["s"], ["t"])],
        "b",
        [_value("i", [], TensorProto.INT64), _value("c", [], TensorProto.BOOL), _value("s", [2])],
        [_value("k", [], TensorProto.BOOL), _value("t", [2])],
    )
    count = helper.make_tensor("count", TensorProto.INT64, [], [turns])
    node = helper.make_node("Loop", ["count", "true", "x"], ["y"], "round", body=body)
    model = load(_model([node], initializers=[count, _TRUE]))
    if ends:
        assert made_up_inputs(model, lambda feeds: ["ran"])[1] == ["ran"]
    else:
        with pytest.raises(onward.VerifyError, match="its Loop 'round' takes more than 1,000,000,000 turns"):
            made_up_inputs(model, lambda feeds: pytest.fail("it ran"))


def test_calls_of_functions_beyond_many_stay_closed(monkeypatch) -> None:
    monkeypatch.setattr("onward.report.contents._MOST_CALLS", 3)
    data = contents(load(_calls(4, 2)), {"x": [2]}).data
    assert any("only 3 of" in each for each in data["notes"])
