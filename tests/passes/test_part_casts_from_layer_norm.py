"""A Cast that onnxruntime would take for a part of a layer norm is kept apart from it."""

from __future__ import annotations

import onnx.parser
import onnx_ir as ir
import pytest
import torch

import onward
from onward.passes import tidy_file
from onward.passes.for_onnxruntime.part_casts_from_layer_norm import part_casts_from_layer_norm
from onward.verify import Session
from onward.write import to_proto

from .running import op_types

HEAD = """<ir_version: 8, opset_import: ["" : 17]>
g (%s[3, 4] x) => (float[3, 4] y)
<%s two = {2.0}, %s e = {0.1}, float[4] w = {1, 2, 3, 4}, %s[3, 4] s, float[3, 4] c, %s[3, 4] q> {"""
PLACES = {
    "in front": (
        HEAD % ("double", "float", "float", "float", "float")
        + """c = Cast<to = 1>(x) m = ReduceMean<axes = [1]>(c) s = Sub(c, m) p = Pow(s, two)
        v = ReduceMean<axes = [1]>(p) a = Add(v, e) t = Sqrt(a) q = Div(s, t) k = Mul(q, w) y = Add(k, w) }""",
        ["Cast", "Reshape", "ReduceMean", "Sub", "Pow", "ReduceMean", "Add", "Sqrt", "Div", "Mul", "Add"],
    ),
    "behind the difference": (
        HEAD % ("double", "float", "float", "double", "float")
        + """m = ReduceMean<axes = [1]>(x) s = Sub(x, m) c = Cast<to = 1>(s) p = Pow(c, two)
        v = ReduceMean<axes = [1]>(p) a = Add(v, e) t = Sqrt(a) q = Div(c, t) k = Mul(q, w) y = Add(k, w) }""",
        ["ReduceMean", "Sub", "Cast", "Reshape", "Pow", "ReduceMean", "Add", "Sqrt", "Div", "Mul", "Add"],
    ),
    "behind the quotient": (
        HEAD % ("double", "double", "double", "double", "double")
        + """m = ReduceMean<axes = [1]>(x) s = Sub(x, m) p = Pow(s, two)
        v = ReduceMean<axes = [1]>(p) a = Add(v, e) t = Sqrt(a) q = Div(s, t)
        c = Cast<to = 1>(q) k = Mul(c, w) y = Add(k, w) }""",
        ["ReduceMean", "Sub", "Pow", "ReduceMean", "Add", "Sqrt", "Div", "Cast", "Reshape", "Mul", "Add"],
    ),
}  # fmt: skip


def read(text: str) -> ir.Model:
    proto = onnx.parser.parse_model(text)
    onnx.checker.check_model(proto, full_check=True)
    return ir.from_proto(proto)


@pytest.mark.parametrize("place", PLACES)
def test_a_reshape_parts_them(place: str) -> None:
    text, wanted = PLACES[place]
    model = read(text)
    with pytest.raises(Exception, match="LayerNormalization"):  # the day it loads, the pass can go
        Session(to_proto(model))
    assert part_casts_from_layer_norm(model)
    assert op_types(model) == wanted
    x = torch.randn(3, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    w = torch.tensor([1.0, 2, 3, 4])
    want = torch.layer_norm(x.float(), [4], w, w, 0.1)
    torch.testing.assert_close(Session(to_proto(model)).run({"x": x})[0], want)
    assert not part_casts_from_layer_norm(model)
    tidy_file(model)
    assert op_types(model).count("Reshape") == 1


@pytest.mark.parametrize(
    "change", [("Cast<to = 1>(x)", "Abs(x)"), ("Pow(s, two)", "Mul(s, s)"), ("Sub(c, m)", "Sub(m, c)")]
)
def test_declines(change: tuple[str, str]) -> None:
    text, _ = PLACES["in front"]
    model = ir.from_proto(onnx.parser.parse_model(text.replace(*change)))
    assert not part_casts_from_layer_norm(model)


@pytest.mark.parametrize("opset", [9, 13, 16, 17])
@pytest.mark.parametrize("dtype", [torch.uint8, torch.int64, torch.float64, torch.float16])
def test_a_norm_of_what_was_converted(dtype: torch.dtype, opset: int) -> None:
    norm = torch.nn.LayerNorm(4).eval()
    x = torch.arange(20).reshape(5, 4).to(dtype)
    onward.export(lambda x: norm(x.float()), (x,), opset_version=opset, verify=True)


def test_a_norm_that_the_model_spells_out() -> None:
    two, weight = torch.tensor(2.0), torch.rand(4)

    def spelled(x: torch.Tensor) -> torch.Tensor:
        y = x.float()
        y = y - y.mean(-1, keepdim=True)
        return y / (y.pow(two).mean(-1, keepdim=True) + 0.1).sqrt() * weight + weight

    onward.export(spelled, (torch.arange(20).reshape(5, 4),), verify=True)
