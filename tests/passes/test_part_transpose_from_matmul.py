"""A Transpose and a MatMul that onnxruntime cannot load next to each other are kept apart."""

from __future__ import annotations

import itertools
import subprocess
import sys

import onnx.parser
import onnx_ir as ir
import pytest
import torch
from torch import nn

import onward
from onward.passes import tidy_file
from onward.passes.drop_no_ops import drop_no_ops
from onward.passes.for_onnxruntime.part_transpose_from_matmul import moves_first_axis, part_transpose_from_matmul
from onward.write import to_proto

from .running import op_types

MODEL = """<ir_version: 8, opset_import: ["" : 17]>
g (TYPE[b, 3, 2] x, float16[2, 6] w) => (float16[3, b, 6] y) <TYPE[3, b, 2] t> {
    t = Transpose<perm = [1, 0, 2]>(x)
    y = MatMul(t, w)
}"""
CAST = """<ir_version: 8, opset_import: ["" : 17]>
g (int32[b, 3, 2] x, float[2, 6] w) => (float[3, b, 6] y, float[3, b, 6] z) <int32[3, b, 2] t, float[3, b, 2] c> {
    t = Transpose<perm = [1, 0, 2]>(x)
    c = Cast<to = 1>(t)
    y = MatMul(c, w)
    z = MatMul(c, w)
}"""


def read(text: str) -> ir.Model:
    return ir.from_proto(onnx.parser.parse_model(text))


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        (MODEL.replace("TYPE", "float16"), ["Transpose", "Reshape", "MatMul"]),
        (CAST, ["Transpose", "Cast", "Reshape", "MatMul", "MatMul"]),
    ],
)
def test_a_reshape_parts_them(text: str, wanted: list[str]) -> None:
    """Not run by onnxruntime: the file before the pass would end the process."""
    model = read(text)
    assert part_transpose_from_matmul(model)
    assert op_types(model) == wanted
    onnx.checker.check_model(to_proto(model), full_check=True)
    assert not part_transpose_from_matmul(model)
    assert not drop_no_ops(model)
    assert not tidy_file(model) or op_types(model) == wanted


@pytest.mark.parametrize("change", [("float16", "float"), ("[1, 0, 2]", "[0, 1, 2]"), ("MatMul", "Add")])
def test_declines(change: tuple[str, str]) -> None:
    assert not part_transpose_from_matmul(read(MODEL.replace("TYPE", "float16").replace(*change)))


def test_the_orders_of_axes_that_onnxruntime_takes_for_a_batch_that_moved() -> None:
    found = {
        order
        for rank in (2, 3, 4)
        for order in itertools.permutations(range(rank))
        if moves_first_axis(ir.node("Transpose", [ir.Value(name="x")], {"perm": list(order)}))
    }
    assert found == {(1, 0, 2), (1, 2, 0), (1, 2, 0, 3), (1, 2, 3, 0)}


@pytest.mark.parametrize("opset", [9, 13, 20])
def test_attention_in_half_precision_can_be_loaded(opset: int, tmp_path: object) -> None:
    layer = nn.TransformerEncoderLayer(2, 2, dim_feedforward=6, dropout=0.0, batch_first=False).half().eval()
    path = f"{tmp_path}/layer.onnx"
    axes = {"src": {0: "length"}}
    onward.export(layer, (torch.randn(3, 1, 2).half(),), path, dynamic_axes=axes, opset_version=opset, verify=False)
    code = f"import onnxruntime; onnxruntime.InferenceSession({path!r}, providers=['CPUExecutionProvider'])"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_whole_numbers_that_are_turned_and_multiplied_can_be_loaded(tmp_path: object) -> None:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(2, 6)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.layer(x.permute(1, 0, 2).float())

    path = f"{tmp_path}/turned.onnx"
    onward.export(Model(), (torch.ones(4, 3, 2, dtype=torch.int32),), path, verify=False)
    code = f"import onnxruntime; onnxruntime.InferenceSession({path!r}, providers=['CPUExecutionProvider'])"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
