"""The pipeline names the pass that fails or breaks the model."""

from __future__ import annotations

import onnx.parser
import onnx_ir as ir
import pytest

from onward import PassError
from onward.passes.pipeline import PIPELINE, run_passes

TEXT = """<ir_version: 8, opset_import: ["" : 17]>
g (float[2] x) => (float[2] y) { y = Relu(x) }"""


def breaks_the_model(model: ir.Model) -> bool:
    model.graph[0].op_type = "NoSuchOperator"
    return True


def raises(model: ir.Model) -> bool:
    raise KeyError("gone")


def parsed() -> ir.Model:
    return ir.from_proto(onnx.parser.parse_model(TEXT))


def test_a_pass_that_raises_is_named() -> None:
    with pytest.raises(PassError, match="the pass raises failed: 'gone'"):
        run_passes(parsed(), (raises,))


def test_a_pass_that_breaks_the_model_is_named_when_checking() -> None:
    run_passes(parsed(), (breaks_the_model,))
    with pytest.raises(PassError, match="the pass breaks_the_model failed: .*NoSuchOperator"):
        run_passes(parsed(), (*PIPELINE, breaks_the_model), check=True)
