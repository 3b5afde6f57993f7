"""How many arithmetic operations a node takes, from its shapes. A multiplication and an addition are two.

The records of the operators count (`onnx_operators`): products as `torch.utils.flop_counter` does, two operations for
each multiplication and addition, without the bias; everything else by what its definition says, one operation for every
function of an element, be it an addition or an exponential, and as many as it takes for norms, softmax and pools. What
only moves data takes none. Here they are added up over the graphs that a node holds. An operator without a count has no
number: None, never a guess.
"""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from ..onnx_operators.call_sizes import CallSizes, UnknownSize
from ..onnx_operators.record import find
from .call_shapes import Sized

Count = int | None


def flops_of(node: ir.Node, sized: Sized, inner: Sequence[Sequence[Count]], *, is_call: bool) -> Count:
    """The count of one node; `inner` are those of the nodes in the graphs that it holds."""
    if is_call:
        return _sum(inner[0]) if inner else None  # a call that was not opened
    if inner:
        return _of_body(node, sized, inner)
    record = find(node.op_type, node.domain)
    if record is None:
        return None
    try:
        return record.flops(CallSizes(node, sized.sizes))
    except (UnknownSize, IndexError, TypeError):  # IndexError, TypeError: a malformed node, for the checker to tell of
        return None


def _sum(counts: Sequence[Count]) -> Count:
    known = [count for count in counts if count is not None]
    return sum(known) if len(known) == len(counts) else None


def _of_body(node: ir.Node, sized: Sized, inner: Sequence[Sequence[Count]]) -> Count:
    """Branches that cost the same, and loops whose number of turns follows from shapes or constants."""
    each = [_sum(counts) for counts in inner]
    if None in each or not each:
        return None
    if node.op_type == "If":
        return each[0] if len(set(each)) == 1 else None
    turns = _turns(node, sized)
    return None if turns is None or each[0] is None else turns * each[0]


def _turns(node: ir.Node, sized: Sized) -> int | None:
    if node.op_type == "Scan":
        scanned = node.attributes.get_int("num_scan_inputs", 0)
        axes = node.attributes.get_ints("scan_input_axes", ()) or (0,)
        first = node.inputs[len(node.inputs) - scanned] if scanned else None
        sizes = sized.sizes.get(first) if first is not None else None
        return sizes[axes[0]] if sizes else None
    if node.op_type != "Loop" or not node.inputs or node.inputs[0] is None:
        return None
    limit, condition = node.inputs[0].const_value, node.inputs[1] if len(node.inputs) > 1 else None
    if limit is None or limit.size != 1 or not _goes_on(node, condition):
        return None
    return int(limit.numpy().item())


def _goes_on(node: ir.Node, condition: ir.Value | None) -> bool:
    """Whether nothing but the limit ends a loop: the condition is true at the start, and passed on as it is."""
    if condition is not None and (condition.const_value is None or not bool(condition.const_value.numpy().item())):
        return False
    body = node.attributes["body"].as_graph()
    told = body.outputs[0]
    maker = told.producer()
    while maker is not None and maker.op_type == "Identity" and maker.inputs[0] is not None:
        told = maker.inputs[0]
        maker = told.producer()
    if told.const_value is not None:
        return bool(told.const_value.numpy().item())
    return told is body.inputs[1]
