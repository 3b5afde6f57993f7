"""Which outputs depend on random numbers."""

from __future__ import annotations

import onnx
import onnx_ir as ir
import pytest
import torch

from onward.verify import compare, random_outputs

CASES = {
    "y = RandomNormalLike(x)": {"y": "RandomNormalLike"},
    "t = Bernoulli(x) y = Add(t, x)": {"y": "Bernoulli"},
    "y = Relu(x)": {},
    "ratio = Constant<value = float {0.5}>() on = Constant<value = bool {1}>() y = Dropout(x, ratio, on)": {
        "y": "Dropout"
    },
    "ratio = Constant<value = float {0.5}>() y = Dropout(x, ratio)": {},
    "c = Constant<value = bool {1}>() y = If(c)<then_branch = a() => (t) {t = RandomUniformLike(x)}, "
    "else_branch = b() => (e) {e = Relu(x)}>": {"y": "RandomUniformLike"},
    "r = RandomNormalLike(x) c = Constant<value = bool {1}>() y = If(c)<then_branch = a() => (t) {t = Relu(r)}, "
    "else_branch = b() => (e) {e = Relu(x)}>": {"y": "RandomNormalLike"},
}


@pytest.mark.parametrize("body", CASES)
def test_outputs(body: str) -> None:
    text = f'<ir_version: 9, opset_import: ["" : 17]> g (float[2] x) => (float[2] y) {{ {body} }}'
    assert random_outputs(ir.from_proto(onnx.parser.parse_model(text))) == CASES[body]


def test_in_a_function() -> None:
    text = """<ir_version: 9, opset_import: ["" : 17, "local" : 1]>
        g (float[2] x) => (float[2] y, float[2] z) { y = local.noisy(x)  z = Relu(x) }
        <domain: "local", opset_import: ["" : 17]> noisy (a) => (b) { b = RandomNormalLike(a) }"""
    assert random_outputs(ir.from_proto(onnx.parser.parse_model(text))) == {"y": "RandomNormalLike"}


def test_before_opset_12_a_dropout_is_there_to_drop() -> None:
    text = """<ir_version: 5, opset_import: ["" : 10]> g (float[2] x) => (float[2] y) { y = Dropout<ratio = 0.3>(x) }"""
    assert random_outputs(ir.from_proto(onnx.parser.parse_model(text))) == {"y": "Dropout"}


def test_type_and_shape_are_still_compared() -> None:
    x = torch.ones(2, 3)
    assert compare(x, x + 5, "y", random="Dropout").ok
    assert str(compare(x, x + 5, "y", random="Dropout")) == (
        "output 'y' has its type and shape; its values are random (Dropout), not compared"
    )
    assert not compare(x, x[:1], "y", random="Dropout").ok
    assert not compare(x, x.double(), "y", random="Dropout").ok
