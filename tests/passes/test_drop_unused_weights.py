"""Constants that nobody reads go; those that can be fed or are given out stay."""

from __future__ import annotations

from onward.passes.drop_unused_weights import drop_unused_weights

from .running import apply

MODEL = """<ir_version: 8, opset_import: ["" : 17]>
g (float[2] x, float[2] fed) => (float[2] y, float[2] out)
<float[2] used = {1, 2}, float[2] unused = {3, 4}, float[2] fed = {5, 6}, float[2] out = {7, 8}> {
    y = Add(x, used)
}"""


def test_only_what_nobody_can_see_goes() -> None:
    changed, model = apply(drop_unused_weights, MODEL)
    assert changed
    assert sorted(model.graph.initializers) == ["fed", "out", "used"]


def test_nothing_to_do() -> None:
    changed, _ = apply(drop_unused_weights, MODEL.replace("float[2] unused = {3, 4}, ", ""))
    assert not changed
