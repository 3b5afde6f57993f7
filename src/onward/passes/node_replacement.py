"""Nodes in the place of others (what a person reads of the old one, the new one says too), and who makes a tensor."""

from __future__ import annotations

from collections.abc import Callable

import onnx_ir as ir


def take_place(graph: ir.Graph, old: ir.Node, new: ir.Node) -> None:
    """Put a node where another is: same name, metadata and source line, its result under the same name."""
    before, after = old.outputs[0], new.outputs[0]
    new.name, new.doc_string = old.name, old.doc_string
    new.metadata_props.update(old.metadata_props)
    after.name, after.type, after.shape = before.name, before.type, before.shape
    graph.insert_before(old, new)
    ir.convenience.replace_all_uses_with(before, after, replace_graph_outputs=True)
    graph.remove(old, safe=True)


ASKS = ("Shape", "Size")  # what reads no value of a tensor


def maker_for_one(value: ir.Value | None, *ops: str) -> ir.Node | None:
    """The node that makes a tensor, if it is one of these operators and one other node alone reads the tensor."""
    made = value.producer() if value is not None else None
    if value is None or made is None or made.op_type not in ops or made.domain != "":
        return None
    return made if len(value.uses()) == 1 and not value.is_graph_output() else None


def change_nodes(model: ir.Model, op: str, change: Callable[[ir.Graph, ir.Node], bool]) -> bool:
    """Let `change` see every node of a standard operator that a graph has now; whether it changed anything."""
    changed = False
    for node in list(model.graph):
        changed |= node.op_type == op and node.domain == "" and change(model.graph, node)
    return changed
