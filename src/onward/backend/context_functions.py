"""Operators whose definition by others depends on the types of their inputs: written out once those are known."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import torch

from ..errors import BackendError
from .plan import Plan
from .values import ONNX_TYPES


class ContextFunction:
    """Callable like the function of any step; one plan for each combination of input types that comes."""

    def __init__(
        self,
        schema: Any,
        version: int,
        node: onnx.NodeProto,
        outputs: tuple[bool, ...],
        types: tuple[int, ...],
        opsets: Mapping[str, int],
    ) -> None:
        self._schema, self._version, self._node, self._outputs = schema, version, node, outputs
        self._types, self._opsets = types, opsets
        self._plans: dict[Any, tuple[Plan, list[int]]] = {}

    def __call__(self, *inputs: Any) -> tuple[Any, ...]:
        key = tuple(_signature(value, known) for value, known in zip(inputs, self._types, strict=True))
        if key not in self._plans:
            self._plans[key] = self._plan(inputs)
        plan, produced = self._plans[key]
        results = dict(zip(produced, plan.run([value for value in inputs if value is not None]), strict=True))
        return tuple(results.get(place) for place in range(len(self._outputs)))

    def _written_for(self) -> int:
        """The newest opset that the definition is written for: a body says itself which opset its nodes are of.

        Asked for a later one, onnx gives nothing as soon as an operator of the body has changed since.
        """
        written = self._schema.context_dependent_function_opset_versions
        return max((version for version in written if version <= self._version), default=self._version)

    def _plan(self, inputs: tuple[Any, ...]) -> tuple[Plan, list[int]]:
        """The plan, and which of the node's outputs it computes: a body leaves out what is not asked for."""
        from .compile import Compiler

        node = onnx.NodeProto()
        node.CopyFrom(self._node)
        node.input.extend("" if value is None else f"input{place}" for place, value in enumerate(inputs))
        node.output.extend(f"output{place}" if wanted else "" for place, wanted in enumerate(self._outputs))
        types = [_type_proto(value, known) for value, known in zip(inputs, self._types, strict=True)]
        body = self._schema.get_context_dependent_function_with_opset_version(
            self._written_for(), node.SerializeToString(), [each.SerializeToString() for each in types]
        )
        if not body:
            raise BackendError(
                f"ONNX does not define {node.op_type} by other operators for these inputs, and it is not implemented"
            )
        proto = onnx.FunctionProto.FromString(body)
        computed = {name for each in proto.node for name in each.output} | set(proto.input)
        produced = [
            place
            for place, name in enumerate(proto.output)
            if name in computed and place < len(self._outputs) and self._outputs[place]
        ]
        names = [proto.output[place] for place in produced]
        del proto.output[:], node.output[:]
        proto.output.extend(names)
        node.output.extend(f"output{place}" for place in produced)
        graph = onnx.GraphProto(name=node.op_type)
        graph.node.append(node)
        graph.input.extend(
            onnx.ValueInfoProto(name=name, type=type_) for name, type_ in zip(node.input, types, strict=True) if name
        )
        graph.output.extend(onnx.ValueInfoProto(name=name) for name in node.output)
        opsets = {**self._opsets, self._node.domain: self._version}
        function = ir.serde.deserialize_function(proto)
        compiler = Compiler({(node.domain, node.op_type, ""): function})
        plan, _ = compiler.graph(ir.serde.deserialize_graph(graph), opsets)
        return plan, produced


def _signature(value: Any, known: int) -> Any:
    if isinstance(value, torch.Tensor):
        return (value.dtype, tuple(value.shape), known)
    return type(value)


def _type_proto(value: Any, known: int) -> onnx.TypeProto:
    if value is None:
        return onnx.TypeProto()
    if isinstance(value, list):
        inner = _type_proto(value[0], 0) if value else onnx.helper.make_tensor_type_proto(onnx.TensorProto.FLOAT, None)
        return onnx.helper.make_sequence_type_proto(inner)
    if isinstance(value, np.ndarray):
        return onnx.helper.make_tensor_type_proto(onnx.TensorProto.STRING, [None] * value.ndim)
    return onnx.helper.make_tensor_type_proto(known or ONNX_TYPES[value.dtype], list(value.shape))
