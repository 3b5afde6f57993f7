"""LSTMs that onnxruntime quantises as they run."""

from __future__ import annotations

import torch

from ...lower import lowers
from ...lower.emitter import Emitter, Value
from ...lower.ops.rnn import is_zero

onward = torch.ops.onward


@lowers(onward.dynamic_lstm.default)
def dynamic_lstm(
    g: Emitter,
    x: Value,
    h: Value,
    c: Value,
    w: Value,
    w_scale: Value,
    r: Value,
    r_scale: Value,
    bias: Value | None,
) -> tuple[Value, ...]:
    """dynamic_lstm(Tensor x, Tensor h, Tensor c, Tensor w, Tensor w_scale, Tensor r, Tensor r_scale, Tensor? bias)
    -> (Tensor, Tensor, Tensor)"""
    directions, hidden, gates = (int(each) for each in g.known_dims(r))  # type: ignore[arg-type]
    zero = g.const_tensor(torch.zeros(directions, gates, dtype=torch.int8))
    settings = {"hidden_size": hidden, "direction": "bidirectional" if directions == 2 else "forward"}
    states = [None, None] if is_zero(g, h) and is_zero(g, c) else [h, c]
    inputs = [x, w, r, bias, None, *states, None, w_scale, zero, r_scale, zero]
    made: tuple[Value, ...] = g.node("DynamicQuantizeLSTM", inputs, settings, domain="com.microsoft", outputs=3)
    length, batch, _ = g.known_dims(x)
    end = (directions, batch, hidden)
    for value, dims in zip(made, ((length, directions, batch, hidden), end, end), strict=True):
        g.annotate(value, dims, torch.float32)
    return made
