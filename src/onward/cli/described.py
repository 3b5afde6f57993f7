"""What `onward inspect` says of a file, for machines."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from typing import Any

import onnx_ir as ir

from onward.files.inputs import axis_bounds
from onward.files.parameters import parameters
from onward.report.sizes import Sizes, with_sizes

from .feeds import Opened, dtype_name, port_of, shape_of


def described(opened: Opened, top: int) -> dict[str, Any]:
    """All of it for machines."""
    model, graph, axes = opened.model, opened.model.graph, smallest(opened.model)
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
        "multiplications": multiplications(model, axes),
        "multiplications_at": axes,
        "metadata": dict(sorted(model.metadata_props.items())),
    }  # fmt: skip


def _operator(node: ir.Node) -> str:
    return node.op_type if node.domain in ("", "ai.onnx") else f"{node.domain}.{node.op_type}"


def smallest(model: ir.Model) -> dict[str, int]:
    """A size for every dynamic axis of the inputs: the smallest that the file allows, or 1 if it says nothing."""
    bounds = axis_bounds(model)
    names = [size for value in model.graph.inputs if not value.is_initializer() for size in shape_of(value)]
    return {name: max(1, bounds.get(name, (1, None))[0]) for name in names if isinstance(name, str)}


def multiplications(model: ir.Model, axes: Mapping[str, int]) -> int | None:
    """Of Conv, ConvTranspose, Gemm and MatMul at these sizes of the inputs' axes, and at those that follow from them.

    None if some do not follow, if the model would have nothing left at such sizes, or if there are products that are
    not counted here: in bodies, functions, integers, recurrent layers (`onward report` counts them).
    """
    if model.functions or any(node.op_type in _OTHERS or _has_body(node) for node in model.graph):
        return None
    inputs = {
        str(value.name): [size if isinstance(size, int) else axes[size] for size in shape_of(value)]
        for value in model.graph.inputs
        if not value.is_initializer() and value.shape is not None
    }
    sized = with_sizes(model, inputs)
    total = 0
    for node in sized.model.graph:
        if node.op_type in _WINDOWS and not _has_a_place(node, sized.sizes):
            return None
        if node.domain not in ("", "ai.onnx") or node.op_type not in _COUNTS:
            continue
        shapes = [sized.sizes.get(value) for value in (*node.inputs[:2], node.outputs[0]) if value is not None]
        if any(shape is None or min(shape, default=1) < 1 for shape in shapes):
            return None
        total += _COUNTS[node.op_type](node, *shapes)
    return total


_OTHERS = (
    "Attention", "ConvInteger", "DeformConv", "DynamicQuantizeLSTM", "Einsum", "GRU", "LSTM", "MatMulInteger",
    "MatMulNBits", "QLinearConv", "QLinearMatMul", "RNN",
)  # fmt: skip


def _has_body(node: ir.Node) -> bool:
    return any(each.type in (ir.AttributeType.GRAPH, ir.AttributeType.GRAPHS) for each in node.attributes.values())


_WINDOWS = ("Conv", "MaxPool", "AveragePool", "LpPool")


def _has_a_place(node: ir.Node, sizes: Mapping[ir.Value, Sizes]) -> bool:
    """Whether the window fits into what it goes over. onnx infers one place for some that do not: 1 + -7 / 8 in C++."""
    x, weight = (sizes.get(value) if value is not None else None for value in (*node.inputs[:2], None)[:2])
    window = node.attributes.get_ints("kernel_shape") or (weight or ())[2:]
    if x is None or node.attributes.get_string("auto_pad", "NOTSET") in ("SAME_UPPER", "SAME_LOWER"):
        return True
    pads = node.attributes.get_ints("pads") or [0] * 2 * len(window)
    steps = node.attributes.get_ints("dilations") or [1] * len(window)
    around = zip(pads[: len(window)], pads[len(window) :], strict=True)
    return all(
        size + sum(pad) > step * (width - 1)
        for size, pad, step, width in zip(x[2:], around, steps, window, strict=True)
    )


def _gemm(node: ir.Node, a: Sizes, b: Sizes, y: Sizes) -> int:
    flipped = node.attributes.get_int("transA", 0)
    return math.prod(y) * a[0 if flipped else 1]


_COUNTS = {
    "Conv": lambda node, x, w, y: math.prod(y) * math.prod(w[1:]),
    "ConvTranspose": lambda node, x, w, y: math.prod(x) * math.prod(w[1:]),
    "MatMul": lambda node, a, b, y: math.prod(y) * a[-1],
    "Gemm": _gemm,
}
