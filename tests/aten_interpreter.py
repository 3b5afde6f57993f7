"""Runs an ONNX file that holds PyTorch operators as nodes: those on PyTorch, the others one by one in onnxruntime.

It knows the file alone. What a backend needs to run such nodes is in them, or the tests that use this fail.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import torch

from onward.lower.aten_nodes import ARGUMENTS, decode
from onward.verify import Session


def is_call(node: onnx.NodeProto) -> bool:
    return any(attribute.name == ARGUMENTS for attribute in node.attribute)


def execute(model: onnx.ModelProto | Path, inputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """The outputs for these inputs, in the order of the graph's."""
    proto = onnx.load(model) if isinstance(model, Path) else model
    graph = proto.graph
    values: dict[str, torch.Tensor] = {tensor.name: _to_torch(tensor) for tensor in graph.initializer}
    fed = [value.name for value in graph.input if value.name not in values]
    values.update(zip(fed, inputs, strict=True))
    with torch.no_grad():
        for node in graph.node:
            given = [values[name] if name else None for name in node.input]
            results = decode(node).run(given) if is_call(node) else _onnx_node(proto, node, given)
            values.update(zip(node.output, results, strict=False))
    return [values[value.name] for value in graph.output]


def _to_torch(tensor: onnx.TensorProto) -> torch.Tensor:
    return torch.from_numpy(np.array(onnx.numpy_helper.to_array(tensor)))


def _onnx_node(proto: onnx.ModelProto, node: onnx.NodeProto, given: Sequence[Any]) -> list[torch.Tensor]:
    feeds = {name: value for name, value in zip(node.input, given, strict=True) if value is not None}
    typed = [
        onnx.helper.make_tensor_value_info(
            name, onnx.helper.np_dtype_to_tensor_dtype(value.numpy().dtype), list(value.shape)
        )
        for name, value in feeds.items()
    ]
    outputs = [onnx.helper.make_value_info(name, onnx.TypeProto()) for name in node.output]
    graph = onnx.helper.make_graph([node], "node", typed, outputs)
    opsets = [each for each in proto.opset_import if not each.domain]
    return Session(onnx.helper.make_model(graph, opset_imports=opsets, ir_version=proto.ir_version)).run(feeds)
