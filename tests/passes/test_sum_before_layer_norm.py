"""A residual sum before a layer norm is kept from a slow fusion."""

from __future__ import annotations

import pytest

from onward.passes.for_onnxruntime.sum_before_layer_norm import sum_before_layer_norm

from .running import apply, op_types

MODEL = """<ir_version: 8, opset_import: ["" : 17]>
g (float[n, 3, 4] a, float[n, 3, 4] b) => (float[n, 3, 4] z)
<float[4] scale = {1, 2, 3, 4}, float[4] bias = {0, 1, 0, 1}, float[n, 3, 4] y> {
    y = Add(a, b)
    z = LayerNormalization<axis = -1>(y, scale, bias)
}"""


RESULT = "float[n, 3, 4] z"


def test_respells() -> None:
    changed, model = apply(sum_before_layer_norm, MODEL)
    assert changed
    assert op_types(model) == ["Sum", "LayerNormalization"]


@pytest.mark.parametrize(
    "text",
    [
        MODEL.replace(RESULT, f"{RESULT}, float[n, 3, 4] y").replace(", float[n, 3, 4] y>", ">"),
        MODEL.replace(RESULT, f"{RESULT}, float[n, 3, 4] u").replace("(a, b)\n", "(a, b) u = Relu(y)\n"),
        MODEL.replace("float[n, 3, 4] b)", "float[4] b)"),
        MODEL.replace("y = Add(a, b)", "y = Mul(a, b)"),
    ],
    ids=["an output", "read elsewhere", "a bias", "no Add"],
)
def test_declines(text: str) -> None:
    changed, _ = apply(sum_before_layer_norm, text)
    assert not changed
