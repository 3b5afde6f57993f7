"""Operators of onnxruntime's own: it is the judge."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper

from onward.backend import prepare

ROWS: list[tuple[str, list[tuple[int, ...]], dict[str, Any], int]] = [
    ("Gelu", [(2, 4)], {}, 1),
    ("BiasGelu", [(2, 4), (4,)], {}, 1),
    ("FastGelu", [(2, 4), (4,)], {}, 1),
    ("QuickGelu", [(2, 4)], {"alpha": 1.5}, 1),
    ("FusedMatMul", [(2, 4, 3), (2, 5, 4)], {"alpha": 0.5, "transA": 1, "transB": 1}, 1),
    ("SkipLayerNormalization", [(2, 3, 4), (2, 3, 4), (4,), (4,), (4,)], {"epsilon": 1e-5}, 4),
    ("SkipSimplifiedLayerNormalization", [(2, 3, 4), (2, 3, 4), (4,)], {"epsilon": 1e-5}, 4),
]


@pytest.mark.parametrize(("op_type", "shapes", "attributes", "outputs"), ROWS, ids=[row[0] for row in ROWS])
def test_against_onnxruntime(op_type: str, shapes: list[Any], attributes: dict[str, Any], outputs: int) -> None:
    names = [f"x{place}" for place in range(len(shapes))]
    results = ["y"] if outputs == 1 else ["y", "", "", "sum"]
    node = helper.make_node(op_type, names, results, domain="com.microsoft", **attributes)
    infos = [
        helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, shape)
        for name, shape in zip(names, shapes, strict=True)
    ]
    ends = [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, None) for name in results if name]
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(helper.make_graph([node], "g", infos, ends), opset_imports=opsets, ir_version=8)
    generator = np.random.default_rng(0)
    feeds = {name: generator.standard_normal(shape, np.float32) for name, shape in zip(names, shapes, strict=True)}
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    for got, want in zip(prepare(model).run(feeds), session.run(None, feeds), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)
