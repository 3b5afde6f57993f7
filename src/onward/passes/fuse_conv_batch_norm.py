"""A batch norm after a convolution goes into the convolution's weights.

    y = Conv(x, w, b)                          z = Conv(x, w * s, (b - mean) * s + bias)
    z = BatchNormalization(y, scale,     ->        with s = scale / sqrt(variance + epsilon)
            bias, mean, variance)

Conv, ConvTranspose with one group, and Gemm with a plain weight. Declines where the convolution's result is read by
anything else, where a weight is not a constant, and where the norm is in training form.
"""

from __future__ import annotations

from collections.abc import Callable

import onnx_ir as ir
import torch

from .constant_tensors import add_weight, as_torch, is_weight


def fuse_conv_batch_norm(model: ir.Model) -> bool:
    """Run on a model, in place; whether anything changed."""
    changed = False
    for graph in model.graphs():
        for node in list(graph):
            changed |= node.op_type == "BatchNormalization" and node.domain == "" and _fuse(graph, node)
    return changed


def _fuse(graph: ir.Graph, norm: ir.Node) -> bool:
    first = norm.inputs[0]
    conv = first.producer() if first is not None else None
    if conv is None or first is None or conv.graph is not graph or first.is_graph_output() or len(first.uses()) != 1:
        return False
    axis = _channel_axis(conv)
    weight = conv.inputs[1] if len(conv.inputs) > 1 else None
    bias = conv.inputs[2] if len(conv.inputs) > 2 else None
    if axis is None or not is_weight(weight) or not (bias is None or is_weight(bias)):
        return False
    parameters = [value for value in norm.inputs[1:] if value is not None and is_weight(value)]
    if len(parameters) != 4 or len(norm.outputs) > 1 or not _is_plain(norm):
        return False
    assert weight is not None
    if any(value.dtype != weight.dtype for value in parameters):
        return False
    epsilon = norm.attributes["epsilon"].as_float() if "epsilon" in norm.attributes else 1e-5
    _rewrite(graph, conv, norm, weight, bias, _Folded(parameters, epsilon, axis))
    return True


def _is_plain(norm: ir.Node) -> bool:
    """Not in training form, and with one mean per channel; before opset 9 a file may have asked for one per element."""
    training, spatial = (norm.attributes.get(name) for name in ("training_mode", "spatial"))
    return (training is None or not training.as_int()) and (spatial is None or bool(spatial.as_int()))


def _channel_axis(conv: ir.Node) -> int | None:
    """The axis of the weight that runs over output channels; None if the node is not one that can take a norm in."""
    attributes = conv.attributes
    if conv.domain != "":
        return None
    if conv.op_type == "Conv":
        return 0
    if conv.op_type == "ConvTranspose":
        return 1 if "group" not in attributes or attributes["group"].as_int() == 1 else None
    if conv.op_type == "Gemm":
        scaled = any(name in attributes and attributes[name].as_float() != 1 for name in ("alpha", "beta"))
        flipped = "transB" in attributes and attributes["transB"].as_int()
        one_per_channel = len(conv.inputs) < 3 or conv.inputs[2] is None or len(conv.inputs[2].shape or ()) == 1
        return None if scaled or not one_per_channel else 0 if flipped else 1
    return None


class _Folded:
    """The arithmetic, per channel in double precision, done when a weight is read."""

    def __init__(self, parameters: list[ir.Value], epsilon: float, axis: int) -> None:
        self._parameters, self._epsilon, self._axis = parameters, epsilon, axis

    def _scale(self) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        scale, shift, mean, variance = (as_torch(value).double() for value in self._parameters)
        return scale / torch.sqrt(variance + self._epsilon), shift, mean

    def weight(self, old: ir.Value) -> Callable[[], torch.Tensor]:
        def compute() -> torch.Tensor:
            weight, (scale, _, _) = as_torch(old), self._scale()
            shape = [1] * weight.dim()
            shape[self._axis] = -1
            return weight * scale.reshape(shape).to(weight.dtype)

        return compute

    def bias(self, old: ir.Value | None) -> Callable[[], torch.Tensor]:
        def compute() -> torch.Tensor:
            scale, shift, mean = self._scale()
            start = 0.0 if old is None else as_torch(old).double()
            return ((start - mean) * scale + shift).to(as_torch(self._parameters[1]).dtype)

        return compute


def _rewrite(
    graph: ir.Graph, conv: ir.Node, norm: ir.Node, weight: ir.Value, bias: ir.Value | None, folded: _Folded
) -> None:
    channels = norm.inputs[2]
    assert channels is not None and weight.name is not None and channels.name is not None
    new_weight = add_weight(graph, f"{weight.name}.folded", weight, folded.weight(weight))
    new_bias = add_weight(graph, f"{(bias or channels).name}.folded", channels, folded.bias(bias))
    conv.replace_input_with(1, new_weight)
    if len(conv.inputs) < 3:
        conv.resize_inputs(3)
    conv.replace_input_with(2, new_bias)
    before, after = conv.outputs[0], norm.outputs[0]
    name = after.name
    ir.convenience.replace_all_uses_with(after, before, replace_graph_outputs=True)
    graph.remove(norm, safe=True)
    before.name = name
    before.type, before.shape = after.type, after.shape
