"""What a packed sequence was made of.

PyTorch packs sequences by interleaving their steps: how many rows there are and which belong together depends on the
lengths, and nothing in ONNX computes with such rows. So the padded tensor and the lengths are remembered beside the
rows, in the caller's order, and layers and unpacking go on from these:

    pack_padded_sequence -> LSTM -> pad_packed_sequence   is   LSTM with sequence_lens -> Slice to the longest

The rows, their order and the batch sizes are traced too, for models that use them; where nobody does they are dropped.
Rows that a model changed (`packed.data`) are put back into padded form by their batch sizes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor
from torch._ops import OpOverload

from ...decisions.decisions import Decisions
from ...memory.graph_levels import GraphTrace
from ...memory.tensor import Traced
from ...sizes.data_sizes import DataSizes
from ...sizes.layouts import Layout, dense_like

aten = torch.ops.aten


class PackingTrace(GraphTrace, Protocol):
    """What packed sequences need of their trace."""

    @property
    def decisions(self) -> Decisions: ...

    @property
    def data_sizes(self) -> DataSizes:
        """Sizes and numbers that depend on data."""

    def record(
        self, op: OpOverload, args: tuple, kwargs: dict[str, Any], layouts: tuple[Layout, ...] | None = None
    ) -> Any:
        """Run an op on the example and write it down; `layouts` are its results at the other probes."""


@dataclass(frozen=True, eq=False)
class Lengths:
    """The sequences of a batch: how long they are, in the caller's order, and how they are sorted by length."""

    lengths: Tensor  # [batch]
    steps: Any  # of the padded tensor, at least as many as the longest has
    batch: Any
    longest: Any
    order: Tensor | None  # the caller's places from the longest on; None if that is their order
    inverse: Tensor | None

    def within(self) -> Tensor:
        """[steps, batch]: whether a step is within its sequence."""
        return torch.arange(self.steps, device=self.lengths.device).unsqueeze(1) < self.lengths


@dataclass(frozen=True, eq=False)
class Padded:
    """Sequences as [steps, batch, ...]."""

    of: Lengths
    tensor: Tensor
    is_clean: bool  # zeros follow the last step of each sequence


class Packings:
    """All packed sequences of one trace, found again by their parts."""

    def __init__(self, tracer: PackingTrace) -> None:
        self._tracer = tracer
        self._by_sizes: dict[Any, Lengths] = {}
        self._by_rows: dict[Any, Padded] = {}
        self._orders: dict[Any, Any] = {}  # by inverse
        self._sorted: dict[Any, tuple[Tensor, int, Any]] = {}  # what a tensor was before it was put in an order
        self._kept: list[Any] = []  # what is known by its identity

    def _key(self, tensor: Tensor | None) -> Any:
        if isinstance(tensor, Traced):
            return self._tracer.node_of(tensor)
        self._kept.append(tensor)
        return id(tensor)

    # --- packing ---------------------------------------------------------------------------------------------------
    def describe(self, padded: Tensor, lengths: Tensor, *, in_order: bool) -> Lengths:
        """The lengths of sequences [steps, batch, ...]; `in_order` says that the longest comes first."""
        steps, batch = padded.shape[:2]
        torch.stack([torch.arange(batch), lengths])  # there must be as many lengths as sequences
        order = inverse = None
        if not in_order:
            order = torch.sort(lengths, descending=True)[1]
            inverse = torch.nn.utils.rnn.invert_permutation(order)
            self._orders[self._key(inverse)] = self._key(order)
        return Lengths(lengths, steps, batch, self._longest(lengths, steps), order, inverse)

    def _longest(self, lengths: Tensor, steps: Any) -> Any:
        tracer = self._tracer
        if isinstance(lengths, Traced) and tracer.data_sizes.keeps_line():
            now = steps.node.values[0] if isinstance(steps, torch.SymInt) else steps
            if int(lengths.example.max()) == now:  # what the model needs elsewhere: padding ends with the longest
                tracer.decisions.warn(
                    "the padded sequences are used together with tensors of the padded length, so the file takes them "
                    "to be as long as the longest of them",
                    means="Inputs that are padded further are computed wrongly",
                    instead="give pad_packed_sequence the padded length as total_length",
                )
                return steps
        return lengths.max().item()

    def rows(self, padded: Padded) -> tuple[Tensor, Tensor]:
        """The packed rows and the batch size of every step."""
        of = padded.of
        lengths = self.sort(of.lengths, of, 0)
        places = (torch.arange(of.steps).unsqueeze(1) < lengths).nonzero().unbind(1)
        data = torch.ops.aten.index.Tensor(self.sort(padded.tensor, of, 1), list(places))
        sizes = (torch.arange(of.longest).unsqueeze(1) < lengths).sum(1)
        self._by_rows[self._key(data)] = padded
        self._by_sizes[self._key(sizes)] = of
        return data, sizes

    def pack(self, padded: Tensor, lengths: Tensor, *, in_order: bool) -> tuple[Tensor, Tensor, Lengths]:
        of = self.describe(padded, lengths, in_order=in_order)
        return *self.rows(Padded(of, padded, is_clean=False)), of

    # --- unpacking -------------------------------------------------------------------------------------------------
    def padded(self, data: Tensor, sizes: Tensor) -> Padded:
        """The sequences that rows were packed from, or that rows of such a form make."""
        known = self._by_rows.get(self._key(data))
        return self._from_rows(data, sizes) if known is None else known

    def by_node(self, sizes: Any) -> Lengths | None:
        """The lengths that a node's batch sizes stand for."""
        return self._by_sizes.get(sizes)

    def _from_rows(self, data: Tensor, sizes: Tensor) -> Padded:
        of = self._by_sizes.get(self._key(sizes))
        if of is None:  # packed by somebody else: an input, or computed
            steps, batch = sizes.shape[0], sizes[0].item()
            lengths = (sizes > torch.arange(batch).unsqueeze(1)).sum(1)
            of = self._by_sizes[self._key(sizes)] = Lengths(lengths, steps, batch, steps, None, None)
        places = (torch.arange(of.steps).unsqueeze(1) < self.sort(of.lengths, of, 0)).nonzero().unbind(1)
        empty = torch.zeros((of.steps, of.batch, *data.shape[1:]), dtype=data.dtype, device=data.device)
        filled = torch.ops.aten.index_put.default(empty, list(places), data)
        tensor = filled if of.inverse is None else filled.index_select(1, of.inverse)
        padded = self._by_rows[self._key(data)] = Padded(of, tensor, is_clean=True)
        return padded

    def pad(self, data: Tensor, sizes: Tensor, inverse: Tensor | None, value: float, total: Any) -> tuple[Tensor, Any]:
        """Sequences [steps, batch, ...] and their lengths, put in the caller's order by `inverse`."""
        padded = self.padded(data, sizes)
        of, tensor = padded.of, padded.tensor
        if not padded.is_clean or value != 0:
            inside = of.within().reshape(of.steps, of.batch, *(1,) * (tensor.dim() - 2))
            tensor = torch.where(inside, tensor, torch.full((), value, dtype=tensor.dtype, device=tensor.device))
        lengths = of.lengths
        if self._key(inverse) != self._key(of.inverse):
            tensor, lengths = self.sort(tensor, of, 1), self.sort(lengths, of, 0)
            if inverse is not None:
                tensor, lengths = tensor.index_select(1, inverse), lengths.index_select(0, inverse)
        return self._to_length(tensor, of, value, total), lengths

    def _to_length(self, tensor: Tensor, of: Lengths, value: float, total: Any) -> Tensor:
        if total is None:
            return self._first(tensor, of.longest)
        if _is_same(total, of.steps):
            return tensor
        widths = [0, 0] * (tensor.dim() - 1) + [0, total]
        return torch.nn.functional.pad(tensor, widths, value=value)[:total]  # what is cut off is padding

    def _first(self, tensor: Tensor, count: Any) -> Tensor:
        """The first steps. There are as many, so that the result's size is the number itself."""
        if not isinstance(count, torch.SymInt) or not count.node.from_data or not isinstance(tensor, Traced):
            return tensor if _is_same(count, tensor.shape[0]) else tensor[:count]
        example = tensor.example[: count.node.values[0]]
        rest = [layout.size[1:] for layout in tensor.layouts]
        sizes = zip(count.node.values[1 : self._tracer.probes], rest, strict=True)
        layouts = tuple(dense_like((size, *others), example) for size, others in sizes)
        return self._tracer.record(aten.slice.Tensor, (tensor, 0, 0, count), {}, layouts)

    # --- orders ----------------------------------------------------------------------------------------------------
    def sort(self, tensor: Tensor, of: Lengths, axis: int) -> Tensor:
        """A tensor with its batch from the longest sequence on."""
        return tensor if of.order is None else self.select(tensor, axis, of.order)

    def unsort(self, tensor: Tensor, of: Lengths, axis: int) -> Tensor:
        """A tensor whose batch is sorted, in the caller's order."""
        return tensor if of.inverse is None else self.select(tensor, axis, of.inverse)

    def select(self, tensor: Tensor, axis: int, index: Tensor) -> Tensor:
        """`tensor.index_select(axis, index)`, in which an order and its inverse cancel."""
        before, dim, order = self._sorted.get(self._key(tensor), (tensor, None, None))
        if dim == axis and self._orders.get(self._key(index)) is order:
            return before
        if _is_zeros(self._tracer, tensor):
            return tensor
        made = torch.ops.aten.index_select.default(tensor, axis, index)
        if self._key(index) in self._orders.values():
            self._sorted[self._key(made)] = (tensor, axis, self._key(index))
        return made


def _is_same(one: Any, other: Any) -> bool:
    """Whether two sizes are one and the same at all probes."""
    if isinstance(one, torch.SymInt) and isinstance(other, torch.SymInt):
        return one.node.values == other.node.values and one.node.from_data == other.node.from_data
    return type(one) is type(other) is int and one == other


def _is_zeros(tracer: PackingTrace, tensor: Tensor) -> bool:
    """Whether a state is zeros, which have no order."""
    if isinstance(tensor, Traced):
        return tracer.node_of(tensor).target is aten.zeros.default
    return tensor.device.type != "meta" and not bool(tensor.any())


class PackedTrace(PackingTrace, Protocol):
    """A trace in which sequences are packed."""

    @property
    def packings(self) -> Packings: ...
