"""The passes that make up for the emitter on files that others wrote: ONNX text in, ONNX text out."""

from __future__ import annotations

import numpy as np
import onnx
import onnx.parser
import onnx_ir as ir
import pytest

from onward.passes.constants_to_weights import constants_to_weights
from onward.passes.drop_no_ops import drop_no_ops
from onward.passes.fold_constants import fold_constants
from onward.passes.merge_steps import merge_steps
from onward.passes.share_equal_nodes import share_equal_nodes
from onward.passes.share_equal_weights import share_equal_weights

from .running import apply, op_types


def text(
    body: str, inputs: str = "float[n, 4] x", output: str = "float[n, 4] y", constants: str = "", opset: int = 17
) -> str:
    held = f"<{constants}>" if constants else ""
    return f'<ir_version: 8, opset_import: ["" : {opset}]> g ({inputs}) => ({output}) {held} {{ {body} }}'


IF = (
    "y = If(c) <then_branch = a () => (float[n, 4] r) {{ {then} }}, "
    "else_branch = b () => (float[n, 4] s) {{ s = Neg(x) }}>"
)


# constants_to_weights


@pytest.mark.parametrize(
    ("constant", "dtype", "shape"),
    [
        ("value = float {2.0}", ir.DataType.FLOAT, ()),
        ("value_float = 2.0", ir.DataType.FLOAT, ()),
        ("value_floats = [1.0, 2.0, 3.0, 4.0]", ir.DataType.FLOAT, (4,)),
    ],
)
def test_constant_nodes_become_initializers(constant: str, dtype: ir.DataType, shape: tuple[int, ...]) -> None:
    changed, model = apply(constants_to_weights, text(f"c = Constant<{constant}>()\n y = Mul(x, c)"))
    assert changed and op_types(model) == ["Mul"]
    held = model.graph.initializers["c"].const_value
    assert (held.dtype, tuple(held.shape)) == (dtype, shape)


def test_constants_of_bodies_stay_in_their_body() -> None:
    body = IF.format(then="k = Constant<value_float = 2.0>()\n r = Mul(x, k)")
    changed, model = apply(constants_to_weights, text(body, constants="bool c = {1}"))
    inner = model.graph[0].attributes["then_branch"].as_graph()
    assert changed and [node.op_type for node in inner] == ["Mul"] and list(inner.initializers) == ["k"]


@pytest.mark.parametrize(
    "body",
    [
        "y = Relu(x)\n z = Constant<value_float = 2.0>()",
        'y = Relu(x)\n t = Constant<value_string = "s">()\n z = Constant<value_float = 2.0>()',
    ],
)
def test_results_and_strings_stay_nodes(body: str) -> None:
    changed, _ = apply(constants_to_weights, text(body, output="float[n, 4] y, float z"))
    assert not changed


# fold_constants


def test_what_is_computed_from_constants_is_computed_once() -> None:
    changed, model = apply(
        fold_constants,
        text("c = Mul(a, b)\n d = Sqrt(c)\n y = Add(x, d)", constants="float[4] a = {1, 2, 3, 4}, float b = {4}"),
    )
    assert changed and op_types(model) == ["Add"]
    np.testing.assert_allclose(model.graph.initializers["d"].const_value.numpy(), np.sqrt([4, 8, 12, 16]), rtol=1e-6)


@pytest.mark.parametrize(
    "body",
    [
        "s = Shape(x)\n t = Gather<axis = 0>(s, one)\n y = Reshape(x, t)",
        "s = Shape(x)\n t = Slice(s, one, two)\n y = Reshape(x, t)",
        "s = Shape<start = 1>(x)\n y = Reshape(x, s)",
    ],
)
def test_fixed_axes_of_a_shape_are_constants(body: str) -> None:
    changed, model = apply(
        fold_constants,
        text(body, "float[1, 12] x", "float[12] y", "int64[1] one = {1}, int64[1] two = {2}"),
    )
    assert (
        changed and "Reshape" in op_types(model) and "Gather" not in op_types(model) and "Slice" not in op_types(model)
    )


def test_axes_that_vary_are_not() -> None:
    body = "s = Shape(x)\n t = Gather<axis = 0>(s, zero)\n y = Expand(z, t)"
    changed, _ = apply(fold_constants, text(body, "float[n, 4] x, float[1] z", "float[m] y", "int64[1] zero = {0}"))
    assert not changed


def test_an_input_with_a_default_is_no_constant() -> None:
    changed, _ = apply(
        fold_constants,
        text("c = Neg(w)\n y = Add(x, c)", "float[n, 4] x, float[4] w", constants="float[4] w = {1, 2, 3, 4}"),
    )
    assert not changed


def test_random_numbers_and_results_are_left_alone() -> None:
    changed, _ = apply(
        fold_constants,
        text("y = Relu(x)\n z = Neg(w)", output="float[n, 4] y, float[4] z", constants="float[4] w = {1, 2, 3, 4}"),
    )
    assert not changed
    body = "r = RandomNormalLike(w)\n t = Mul(r, zero)\n u = Add(t, w)\n y = Add(x, u)"
    model = ir.from_proto(onnx.parser.parse_model(text(body, constants="float[4] w = {1, 2, 3, 4}, float zero = {0}")))
    assert not fold_constants(model)


@pytest.mark.parametrize(
    "three", ["bfloat16 a = {16448}", "float16 a = {16896}", "int8 a = {3}"]
)  # halves by their bits
def test_single_numbers_of_every_type_stay_single_numbers(three: str) -> None:
    changed, model = apply(fold_constants, text("t = Cast<to = 1>(a)\n y = Mul(x, t)", constants=three))
    assert changed and op_types(model) == ["Mul"]
    held = model.graph.initializers["t"].const_value
    assert tuple(held.shape) == () and held.numpy() == 3


def test_a_constant_in_the_type_of_something_computed() -> None:
    changed, model = apply(fold_constants, text("k = CastLike(one, x)\n y = Add(x, k)", constants="int64 one = {1}"))
    assert changed and op_types(model) == ["Add"]


@pytest.mark.parametrize(
    ("kind", "columns", "left"), [("int8", 64, 2), ("uint8", 300, 2), ("int8", 4, 0), ("int32", 64, 0)]
)
def test_weights_stored_in_short_integers_stay(kind: str, columns: int, left: int) -> None:
    """As floats they would take four times the room; a runtime makes floats of them when it loads the file."""
    constants = f"{kind}[5, {columns}] w = {{{', '.join(['3'] * 5 * columns)}}}, float s = {{0.5}}"
    body = "f = Cast<to = 1>(w)\n v = Mul(f, s)\n y = MatMul(x, v)"
    changed, model = apply(fold_constants, text(body, "float[n, 5] x", f"float[n, {columns}] y", constants))
    assert (changed, len(model.graph)) == (left == 0, left + 1)


def test_constants_of_an_outer_graph_fold_inside_a_body() -> None:
    body = IF.format(then="k = Neg(w)\n r = Mul(x, k)")
    changed, model = apply(fold_constants, text(body, constants="bool c = {1}, float[4] w = {1, 2, 3, 4}"))
    inner = model.graph[0].attributes["then_branch"].as_graph()
    assert changed and [node.op_type for node in inner] == ["Mul"]


def test_a_node_that_cannot_be_computed_is_for_the_runtime_to_tell() -> None:
    model = ir.from_proto(
        onnx.parser.parse_model(
            text("t = Gather(w, far)\n y = Add(x, t)", constants="float[4] w = {1, 2, 3, 4}, int64 far = {9}")
        )
    )
    assert not fold_constants(model)


# share_equal_weights


def test_equal_numbers_are_stored_once_and_equal_parameters_twice() -> None:
    changed, model = apply(
        share_equal_weights,
        text(
            "a = Reshape(x, s)\n b = Add(a, w)\n c = Reshape(b, t)\n y = Add(c, v)",
            constants="int64[2] s = {-1, 4}, int64[2] t = {-1, 4}, float[4] w = {0, 0, 0, 0}, "
            "float[4] v = {0, 0, 0, 0}",
        ),
    )
    assert changed and list(model.graph.initializers) == ["s", "w", "v"]


def test_a_type_or_a_shape_makes_constants_different() -> None:
    changed, _ = apply(
        share_equal_weights,
        text(
            "a = Reshape(x, s)\n b = ReduceSum<keepdims = 1>(a, i)\n y = Sub(a, b)",
            constants="int64[2] s = {-1, 4}, int64[1] i = {1}, int64 j = {1}",
        ),
    )
    assert not changed


# share_equal_nodes


def test_equal_nodes_are_one() -> None:
    changed, model = apply(share_equal_nodes, text("a = Exp(x)\n b = Exp(x)\n c = Neg(a)\n d = Neg(b)\n y = Add(c, d)"))
    assert changed and op_types(model) == ["Exp", "Neg", "Add"]


@pytest.mark.parametrize(
    "body",
    [
        "a = LeakyRelu<alpha = 0.1>(x)\n b = LeakyRelu<alpha = 0.2>(x)\n y = Add(a, b)",
        "a = Sub(x, w)\n b = Sub(w, x)\n y = Add(a, b)",
    ],
)
def test_other_attributes_or_inputs_are_other_nodes(body: str) -> None:
    changed, _ = apply(share_equal_nodes, text(body, constants="float[4] w = {1, 2, 3, 4}"))
    assert not changed


def test_results_keep_their_nodes_and_random_numbers_theirs() -> None:
    changed, _ = apply(share_equal_nodes, text("y = Exp(x)\n z = Exp(x)", output="float[n, 4] y, float[n, 4] z"))
    assert not changed
    body = "a = RandomNormalLike(x)\n b = RandomNormalLike(x)\n y = Sub(a, b)"
    assert not share_equal_nodes(ir.from_proto(onnx.parser.parse_model(text(body))))


def test_a_body_uses_sizes_that_are_computed_outside_and_bodies_share_nothing() -> None:
    """Floating point numbers are computed again: onnxruntime may fuse the nodes outside."""
    body = "e = Exp(x)\n k = Shape(x)\n q0 = Neg(e)\n q = Reshape(q0, k)\n" + (
        "z = If(c) <then_branch = a () => (float[n, 4] r) { e1 = Exp(x)\n k1 = Shape(x)\n r = Reshape(e1, k1) }, "
        "else_branch = b () => (float[n, 4] s) { u = Exp(x)\n s = Neg(u) }>\n y = Add(z, q)"
    )
    changed, model = apply(share_equal_nodes, text(body, constants="bool c = {1}"))
    conditional = next(node for node in model.graph if node.op_type == "If")
    inside = {name: [node.op_type for node in each.as_graph()] for name, each in conditional.attributes.items()}
    assert changed and inside == {"then_branch": ["Exp", "Reshape"], "else_branch": ["Exp", "Neg"]}


# drop_no_ops

NUMBERS = (
    "float zero = {0}, float one = {1}, int64[4] none = {0, 0, 0, 0}, int64[2] s = {0, 4}, int64[2] ones = {1, 1}, "
    "int64[1] i = {0}, int64[1] far = {9223372036854775807}"
)


@pytest.mark.parametrize(
    "step",
    [
        "Identity(x)", "Cast<to = 1>(x)", "Transpose<perm = [0, 1]>(x)", "Reshape(x, s)", "Tile(x, ones)",
        "Slice(x, i, far)", "Pad(x, none)", "Add(x, zero)", "Add(zero, x)", "Sub(x, zero)", "Mul(one, x)",
        "Div(x, one)", "Pow(x, one)", "Dropout(x)", "Concat<axis = 0>(x)", "Max(x)", "CastLike(x, zero)",
    ],
)  # fmt: skip
def test_a_step_that_only_repeats_its_input_goes(step: str) -> None:
    wanted = text(f"t = {step}\n y = Relu(t)", constants=NUMBERS)
    original = onnx.shape_inference.infer_shapes(onnx.parser.parse_model(wanted), data_prop=True)
    changed, model = apply(drop_no_ops, onnx.printer.to_text(original))
    assert changed and op_types(model) == ["Relu"]


@pytest.mark.parametrize(
    "step",
    [
        "Sub(zero, x)", "Div(one, x)", "Add(x, one)", "Mul(x, wide)", "Transpose<perm = [1, 0]>(x)", "Reshape(x, flat)",
        "Slice(x, i, one_end)", "Cast<to = 11>(x)", "Max(x, one)", "Expand(x, two_rows)",
    ],
)  # fmt: skip
def test_a_step_that_does_more_stays(step: str) -> None:
    constants = (
        NUMBERS
        + ", float[1, 1, 1] wide = {1}, int64[1] flat = {-1}, int64[1] one_end = {1}, int64[2] two_rows = {3, 4}"
    )
    body = f"t = {step}\n y = Identity(t)"
    model = ir.from_proto(onnx.parser.parse_model(text(body, constants=constants)))
    drop_no_ops(model)
    assert op_types(model) == [step.partition("(")[0].partition("<")[0]]


def test_a_result_keeps_its_name_and_an_input_is_no_result() -> None:
    changed, model = apply(drop_no_ops, text("t = Relu(x)\n y = Identity(t)"))
    assert changed and op_types(model) == ["Relu"] and model.graph.outputs[0].name == "y"
    changed, _ = apply(drop_no_ops, text("y = Identity(x)"))
    assert not changed
    changed, model = apply(drop_no_ops, text("y = Relu(x)\n z = Identity(y)", output="float[n, 4] y, float[n, 4] z"))
    assert not changed


def test_a_body_that_returns_a_value_of_outside_keeps_its_identity() -> None:
    changed, _ = apply(drop_no_ops, text(IF.format(then="r = Identity(x)"), constants="bool c = {1}"))
    assert not changed


def test_steps_that_undo_each_other_go() -> None:
    changed, model = apply(drop_no_ops, text("a = Cast<to = 11>(x)\n b = Cast<to = 1>(a)\n y = Relu(b)"))
    assert changed and op_types(model) == ["Cast", "Relu"] and model.graph[1].inputs[0].name == "x"
    body = "p = Greater(x, zero)\n q = Not(p)\n r = Not(q)\n y = Where(r, x, zero)"
    changed, model = apply(drop_no_ops, text(body, constants="float zero = {0}"))
    assert changed and op_types(model) == ["Greater", "Not", "Where"]


@pytest.mark.parametrize(
    "body",
    [
        "a = Cast<to = 7>(x)\n b = Cast<to = 1>(a)\n y = Relu(b)",  # loses the fraction
        "a = Reshape(x, flat)\n b = Reshape(a, turned)\n y = Relu(b)",  # other sizes than at first
        "a = Unsqueeze(x, i)\n c = Concat<axis = 0>(a, a)\n b = Gather(c, i)\n y = Squeeze(b, i)",  # keeps the axis
    ],
)
def test_steps_that_do_not_undo_each_other_stay(body: str) -> None:
    constants = "int64[1] flat = {-1}, int64[2] turned = {4, -1}, int64[1] i = {0}"
    output = "float[4, n] y" if "turned" in body else "float[n, 4] y"
    changed, _ = apply(drop_no_ops, text(body, output=output, constants=constants))
    assert not changed


def test_a_part_of_what_was_just_stacked_is_that_part() -> None:
    body = "a = Unsqueeze(x, i)\n b = Neg(x)\n c = Unsqueeze(b, i)\n d = Concat<axis = 0>(a, c)\n"
    body += "e = Gather(d, last)\n y = Relu(e)"
    written = text(body, constants="int64[1] i = {0}, int64 last = {-1}")
    sized = onnx.shape_inference.infer_shapes(onnx.parser.parse_model(written), data_prop=True)
    changed, model = apply(drop_no_ops, onnx.printer.to_text(sized))
    assert changed and model.graph[-1].op_type == "Relu" and model.graph[-1].inputs[0].name == "b"


# merge_steps


@pytest.mark.parametrize(
    ("body", "left"),
    [
        ("a = Transpose<perm = [1, 0]>(x)\n y = Transpose<perm = [1, 0]>(a)", ["Transpose", "Transpose"]),
        ("a = Reshape(x, flat)\n y = Reshape(a, s)", ["Reshape", "Reshape"]),
        ("a = Unsqueeze(x, i)\n y = Reshape(a, s)", ["Unsqueeze", "Reshape"]),
    ],
)
def test_the_outer_step_takes_what_the_inner_took(body: str, left: list[str]) -> None:
    constants = "int64[1] flat = {-1}, int64[2] s = {-1, 4}, int64[1] i = {0}"
    changed, model = apply(merge_steps, text(body, constants=constants))
    assert changed and op_types(model) == left
    assert model.graph[1].inputs[0].name == "x"


@pytest.mark.parametrize(
    "body",
    [
        "a = Cast<to = 7>(x)\n b = Cast<to = 1>(a)\n y = Relu(b)",  # loses the fraction
        "a = Reshape(x, flat)\n y = Reshape(a, copied)",  # copies an axis of the inner result
        "a = Transpose<perm = [1, 0]>(x)\n b = Relu(a)\n y = Transpose<perm = [1, 0]>(b)",
    ],
)
def test_steps_that_lose_or_copy_something_stay(body: str) -> None:
    constants = "int64[3] flat = {1, -1, 4}, int64[3] copied = {0, -1, 4}"
    output = "float[1, n, 4] y" if "copied" in body else "float[n, 4] y"
    changed, _ = apply(merge_steps, text(body, output=output, constants=constants))
    assert not changed
