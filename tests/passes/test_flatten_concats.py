"""Nested Concats on one axis become one."""

from __future__ import annotations

import pytest

from onward.passes.flatten_concats import flatten_concats

from .running import apply, op_types

MODEL = """<ir_version: 8, opset_import: ["" : 17]>
g (float[2, 3] a, float[2, 3] b, float[2, 3] c) => (OUTPUTS) {
    t = Concat<axis = INNER>(a, b)
    y = Concat<axis = 1>(c, t, a)
}"""
Y = "float[2, 12] y"


@pytest.mark.parametrize("axis", ["1", "-1"])
def test_flattens(axis: str) -> None:
    text = MODEL.replace("INNER", axis).replace("OUTPUTS", Y)
    if axis == "-1":  # equal only if the rank is known
        text = text.replace("=> (float[2, 12] y)", "=> (float[2, 12] y) <float[2, 6] t>")
    changed, model = apply(flatten_concats, text)
    assert changed
    assert op_types(model) == ["Concat"]
    assert [value.name for value in model.graph[0].inputs if value] == ["c", "a", "b", "a"]


def test_flattens_several_levels() -> None:
    text = MODEL.replace("INNER", "1").replace("OUTPUTS", "float[2, 24] z")
    changed, model = apply(
        flatten_concats, text.replace("(c, t, a)\n", "(c, t, a)\n z = Concat<axis = 1>(y, b, b, c, c)\n")
    )
    assert changed
    assert op_types(model) == ["Concat"]


ONE_AXIS = MODEL.replace("INNER", "1")
OTHER_AXIS = """<ir_version: 8, opset_import: ["" : 17]>
g (float[2, 3] a, float[2, 3] b, float[4, 3] c) => (float[4, 6] y) {
    t = Concat<axis = 0>(a, b)
    y = Concat<axis = 1>(c, t)
}"""


@pytest.mark.parametrize(
    "text",
    [
        ONE_AXIS.replace("OUTPUTS", Y + ", float[2, 6] t"),
        ONE_AXIS.replace("OUTPUTS", Y + ", float[2, 6] u").replace("(c, t, a)", "(c, t, a) u = Relu(t)"),
        OTHER_AXIS,
    ],
    ids=["an output", "read elsewhere", "another axis"],
)
def test_declines(text: str) -> None:
    changed, _ = apply(flatten_concats, text)
    assert not changed
