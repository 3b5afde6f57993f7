"""Two scales of one factor that onnxruntime cannot load in front of products are kept apart."""

from __future__ import annotations

import numpy as np
import onnx.parser
import onnx_ir as ir
import onnxruntime
import pytest
import torch

import onward
from onward.passes import tidy_file
from onward.passes.drop_no_ops import drop_no_ops
from onward.passes.for_onnxruntime.part_scales_of_matmul import part_scales_of_matmul
from onward.write import to_proto

from .running import op_types

MODEL = """<ir_version: 8, opset_import: ["" : 17]>
g (float[4, 4] x) => (float[4, 4] y) <float a = {2.0}, float b = {0.5}, float[4, 4] m, float[4, 4] s> {
    m = Mul(x, a)
    s = Mul(m, b)
    p = MatMul(s, x)
    y = MatMul(p, m)
}"""


def read(text: str) -> ir.Model:
    return ir.from_proto(onnx.parser.parse_model(text))


def load(model: ir.Model) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    return onnxruntime.InferenceSession(to_proto(model).SerializeToString(), options)


def test_a_reshape_parts_them() -> None:
    model = read(MODEL)
    with pytest.raises(Exception, match="'m' is not a graph input"):  # the day it loads, the pass can go
        load(model)
    assert part_scales_of_matmul(model)
    assert op_types(model) == ["Mul", "Mul", "Reshape", "MatMul", "MatMul"]
    x = np.random.default_rng(0).normal(size=(4, 4)).astype(np.float32)
    np.testing.assert_allclose(load(model).run(None, {"x": x})[0], x @ x @ (2 * x), rtol=1e-4)
    assert not part_scales_of_matmul(model)
    assert not drop_no_ops(model)
    assert not tidy_file(model) or "Reshape" in op_types(model)


@pytest.mark.parametrize("change", [("Mul(m, b)", "Add(m, b)"), ("Mul(x, a)", "Relu(x)"), ("MatMul(p, m)", "Relu(p)")])
def test_declines(change: tuple[str, str]) -> None:
    assert not part_scales_of_matmul(read(MODEL.replace(*change)))


def test_attention_of_a_scaled_tensor_with_itself() -> None:
    def model(x: torch.Tensor) -> torch.Tensor:
        y = x * 1.5
        return torch.nn.functional.scaled_dot_product_attention(y, y, y)

    onward.export(model, torch.randn(2, 5, 4), verify=True)
