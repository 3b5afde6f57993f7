"""What counts as a parameter: weights and biases, and nothing that only says how to read them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import pytest
import torch
from onnx import helper, numpy_helper
from torch import nn

import onward
from onward.cli.files.file_inputs import open_file
from onward.cli.files.file_summary import described
from onward.report.contents import contents

TYPES = {"f": np.float32, "b": np.int8, "u": np.uint8, "i": np.int32, "l": np.int64}


def stored(nodes: list[tuple[str, str, str]], weights: dict[str, tuple[str, tuple[int, ...]]]) -> onnx.ModelProto:
    """Nodes as (operator, names of its inputs, names of its outputs), weights as (type, sizes)."""
    held = [numpy_helper.from_array(np.ones(sizes, TYPES[kind]), name) for name, (kind, sizes) in weights.items()]
    made = [
        helper.make_node(op.split(".")[-1], ins.split(), outs.split(), domain="com.microsoft" if "." in op else "")
        for op, ins, outs in nodes
    ]
    if nodes[0][0].endswith("MatMulNBits"):
        made[0].attribute.extend(helper.make_attribute(name, n) for name, n in (("K", 64), ("N", 3), ("bits", 4)))
    graph = helper.make_graph(made, "g", [helper.make_tensor_value_info("x", 1, None)], [], held)
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets)


SCALES = {"s": ("f", (4,)), "z": ("b", (4,)), "s1": ("f", (1,)), "z1": ("u", (1,))}
CASES: dict[str, tuple[list[tuple[str, str, str]], dict[str, Any], int]] = {
    "dequantised": ([("DequantizeLinear", "w s z", "y")], {"w": ("b", (4, 3))}, 12),
    "its bias": ([("DequantizeLinear", "b s", "y")], {"b": ("i", (4,))}, 4),
    "activations": ([("QuantizeLinear", "x s1 z1", "q"), ("DequantizeLinear", "q s1 z1", "y")], {}, 0),
    "QLinearConv": (
        [("QLinearConv", "x s1 z1 w s z s1 z1 b", "y")],
        {"w": ("b", (4, 3, 3, 3)), "b": ("i", (4,))},
        4 * 27 + 4,
    ),
    "QLinearConcat": ([("m.QLinearConcat", "s1 z1 x s1 z1 w s1 z1", "y")], {"w": ("u", (2, 5))}, 10),
    "dynamic": (
        [
            ("DynamicQuantizeLinear", "x", "q t p"),
            ("MatMulInteger", "q w p z", "n"),
            ("Cast", "n", "c"),
            ("Mul", "t s", "both"),
            ("Mul", "c both", "y"),
        ],
        {"w": ("b", (3, 4))},
        12,
    ),
    "stored in integers": (
        [("Cast", "w", "f"), ("Mul", "f s", "v"), ("MatMul", "x v", "y")],
        {"w": ("b", (3, 4))},
        12,
    ),
    "packed": ([("m.MatMulNBits", "x w s z", "y")], {"w": ("u", (3, 2, 16))}, 64 * 3),
    "sizes": (
        [("Reshape", "x l", "r"), ("Slice", "r i i i", "c"), ("Resize", "c  s", "y")],
        {"l": ("l", (4,)), "i": ("i", (4,))},
        0,
    ),
    "a factor": ([("Mul", "x s", "y")], {}, 4),  # LayerScale, for one: a weight as any
    "a scale that is a weight too": ([("DequantizeLinear", "w s", "d"), ("Mul", "d s", "y")], {"w": ("b", (4, 3))}, 16),
}


@pytest.mark.parametrize("case", CASES)
def test_only_weights_are_counted(case: str, tmp_path: Path) -> None:
    nodes, weights, expected = CASES[case]
    read = {name for _, inputs, _ in nodes for name in inputs.split()}
    model = stored(nodes, weights | {name: kind for name, kind in SCALES.items() if name in read})
    data = contents(ir.from_proto(model), {}).data
    assert data["totals"]["parameters"] == expected
    assert sum(value.get("parameters", 0) for value in data["values"]) == expected
    onnx.save(model, tmp_path / "m.onnx")
    assert described(open_file(tmp_path / "m.onnx"), 0)["weights"]["parameters"] == expected


def test_a_quantised_network_has_as_many_as_in_float() -> None:
    """With channels of zeros for onnxruntime's kernels in it."""
    torch.manual_seed(0)
    net = nn.Sequential(nn.Conv2d(3, 24, 3), nn.ReLU(), nn.Conv2d(24, 24, 3, groups=24), nn.ReLU(), nn.Conv2d(24, 5, 1))
    quantised = onward.quantize(net.eval(), [torch.rand(1, 3, 12, 12)], verify=False)
    widths = {tuple(value.shape or ()) for value in quantised.model.graph.initializers.values()}
    assert (32, 1, 3, 3) in widths and (32, 4, 3, 3) in widths
    found = contents(quantised.model, {}).data
    assert found["totals"]["parameters"] == sum(each.numel() for each in net.parameters())
