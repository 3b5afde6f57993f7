"""What is compared in float16 is rounded to float16 first."""

from __future__ import annotations

import onnx.parser
import onnx_ir as ir
import pytest
import torch

import onward
from onward.passes import tidy_file
from onward.passes.for_onnxruntime.round_before_comparing import round_before_comparing
from onward.verify import Session
from onward.write import to_proto

from .running import op_types

HEAD = '<ir_version: 8, opset_import: ["" : 17]> g '
X = torch.randn(100, dtype=torch.float64, generator=torch.Generator().manual_seed(0)) * 100
H = X.half()


def read(text: str) -> ir.Model:
    proto = onnx.parser.parse_model(HEAD + text)
    onnx.checker.check_model(proto, full_check=True)
    return ir.from_proto(proto)


@pytest.mark.parametrize(
    ("text", "x", "want", "types"),
    [
        ("(float[n] x, float16[n] h) => (bool[n] y) <float16[n] c> { c = Cast<to = 10>(x) y = Equal(c, h) }",
         X.float(), torch.ones(100, dtype=torch.bool), ["Cast", "Reshape", "Equal"]),
        ("(double[n] x, float16[n] h) => (bool[n] y) <float16[n] c> { c = Cast<to = 10>(x) y = Less(h, c) }",
         X, torch.zeros(100, dtype=torch.bool), ["Cast", "Reshape", "Less"]),
        ("""(float[n] x, float16[n] h) => (bool[n] y) <float16[n] c, float16[n] r>
            { c = Cast<to = 10>(x) r = Relu(c) y = GreaterOrEqual(h, r) }""",
         X.float(), H >= 0, ["Cast", "Reshape", "Relu", "GreaterOrEqual"]),
        ("""(float[n] x) => (int64[n] y) <float16[n] c, float16[n] r>
            { c = Cast<to = 10>(x) r = Abs(c) y = Cast<to = 7>(r) }""",
         X.float() * 100, (X * 100).half().abs().long(), ["Cast", "Reshape", "Abs", "Cast"]),
    ],
    ids=["float", "double", "chosen", "integers"],
)  # fmt: skip
def test_a_reshape_rounds(text: str, x: torch.Tensor, want: torch.Tensor, types: list[str]) -> None:
    model = read(text)
    inputs = [x, H][: len(model.graph.inputs)]
    assert not torch.equal(Session(to_proto(model)).run(inputs)[0], want)  # the day it is, the pass can go
    assert round_before_comparing(model)
    assert op_types(model) == types
    assert torch.equal(Session(to_proto(model)).run(inputs)[0], want)
    assert not round_before_comparing(model)
    tidy_file(model)
    assert op_types(model) == types


@pytest.mark.parametrize(
    "text",
    [
        "(float16[n] x) => (float16[n] y) { y = Floor(x) }",
        "(float[n] x) => (float[n] y) <float[n] c> { c = Mul(x, x) y = Floor(c) }",
        "(float[n] x) => (float16[n] y) <float16[n] c> { c = Cast<to = 10>(x) y = Neg(c) }",
        "(float[n] x) => (int64[n] y) <float16[n] c> { c = Cast<to = 10>(x) y = Cast<to = 7>(c) }",
        "(float[n] x) => (float16[n] y) <float16[n] c> { c = Cast<to = 10>(x) y = Round(c) }",
        "(float[n] x) => (int64[m] y) <float16[n] c, float16[n] d> { c = Cast<to = 10>(x) d = Exp(c) y = ArgMax(d) }",
    ],
)
def test_declines(text: str) -> None:
    assert not round_before_comparing(read(text))


@pytest.mark.parametrize("opset", [9, 10, 13, 20])
def test_half_equals_itself(opset: int) -> None:
    def model(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        y = x.half()
        first, back = y[:1], y.neg().neg()
        return y == first, y < first, y.relu() >= first.relu(), y == back, y.floor(), y.argmax(0), y.abs().int()

    x = torch.randn(1, 50, generator=torch.Generator().manual_seed(1)) * 100
    onward.export(model, (x.expand(3, 50),), opset_version=opset, verify=True)
