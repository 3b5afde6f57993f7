"""Recurrent layers: by PyTorch's kernels where they are PyTorch's layers, otherwise step by step as ONNX defines them.

Step by step there is any activation, clipping, lengths, both directions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from ..registry import implements
from ._rnn_kernels import is_usual, run_kernel

Activation = Callable[[Tensor], Tensor]
State = tuple[Tensor, ...]

_PLAIN: dict[str, Activation] = {
    "sigmoid": torch.sigmoid, "tanh": torch.tanh, "relu": torch.relu, "softsign": F.softsign, "softplus": F.softplus,
}  # fmt: skip
_WITH_NUMBERS: dict[str, tuple[float, float, Callable[[Tensor, float, float], Tensor]]] = {
    "affine": (1.0, 0.0, lambda x, a, b: a * x + b),
    "leakyrelu": (0.01, 0.0, lambda x, a, b: F.leaky_relu(x, a)),
    "thresholdedrelu": (1.0, 0.0, lambda x, a, b: torch.where(x > a, x, torch.zeros_like(x))),
    "scaledtanh": (1.0, 1.0, lambda x, a, b: a * torch.tanh(b * x)),
    "hardsigmoid": (0.2, 0.5, lambda x, a, b: (a * x + b).clamp(0, 1)),
    "elu": (1.0, 0.0, lambda x, a, b: F.elu(x, a)),
}


def _activations(
    names: Sequence[str], alphas: Sequence[float] | None, betas: Sequence[float] | None
) -> list[Activation]:
    alpha, beta = iter(alphas or ()), iter(betas or ())
    found: list[Activation] = []
    for name in names:
        key = name.lower()
        if key in _PLAIN:
            found.append(_PLAIN[key])
            continue
        a, b, function = _WITH_NUMBERS[key]
        a, b = next(alpha, a), next(beta, b)
        found.append(lambda x, function=function, a=a, b=b: function(x, a, b))  # type: ignore[misc]
    return found


def _run(
    x: Tensor,
    lengths: Tensor | None,
    starts: Sequence[State],
    cells: Sequence[Callable[[Tensor, State], State]],
    direction: str,
    layout: int,
) -> tuple[Tensor, ...]:
    """Each direction over the sequence; all outputs of the first state, and the last of each."""
    x = x.transpose(0, 1) if layout else x
    every, last = [], []
    for place, (state, cell) in enumerate(zip(starts, cells, strict=True)):
        backward = direction == "reverse" or place == 1
        outputs: list[Tensor] = [torch.empty(0)] * x.shape[0]
        for step in reversed(range(x.shape[0])) if backward else range(x.shape[0]):
            new = cell(x[step], state)
            shown = new[0]
            if lengths is not None:
                inside = (step < lengths).unsqueeze(1)
                new = tuple(torch.where(inside, n, old) for n, old in zip(new, state, strict=True))
                shown = torch.where(inside, shown, torch.zeros_like(shown))
            state = new
            outputs[step] = shown
        every.append(torch.stack(outputs))
        last.append(state)
    sequence = torch.stack(every, 1)
    ends = [torch.stack(each) for each in zip(*last, strict=True)]
    if layout:
        return sequence.permute(2, 0, 1, 3), *(end.transpose(0, 1) for end in ends)
    return sequence, *ends


def _starts(x: Tensor, r: Tensor, layout: int, *initial: Tensor | None) -> list[tuple[Tensor, ...]]:
    directions, batch, hidden = r.shape[0], x.shape[0 if layout else 1], r.shape[2]
    states = []
    for state in initial:
        if state is None:
            state = x.new_zeros(directions, batch, hidden)
        elif layout:
            state = state.transpose(0, 1)
        states.append(state)
    return [tuple(state[place] for state in states) for place in range(directions)]


def _biases(b: Tensor | None, place: int, w: Tensor) -> tuple[Tensor, Tensor]:
    """Of the input's product and of the state's."""
    if b is None:
        return w.new_zeros(w.shape[1]), w.new_zeros(w.shape[1])
    return b[place].chunk(2)  # type: ignore[return-value]


def _clipped(x: Tensor, clip: float | None) -> Tensor:
    return x if not clip else x.clamp(-clip, clip)


@implements("RNN")
def rnn(
    x: Tensor,
    w: Tensor,
    r: Tensor,
    b: Tensor | None = None,
    lengths: Tensor | None = None,
    initial_h: Tensor | None = None,
    *,
    activation_alpha: list[float] | None = None,
    activation_beta: list[float] | None = None,
    activations: list[str] | None = None,
    clip: float | None = None,
    direction: str = "forward",
    hidden_size: int | None = None,
    layout: int = 0,
    output_sequence: int = 0,
) -> tuple[Tensor, ...]:
    for name in ("tanh", "relu"):
        if is_usual(activations, [name], clip, lengths) and (activations is not None or name == "tanh"):
            return run_kernel(f"rnn_{name}", x, w, r, b, [initial_h], direction, layout)
    kinds = _activations(activations or ["Tanh"] * w.shape[0], activation_alpha, activation_beta)

    def cell(place: int) -> Callable[[Tensor, State], State]:
        wb, rb = _biases(b, place, w)

        def step(now: Tensor, state: State) -> State:
            total = F.linear(now, w[place], wb) + F.linear(state[0], r[place], rb)
            return (kinds[place](_clipped(total, clip)),)

        return step

    starts = _starts(x, r, layout, initial_h)
    return _run(x, lengths, starts, [cell(place) for place in range(w.shape[0])], direction, layout)


@implements("GRU")
def gru(
    x: Tensor,
    w: Tensor,
    r: Tensor,
    b: Tensor | None = None,
    lengths: Tensor | None = None,
    initial_h: Tensor | None = None,
    *,
    activation_alpha: list[float] | None = None,
    activation_beta: list[float] | None = None,
    activations: list[str] | None = None,
    clip: float | None = None,
    direction: str = "forward",
    hidden_size: int | None = None,
    layout: int = 0,
    linear_before_reset: int = 0,
    output_sequence: int = 0,
) -> tuple[Tensor, ...]:
    """Gates in the order update, reset, hidden."""
    if linear_before_reset and is_usual(activations, ["sigmoid", "tanh"], clip, lengths):
        return run_kernel("gru", x, w, r, b, [initial_h], direction, layout)
    kinds = _activations(activations or ["Sigmoid", "Tanh"] * w.shape[0], activation_alpha, activation_beta)

    def cell(place: int) -> Callable[[Tensor, State], State]:
        f, g = kinds[2 * place : 2 * place + 2]
        wb, rb = _biases(b, place, w)
        rz, rr, rh = r[place].chunk(3)
        rbz, rbr, rbh = rb.chunk(3)

        def step(now: Tensor, state: State) -> State:
            (h,) = state
            xz, xr, xh = F.linear(now, w[place], wb).chunk(3, -1)
            z = f(_clipped(xz + F.linear(h, rz, rbz), clip))
            reset = f(_clipped(xr + F.linear(h, rr, rbr), clip))
            if linear_before_reset:
                hidden = xh + reset * F.linear(h, rh, rbh)
            else:
                hidden = xh + F.linear(reset * h, rh, rbh)
            return ((1 - z) * g(_clipped(hidden, clip)) + z * h,)

        return step

    starts = _starts(x, r, layout, initial_h)
    return _run(x, lengths, starts, [cell(place) for place in range(w.shape[0])], direction, layout)


@implements("LSTM")
def lstm(
    x: Tensor,
    w: Tensor,
    r: Tensor,
    b: Tensor | None = None,
    lengths: Tensor | None = None,
    initial_h: Tensor | None = None,
    initial_c: Tensor | None = None,
    peepholes: Tensor | None = None,
    *,
    activation_alpha: list[float] | None = None,
    activation_beta: list[float] | None = None,
    activations: list[str] | None = None,
    clip: float | None = None,
    direction: str = "forward",
    hidden_size: int | None = None,
    input_forget: int = 0,
    layout: int = 0,
    output_sequence: int = 0,
) -> tuple[Tensor, ...]:
    """Gates in the order input, output, forget, cell."""
    usual = is_usual(activations, ["sigmoid", "tanh", "tanh"], clip, lengths, peepholes, input_forget)
    if usual and not (torch.compiler.is_compiling() and torch.is_grad_enabled()):  # pytorch#158007, 2.13: no backward
        return run_kernel("lstm", x, w, r, b, [initial_h, initial_c], direction, layout)
    kinds = _activations(activations or ["Sigmoid", "Tanh", "Tanh"] * w.shape[0], activation_alpha, activation_beta)

    def cell(place: int) -> Callable[[Tensor, State], State]:
        f, g, h = kinds[3 * place : 3 * place + 3]
        wb, rb = _biases(b, place, w)
        none: Any = (0.0, 0.0, 0.0)
        pi, po, pf = none if peepholes is None else peepholes[place].chunk(3)

        def step(now: Tensor, state: State) -> State:
            hidden, memory = state
            gates = F.linear(now, w[place], wb) + F.linear(hidden, r[place], rb)
            i, o, forget, c = gates.chunk(4, -1)
            i = f(_clipped(i + pi * memory, clip))
            forget = 1 - i if input_forget else f(_clipped(forget + pf * memory, clip))
            memory = forget * memory + i * g(_clipped(c, clip))
            o = f(_clipped(o + po * memory, clip))
            return o * h(memory), memory

        return step

    starts = _starts(x, r, layout, initial_h, initial_c)
    return _run(x, lengths, starts, [cell(place) for place in range(w.shape[0])], direction, layout)
