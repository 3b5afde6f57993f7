"""The operators that packed sequences consist of, on traced tensors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch._ops import OpOverload

from ....tables import registrar
from ...functions.intercepts import Intercept
from ...memory.tensor import Traced
from ..linalg.loops import Algorithm
from .operators import PADDED
from .sequences import Padded

if TYPE_CHECKING:
    from ...record.tracer import Tracer

INTERCEPTS: dict[Any, Intercept] = {}
intercepts = registrar(INTERCEPTS)
ALGORITHMS: dict[OpOverload, Algorithm] = {}
computes = registrar(ALGORITHMS)

aten = torch.ops.aten


@computes(aten._pack_padded_sequence.default)
def _pack_padded_sequence(tracer: Tracer, x: Tensor, lengths: Tensor, batch_first: bool) -> tuple[Tensor, Tensor]:
    """_pack_padded_sequence(Tensor input, Tensor lengths, bool batch_first) -> (Tensor, Tensor)"""
    data, sizes, _ = tracer.packings.pack(x.transpose(0, 1) if batch_first else x, lengths, in_order=True)
    return data, sizes


@computes(aten._pad_packed_sequence.default)
def _pad_packed_sequence(
    tracer: Tracer, data: Tensor, sizes: Tensor, batch_first: bool, value: float, total: Any
) -> tuple[Tensor, Tensor]:
    """_pad_packed_sequence(Tensor data, Tensor batch_sizes, bool batch_first, Scalar padding_value, int total_length)
    -> (Tensor, Tensor)"""
    padded, lengths = tracer.packings.pad(data, sizes, None, value, total)
    return padded.transpose(0, 1) if batch_first else padded, lengths


def _layer(op: Any) -> Any:
    def run(tracer: Tracer, data: Tensor, sizes: Tensor, hx: Any, *rest: Any) -> tuple[Tensor, ...]:
        """lstm.data(Tensor data, Tensor batch_sizes, Tensor[] hx, Tensor[] params, bool has_biases, int num_layers,
        float dropout, bool train, bool bidirectional) -> (Tensor, Tensor, Tensor), and the like"""
        packings = tracer.packings
        padded = packings.padded(data, sizes)
        of = padded.of
        many = isinstance(hx, (list, tuple))
        states = [packings.unsort(each, of, 1) for each in (hx if many else [hx])]
        made, *after = PADDED[op](padded.tensor, of.lengths, states if many else states[0], *rest)
        rows, _ = packings.rows(Padded(of, made, is_clean=True))
        return rows, *(packings.sort(each, of, 1) for each in after)

    return run


for _op in PADDED:
    computes(_op)(_layer(_op))


@computes(aten.pad_sequence.default)
def pad_sequence(
    tracer: Tracer,
    sequences: list[Tensor],
    batch_first: bool = False,
    padding_value: float = 0.0,
    padding_side: str = "right",
) -> Tensor:
    """pad_sequence(Tensor[] sequences, bool batch_first=False, float padding_value=0.0, str padding_side="right")
    -> Tensor

    PyTorch's own rule asks which of the sequences is the longest.
    """
    longest = sequences[0].shape[0]
    for each in sequences[1:]:
        longest = torch.sym_max(longest, each.shape[0])
    same = [0, 0] * (sequences[0].dim() - 1)
    padded = []
    for each in sequences:
        missing = longest - each.shape[0]
        widths = [*same, 0, missing] if padding_side == "right" else [*same, missing, 0]
        padded.append(torch.nn.functional.pad(each, widths, value=padding_value))
    return torch.stack(padded, 0 if batch_first else 1)


@intercepts(torch.Tensor.index_select, torch.index_select)
def index_select(tracer: Tracer, func: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
    """States are sorted on their way into a packed layer and put back after it."""
    if kwargs or len(args) != 3 or not isinstance(args[2], Traced):
        return NotImplemented
    return tracer.packings.select(args[0], args[1], args[2])


@intercepts(torch.zeros)
def zeros(tracer: Tracer, func: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
    """Layers make their states as wide as the first step's batch, which is the whole batch."""
    if not any(isinstance(each, Traced) for each in args):
        return NotImplemented
    return func(*(_batch(tracer, each) for each in args), **kwargs)


def _batch(tracer: Tracer, size: Any) -> Any:
    if not isinstance(size, Traced):
        return size
    node = tracer.node_of(size)
    first = node.target is aten.select.int and node.args[1:] == (0, 0)
    of = tracer.packings.by_node(node.args[0]) if first else None
    return size if of is None else of.batch
