"""Single steps of recurrent layers, and layers made of them for what ONNX's own operators lack.

ONNX's LSTM has no projection, and onnxruntime 1.31 runs LSTM, GRU and RNN in float32 only: there a Scan runs the step.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

from ..emitter import Emitter, Size, Value
from ..registry import lowers

aten = torch.ops.aten

# From the share of the input in each gate, the states and the weights to the new states; the first is the output.
Step = Callable[[Emitter, Value, Sequence[Value], "Weights"], list[Value]]


@dataclass(frozen=True, slots=True)
class Weights:
    """The weights of one layer in one direction, as PyTorch orders them."""

    of_input: Value
    of_state: Value
    input_bias: Value | None = None
    state_bias: Value | None = None
    projection: Value | None = None


def affine(g: Emitter, x: Value, weight: Value, bias: Value | None) -> Value:
    """x @ weight.T + bias"""
    if g.rank(x) == 2 and bias is not None:
        return g.op.Gemm(x, weight, bias, transB=1)
    product = g.op.MatMul(x, g.op.Transpose(weight, perm=[1, 0]))
    return product if bias is None else g.op.Add(product, bias)


def _gates(g: Emitter, x: Value, count: int) -> list[Value]:
    size = g.dim_size(x, -1)
    return g.split(x, [size // count] * count, -1)


def lstm_step(g: Emitter, from_input: Value, states: Sequence[Value], weights: Weights) -> list[Value]:
    hidden, cell = states
    sums = g.op.Add(from_input, affine(g, hidden, weights.of_state, weights.state_bias))
    admit, forget, new, output = _gates(g, sums, 4)
    kept = g.op.Mul(g.op.Sigmoid(forget), cell)
    cell = g.op.Add(kept, g.op.Mul(g.op.Sigmoid(admit), g.op.Tanh(new)))
    hidden = g.op.Mul(g.op.Sigmoid(output), g.op.Tanh(cell))
    if weights.projection is not None:
        hidden = affine(g, hidden, weights.projection, None)
    return [hidden, cell]


def gru_step(g: Emitter, from_input: Value, states: Sequence[Value], weights: Weights) -> list[Value]:
    (hidden,) = states
    of_input = _gates(g, from_input, 3)
    of_state = _gates(g, affine(g, hidden, weights.of_state, weights.state_bias), 3)
    reset = g.op.Sigmoid(g.op.Add(of_input[0], of_state[0]))
    update = g.op.Sigmoid(g.op.Add(of_input[1], of_state[1]))
    new = g.op.Tanh(g.op.Add(of_input[2], g.op.Mul(reset, of_state[2])))
    return [g.op.Add(new, g.op.Mul(update, g.op.Sub(hidden, new)))]


def rnn_step(activation: str) -> Step:
    def step(g: Emitter, from_input: Value, states: Sequence[Value], weights: Weights) -> list[Value]:
        sums = g.op.Add(from_input, affine(g, states[0], weights.of_state, weights.state_bias))
        return [g.node(activation, [sums])]

    return step


def scan(
    g: Emitter,
    step: Step,
    x: Value,
    states: Sequence[Value],
    weights: Weights,
    reverse: bool,
    lengths: Value | None = None,
) -> tuple[Value, list[Value]]:
    """A layer in one direction: the output [sequence, batch, hidden] and the final states [batch, hidden].

    Beyond the length of a sequence its output is zero and its states stay as they are.
    """
    shares = affine(g, x, weights.of_input, weights.input_bias)  # all steps at once
    length, *rest = g.known_dims(shares)
    body = g.subgraph("step")
    before = [body.input(f"state_{i}", g.dtype(x), g.known_dims(state)) for i, state in enumerate(states)]
    inputs = [shares]
    share = body.input("share", g.dtype(x), rest)
    after = step(body, share, before, weights)
    output = after[0]
    if lengths is not None:
        inputs.append(_within(g, g.dim_size(x, 0), lengths))
        inside = body.input("inside", torch.bool, (rest[0], 1))
        output = body.where(inside, output, body.like(output, 0))
        after = [body.where(inside, new, old) for new, old in zip(after, before, strict=True)]
    backward = [1] if reverse else None
    made = g.node(
        "Scan",
        [*states, *inputs],
        {
            "body": body.graph([*after, output]),
            "num_scan_inputs": len(inputs),
            "scan_input_directions": backward and backward * len(inputs),
            "scan_output_directions": backward,
        },
        outputs=len(states) + 1,
    )
    *finals, outputs = made
    for final, state in zip(finals, states, strict=True):
        g.annotate(final, g.known_dims(state), g.dtype(x))
    g.annotate(outputs, (length, *g.known_dims(states[0])), g.dtype(x))
    return outputs, finals


def _within(g: Emitter, steps: Size, lengths: Value) -> Value:
    """[sequence, batch, 1]: whether a step is within its sequence."""
    places = g.unsqueeze(g.arange(0, steps, 1, torch.int64), [1, 2])
    return g.op.Less(places, g.unsqueeze(g.cast(lengths, torch.int64), [1]))


# The operators


@lowers(aten.lstm_cell.default)
def lstm_cell(
    g: Emitter,
    x: Value,
    states: Sequence[Value],
    of_input: Value,
    of_state: Value,
    input_bias: Value | None = None,
    state_bias: Value | None = None,
) -> list[Value]:
    """lstm_cell(Tensor input, Tensor[] hx, Tensor w_ih, Tensor w_hh, Tensor? b_ih=None, Tensor? b_hh=None)
    -> (Tensor, Tensor)"""
    weights = Weights(of_input, of_state, input_bias, state_bias)
    return lstm_step(g, affine(g, x, of_input, input_bias), states, weights)


def _one_state(step: Step) -> Callable[..., Value]:
    def lower(
        g: Emitter,
        x: Value,
        state: Value,
        of_input: Value,
        of_state: Value,
        input_bias: Value | None = None,
        state_bias: Value | None = None,
    ) -> Value:
        """gru_cell(Tensor input, Tensor hx, Tensor w_ih, Tensor w_hh, Tensor? b_ih=None, Tensor? b_hh=None)
        -> Tensor"""
        weights = Weights(of_input, of_state, input_bias, state_bias)
        return step(g, affine(g, x, of_input, input_bias), [state], weights)[0]

    return lower


lowers(aten.gru_cell.default)(_one_state(gru_step))
lowers(aten.rnn_tanh_cell.default)(_one_state(rnn_step("Tanh")))
lowers(aten.rnn_relu_cell.default)(_one_state(rnn_step("Relu")))
