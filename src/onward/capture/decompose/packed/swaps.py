"""PyTorch's Python around packed sequences, which asks for lengths as plain numbers.

`pad_packed_sequence` compares the longest length with the total, and layers compare the batch with that of their
states: checks that no file can make. While a model is traced its calls come here (`python/pytorch.py`). For tensors
that are not traced these functions call PyTorch's.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.nn.utils import rnn

from ...memory.tensor import Traced
from .sequences import PackedTrace

Followed = Callable[..., Any]  # of the tracer and PyTorch's function, then its arguments


def _is_traced(*values: Any) -> bool:
    return any(isinstance(value, (Traced, torch.SymInt)) for value in values)


def _pack_padded_sequence(
    tracer: PackedTrace, original: Any, input: Any, lengths: Any, batch_first: bool = False, enforce_sorted: bool = True
) -> Any:
    given = lengths if isinstance(lengths, (list, tuple)) else [lengths]
    if not _is_traced(input, *given):
        return original(input, lengths, batch_first, enforce_sorted)
    if isinstance(lengths, torch.Tensor):
        lengths = lengths.to(torch.int64)
    else:
        lengths = torch.as_tensor(lengths, dtype=torch.int64)
    with tracer.aside():  # it says what is wrong with the example
        original(_example(input), _example(lengths), batch_first, enforce_sorted)
    padded = input.transpose(0, 1) if batch_first else input
    data, sizes, of = tracer.packings.pack(padded, lengths, in_order=enforce_sorted)
    return rnn.PackedSequence(data, sizes, of.order, of.inverse)


def _pad_packed_sequence(
    tracer: PackedTrace,
    original: Any,
    sequence: Any,
    batch_first: bool = False,
    padding_value: float = 0.0,
    total_length: Any = None,
) -> Any:
    if not _is_traced(sequence.data, sequence.batch_sizes, total_length):
        return original(sequence, batch_first, padding_value, total_length)
    with tracer.aside():
        total = total_length.node.values[0] if isinstance(total_length, torch.SymInt) else total_length
        original(rnn.PackedSequence(*map(_example, sequence)), batch_first, padding_value, total)
    data, sizes, _, inverse = sequence
    padded, lengths = tracer.packings.pad(data, sizes, inverse, padding_value, total_length)
    return padded.transpose(0, 1) if batch_first else padded, lengths


def _check_forward_args(
    tracer: PackedTrace, original: Any, layer: Any, input: Any, hidden: Any, batch_sizes: Any
) -> None:
    if isinstance(batch_sizes, Traced):
        layer.check_input(input, batch_sizes)  # the states are left to the layer's own operator
    else:
        original(layer, input, hidden, batch_sizes)


def _example(value: Any) -> Any:
    return value.example if isinstance(value, Traced) else value


DETOURS: tuple[tuple[Any, Followed], ...] = (
    (rnn.pack_padded_sequence, _pack_padded_sequence),
    (rnn.pad_packed_sequence, _pad_packed_sequence),
    (torch.nn.RNNBase.check_forward_args, _check_forward_args),
    (torch.nn.LSTM.check_forward_args, _check_forward_args),
)
