"""Recurrent layers. Weights are integers with a scale for every row. What goes out lies on a grid, and for chips what
comes in does, too. The recurrence runs in float or, with `lstm="dynamic"`, as onnxruntime's DynamicQuantizeLSTM."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from ...lower.emitter import Emitter, Value
from ...lower.ops.rnn import is_zero
from ..config.settings import Weights
from ..exact.declare import exact
from ..exact.integers import quantize
from ..grids.grid import weight_grid
from ..grids.ranges import weight_range
from ..run.float_values import remember, unrounded
from ..run.handlers import WEIGHT_ONLY, handles
from ..run.session import Phase, QuantSession
from .product import stored_weight


@exact
def dynamic_lstm(
    x: Tensor, h: Tensor, c: Tensor, w: Tensor, w_scale: Tensor, r: Tensor, r_scale: Tensor, bias: Tensor | None
) -> tuple[Tensor, Tensor, Tensor]:
    """One layer, as com.microsoft's DynamicQuantizeLSTM computes it: it quantizes activations as it runs.

    x is [length, batch, inputs], h and c are [directions, batch, hidden]. Weights are int8, [directions, inputs,
    4 * hidden] and [directions, hidden, 4 * hidden], with scales [directions, 4 * hidden]. Gates are in ONNX's order
    (input, output, forget, cell), also in the bias [directions, 8 * hidden]. The output is [length, directions, batch,
    hidden].
    """
    from ...backend.ops.contrib_rnn import dynamic_quantize_lstm

    w_zero, r_zero = (torch.zeros(each.shape, dtype=torch.int8) for each in (w_scale, r_scale))
    direction = "bidirectional" if w.shape[0] == 2 else "forward"
    hidden = r.shape[1]
    result: tuple[Tensor, Tensor, Tensor] = dynamic_quantize_lstm(
        x, w, r, bias, None, h, c, None, w_scale, w_zero, r_scale, r_zero, hidden_size=hidden, direction=direction
    )
    return result


@dynamic_lstm.shape
def _(x: Tensor, h: Tensor, c: Tensor, w: Tensor, *_: object) -> tuple[Tensor, Tensor, Tensor]:
    return x.new_empty(x.shape[0], w.shape[0], x.shape[1], h.shape[-1]), torch.empty_like(h), torch.empty_like(c)


@dynamic_lstm.lowers()
def _(
    g: Emitter, x: Value, h: Value, c: Value, w: Value, w_scale: Value, r: Value, r_scale: Value, bias: Value | None
) -> tuple[Value, ...]:
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


LAYERS = {torch.lstm: "lstm", torch.gru: "gru", torch.rnn_tanh: "rnn", torch.rnn_relu: "rnn"}
CELLS = (torch.lstm_cell, torch.gru_cell, torch.rnn_tanh_cell, torch.rnn_relu_cell)


@handles(*LAYERS)
@handles(*LAYERS, table=WEIGHT_ONLY)
def layers(session: QuantSession, func: Any, input: Tensor, *args: Any) -> Any:
    """(input, state, weights, has_biases, ...); those of packed sequences have their batch sizes in between, and stay
    in float but for the weights: what is packed is no tensor of the model's."""
    if input.dtype is not torch.float32:
        return NotImplemented
    call = session.call(LAYERS[func])
    is_packed = len(args) > 2 and isinstance(args[2], (list, tuple))
    place = 2 if is_packed else 1
    states, spec = args[place - 1], call.settings.weights
    is_dynamic = func is torch.lstm and not is_packed and session.config.lstm == "dynamic"
    if is_packed or is_dynamic or call.settings.weight_only:
        x = session.values(input)
    elif session.for_a_chip:
        x = session.settle(input, call.site("input"))
    else:
        x = unrounded(session, input)
    states = session.values(states) if isinstance(states, Tensor) else tuple(map(session.values, states))
    if is_dynamic and isinstance(states, tuple) and session.phase is Phase.EXACT and _is_plain(states):
        if session.study is not None:  # it sees the same weights, rounded in the same way
            for each in args[place]:
                stored_weight(session, each, spec, x)
        result = _dynamic_lstm(x, states, args[place], spec, *args[place + 1 :])
    else:
        weights = [stored_weight(session, each, spec, x) for each in args[place]]
        result = list(func(x, *args[: place - 1], states, weights, *args[place + 1 :]))
    if not is_packed and not call.settings.weight_only:  # the last state is part of the output
        site, bits = call.site("output"), call.bits
        result[:2] = [remember(session, session.finish(each, site), each, bits) for each in result[:2]]
    return tuple(result)


def _is_plain(states: Sequence[Tensor]) -> bool:
    """Whether no layer projects its output, which ONNX's LSTMs do not."""
    return states[0].shape[-1] == states[1].shape[-1]


def _dynamic_lstm(
    x: Tensor,
    states: Sequence[Tensor],
    weights: Sequence[Tensor],
    spec: Weights,
    has_biases: bool,
    num_layers: int,
    dropout: float,
    train: bool,
    bidirectional: bool,
    batch_first: bool,
) -> list[Tensor]:
    """Layer by layer."""
    directions, each = (2 if bidirectional else 1), (4 if has_biases else 2)
    x = x.transpose(0, 1) if batch_first else x
    ends: list[tuple[Tensor, Tensor]] = []
    for layer in range(num_layers):
        first = layer * directions
        rows = [weights[each * (first + place) :][:each] for place in range(directions)]
        h, c = (state[first : first + directions] for state in states)
        bias = torch.stack([torch.cat([_in_order(row[2]), _in_order(row[3])]) for row in rows]) if has_biases else None
        of_input, of_state = (_turned([row[place] for row in rows], spec) for place in (0, 1))
        y, *end = dynamic_lstm(x, h, c, *of_input, *of_state, bias)
        x = y.squeeze(1) if directions == 1 else y.transpose(1, 2).flatten(2)
        ends.append((end[0], end[1]))
    x = x.transpose(0, 1) if batch_first else x
    return [x, *(torch.cat(end) if num_layers > 1 else end[0] for end in zip(*ends, strict=True))]


def _in_order(gates: Tensor) -> Tensor:
    """input, forget, cell, output -> input, output, forget, cell"""
    i, f, c, o = gates.detach().chunk(4)
    return torch.cat([i, o, f, c])


def _turned(rows: Sequence[Tensor], spec: Weights) -> tuple[Tensor, Tensor]:
    """[directions, inputs, gates] in integers, and a scale for each gate."""
    found = []
    for row in map(_in_order, rows):
        grid = weight_grid(weight_range(row, spec, 0), spec, 0)
        found.append((quantize(row, grid).T, grid.scale.expand(row.shape[0])))
    return torch.stack([q for q, _ in found]), torch.stack([scale for _, scale in found])


@handles(*CELLS)
@handles(*CELLS, table=WEIGHT_ONLY)
def cells(session: QuantSession, func: Any, input: Tensor, states: Any, *weights: Tensor | None) -> Any:
    """One step, called for each element of a sequence. States that are rounded at every step would drift:
    only the weights are integers."""
    if input.dtype is not torch.float32:
        return NotImplemented
    spec = session.call("cell").settings.weights
    x = session.values(input)
    states = session.values(states) if isinstance(states, Tensor) else tuple(map(session.values, states))
    return func(x, states, *(each if each is None else stored_weight(session, each, spec, x) for each in weights))
