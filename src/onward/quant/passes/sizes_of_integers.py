"""Sizes are read from integers, and not from the floats that these were made of.

    y = Conv(...)                                 y = Conv(...)
    n = Shape(Reshape(y, ...))           ->       q = QuantizeLinear(y)
    q = QuantizeLinear(y)                         n = Shape(Reshape(q, ...))

A runtime makes one integer operation of Conv and QuantizeLinear where nobody else reads what is between them. A model
that asks for the size of a result asks before it is put on its grid, and its answer may be the form that a transposed
convolution has been given by then.
"""

from __future__ import annotations

import onnx_ir as ir

from ...passes.node_replacement import ASKS
from ...passes.share_equal_nodes import share_equal_nodes

_MOVES = ("Transpose", "Reshape", "Slice", "Squeeze", "Unsqueeze", "Flatten", "Identity")


def sizes_of_integers(model: ir.Model) -> bool:
    """Run on a model, in place; whether anything changed."""
    changed = False
    for node in list(model.graph):
        if (node.op_type, node.domain) == ("QuantizeLinear", ""):
            changed |= _redirect(node)
    if changed:
        model.graph.sort()
        share_equal_nodes(model)  # the integers themselves are moved in the same way
    return changed


def _redirect(quantize: ir.Node) -> bool:
    """What asks for sizes of the floats alone, of one result of a QuantizeLinear."""
    floats, integers = quantize.inputs[0], quantize.outputs[0]
    if floats is None or any(value is not None and value.producer() is not None for value in quantize.inputs[1:]):
        return False  # of a scale that is computed, perhaps from these very sizes
    changed = False
    for user, place in list(floats.uses()):
        moved: list[ir.Value] = []
        if user is not quantize and place == 0 and _only_asks(user, moved):
            user.replace_input_with(place, integers)
            for value in moved:
                value.type = integers.type
            changed = True
    return changed


def _only_asks(node: ir.Node, moved: list[ir.Value]) -> bool:
    """Whether a node asks for sizes, or moves values to somewhere where nothing else is done with them."""
    if node.domain != "":
        return False
    if node.op_type in ASKS:
        return True
    result = node.outputs[0]
    if node.op_type not in _MOVES or result.is_graph_output() or not result.uses():
        return False
    moved.append(result)
    return all(place == 0 and _only_asks(user, moved) for user, place in result.uses())
