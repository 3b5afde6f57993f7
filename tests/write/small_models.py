"""Models by hand for the tests of the writer and of the verifier."""

from __future__ import annotations

from collections.abc import Mapping

import onnx_ir as ir
import torch
from onnx_ir.tensor_adapters import TorchTensor


def initializer(name: str, tensor: torch.Tensor | ir.TensorProtocol) -> ir.Value:
    held = TorchTensor(tensor, name=name) if isinstance(tensor, torch.Tensor) else tensor
    return ir.Value(name=name, shape=held.shape, type=ir.TensorType(held.dtype), const_value=held)


def constants_model(tensors: Mapping[str, torch.Tensor | ir.TensorProtocol], ir_version: int = 10) -> ir.Model:
    """A model that returns each of its constants as `<name>_out`."""
    values = [initializer(name, tensor) for name, tensor in tensors.items()]
    nodes = [
        ir.node(
            "Identity",
            [value],
            name=f"read_{value.name}",
            outputs=[ir.Value(name=f"{value.name}_out", shape=value.shape, type=value.type)],
        )
        for value in values
    ]
    outputs = [node.outputs[0] for node in nodes]
    graph = ir.Graph([], outputs, nodes=nodes, initializers=values, opset_imports={"": 19}, name="constants")
    return ir.Model(graph, ir_version=ir_version)


def tied_model(weight: torch.Tensor) -> ir.Model:
    """y = (x + first) * second, where both names are the same weight; `second` is also used inside an If body."""
    first, second = initializer("first", weight), initializer("second", weight)
    kind = ir.TensorType(ir.DataType.FLOAT)
    x = ir.Value(name="x", shape=ir.Shape(weight.shape), type=kind)
    condition = ir.Value(name="condition", shape=ir.Shape([]), type=ir.TensorType(ir.DataType.BOOL))
    total = ir.node("Add", [x, first], outputs=[ir.Value(name="total", shape=x.shape, type=kind)])
    then = ir.node("Mul", [total.outputs[0], second], outputs=[ir.Value(name="then", shape=x.shape, type=kind)])
    inner = initializer("inner", torch.full(tuple(weight.shape), 2.0))
    other = ir.node("Mul", [total.outputs[0], inner], outputs=[ir.Value(name="other", shape=x.shape, type=kind)])
    bodies = {
        "then_branch": ir.Graph([], then.outputs, nodes=[then], name="then_body"),
        "else_branch": ir.Graph([], other.outputs, nodes=[other], initializers=[inner], name="else_body"),
    }
    choose = ir.node("If", [condition], attributes=bodies, outputs=[ir.Value(name="y", shape=x.shape, type=kind)])
    graph = ir.Graph(
        [x, condition],
        choose.outputs,
        nodes=[total, choose],
        initializers=[first, second],
        opset_imports={"": 17},
        name="tied",
    )
    return ir.Model(graph, ir_version=8)
