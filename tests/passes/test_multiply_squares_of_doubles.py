"""A square of float64 under a mean is a product: onnxruntime's fused norm takes no epsilon there."""

from __future__ import annotations

import onnx.parser
import onnx_ir as ir
import pytest
import torch

import onward
from onward.passes.for_onnxruntime.multiply_squares_of_doubles import multiply_squares_of_doubles
from onward.verify import Session
from onward.write import to_proto

from .running import op_types

NORM = """<ir_version: 8, opset_import: ["" : 17]>
g (double[3, 4] x) => (double[3, 4] y) <double two = {2.0}, double e = {0.1}, double[4] w = {1, 2, 3, 4}> {
    p = Pow(x, two) v = ReduceMean<axes = [1]>(p) a = Add(v, e) t = Sqrt(a) q = Div(x, t) y = Mul(q, w) }"""


def test_a_square_becomes_a_product() -> None:
    model = ir.from_proto(onnx.parser.parse_model(NORM))
    x = torch.full((3, 4), 0.01, dtype=torch.float64)
    want = x / (x.square().mean(1, keepdim=True) + 0.1).sqrt() * torch.tensor([1.0, 2, 3, 4])
    wrong = Session(to_proto(model)).run({"x": x})[0]
    assert not torch.allclose(wrong, want, rtol=0.5)  # the day it is right, the pass can go
    assert multiply_squares_of_doubles(model)
    assert op_types(model) == ["Mul", "ReduceMean", "Add", "Sqrt", "Div", "Mul"]
    torch.testing.assert_close(Session(to_proto(model)).run({"x": x})[0], want)
    assert not multiply_squares_of_doubles(model)


@pytest.mark.parametrize("change", [("2.0", "3.0"), ("double", "float"), ("ReduceMean", "ReduceSum")])
def test_declines(change: tuple[str, str]) -> None:
    text = NORM.replace(*change).replace("ReduceSum<axes = [1]>(p)", "Abs(p)")
    assert not multiply_squares_of_doubles(ir.from_proto(onnx.parser.parse_model(text)))


@pytest.mark.parametrize("opset", [11, 16, 17])
def test_a_layer_norm_without_a_bias(opset: int) -> None:
    norm = torch.nn.LayerNorm(4, eps=0.1, bias=False, dtype=torch.float64).eval()
    onward.export(norm, (torch.randn(3, 4, dtype=torch.float64),), opset_version=opset, verify=True)
