"""Remove constants that no node reads and that are no output.

    initializers a, b; y = Relu(x)     ->     y = Relu(x)

Declines for constants that are also inputs of the graph: callers may feed them. onnx_ir has this only together with the
removal of nodes, and not in bodies.
"""

from __future__ import annotations

import onnx_ir as ir


def drop_unused_weights(model: ir.Model) -> bool:
    """Run on a model, in place; whether anything changed."""
    changed = False
    for graph in model.graphs():
        for name, value in list(graph.initializers.items()):
            if not value.uses() and not value.is_graph_output() and not value.is_graph_input():
                del graph.initializers[name]
                changed = True
    return changed
