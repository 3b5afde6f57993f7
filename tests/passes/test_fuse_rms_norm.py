"""A root mean square norm is spelled the way onnxruntime runs it at once, or as the operator it is."""

from __future__ import annotations

import pytest

from onward.passes.fuse_rms_norm import fuse_rms_norm

from .running import apply, op_types

SPELLED = """<ir_version: 8, opset_import: ["" : 18]>
g (float[n, 2, 3] x) => (float[n, 2, 3] z)
<float[3] w = {1.5, -0.5, 2}, float e = {0.001}, int64[1] axes = {-1}, float two = {2}> {
    s = Mul(x, x)
    m = ReduceMean(s, axes)
    a = Add(m, e)
    r = Sqrt(a)
    i = Reciprocal(r)
    y = Mul(x, i)
    z = Mul(w, y)
}"""
NEWER = SPELLED.replace("18", "23").replace("ir_version: 8", "ir_version: 10")
OLDER = SPELLED.replace("18", "13").replace("ReduceMean(s, axes)", "ReduceMean<axes = [2]>(s)")
QUICK = ["Pow", "ReduceMean", "Add", "Sqrt", "Div", "Mul"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (SPELLED, QUICK),
        (OLDER, QUICK),
        (SPELLED.replace("Mul(w, y)", "Mul(y, w)").replace("Mul(x, i)", "Mul(i, x)"), QUICK),
        (SPELLED.replace("i = Reciprocal(r)", "").replace("Mul(x, i)", "Div(x, r)"), QUICK),
        (NEWER, ["RMSNormalization"]),
        (NEWER.replace("Mul(x, x)", "Pow(x, two)"), ["RMSNormalization"]),
    ],
)
def test_fuses(text: str, expected: list[str]) -> None:
    changed, model = apply(fuse_rms_norm, text)
    assert changed
    assert op_types(model) == expected
    assert model.graph.outputs[0].name == "z"


@pytest.mark.parametrize(
    "text",
    [
        SPELLED.replace("[n, 2, 3] z)", "[n, 2, 3] z, float[n, 2, 3] y)"),
        SPELLED.replace("axes = {-1}", "axes = {1}"),
        SPELLED.replace("x) =>", "x, float[3] w) =>"),
        SPELLED.replace("Mul(x, x)", "Mul(x, w)"),
        SPELLED.replace("float[3] w = {1.5, -0.5, 2}", "float[1] w = {1.5}"),
        SPELLED.replace("float[n, 2, 3] z)", "float[n, 2, 3] z, float[n, 2, 1] r)"),
    ],
    ids=["result read", "another axis", "weight from outside", "not a square", "one weight for all", "root read"],
)
def test_declines(text: str) -> None:
    changed, _ = apply(fuse_rms_norm, text)
    assert not changed
