"""A GELU by tanh that is spelled out has a half of its own: onnxruntime takes it away from under all others."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import onnx.parser
import onnx_ir as ir
import onnxruntime
import pytest
import torch
from torch.nn import functional as F

import onward
from onward.passes import tidy_file
from onward.passes.for_onnxruntime.part_half_from_gelu import part_half_from_gelu
from onward.write import to_proto

from .running import apply, op_types

STEPS = """p = Pow(x, three) q = Mul(p, c) a = Add(x, q) m = Mul(a, s) t = Tanh(m) g = Add(t, one)
    h = Mul(x, half) z = Mul(h, g) y = Neg(z)"""
TEXT = f"""<ir_version: 8, opset_import: ["" : 17]>
g (float[2, 4] x) => (float[2, 4] y, float[2, 4] w) <
    float three = {{3.0}}, float c = {{0.044715}}, float s = {{0.7978845608}}, float one = {{1.0}}, float half = {{0.5}}
> {{
    {STEPS}
    w = Neg(h)
}}"""
IN_A_BODY = """k = ReduceMax <keepdims = 0> (x) o = Less(k, one)
    w = If (o) <then_branch = b () => (float[2, 4] u) { u = Neg(h) },
    else_branch = d () => (float[2, 4] v) { v = Abs(h) }>"""


def run(proto: onnx.ModelProto, *, fused: bool = True) -> Any:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    if not fused:
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    x = np.random.default_rng(0).normal(size=(2, 4)).astype(np.float32)
    return onnxruntime.InferenceSession(proto.SerializeToString(), options).run(None, {"x": x})


@pytest.mark.parametrize(
    "text",
    [
        TEXT,
        TEXT.replace("Mul(x, half)", "Mul(half, x)").replace("Mul(h, g)", "Mul(g, h)"),
        TEXT.replace("w = Neg(h)", "o = Mul(half, x) r = Neg(h) w = Add(o, r)"),
        TEXT.replace("w = Neg(h)", IN_A_BODY),
    ],
    ids=["read", "the other order", "both orders", "in a body"],
)
def test_a_half_that_others_read(text: str) -> None:
    original = onnx.parser.parse_model(text)
    with pytest.raises(
        Exception, match="'h' is not a graph input|Missing Input: h"
    ):  # the day it loads, the pass can go
        run(original)
    model = ir.from_proto(original)
    assert part_half_from_gelu(model)
    assert not part_half_from_gelu(model)
    tidied = ir.from_proto(original)
    tidy_file(tidied)
    for each in (model, tidied):
        for want, got in zip(run(original, fused=False), run(to_proto(each)), strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-3, atol=1e-6)


@pytest.mark.parametrize("change", [("Neg(h)", "Neg(m)"), ("half = {0.5}", "half = {0.25}"), ("Tanh", "Sigmoid")])
def test_declines(change: tuple[str, str]) -> None:
    assert not apply(part_half_from_gelu, TEXT.replace(*change))[0]


def _spelled_out(x: torch.Tensor) -> torch.Tensor:
    return 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


class _Half(torch.nn.Module):
    def __init__(self, gelu: Any) -> None:
        super().__init__()
        self.gelu = gelu

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return self.gelu(x).mT, (x * 0.5).mT


@pytest.mark.parametrize("opset", [9, 17, 20])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.float64])
def test_models_that_take_the_half_as_well(opset: int, dtype: torch.dtype) -> None:
    for gelu in (_spelled_out, torch.nn.GELU("tanh"), lambda x: F.gelu(x, approximate="tanh")):
        onward.export(_Half(gelu), (torch.randn(3, 4).to(dtype),), opset_version=opset, verify=True)


def test_a_gelu_that_is_a_function() -> None:
    example = (torch.randn(3, 4),)
    model = _Half(torch.nn.GELU("tanh"))
    onward.export(model, example, opset_version=17, export_modules_as_functions=True, verify=True)


def test_the_half_of_a_lowered_gelu_is_its_own() -> None:
    model = onward.export(_Half(torch.nn.GELU("tanh")), (torch.randn(3, 4),), opset_version=17).model
    assert op_types(model).count("Mul") == 5
