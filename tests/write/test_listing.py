"""The listing of models that onward did not write: every kind of type, attribute, body and function."""

from __future__ import annotations

import numpy as np
import onnx
import onnx.parser
import onnx_ir as ir
import pytest

from onward.write.listing import listing


def listed(text: str) -> list[str]:
    return listing(ir.from_proto(onnx.parser.parse_model(text))).splitlines()


HEAD = '<ir_version: 8, opset_import: ["" : 17]>\n'


def test_small_constants_are_shown_where_they_are_read() -> None:
    lines = listed(
        HEAD + "g (float[n, 6] x) => (float[n, 2, 3] z)\n"
        "<int64[3] shape = {-1, 2, 3}, float[2] pair = {1.5, 2}, float half = {0.5}>\n"
        "{ y = Reshape(x, shape)\n z = Mul(y, half) }"
    )
    assert lines == [
        "graph g (opset 17)",
        "  inputs",
        "    %x : Float(n, 6)",
        "  weights",
        "    %pair : Float(2) = {1.5, 2}",
        "  constants",
        "    %shape : Long(3) = {-1, 2, 3}",
        "    %half  : Float() = 0.5",
        "{",
        "  %y : Dynamic = onnx::Reshape(%x, {-1, 2, 3})",
        "  %z : Float(n, 2, 3) = onnx::Mul(%y, 0.5)",
        "  return (%z)",
        "}",
    ]


def test_bodies_are_indented_under_their_node() -> None:
    lines = listed(
        HEAD + "g (bool c, float[2] x) => (float[2] y) {\n"
        " y = If(c) <then_branch = t () => (float[2] a) { a = Relu(x) }, "
        "else_branch = e () => (float[2] b) <float[2] w = {1, 2}> { b = Add(x, w) }>\n}"
    )
    assert lines[5:] == [
        "  %y : Float(2) = onnx::If(%c)",
        "    then_branch() {",
        "      %a : Float(2) = onnx::Relu(%x)",
        "      return (%a)",
        "    }",
        "    else_branch() {",
        "      %w : Float(2) = {1, 2}",
        "      %b : Float(2) = onnx::Add(%x, %w)",
        "      return (%b)",
        "    }",
        "  return (%y)",
        "}",
    ]


def test_functions_follow_with_their_attributes() -> None:
    lines = listed(
        '<ir_version: 8, opset_import: ["" : 17, "mine" : 1]>\n'
        "g (float[2] x) => (float[2] y) { y = mine.Scaled<by = 2.0>(x) }\n"
        '<domain: "mine", opset_import: ["" : 17]>\n'
        "Scaled<by>(x) => (y) { s = Constant<value_float : float = @by>()\n y = Mul(x, s) }"
    )
    assert lines[0] == "graph g (opset 17, mine 1)"
    assert "  %y : Float(2) = mine::Scaled[by=2](%x)" in lines
    assert (
        lines[-5:]
        == [
            "function mine::Scaled[by](%x)",
            "{",
            "  %s : Dynamic = onnx::Constant[value_float=@by]()",
            "  %y : Dynamic = onnx::Mul(%x, %s)",
            "  return (%y)",
            "}",
        ][-5:]
    )


@pytest.mark.parametrize(
    ("declared", "shown"),
    [
        ("float16[2]", "Half(2)"),
        ("double[a, b]", "Double(a, b)"),
        ("int64[]", "Long(...)"),
        ("uint8[3]", "Byte(3)"),
        ("bool", "Bool()"),
        ("string[1]", "String(1)"),
        ("float8e4m3fn[1]", "FLOAT8E4M3FN(1)"),
        ("seq(float[2])", "Sequence[Float(2)]"),
        ("optional(seq(int64[n]))", "Optional[Sequence[Long(n)]]"),
    ],
)
def test_types(declared: str, shown: str) -> None:
    text = f"{HEAD}g ({declared} x) => ({declared} y) {{ y = Identity(x) }}"
    assert f"    %x : {shown}" in listed(text)


def test_an_axis_that_the_file_does_not_name_is_a_question_mark() -> None:
    x = onnx.helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [None, 2])
    y = onnx.helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [None, 2])
    graph = onnx.helper.make_graph([onnx.helper.make_node("Relu", ["x"], ["y"])], "g", [x], [y])
    assert "    %x : Float(?, 2)" in listing(ir.from_proto(onnx.helper.make_model(graph))).splitlines()


def test_attributes_are_short_whatever_they_hold() -> None:
    node = onnx.helper.make_node(
        "Odd", ["x", ""], ["y", ""], domain="mine", many=list(range(100)), text="t" * 500, words=["a", "b"],
        table=onnx.numpy_helper.from_array(np.zeros((30, 40), np.float32)),
        few=onnx.numpy_helper.from_array(np.array(7)), rate=0.1,
    )  # fmt: skip
    x, y = (onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [2]) for name in "xy")
    model = onnx.helper.make_model(onnx.helper.make_graph([node], "g", [x], [y]))
    line = next(line for line in listing(ir.from_proto(model)).splitlines() if "mine::Odd" in line)
    assert "many=[0, 1, 2, 3, 4, 5, 6, 7, ... 100 in all]" in line
    assert f"text='{'t' * 57}...'" in line and "words=['a', 'b']" in line
    assert "table=Float(30, 40)" in line and "few={7}" in line and "rate=0.1" in line
    assert line.startswith("  %y : Float(2) = ") and "(%x, None)" in line


def test_casts_say_the_type_and_inputs_with_a_default_say_so() -> None:
    lines = listed(
        HEAD
        + "g (float[2] x, float[20] w) => (int64[2] y) <float[20] w> { y = Cast<to = 7>(x) }".replace(
            "<float[20] w>", "<float[20] w = {" + ", ".join("1" * 20) + "}>"
        )
    )
    assert "    %w : Float(20) = a default" in lines
    assert "  %y : Long(2) = onnx::Cast[to=Long](%x)" in lines


@pytest.mark.parametrize("text", ["['', 'fc', 'linear'", "__import__('os')", "{'a': 1}", "[1, 2]"])
def test_metadata_of_others_is_read_and_never_run(text: str) -> None:
    node = onnx.helper.make_node("Relu", ["x"], ["y"])
    for key in ("name_scopes", "class_hierarchy"):
        node.metadata_props.add(key=f"pkg.torch.onnx.{key}", value=text)
    x, y = (onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [2]) for name in "xy")
    model = onnx.helper.make_model(onnx.helper.make_graph([node], "g", [x], [y]))
    assert "  %y : Float(2) = onnx::Relu(%x)" in listing(ir.from_proto(model)).splitlines()


def test_the_scopes_of_pytorchs_exporter_are_shown() -> None:
    node = onnx.helper.make_node("Relu", ["x"], ["y"])
    node.metadata_props.add(key="pkg.torch.onnx.name_scopes", value="['', 'body', 'body.0', 'relu']")
    classes = "['m.Net', 'torch.nn.modules.container.Sequential', 'torch.nn.ReLU', 'aten.relu.default']"
    node.metadata_props.add(key="pkg.torch.onnx.class_hierarchy", value=classes)
    x, y = (onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [2]) for name in "xy")
    model = onnx.helper.make_model(onnx.helper.make_graph([node], "g", [x], [y]))
    assert "scope: Net/Sequential[body]/ReLU[0]" in listing(ir.from_proto(model))
