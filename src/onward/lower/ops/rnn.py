"""Recurrent layers: one ONNX node per layer, both directions in it.

ONNX orders the gates differently, wants both biases in one row, and keeps an axis for the direction. Weights that are
constants are brought into that form here, so that the graph holds nothing but the layers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import onnx_ir as ir
import torch

from ..constants import ConstantTensor
from ..emitter import Emitter, Value
from ..registry import lowers
from .activation import dropout as dropped
from .rnn_cells import Step, Weights, gru_step, lstm_step, rnn_step, scan

aten = torch.ops.aten


@dataclass(frozen=True, slots=True)
class _Cell:
    """An ONNX recurrent operator: its gates in ONNX's order, each by its place in PyTorch's."""

    op: str
    gates: tuple[int, ...]
    step: Step
    states: int = 1
    settings: tuple[tuple[str, object], ...] = ()


_LSTM = _Cell("LSTM", (0, 3, 1, 2), lstm_step, states=2)  # input, forget, cell, output -> input, output, forget, cell
_GRU = _Cell(
    "GRU", (1, 0, 2), gru_step, settings=(("linear_before_reset", 1),)
)  # reset, update, new -> update, reset, new
_RNN = {name: _Cell("RNN", (0,), rnn_step(name), settings=(("activations", name),)) for name in ("Tanh", "Relu")}


@dataclass(frozen=True, slots=True)
class _Layout:
    """What all layers of one call have in common."""

    layers: int
    directions: int
    has_biases: bool
    batch_first: bool
    dropout: float  # between layers, in training
    projects: bool = False
    lengths: Value | None = None  # of the sequences, where they differ

    @property
    def weights(self) -> int:
        """How many tensors a layer has per direction."""
        return 2 + 2 * self.has_biases + self.projects


def _stack(g: Emitter, rows: Sequence[Value], gates: Sequence[int]) -> Value:
    """One row per direction, its gates in ONNX's order, as [directions, gates * hidden, ...]."""
    tensors = [tensor for tensor in map(g.value_of, rows) if tensor is not None]
    if len(tensors) == len(rows):
        return g.const_from("gates", rows, lambda: _stacked(tensors, gates))
    integers = _stacked_integers(g, rows, gates)
    if integers is not None:
        return integers
    return g.op.Concat(*(g.unsqueeze(_reorder(g, row, gates), [0]) for row in rows), axis=0)


def _stacked_integers(g: Emitter, rows: Sequence[Value], gates: Sequence[int]) -> Value | None:
    """The same of weights that are stored as integers, Mul(Cast(integers), scales): the integers are brought into
    order, and the two stay behind them. None for other weights."""
    parts: list[tuple[torch.Tensor, torch.Tensor]] = []
    for row in rows:
        product = row.producer()
        cast = product.inputs[0].producer() if product and product.op_type == "Mul" and product.inputs[0] else None
        held = cast.inputs[0].const_value if cast and cast.op_type == "Cast" and cast.inputs[0] else None
        scale = g.value_of(product.inputs[1]) if product and held is not None else None
        if scale is None or not isinstance(held, ConstantTensor):
            return None
        q = held.raw
        parts.append((q, scale.expand(q.shape[0], 1)))
    q, scale = (_stacked([part[place] for part in parts], gates) for place in (0, 1))
    return g.op.Mul(g.cast(g.const_kept(q), torch.float32), g.const_tensor(scale.contiguous()))


def _stacked(tensors: Sequence[torch.Tensor], gates: Sequence[int]) -> torch.Tensor:
    """The same of constants. A single gate in a single direction stays a view of the weight."""
    if len(gates) > 1:
        chunks = [tensor.detach().chunk(len(gates)) for tensor in tensors]
        tensors = [torch.cat([parts[gate] for gate in gates]) for parts in chunks]
    return tensors[0].detach()[None] if len(tensors) == 1 else torch.stack([t.detach() for t in tensors])


def _reorder(g: Emitter, row: Value, gates: Sequence[int]) -> Value:
    """The gates of weights that only the running model knows."""
    if len(gates) == 1:
        return row
    size = g.dim_size(row, 0)
    parts = g.split(row, [size // len(gates)] * len(gates), 0)
    return g.op.Concat(*(parts[gate] for gate in gates), axis=0)


def _biases(g: Emitter, rows: Sequence[tuple[Value, Value]], gates: Sequence[int]) -> Value:
    """[directions, 2 * gates * hidden]: those of the input, then those of the recurrence."""
    kinds = list(zip(*rows, strict=True))  # all of the input, all of the state
    tensors = [[tensor for tensor in map(g.value_of, kind) if tensor is not None] for kind in kinds]
    if all(len(found) == len(rows) for found in tensors):
        every = [bias for row in rows for bias in row]
        return g.const_from("gates", every, lambda: torch.cat([_stacked(found, gates) for found in tensors], 1))
    return g.op.Concat(*(_stack(g, kind, gates) for kind in kinds), axis=1)


def is_zero(g: Emitter, x: Value) -> bool:
    """Whether a state is zeros, which is what ONNX assumes if none is given."""
    tensor = g.value_of(x)
    if tensor is not None:
        return tensor.device.type != "meta" and not bool(tensor.any())
    node = x.producer()
    if node is None:
        return False
    if node.op_type in ("Expand", "Reshape", "Squeeze", "Unsqueeze", "Identity", "Cast", "Tile", "Slice", "Transpose"):
        return node.inputs[0] is not None and is_zero(g, node.inputs[0])
    if node.op_type == "ConstantOfShape":
        value = node.attributes.get("value")
        return value is None or (value.type == ir.AttributeType.TENSOR and not value.as_tensor().numpy().any())
    return False


def _initial(g: Emitter, state: Value, layers: int, keep: bool) -> list[Value | None]:
    """A state [layers * directions, batch, hidden] in parts, one per layer; None for zeros unless they are needed."""
    if not keep and is_zero(g, state):
        return [None] * layers
    count = g.known_dims(state)[0]
    if not isinstance(count, int):
        raise g.unsupported("initial states whose first axis is dynamic")
    return list(g.split(state, [count // layers] * layers, 0))


def _run(
    g: Emitter, cell: _Cell, x: Value, states: Sequence[Value], params: Sequence[Value], layout: _Layout
) -> list[Value]:
    """All layers: the output sequence, then the final states."""
    per_direction = layout.weights
    stepwise = layout.projects or g.dtype(x) is torch.float64  # see rnn_cells.py
    initial = [_initial(g, state, layout.layers, keep=stepwise) for state in states]
    finals: list[list[Value]] = [[] for _ in states]
    if layout.batch_first:
        x = g.op.Transpose(x, perm=[1, 0, 2])
    for layer in range(layout.layers):
        first = layer * layout.directions * per_direction
        rows = [params[first + d * per_direction :][:per_direction] for d in range(layout.directions)]
        last = layer == layout.layers - 1
        before = [state[layer] for state in initial]
        if stepwise:
            x, ends = _layer_of_steps(g, cell, x, before, rows, layout)
            x = g.op.Transpose(x, perm=[1, 0, 2]) if layout.batch_first and last else x
        else:
            y, ends = _layer(g, cell, x, before, rows, layout)
            x = _merge_directions(g, y, layout.batch_first and last)
        if not last:
            x = dropped(g, x, layout.dropout, train=True)
        for final, end in zip(finals, ends, strict=True):
            final.append(end)
    return [x, *(g.op.Concat(*final, axis=0) for final in finals)]


def _layer(
    g: Emitter,
    cell: _Cell,
    x: Value,
    states: Sequence[Value | None],
    rows: Sequence[Sequence[Value]],
    layout: _Layout,
) -> tuple[Value, list[Value]]:
    """One node. Y is [sequence, directions, batch, hidden]."""
    weights = _stack(g, [row[0] for row in rows], cell.gates)
    recurrence = _stack(g, [row[1] for row in rows], cell.gates)
    biases = _biases(g, [(row[2], row[3]) for row in rows], cell.gates) if layout.has_biases else None
    hidden = g.known_dims(rows[0][1])[1]
    settings = {name: [value] * layout.directions if name == "activations" else value for name, value in cell.settings}
    if layout.directions == 2:
        settings["direction"] = "bidirectional"
    lengths = None if layout.lengths is None else g.cast(layout.lengths, torch.int32)
    inputs = [x, weights, recurrence, biases, lengths, *states]
    y, *ends = g.node(cell.op, inputs, settings | {"hidden_size": hidden}, outputs=1 + cell.states)
    length, batch, _ = g.known_dims(x)
    g.annotate(y, (length, layout.directions, batch, hidden))
    for end in ends:
        g.annotate(end, (layout.directions, batch, hidden))
    return y, ends


def _layer_of_steps(
    g: Emitter,
    cell: _Cell,
    x: Value,
    states: Sequence[Value | None],
    rows: Sequence[Sequence[Value]],
    layout: _Layout,
) -> tuple[Value, list[Value]]:
    """One Scan per direction: the output [sequence, batch, directions * hidden] and the final states."""
    outputs: list[Value] = []
    finals: list[list[Value]] = [[] for _ in states]
    parts = [g.split(state, [1] * len(rows), 0) for state in states if state is not None]
    for direction, row in enumerate(rows):
        of_input, of_state = (row[2], row[3]) if layout.has_biases else (None, None)
        weights = Weights(row[0], row[1], of_input, of_state, row[-1] if layout.projects else None)
        before = [g.squeeze(part[direction], [0]) for part in parts]
        output, after = scan(g, cell.step, x, before, weights, reverse=direction == 1, lengths=layout.lengths)
        outputs.append(output)
        for final, state in zip(finals, after, strict=True):
            final.append(g.unsqueeze(state, [0]))
    return g.op.Concat(*outputs, axis=-1), [g.op.Concat(*final, axis=0) for final in finals]


def _merge_directions(g: Emitter, y: Value, batch_first: bool) -> Value:
    """[sequence, directions, batch, hidden] as [sequence, batch, directions * hidden], or with the batch first."""
    length, directions, batch, hidden = g.known_dims(y)
    if directions == 1:
        y = g.squeeze(y, [1])
        return g.op.Transpose(y, perm=[1, 0, 2]) if batch_first else y
    wide = directions * hidden  # type: ignore[operator]
    if batch_first:
        return g.reshape(g.op.Transpose(y, perm=[2, 0, 1, 3]), [batch, length, wide])
    return g.reshape(g.op.Transpose(y, perm=[0, 2, 1, 3]), [length, batch, wide])


@lowers(aten.lstm.input)
def lstm(
    g: Emitter,
    x: Value,
    states: Sequence[Value],
    params: Sequence[Value],
    has_biases: bool,
    num_layers: int,
    dropout: float,
    train: bool,
    bidirectional: bool,
    batch_first: bool,
    lengths: Value | None = None,
) -> list[Value]:
    """lstm.input(Tensor input, Tensor[] hx, Tensor[] params, bool has_biases, int num_layers, float dropout,
    bool train, bool bidirectional, bool batch_first) -> (Tensor, Tensor, Tensor)"""
    projects = g.known_dims(states[0])[-1] != g.known_dims(states[1])[-1]
    directions = 2 if bidirectional else 1
    layout = _Layout(num_layers, directions, has_biases, batch_first, dropout if train else 0.0, projects, lengths)
    return _run(g, _LSTM, x, states, params, layout)


def _one_state(cell: _Cell) -> Callable[..., list[Value]]:
    def lower(
        g: Emitter,
        x: Value,
        state: Value,
        params: Sequence[Value],
        has_biases: bool,
        num_layers: int,
        dropout: float,
        train: bool,
        bidirectional: bool,
        batch_first: bool,
        lengths: Value | None = None,
    ) -> list[Value]:
        """gru.input(Tensor input, Tensor hx, Tensor[] params, bool has_biases, int num_layers, float dropout,
        bool train, bool bidirectional, bool batch_first) -> (Tensor, Tensor)"""
        directions = 2 if bidirectional else 1
        dropout = dropout if train else 0.0
        layout = _Layout(num_layers, directions, has_biases, batch_first, dropout, lengths=lengths)
        return _run(g, cell, x, [state], params, layout)

    return lower


gru = lowers(aten.gru.input)(_one_state(_GRU))
rnn_tanh = lowers(aten.rnn_tanh.input)(_one_state(_RNN["Tanh"]))
rnn_relu = lowers(aten.rnn_relu.input)(_one_state(_RNN["Relu"]))


def _padded(layer: Callable[..., list[Value]]) -> Callable[..., list[Value]]:
    def lower(g: Emitter, x: Value, lengths: Value, *rest: Any) -> list[Value]:
        """padded_lstm(Tensor input, Tensor lengths, Tensor[] hx, Tensor[] params, bool has_biases, int num_layers,
        float dropout, bool train, bool bidirectional) -> (Tensor, Tensor, Tensor)

        What packed layers are captured as (`capture/packed`): [sequence, batch, features], zeros beyond each length.
        """
        return layer(g, x, *rest, batch_first=False, lengths=lengths)

    return lower


for _name, _layer_of in (("lstm", lstm), ("gru", gru), ("rnn_tanh", rnn_tanh), ("rnn_relu", rnn_relu)):
    lowers(f"onward::padded_{_name}")(_padded(_layer_of))
