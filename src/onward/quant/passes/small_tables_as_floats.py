"""A small table that a float operator reads is turned to floats when the file is loaded, not with every run.

    q = Gather(table, x)                          f = Mul(Sub(Cast(table), zero point), scale)
    y = DequantizeLinear(q); LSTM(y)      ->      y = Gather(f, x); LSTM(y)

The file has the integers still, and onnxruntime works out what depends on constants alone. Small: floats take four
times the memory, which a vocabulary should not.
"""

from __future__ import annotations

import onnx_ir as ir
import torch

from ...passes.constant_tensors import add_constant, as_torch, is_weight
from ...passes.node_replacement import change_nodes, take_place
from .quantize_later import IN_FLOAT, MOVES

_SMALL = 1 << 18


def small_tables_as_floats(model: ir.Model) -> bool:
    """Run on a model, in place; whether anything changed."""
    return change_nodes(model, "DequantizeLinear", _turn)


def _turn(graph: ir.Graph, node: ir.Node) -> bool:
    q = node.inputs[0]
    gather = q.producer() if q is not None else None
    if q is None or gather is None or gather.op_type != "Gather" or len(q.uses()) != 1 or q.is_graph_output():
        return False
    table, places = gather.inputs[0], gather.inputs[1]
    if not is_weight(table) or is_weight(places) or not all(map(is_weight, node.inputs[1:])):
        return False
    assert table is not None and table.const_value is not None
    scale = as_torch(node.inputs[1])  # type: ignore[arg-type]
    if table.const_value.size > _SMALL or scale.dim() or not _is_read_in_float(node.outputs[0]):
        return False
    zero = as_torch(node.inputs[2]) if len(node.inputs) > 2 and node.inputs[2] is not None else torch.zeros(())
    shape = table.shape
    steps: list[ir.Node] = [ir.Node("", "Cast", [table], [ir.AttrInt64("to", int(ir.DataType.FLOAT))])]
    if int(zero):
        offset = add_constant(graph, f"{table.name}.zero", zero.float())
        steps.append(ir.Node("", "Sub", [steps[-1].outputs[0], offset]))
    steps.append(ir.Node("", "Mul", [steps[-1].outputs[0], node.inputs[1]]))
    for each in steps:
        value = each.outputs[0]
        each.name = value.name = f"{table.name}.{each.op_type}"
        value.type, value.shape = ir.TensorType(ir.DataType.FLOAT), shape
        each.metadata_props.update(gather.metadata_props)
        graph.insert_before(gather, each)
    take_place(graph, node, ir.Node("", "Gather", [steps[-1].outputs[0], places], gather.attributes.values()))
    graph.remove(gather, safe=True)
    return True


def _is_read_in_float(value: ir.Value) -> bool:
    """Whether all that read a tensor are operators without an integer kernel."""
    uses = value.uses()
    return bool(uses) and all(
        use.node.op_type in IN_FLOAT
        or (use.node.op_type in MOVES and _is_read_in_float(use.node.outputs[0]))
        or _is_sum_in_float(use.node)
        for use in uses
    )


def _is_sum_in_float(node: ir.Node) -> bool:
    """Whether it adds floats. A sum of integers is one of two DequantizeLinear that a QuantizeLinear alone reads."""
    if node.op_type not in ("Add", "Sum") or node.domain != "":
        return False
    makers = [each.producer() for each in node.inputs if each is not None]
    uses = node.outputs[0].uses()
    return any(made is None or made.op_type != "DequantizeLinear" for made in makers) or any(
        use.node.op_type != "QuantizeLinear" for use in uses
    )
