"""An LSTM whose activations are quantised as it runs."""

from __future__ import annotations

import torch
from torch import Tensor

from .core import define


def _dynamic_lstm(
    x: Tensor, h: Tensor, c: Tensor, w: Tensor, w_scale: Tensor, r: Tensor, r_scale: Tensor, bias: Tensor | None
) -> tuple[Tensor, Tensor, Tensor]:
    from ...backend.ops.contrib_rnn import dynamic_quantize_lstm

    w_zero, r_zero = (torch.zeros(each.shape, dtype=torch.int8) for each in (w_scale, r_scale))
    direction = "bidirectional" if w.shape[0] == 2 else "forward"
    hidden = r.shape[1]
    result: tuple[Tensor, Tensor, Tensor] = dynamic_quantize_lstm(
        x, w, r, bias, None, h, c, None, w_scale, w_zero, r_scale, r_zero, hidden_size=hidden, direction=direction
    )
    return result


def _fake(x: Tensor, h: Tensor, c: Tensor, w: Tensor, *_: object) -> tuple[Tensor, Tensor, Tensor]:
    return x.new_empty(x.shape[0], w.shape[0], x.shape[1], h.shape[-1]), torch.empty_like(h), torch.empty_like(c)


define(
    "dynamic_lstm(Tensor x, Tensor h, Tensor c, Tensor w, Tensor w_scale, Tensor r, Tensor r_scale, Tensor? bias) "
    "-> (Tensor, Tensor, Tensor)",
    _dynamic_lstm,
    _fake,
)


def dynamic_lstm(
    x: Tensor, h: Tensor, c: Tensor, w: Tensor, w_scale: Tensor, r: Tensor, r_scale: Tensor, bias: Tensor | None
) -> tuple[Tensor, Tensor, Tensor]:
    """One layer, as com.microsoft's DynamicQuantizeLSTM computes it.

    x is [length, batch, inputs], h and c are [directions, batch, hidden]. Weights are int8, [directions, inputs,
    4 * hidden] and [directions, hidden, 4 * hidden], with scales [directions, 4 * hidden]. Gates are in ONNX's order
    (input, output, forget, cell), also in the bias [directions, 8 * hidden]. The output is [length, directions, batch,
    hidden].
    """
    result: tuple[Tensor, Tensor, Tensor] = torch.ops.onward.dynamic_lstm(x, h, c, w, w_scale, r, r_scale, bias)
    return result
