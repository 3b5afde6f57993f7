"""A root mean square norm that a model spells out becomes one that onnxruntime knows.

    s = Mul(x, x)  (or Pow(x, 2))                 before opset 23                      from opset 23
    m = ReduceMean(s) over the last axis          s = Pow(x, 2)                        z = RMSNormalization(x, weight)
    r = Sqrt(Add(m, epsilon))                 ->  r = Sqrt(Add(ReduceMean(s), epsilon))
    y = Mul(x, Reciprocal(r))  (or Div(x, r))     z = Mul(Div(x, r), weight)
    z = Mul(weight, y)

Language models write it so. onnxruntime 1.31 runs the norm as one kernel, about twice as fast, if written with Pow and
Div; any other spelling it runs step by step. Declines where a step is read by anything else, where epsilon or the
weight is not a constant, and for types other than float32.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from ..lower.regions import MODELS_OWN
from .constant_tensors import as_torch, is_weight
from .node_replacement import take_place


@dataclass(frozen=True)
class _Norm:
    """The nodes of one norm. `inverse` is there if the division is spelled as a product."""

    x: ir.Value
    square: ir.Node
    epsilon: float
    root: ir.Node
    inverse: ir.Node | None
    quotient: ir.Node
    scaled: ir.Node
    weight: ir.Value


def fuse_rms_norm(model: ir.Model) -> bool:
    """Run on a model, in place; whether anything changed."""
    changed = False
    for graph in model.graphs():
        for node in list(graph):
            norm = _match(node) if node.op_type == "Mul" and node.domain == "" else None
            if norm is None:
                continue
            if model.graph.opset_imports.get("", 0) >= 23:
                _as_one_node(graph, norm)
                changed = True
            else:
                changed |= _as_pow_and_div(graph, norm)
    return changed


def _match(scaled: ir.Node) -> _Norm | None:
    for weight, y in itertools.permutations(scaled.inputs):
        quotient = _only_step(y, "Mul", "Div")
        if weight is None or not is_weight(weight) or quotient is None:
            continue
        divided = _divided(quotient)
        if divided is None:
            continue
        x, root, inverse = divided
        total = _only_step(root.inputs[0], "Add")
        found = _mean_square(total, x) if total is not None else None
        if found is not None and _fits(x, weight):
            square, epsilon = found
            return _Norm(x, square, epsilon, root, inverse, quotient, scaled, weight)
    return None


def _only_step(value: ir.Value | None, *ops: str) -> ir.Node | None:
    """The node that makes a value, if it is of a kind and nothing but the next step reads the value."""
    node = value.producer() if value is not None else None
    if value is None or node is None or node.domain != "" or node.op_type not in ops:
        return None
    return node if len(value.uses()) == 1 and not value.is_graph_output() else None


def _divided(quotient: ir.Node) -> tuple[ir.Value, ir.Node, ir.Node | None] | None:
    """x, the root it is divided by, and the reciprocal in between if there is one."""
    left, right = quotient.inputs
    if quotient.op_type == "Div":
        root = _only_step(right, "Sqrt")
        return (left, root, None) if root is not None and left is not None else None
    for x, factor in ((left, right), (right, left)):
        inverse = _only_step(factor, "Reciprocal")
        root = _only_step(inverse.inputs[0], "Sqrt") if inverse is not None else None
        if root is not None and x is not None:
            return x, root, inverse
    return None


def _mean_square(total: ir.Node, x: ir.Value) -> tuple[ir.Node, float] | None:
    """From the sum under the root: the node that squares x, and epsilon."""
    for summand, epsilon in itertools.permutations(total.inputs):
        mean = _only_step(summand, "ReduceMean")
        if mean is None or epsilon is None or not is_weight(epsilon) or not _over_last_axis(mean, x):
            continue
        square = _only_step(mean.inputs[0], "Mul", "Pow")
        if square is None or square.inputs[0] is not x or as_torch(epsilon).numel() != 1:
            continue
        if square.op_type == "Mul" and square.inputs[1] is x:
            return square, float(as_torch(epsilon))
        if square.op_type == "Pow" and _is_two(square.inputs[1]):
            return square, float(as_torch(epsilon))
    return None


def _is_two(value: ir.Value | None) -> bool:
    if value is None or not is_weight(value):
        return False
    tensor = as_torch(value)
    return tensor.numel() == 1 and float(tensor) == 2


def _over_last_axis(mean: ir.Node, x: ir.Value) -> bool:
    keepdims = mean.attributes.get("keepdims")
    if x.shape is None or (keepdims is not None and keepdims.as_int() != 1):
        return False
    if "axes" in mean.attributes:
        axes = list(mean.attributes["axes"].as_ints())
    elif len(mean.inputs) > 1 and is_weight(mean.inputs[1]):
        axes = as_torch(mean.inputs[1]).tolist()  # type: ignore[arg-type]
    else:
        return False
    return axes in ([-1], [len(x.shape) - 1])


def _fits(x: ir.Value, weight: ir.Value) -> bool:
    """One weight per element of x's last axis, both float32."""
    if x.shape is None or weight.shape is None or len(weight.shape) != 1 or len(x.shape) == 0:
        return False
    return x.dtype == weight.dtype == ir.DataType.FLOAT and x.shape[-1] == weight.shape[0]


def _as_one_node(graph: ir.Graph, norm: _Norm) -> None:
    attributes = [ir.AttrInt64("axis", -1), ir.AttrFloat32("epsilon", norm.epsilon)]
    made = ir.Node("", "RMSNormalization", [norm.x, norm.weight], attributes)
    steps = _steps(norm)
    take_place(graph, norm.scaled, made)
    for step in steps:
        graph.remove(step, safe=True)


def _steps(norm: _Norm) -> list[ir.Node]:
    """Everything before the last node, last first."""
    total = norm.root.inputs[0].producer()  # type: ignore[union-attr]
    mean = next(use.node for use in norm.square.outputs[0].uses())
    steps = [norm.quotient, norm.inverse, norm.root, total, mean, norm.square]
    return [step for step in steps if step is not None]


def _as_pow_and_div(graph: ir.Graph, norm: _Norm) -> bool:
    changed = False
    if norm.square.op_type == "Mul":
        made = ir.Node("", "Pow", [norm.x, _two(graph)])
        take_place(graph, norm.square, made)
        changed = True
    if norm.inverse is not None:
        made = ir.Node("", "Div", [norm.x, norm.root.outputs[0]])
        take_place(graph, norm.quotient, made)
        graph.remove(norm.inverse, safe=True)
        changed = True
    return changed


def _two(graph: ir.Graph) -> ir.Value:
    name = "rms_norm.two"
    if name not in graph.initializers:
        tensor = ir.tensor(np.array(2, dtype=np.float32), name=name)
        two = ir.Value(name=name, shape=ir.Shape([]), type=ir.TensorType(ir.DataType.FLOAT), const_value=tensor)
        two.meta[MODELS_OWN] = False
        graph.register_initializer(two)
    return graph.initializers[name]
