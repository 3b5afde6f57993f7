"""What is left of a tensor is quantized, not all of it.

    y = LSTM(x, ...); q = QuantizeLinear(y)              y = LSTM(x, ...); last = Gather(y, 19)
    last = Gather(q, 19)                         ->      last_q = QuantizeLinear(last)

Every element is quantized for itself, so that the integers stay the same. Only behind operators that have no integer
kernel: QuantizeLinear is part of the others, and has to stay where it is. Declines where anything else reads the
integers.
"""

from __future__ import annotations

import onnx_ir as ir

from ...passes.node_replacement import change_nodes, take_place

IN_FLOAT = ("LSTM", "GRU", "RNN", "LayerNormalization", "RMSNormalization", "SimplifiedLayerNormalization")
MOVES = ("Squeeze", "Unsqueeze", "Transpose", "Reshape")


def quantize_later(model: ir.Model) -> bool:
    """Run on a model, in place; whether anything changed."""
    return change_nodes(model, "QuantizeLinear", _later)


def _later(graph: ir.Graph, node: ir.Node) -> bool:
    x, q = node.inputs[0], node.outputs[0]
    uses = q.uses()
    if x is None or len(uses) != 1 or q.is_graph_output() or not _is_in_float(x) or not is_of_all(node):
        return False
    reader = next(iter(uses)).node
    if reader.domain != "" or reader.inputs[0] is not q or not _takes_less(reader):
        return False
    # The reader moves to where it reads floats, and its result is what is quantized.
    taken = ir.Node("", reader.op_type, [x, *reader.inputs[1:]], reader.attributes.values())
    taken.name = f"{reader.name}.float"
    taken.metadata_props.update(reader.metadata_props)
    values = taken.outputs[0]
    values.name, values.type, values.shape = f"{reader.outputs[0].name}.float", x.type, reader.outputs[0].shape
    graph.insert_before(reader, taken)
    new = ir.Node("", "QuantizeLinear", [values, *node.inputs[1:]])
    take_place(graph, reader, new)
    new.name = node.name
    graph.remove(node, safe=True)
    return True


def _is_in_float(value: ir.Value) -> bool:
    """Whether a tensor comes from an operator without an integer kernel."""
    made = value.producer()
    while made is not None and made.op_type in MOVES and made.domain == "":
        first = made.inputs[0]
        made = first.producer() if first is not None else None
    return made is not None and made.op_type in IN_FLOAT


def is_of_all(node: ir.Node) -> bool:
    """One scale for the whole tensor: axes may go."""
    return all(each is None or (each.shape is not None and len(each.shape) == 0) for each in node.inputs[1:])


def _takes_less(reader: ir.Node) -> bool:
    """Whether it picks some of the elements, each at most once."""
    if reader.op_type == "Slice":
        return True
    index = reader.inputs[1] if reader.op_type == "Gather" and len(reader.inputs) > 1 else None
    return index is not None and index.shape is not None and len(index.shape) == 0
