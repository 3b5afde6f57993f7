"""Recurrent layers: weights are integers with a scale for every row, what goes out lies on a grid (for chips what comes
in too), and the recurrence runs in float (or, with `lstm="dynamic"`, as onnxruntime's DynamicQuantizeLSTM has it)."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from .. import ops
from ..config.settings import Weights
from ..grids.grid import weight_grid
from ..ranges.methods import weight_range
from ..run.float_values import remember, unrounded
from ..run.handlers import handles
from ..run.session import Phase, Session
from ..run.study_requests import is_rounded, show_weight
from ..training.rounded import fake_quantize_weight

LAYERS = {torch.lstm: "lstm", torch.gru: "gru", torch.rnn_tanh: "rnn", torch.rnn_relu: "rnn"}
CELLS = (torch.lstm_cell, torch.gru_cell, torch.rnn_tanh_cell, torch.rnn_relu_cell)


@handles(*LAYERS)
def layers(session: Session, func: Any, input: Tensor, *args: Any) -> Any:
    """(input, state, weights, has_biases, ...); those of packed sequences have their batch sizes in between, and stay
    in float but for the weights: what is packed is no tensor of the model's."""
    if input.dtype is not torch.float32:
        return NotImplemented
    call = session.call(LAYERS[func])
    is_packed = len(args) > 2 and isinstance(args[2], (list, tuple))
    place = 2 if is_packed else 1
    states, spec = args[place - 1], call.settings.weights
    is_dynamic = func is torch.lstm and not is_packed and session.controller.config.lstm == "dynamic"
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
                rounded(session, each, spec, x)
        result = _dynamic_lstm(x, states, args[place], spec, *args[place + 1 :])
    else:
        weights = [rounded(session, each, spec, x) for each in args[place]]
        result = list(func(x, *args[: place - 1], states, weights, *args[place + 1 :]))
    if not is_packed and not call.settings.weight_only:  # the last state is part of the output
        site, bits = call.site("output"), call.settings.activations.bits
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
        y, *end = ops.dynamic_lstm(x, h, c, *of_input, *of_state, bias)
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
        found.append((ops.quantize(row, grid).T, grid.scale.expand(row.shape[0])))
    return torch.stack([q for q, _ in found]), torch.stack([scale for _, scale in found])


@handles(*CELLS)
def cells(session: Session, func: Any, input: Tensor, states: Any, *weights: Tensor | None) -> Any:
    """One step, called for each element of a sequence. States that are rounded at every step would drift:
    only the weights are integers."""
    if input.dtype is not torch.float32:
        return NotImplemented
    spec = session.call("cell").settings.weights
    x = session.values(input)
    states = session.values(states) if isinstance(states, Tensor) else tuple(map(session.values, states))
    return func(x, states, *(each if each is None else rounded(session, each, spec, x) for each in weights))


def rounded(session: Session, weight: Tensor, spec: Weights, near: Tensor) -> Tensor:
    """The values of a weight on its grid; a bias stays as it is."""
    spec, path = replace(spec, block_size=None), session.frames[-1].path
    rounds = session.phase is Phase.TRAIN or is_rounded(session, path)
    if weight.dim() < 2 or (session.phase is Phase.CALIBRATE and not rounds):
        return weight
    if rounds:
        return fake_quantize_weight(weight, spec, axis=0)
    values = weight.detach()
    grid = weight_grid(weight_range(values, spec, 0), spec, 0)
    q = ops.quantize(values, grid)
    held = session.frames[-1].module._parameters.items()
    name = next((name for name, each in held if each is weight), "weight")
    show_weight(session, path, name, values, functools.partial(ops.dequantize, q, grid))
    return ops.stored(q, grid, near)
