"""Live weights as inputs."""

from __future__ import annotations

import onnx
import onnx_ir as ir
import pytest

from onward.lower.constants import LIVE
from onward.passes import expose_weights, tidy

TEXT = """<ir_version: 9, opset_import: ["" : 17]> g (float[1, 1, 3, 3] x) => (float[1, 1, 1, 1] y)
    <float[1, 1, 3, 3] w = {1, 2, 3, 4, 5, 6, 7, 8, 9}, float[1] s = {2}, float[1] b = {1}, float[1] m = {0},
     float[1] v = {1}> { t = Conv(x, w)  y = BatchNormalization(t, s, b, m, v) }"""


def live_model(*live: str) -> ir.Model:
    model = ir.from_proto(onnx.parser.parse_model(TEXT))
    for name in live:
        model.graph.initializers[name].meta[LIVE] = name
    return model


def inputs(model: ir.Model) -> list[str | None]:
    return [value.name for value in model.graph.inputs]


@pytest.mark.parametrize("keep", [True, False])
def test_in_the_given_order_after_the_inputs_and_once(keep: bool) -> None:
    model = live_model("w", "s", "v")
    assert expose_weights(model, ["v", "unused", "w", "s"], keep=keep)
    assert inputs(model) == ["x", "v", "w", "s"]
    assert set(model.graph.initializers) == {"b", "m"} | ({"w", "s", "v"} if keep else set())
    onnx.checker.check_model(ir.to_proto(model), full_check=True)
    assert not expose_weights(model, ["v", "unused", "w", "s"], keep=keep)
    assert inputs(model) == ["x", "v", "w", "s"]


def test_constants_stay() -> None:
    model = live_model()
    assert not expose_weights(model, [], keep=False)
    assert inputs(model) == ["x"]


@pytest.mark.parametrize("live", ["w", "s", "b", "m", "v"])
def test_passes_leave_live_weights_alone(live: str) -> None:
    model = tidy(live_model(live))
    assert [node.op_type for node in model.graph] == ["Conv", "BatchNormalization"]
    assert [node.op_type for node in tidy(live_model()).graph] == ["Conv"]
