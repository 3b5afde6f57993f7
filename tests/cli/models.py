"""Small ONNX files for the command line."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx

TEXT = """
<ir_version: 9, opset_import: ["" : 20], producer_name: "somebody">
small (float[n, 4] x, int64[n] ids) => (float[n, 3] y, int64[n] file)
<float[4, 3] weight, float[3] bias, int64 one = {1}> {
   same = Identity (x)
   product = Gemm <alpha = 1.0> (same, weight, bias)
   y = Relu (product)
   file = Add (ids, one)
}
"""


def proto(text: str = TEXT, scale: float = 1.0) -> onnx.ModelProto:
    """The model with weights in it."""
    model = onnx.parser.parse_model(text)
    for value in [*model.graph.initializer]:
        if value.name in ("weight", "bias"):
            model.graph.initializer.remove(value)
    shapes = {each.name: [d.dim_value for d in each.type.tensor_type.shape.dim] for each in model.graph.value_info}
    del model.graph.value_info[:]
    for name, shape in (("weight", (4, 3)), ("bias", (3,))):
        shape = shapes.get(name, shape)
        numbers = np.random.default_rng(0).standard_normal(shape).astype(np.float32) * np.float32(scale)
        model.graph.initializer.append(onnx.numpy_helper.from_array(numbers, name))
    return model


def save(path: Path, text: str = TEXT, scale: float = 1.0) -> Path:
    """The same as a file."""
    onnx.save(proto(text, scale), path)
    return path
