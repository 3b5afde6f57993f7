"""FLOPs: products as PyTorch's own counter has them, everything else by hand, nothing guessed."""

from __future__ import annotations

from typing import Any

import onnx
import onnx_ir as ir
import pytest
import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

import onward
from onward.report.contents import contents
from onward.report.data import report_data
from tests.models._torchvision import torchvision_models

PRODUCTS = {"Conv", "ConvTranspose", "Gemm", "MatMul", "Einsum"}


def _bert() -> nn.Module:
    torchvision_models()  # transformers imports it, wherever it is installed
    from transformers import BertConfig, BertModel

    config = BertConfig(
        hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=48, vocab_size=50,
        attn_implementation="eager",
    )  # fmt: skip
    return BertModel(config)


def _transposed() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, 2, 1, groups=1), nn.ReLU(), nn.ConvTranspose2d(8, 4, 4, 2, 1),
        nn.ConvTranspose2d(4, 2, 3, groups=2, dilation=2, output_padding=1, stride=2), nn.Conv2d(2, 6, 1, groups=2),
    )  # fmt: skip


MODELS = {
    "resnet18": (lambda: torchvision_models().resnet18(), torch.rand(2, 3, 48, 40), {0: "batch", 2: "h", 3: "w"}),
    "bert": (_bert, torch.randint(0, 50, (2, 7)), {0: "batch", 1: "length"}),
    "transposed": (_transposed, torch.rand(2, 3, 9, 8), {0: "batch", 2: "h"}),
}


@pytest.mark.parametrize("name", list(MODELS))
def test_products_are_those_of_pytorchs_counter(name: str) -> None:
    build, x, axes = MODELS[name]
    model = build().eval()
    parameter = {"bert": "input_ids", "transposed": "input"}.get(name, "x")
    program = onward.export(model, (x,), dynamic_axes={parameter: axes})
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        model(x)
    data = report_data(program).data
    assert sum(node["flops"] for node in data["nodes"] if node["op"] in PRODUCTS) == counter.get_total_flops()
    assert data["totals"]["flops_unknown"] == []
    assert data["totals"]["flops"] > counter.get_total_flops()


ROWS = [
    ("Relu (x)", "float[2, 3] x", 6),
    ("Add (x, z)", "float[2, 1] x, float[3] z", 6),
    ("Reshape (x, s)", "float[2, 3] x, int64[1] s", 0),
    ("Softmax (x)", "float[2, 3] x", 30),
    ("ReduceMean <keepdims = 1> (x)", "float[2, 3] x", 6),
    ("ReduceSumSquare (x)", "float[2, 3] x", 12),
    ("LayerNormalization (x, s, b)", "float[2, 3] x, float[3] s, float[3] b", 6 * 8),
    ("LayerNormalization (x, s)", "float[2, 3] x, float[3] s", 6 * 7),
    ("AveragePool <kernel_shape = [2, 2], strides = [2, 2]> (x)", "float[1, 3, 4, 4] x", 12 * 4),
    ("GlobalAveragePool (x)", "float[1, 3, 4, 4] x", 48),
    ("Conv <group = 3> (x, w)", "float[1, 3, 4, 4] x, float[6, 1, 3, 3] w", 2 * 6 * 4 * 9),
    ("ConvInteger (x, w)", "uint8[1, 3, 4, 4] x, int8[6, 3, 3, 3] w", 2 * 6 * 4 * 27),
    ("QLinearConv (x, sx, zx, w, sw, zw, sy, zy)",
     "uint8[1, 3, 4, 4] x, float sx, uint8 zx, int8[6, 3, 3, 3] w, float sw, int8 zw, float sy, uint8 zy",
     2 * 6 * 4 * 27),
    ("QLinearMatMul (x, sx, zx, w, sw, zw, sy, zy)",
     "uint8[5, 7] x, float sx, uint8 zx, int8[7, 2] w, float sw, int8 zw, float sy, uint8 zy", 2 * 5 * 7 * 2),
    ("MatMulInteger (x, w)", "uint8[5, 7] x, int8[7, 2] w", 140),
    ("MatMul (x, w)", "float[3, 5, 7] x, float[7, 2] w", 3 * 140),
    ("MatMul (x, w)", "float[7] x, float[7] w", 14),
    ("Gemm <transA = 1> (x, w)", "float[7, 5] x, float[7, 2] w", 140),
    ('Einsum <equation = "bij,bjk->bik"> (x, w)', "float[3, 5, 7] x, float[3, 7, 2] w", 3 * 140),
    ('Einsum <equation = "i,j->ij"> (x, w)', "float[5] x, float[2] w", 10),
    ('Einsum <equation = "ij->ji"> (x)', "float[5, 2] x", 0),
    ('Einsum <equation = "ij,jk,kl->il"> (x, w, v)', "float[5, 2] x, float[2, 3] w, float[3, 4] v", None),
    ("LSTM <hidden_size = 3> (x, w, r)", "float[5, 2, 4] x, float[1, 12, 4] w, float[1, 12, 3] r",
     5 * 2 * (2 * 12 * (4 + 3) + 13 * 3)),
    ("GRU <hidden_size = 3> (x, w, r)", "float[5, 2, 4] x, float[1, 9, 4] w, float[1, 9, 3] r",
     5 * 2 * (2 * 9 * (4 + 3) + 11 * 3)),
    ("RNN <hidden_size = 3> (x, w, r)", "float[5, 2, 4] x, float[1, 3, 4] w, float[1, 3, 3] r",
     5 * 2 * (2 * 3 * (4 + 3) + 2 * 3)),
    ("Attention (q, k, v)", "float[2, 4, 5, 8] q, float[2, 4, 7, 8] k, float[2, 4, 7, 6] v",
     2 * 4 * 5 * 7 * (2 * (8 + 6) + 5)),
    ("Attention <q_num_heads = 4, kv_num_heads = 2> (q, k, v)",
     "float[2, 5, 32] q, float[2, 7, 16] k, float[2, 7, 12] v", 2 * 4 * 5 * 7 * (2 * (8 + 6) + 5)),
    ("QuantizeLinear (x, s, z)", "float[2, 3] x, float s, uint8 z", 24),
    ("DequantizeLinear (x, s, z)", "uint8[2, 3] x, float s, uint8 z", 12),
    ("Det (x)", "float[2, 2] x", None),
    ("TopK (x, s)", "float[9] x, int64[1] s", None),
    ("com.microsoft.MatMulNBits <K = 64, N = 8, bits = 4, block_size = 32> (x, w, s)",
     "float[3, 64] x, uint8[8, 2, 16] w, float[16] s", None),  # onnx does not know what it gives
]  # fmt: skip


@pytest.mark.parametrize(("call", "inputs", "flops"), ROWS)
def test_operators(call: str, inputs: str, flops: int | None) -> None:
    text = f'<ir_version: 10, opset_import: ["" : 23, "com.microsoft" : 1]> g ({inputs}) => (y) {{ y = {call} }}'
    assert _counted(text) == flops


def _counted(text: str) -> Any:
    model = ir.from_proto(onnx.parser.parse_model(text))
    sizes = {
        str(value.name): tuple(int(size) for size in value.shape.numpy())
        for value in model.graph.inputs
        if value.shape is not None
    }
    return contents(model, sizes).data["nodes"][-1]["flops"]


@pytest.mark.parametrize(("mode", "flops"), [("nearest", 0), ("linear", 2 * 64 * 4), ("cubic", 2 * 64 * 16)])
def test_resize(mode: str, flops: int) -> None:
    text = f"""<ir_version: 9, opset_import: ["" : 20]> g (float[1, 1, 4, 4] x) => (y)
        <float[4] f = {{1.0, 1.0, 2.0, 2.0}}> {{ y = Resize <mode = "{mode}"> (x, , f) }}"""
    assert _counted(text) == flops


def test_declared_shapes_of_other_domains_are_taken() -> None:
    text = """<ir_version: 10, opset_import: ["" : 23, "com.microsoft" : 1]>
        g (float[n, 64] x, uint8[8, 2, 16] w, float[16] s) => (float[n, 8] y)
        { y = com.microsoft.MatMulNBits <K = 64, N = 8, bits = 4, block_size = 32> (x, w, s) }"""
    model = ir.from_proto(onnx.parser.parse_model(text))
    data = contents(model, {"x": (3, 64), "w": (8, 2, 16), "s": (16,)}).data
    assert data["nodes"][0]["flops"] == 2 * 3 * 8 * 64


@pytest.mark.parametrize(
    "call",
    [
        "Conv <strides = [8, 8]> (x, w)",
        "ConvInteger <strides = [8, 8]> (x, w)",
        "QLinearConv <strides = [8, 8]> (x, s, z, w, s, z, s, z)",
        "MaxPool <kernel_shape = [3, 3], dilations = [2, 2], strides = [8, 8]> (x)",
        "AveragePool <kernel_shape = [9, 9], pads = [2, 2, 2, 2], strides = [8, 8]> (x)",
        "MaxPool <kernel_shape = 3> (x)",  # not the type that it has to be
    ],
)
def test_a_window_without_a_place_has_no_number(call: str) -> None:
    """onnx infers one place for most of these."""
    kind = "uint8" if "Q" in call or "Integer" in call else "float"
    text = f"""<ir_version: 9, opset_import: ["" : 20]> g ({kind}[1, 1, n, n] x, {kind}[1, 1, 5, 5] w, float s, uint8 z)
        => (y) {{ y = {call} }}"""
    model = ir.from_proto(onnx.parser.parse_model(text))
    others = {"w": (1, 1, 5, 5), "s": (), "z": ()}
    assert contents(model, {"x": (1, 1, 4, 4), **others}).data["nodes"][-1]["flops"] is None
    if "= 3>" not in call:
        assert contents(model, {"x": (1, 1, 5, 5), **others}).data["nodes"][-1]["flops"] is not None


def test_what_follows_from_the_name_of_an_axis_is_counted() -> None:
    """The file says `rows` of the product, which no input has; the operator before it gives `n` and `m`."""
    text = """<ir_version: 10, opset_import: ["" : 20, "other" : 1]>
        g (float[n, m, 8] x, float[8, 4] w) => (float[rows, 4] y)
        <int64[2] s = {-1, 8}, float[n, m, 8] a, float[rows, 8] b>
        { a = other.Own (x)
          b = Reshape (a, s)
          y = Gemm (b, w) }"""
    model = ir.from_proto(onnx.parser.parse_model(text))
    data = contents(model, {"x": (2, 3, 8), "w": (8, 4)}).data
    assert [node["flops"] for node in data["nodes"]] == [None, 0, 2 * 6 * 8 * 4]
