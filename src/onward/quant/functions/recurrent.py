"""Recurrent layers: weights are integers with a scale for every row, what comes in and what goes out lies on grids, and
the recurrence runs in float (or, with `lstm="dynamic"`, as onnxruntime's DynamicQuantizeLSTM computes it)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from .. import ops
from ..config import Weights
from ..fake import fake_quantize_weight
from ..grid import weight_grid
from ..ranges import weight_range
from ..session import Phase, Session
from .registry import handles

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
    if is_packed or call.settings.weight_only:
        x = session.values(input)
    else:
        x = session.settle(input, call.site("input"))
    states = session.values(states) if isinstance(states, Tensor) else tuple(map(session.values, states))
    weights = [rounded(session, each, spec, x) for each in args[place]]
    result = list(func(x, *args[: place - 1], states, weights, *args[place + 1 :]))
    if not is_packed and not call.settings.weight_only:  # the last state is part of the output
        result[:2] = [session.finish(each, call.site("output")) for each in result[:2]]
    return tuple(result)


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
    spec = replace(spec, block_size=None)
    if weight.dim() < 2 or session.phase is Phase.CALIBRATE:
        return weight
    if session.phase is Phase.TRAIN:
        return fake_quantize_weight(weight, spec, axis=0)
    weight = weight.detach()
    grid = weight_grid(weight_range(weight, spec, 0), spec, 0)
    return ops.stored(ops.quantize(weight, grid), grid, near)
