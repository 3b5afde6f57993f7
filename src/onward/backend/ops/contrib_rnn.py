"""An LSTM on weights of 8 bits (com.microsoft): what it multiplies them with is quantised as it comes."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ...errors import BackendError
from ..registry import implements
from .contrib_qlinear import dynamic_quantize_matmul

_USUAL = ["sigmoid", "tanh", "tanh"]


@implements("DynamicQuantizeLSTM", domain="com.microsoft")
def dynamic_quantize_lstm(
    x: Tensor,
    w: Tensor,
    r: Tensor,
    b: Tensor | None,
    lengths: Tensor | None,
    h: Tensor | None,
    c: Tensor | None,
    p: Tensor | None,
    w_scale: Tensor,
    w_zero: Tensor,
    r_scale: Tensor,
    r_zero: Tensor,
    *,
    hidden_size: int,
    direction: str = "forward",
    activations: list[str] | None = None,
    activation_alpha: list[float] | None = None,
    activation_beta: list[float] | None = None,
    clip: float | None = None,
    input_forget: int = 0,
) -> tuple[Tensor, Tensor, Tensor]:
    """Weights are (directions, inputs, 4 * hidden), the other way round than those of LSTM; gates are i, o, f, c."""
    names = [name.lower() for name in activations or []]
    if clip is not None or input_forget or names not in ([], _USUAL, _USUAL * 2):
        raise BackendError("DynamicQuantizeLSTM with clip, input_forget or other activations is not supported")
    directions = {"forward": [False], "reverse": [True], "bidirectional": [False, True]}.get(direction)
    if directions is None or len(directions) != w.shape[0]:
        raise BackendError(f"DynamicQuantizeLSTM with direction {direction!r} and weights of shape {list(w.shape)}")
    results = []
    for place, backward in enumerate(directions):
        start = [x.new_zeros(x.shape[1], hidden_size) if each is None else each[place] for each in (h, c)]
        bias = None if b is None else b[place, : 4 * hidden_size] + b[place, 4 * hidden_size :]
        order = _order(x, lengths, backward)
        turned = x if order is None else x.gather(0, order.unsqueeze(-1).expand_as(x))
        gates = dynamic_quantize_matmul(turned, w[place], w_scale[place], w_zero[place], bias)
        recurrent = (r[place], r_scale[place], r_zero[place])
        ys, *last = _loop(gates, recurrent, start, None if p is None else p[place], lengths)
        results.append([ys if order is None else ys.gather(0, order.unsqueeze(-1).expand_as(ys)), *last])
    ys, hs, cs = (torch.stack(each, 1 if number == 0 else 0) for number, each in enumerate(zip(*results, strict=True)))
    return ys, hs, cs


def _order(x: Tensor, lengths: Tensor | None, backward: bool) -> Tensor | None:
    """Which step of each row comes when, (steps, batch): backward, rows turn round within their lengths."""
    if not backward:
        return None
    steps = torch.arange(x.shape[0]).unsqueeze(1).expand(-1, x.shape[1])
    ends = torch.full((x.shape[1],), x.shape[0]) if lengths is None else lengths.long()
    return torch.where(steps < ends, ends - 1 - steps, steps)


def _loop(
    gates: Tensor, recurrent: tuple[Tensor, Tensor, Tensor], start: list[Tensor], p: Tensor | None, lengths: Any
) -> tuple[Tensor, Tensor, Tensor]:
    """A row that has ended gives zeros, which are quantised with the others; its last h and c stay as they were."""
    h, c = last_h, last_c = start
    peep = [torch.zeros(())] * 3 if p is None else list(p.chunk(3))
    outputs = []
    for step, given in enumerate(gates):
        i, o, f, g = (given + dynamic_quantize_matmul(h, *recurrent)).chunk(4, -1)
        c = torch.sigmoid(f + peep[2] * c) * c + torch.sigmoid(i + peep[0] * c) * torch.tanh(g)
        h = torch.sigmoid(o + peep[1] * c) * torch.tanh(c)
        if lengths is not None:
            going = (step < lengths).unsqueeze(1)
            h = torch.where(going, h, 0.0)
            last_h, last_c = torch.where(going, h, last_h), torch.where(going, c, last_c)
        outputs.append(h)
    return torch.stack(outputs), *((h, c) if lengths is None else (last_h, last_c))
