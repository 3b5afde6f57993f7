"""A batch norm goes into the weights before it, where that is allowed."""

from __future__ import annotations

import pytest

from onward.passes.drop_unused_weights import drop_unused_weights
from onward.passes.fuse_conv_batch_norm import fuse_conv_batch_norm

from .running import apply, op_types

HEADER = '<ir_version: 8, opset_import: ["" : 17]>'
NORM = "float[2] s = {1.5, -0.5}, float[2] c = {0.25, 1}, float[2] m = {0.1, -2}, float[2] v = {0.5, 4}"
CONV = f"""{HEADER}
g (float[n, 1, 5, 5] x) => (float[n, 2, 3, 3] z)
<float[2, 1, 3, 3] w = {{1,2,3,4,5,6,7,8,9, 9,8,7,6,5,4,3,2,1}}, float[2] b = {{1, 2}}, {NORM}> {{
    y = Conv(x, w BIAS)
    z = BatchNormalization<epsilon = 0.001>(y, s, c, m, v)
}}"""
GEMM = f"""{HEADER}
g (float[n, 3] x) => (float[n, 2] z)
<float[2, 3] w = {{1, 2, 3, 4, 5, 6}}, float[2] b = {{1, 2}}, {NORM}> {{
    y = Gemm<transB = 1>(x, w, b)
    z = BatchNormalization(y, s, c, m, v)
}}"""
TRANSPOSED = f"""{HEADER}
g (float[n, 1, 2, 2] x) => (float[n, 2, 4, 4] z)
<float[1, 2, 3, 3] w = {{1,2,3,4,5,6,7,8,9, 9,8,7,6,5,4,3,2,1}}, {NORM}> {{
    y = ConvTranspose(x, w)
    z = BatchNormalization(y, s, c, m, v)
}}"""


@pytest.mark.parametrize(
    ("text", "op"),
    [
        (CONV.replace("BIAS", ", b"), "Conv"),
        (CONV.replace("BIAS", ""), "Conv"),
        (GEMM, "Gemm"),
        (GEMM.replace("<transB = 1>", "").replace("float[2, 3] w", "float[3, 2] w"), "Gemm"),
        (TRANSPOSED, "ConvTranspose"),
    ],
    ids=["conv", "conv without bias", "gemm", "gemm, weight not transposed", "transposed conv"],
)
def test_fuses(text: str, op: str) -> None:
    changed, model = apply(fuse_conv_batch_norm, text)
    assert changed
    assert op_types(model) == [op]
    assert model.graph.outputs[0].name == "z"
    assert drop_unused_weights(model)
    assert len(model.graph.initializers) == 2


@pytest.mark.parametrize(
    "text",
    [
        CONV.replace("BIAS", ", b").replace(
            "=> (float[n, 2, 3, 3] z)", "=> (float[n, 2, 3, 3] z, float[n, 2, 3, 3] y)"
        ),
        CONV.replace("BIAS", ", b").replace("x) =>", "x, float[2] s) =>"),
        GEMM.replace("transB = 1", "transB = 1, alpha = 2.0"),
        GEMM.replace("y = Gemm<transB = 1>(x, w, b)", "t = Gemm<transB = 1>(x, w, b)\n y = Relu(t)"),
    ],
    ids=["result read elsewhere", "a parameter that can be fed", "scaled gemm", "something in between"],
)
def test_declines(text: str) -> None:
    changed, model = apply(fuse_conv_batch_norm, text)
    assert not changed
    assert op_types(model)[-1] == "BatchNormalization"
