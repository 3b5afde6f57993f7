"""The last element of a recurrent layer's results is its final state.

    y = LSTM(x, ...); s = Squeeze(y, 1)             , h = LSTM(x, ...)
    last = Gather(s, 19, axis=0)             ->     last = Squeeze(h, 0)

The layer computes the final state in any case, and has no need to write the others down. Layers that go forward, over
sequences of one length: of a layer that goes backward the final state is the first element. Declines where anything
else reads the results.
"""

from __future__ import annotations

import onnx_ir as ir
import torch

from ...passes.constant_tensors import add_constant, as_torch, is_weight
from ...passes.node_replacement import change_nodes, maker_for_one, take_place

_LAYERS = ("LSTM", "GRU", "RNN")
_SEQUENCE, _DIRECTION, _BATCH, _HIDDEN = range(4)  # the axes of what such a layer gives


def last_state(model: ir.Model) -> bool:
    """Run on a model, in place; whether anything changed."""
    return change_nodes(model, "Gather", _take)


def _take(graph: ir.Graph, gather: ir.Node) -> bool:
    found = _origin(gather.inputs[0])
    if found is None:
        return False
    layer, axes = found
    axis = gather.attributes["axis"].as_int() if "axis" in gather.attributes else 0
    if axes[axis] != _SEQUENCE or [each for each in axes if each != _SEQUENCE] != [_BATCH, _HIDDEN]:
        return False
    if not _is_last(gather.inputs[1], layer.outputs[0]):
        return False
    state = _final_state(layer)
    if graph.opset_imports.get("", 0) >= 13:
        new = ir.Node("", "Squeeze", [state, add_constant(graph, f"{state.name}.axes", torch.tensor([0]))])
    else:
        new = ir.Node("", "Squeeze", [state], [ir.AttrInt64s("axes", [0])])
    take_place(graph, gather, new)
    return True


def _final_state(layer: ir.Node) -> ir.Value:
    """The second output of a layer. The first, which nothing reads any more, has no name from now on."""
    if len(layer.outputs) < 2:
        layer.resize_outputs(2)
    results, state = layer.outputs[:2]
    if not state.name:
        state.name, state.type = f"{results.name}.last", results.type
        state.shape = ir.Shape([1, *results.shape[_BATCH:]]) if results.shape is not None else None
    results.name = ""
    return state


def _origin(value: ir.Value | None) -> tuple[ir.Node, list[int]] | None:
    """The layer whose results a tensor has, and which of their axes each of its axes is."""
    made = maker_for_one(value, *_LAYERS, "Squeeze", "Transpose")
    if made is None:
        return None
    if made.op_type in _LAYERS:
        direction = made.attributes["direction"].as_string() if "direction" in made.attributes else "forward"
        lengths = made.inputs[4] if len(made.inputs) > 4 else None
        is_plain = direction == "forward" and lengths is None and value is made.outputs[0]
        return (made, [_SEQUENCE, _DIRECTION, _BATCH, _HIDDEN]) if is_plain else None
    found = _origin(made.inputs[0])
    if found is None:
        return None
    layer, axes = found
    if made.op_type == "Transpose":
        order = made.attributes["perm"].as_ints() if "perm" in made.attributes else reversed(range(len(axes)))
        return layer, [axes[each] for each in order]
    # One direction is the only axis that is known to have one element, so that a Squeeze without axes is not followed.
    dropped = _squeezed(made)
    return (layer, [each for each in axes if each != _DIRECTION]) if dropped == [axes.index(_DIRECTION)] else None


def _squeezed(node: ir.Node) -> list[int]:
    if "axes" in node.attributes:
        return list(node.attributes["axes"].as_ints())
    axes = node.inputs[1] if len(node.inputs) > 1 else None
    return [int(each) for each in as_torch(axes)] if axes is not None and is_weight(axes) else []


def _is_last(index: ir.Value | None, results: ir.Value) -> bool:
    if index is None or not is_weight(index) or index.shape is None or len(index.shape) != 0:
        return False
    length = results.shape[_SEQUENCE] if results.shape is not None else None
    return int(as_torch(index)) in (-1, length - 1 if isinstance(length, int) else -1)
