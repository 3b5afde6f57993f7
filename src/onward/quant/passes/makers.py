"""Who makes a tensor, for passes that follow a chain of nodes upwards."""

from __future__ import annotations

import onnx_ir as ir

ASKS = ("Shape", "Size")  # what reads no value of a tensor


def maker_for_one(value: ir.Value | None, *ops: str) -> ir.Node | None:
    """The node that makes a tensor, if it is one of these operators and one other node alone reads the tensor."""
    made = value.producer() if value is not None else None
    if value is None or made is None or made.op_type not in ops or made.domain != "":
        return None
    return made if len(value.uses()) == 1 and not value.is_graph_output() else None
