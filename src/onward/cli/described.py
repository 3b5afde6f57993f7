"""What `onward inspect` says of a file, for machines."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import onnx_ir as ir

from onward.errors import ExportError
from onward.files import infer_shapes
from onward.files.parameters import parameters

from .feeds import Opened, dtype_name, port_of


def described(opened: Opened, top: int) -> dict[str, Any]:
    """All of it for machines."""
    model, graph = opened.model, opened.model.graph
    nodes = [node for each in model.graphs() for node in each]
    held = {
        str(value.name): value.const_value
        for each in model.graphs()
        for value in each.initializers.values()
        if value.const_value is not None
    }
    largest = sorted(held.items(), key=lambda each: (-each[1].nbytes, each[0]))[:top]
    return {
        "file": str(opened.path),
        "bytes": opened.bytes,
        "name": graph.name,
        "producer": f"{model.producer_name or ''} {model.producer_version or ''}".strip(),
        "ir_version": model.ir_version,
        "opsets": {domain or "ai.onnx": version for domain, version in sorted(model.opset_imports.items())},
        "inputs": [port_of(value) for value in graph.inputs if not value.is_initializer()],
        "outputs": [port_of(value) for value in graph.outputs],
        "nodes": len(nodes),
        "functions": len(model.functions),
        "operators": dict(sorted(Counter(map(_operator, nodes)).items(), key=lambda each: (-each[1], each[0]))),
        "weights": {
            "count": len(held),
            "parameters": sum(parameters(value) for each in model.graphs() for value in each.initializers.values()),
            "bytes": sum(each.nbytes for each in held.values()),
            "types": dict(sorted(Counter(dtype_name(each.dtype) for each in held.values()).items())),
            "largest": [
                {"name": name, "dtype": dtype_name(each.dtype), "shape": list(each.shape.numpy()), "bytes": each.nbytes}
                for name, each in largest
            ],
        },
        "multiplications": multiplications(model),
        "metadata": dict(sorted(model.metadata_props.items())),
    }  # fmt: skip


def _operator(node: ir.Node) -> str:
    return node.op_type if node.domain in ("", "ai.onnx") else f"{node.domain}.{node.op_type}"


def multiplications(model: ir.Model) -> int | None:
    """Of Conv, ConvTranspose, Gemm and MatMul, each dynamic axis counted as 1; None if shapes cannot be known."""
    try:
        inferred = infer_shapes(model)
    except ExportError:
        return None
    total = 0
    for node in inferred.graph:
        if node.domain not in ("", "ai.onnx") or node.op_type not in _COUNTS:
            continue
        shapes = [_sizes(value) for value in (*node.inputs[:2], node.outputs[0])]
        if any(shape is None for shape in shapes):
            return None
        total += _COUNTS[node.op_type](node, *shapes)
    return total


def _sizes(value: ir.Value | None) -> list[int] | None:
    if value is None or value.shape is None:
        return None
    return [size if isinstance(size, int) else 1 for size in value.shape]


def _gemm(node: ir.Node, a: list[int], b: list[int], y: list[int]) -> int:
    flipped = node.attributes.get_int("transA", 0)
    return math.prod(y) * a[0 if flipped else 1]


_COUNTS = {
    "Conv": lambda node, x, w, y: math.prod(y) * math.prod(w[1:]),
    "ConvTranspose": lambda node, x, w, y: math.prod(x) * math.prod(w[1:]),
    "MatMul": lambda node, a, b, y: math.prod(y) * a[-1],
    "Gemm": _gemm,
}
