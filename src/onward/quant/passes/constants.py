"""Constants that a pass adds."""

from __future__ import annotations

import onnx_ir as ir
import torch
from onnx_ir.tensor_adapters import TorchTensor


def add_constant(graph: ir.Graph, name: str, content: torch.Tensor) -> ir.Value:
    """A constant of a graph under a name, or that name with a number."""
    unique, number = name, 1
    while unique in graph.initializers:
        unique, number = f"{name}_{number}", number + 1
    tensor = TorchTensor(content.contiguous(), name=unique)
    value = ir.Value(name=unique, shape=tensor.shape, type=ir.TensorType(tensor.dtype), const_value=tensor)
    graph.register_initializer(value)
    return value
