"""PyTorch's own recurrent kernels for ONNX's weights, where a layer is one that PyTorch has."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import Parameter
from torch.utils.weak import WeakIdKeyDictionary

# PyTorch's gates, each as the place that ONNX has it in.
_GATES = {"lstm": (0, 2, 3, 1), "gru": (1, 0, 2), "rnn_tanh": (0,), "rnn_relu": (0,)}
_KERNELS: dict[str, Callable[..., Any]] = {
    "lstm": torch.lstm, "gru": torch.gru, "rnn_tanh": torch.rnn_tanh, "rnn_relu": torch.rnn_relu,
}  # fmt: skip


def is_usual(names: Sequence[str] | None, usual: Sequence[str], *unusual: Any) -> bool:
    """Whether the activations are PyTorch's in every direction, and nothing is asked for that it does not have."""
    found = [name.lower() for name in names or usual]
    return found == list(usual) * (len(found) // len(usual)) and not any(
        each is not None and not (isinstance(each, (int, float)) and each == 0) for each in unusual
    )


def run_kernel(
    kind: str,
    x: Tensor,
    w: Tensor,
    r: Tensor,
    b: Tensor | None,
    initial: Sequence[Tensor | None],
    direction: str,
    layout: int,
) -> tuple[Tensor, ...]:
    """The whole sequence at once: all outputs, and the last of each state."""
    x = (x.transpose(0, 1) if layout else x).contiguous()
    x = x.flip(0) if direction == "reverse" else x
    directions, hidden = r.shape[0], r.shape[2]
    states = []
    for state in initial:
        if state is None:
            state = x.new_zeros(directions, x.shape[1], hidden)
        elif layout:
            state = state.transpose(0, 1)
        states.append(state.contiguous())
    _check(kind, x, w, r, b, states)
    given = [(w, 1), (r, 1)] if b is None else [(w, 1), (r, 1), (b, 2)]
    rows = [_rows(kind, weight, parts) for weight, parts in given]
    weights = [each for place in range(directions) for row in rows for each in row[place]]
    start = tuple(states) if kind == "lstm" else states[0]
    result = _KERNELS[kind](x, start, weights, b is not None, 1, 0.0, False, directions == 2, False)
    sequence, *ends = result
    sequence = sequence.flip(0) if direction == "reverse" else sequence
    if directions == 1:
        sequence = sequence.unsqueeze(1)
    else:
        sequence = sequence.reshape(x.shape[0], x.shape[1], directions, hidden).transpose(1, 2)
    if layout:
        return sequence.permute(2, 0, 1, 3), *(end.transpose(0, 1) for end in ends)
    return sequence, *ends


def _check(kind: str, x: Tensor, w: Tensor, r: Tensor, b: Tensor | None, states: Sequence[Tensor]) -> None:
    """PyTorch's kernels do not check the sizes of weights and states, and a file may have any."""
    directions, hidden, gates = r.shape[0], r.shape[2], len(_GATES[kind])
    wanted = [
        (w, (directions, gates * hidden, x.shape[2])),
        (r, (directions, gates * hidden, hidden)),
        *([] if b is None else [(b, (directions, 2 * gates * hidden))]),
        *((state, (directions, x.shape[1], hidden)) for state in states),
    ]
    for tensor, shape in wanted:
        if tuple(tensor.shape) != shape or tensor.dtype != x.dtype:
            raise ValueError(f"a weight or state of size {list(tensor.shape)} ({tensor.dtype}) should be {list(shape)}")


Rows = list[list[Tensor]]  # for each direction its weight, or its two biases

_kept: WeakIdKeyDictionary = WeakIdKeyDictionary()  # by weight: what it was, and its rows


def _rows(kind: str, weight: Tensor, parts: int) -> Rows:
    """A weight, or two biases in one, with the gates in PyTorch's order, for each direction.

    Where nothing is learnt they are kept: putting the gates in order costs as much as a dozen steps of the layer. A
    weight that has been written to, or lies elsewhere, is put in order again.
    """
    if torch.is_grad_enabled() or torch.compiler.is_compiling() or type(weight) not in (Tensor, Parameter):
        return _ordered(kind, weight, parts)
    if weight.is_inference():  # has no version
        return _ordered(kind, weight, parts)
    state = (kind, weight._version, weight.data_ptr())
    found = _kept.get(weight)
    if found is None or found[0] != state:
        found = _kept[weight] = (state, _ordered(kind, weight, parts))
    rows: Rows = found[1]
    return rows


def _ordered(kind: str, weight: Tensor, parts: int) -> Rows:
    return [[_in_order(part, _GATES[kind]) for part in row.chunk(parts)] for row in weight.unbind(0)]


def _in_order(weight: Tensor, gates: Sequence[int]) -> Tensor:
    if len(gates) == 1:
        return weight.contiguous()
    parts = weight.chunk(len(gates))
    return torch.cat([parts[gate] for gate in gates])
