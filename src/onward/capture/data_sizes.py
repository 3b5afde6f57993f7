"""Sizes that depend on data: how many elements of a mask are true, how many values are different.

The example has such a size; the other probes get fresh numbers for it. Where the same question is asked of the same
data twice (`x[mask] + y[mask]`), the answer is the same size.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import fx
from torch._ops import OpOverload

from .dims import DimTable
from .layouts import Layout
from .traits import traits

aten = torch.ops.aten

# For every such op: which argument the size is asked of, and the name of the dimension.
_ASKED = {
    aten.nonzero.default: (0, "nonzero"),
    aten.masked_select.default: (1, "masked_select"),
    aten._unique2.default: (0, "unique"),
    aten.unique_dim.default: (0, "unique"),
    aten._unique.default: (0, "unique"),
    aten.unique_consecutive.default: (0, "unique_consecutive"),
    aten.bincount.default: (0, "bincount"),
}


def is_data_sized(op: OpOverload) -> bool:
    return op in _ASKED


class DataSizes:
    """The fresh numbers of one trace."""

    def __init__(self, dims: DimTable, probes: int) -> None:
        self._dims, self._probes = dims, probes
        self._twins_of: dict[fx.Graph, _Twins] = {}
        self._known: dict[Any, tuple[int, ...]] = {}
        self._patterns = _patterns(probes - 1)

    def layouts(
        self, graph: fx.Graph, op: OpOverload, nodes: tuple, at_probe: Callable[[int, int], Any], out: Any
    ) -> tuple[Any, ...]:
        """What the other probes' results look like; `at_probe(argument, probe)` gives an argument's layout there."""
        position, stem = _ASKED[op]
        count = out.size(0) if isinstance(out, torch.Tensor) else out[0].size(_axis(op, nodes))
        sizes = self.fresh(self._key(graph, op, nodes, position), count, stem)
        if isinstance(out, torch.Tensor):
            return tuple(_sized(out, {0: size}) for size in sizes)
        return tuple(_unique(op, nodes, out, at_probe(0, 1 + place), size) for place, size in enumerate(sizes))

    def _key(self, graph: fx.Graph, op: OpOverload, nodes: tuple, position: int) -> Any:
        """What the size depends on: for a mask of the tensor's own shape, the mask alone."""
        asked = nodes[position]
        same = op is aten.masked_select.default and nodes[0].meta["val"].shape == asked.meta["val"].shape
        twins = self._twins_of.setdefault(graph, _Twins(graph))
        return twins.of(asked) if same or op is aten.nonzero.default else (op, twins.form(nodes))

    def numbers(self, example: int) -> tuple[int, ...]:
        """The other probes' numbers for one that is read from a tensor: near the example's, because they may be
        indices, and each time in another pattern, so that no two numbers look alike."""
        offsets = next(self._patterns)
        sign = -1 if example > max(offsets) else 1
        return tuple(example + sign * offset for offset in offsets)

    def fresh(self, key: Any, count: int, stem: str) -> tuple[int, ...]:
        """The other probes' numbers for a size that the example has as `count`; the same ones for the same key."""
        if key not in self._known:
            number = len(self._known) + 1
            sizes = tuple(1009 + 97 * number + 211 * probe * probe for probe in range(1, self._probes))
            self._dims.fresh((count, *sizes), f"{stem}_{number}")
            self._known[key] = sizes
        return self._known[key]


def _patterns(count: int) -> Iterator[tuple[int, ...]]:
    """Tuples of different small numbers, all different, the smallest first."""
    if count == 0:
        yield from itertools.repeat(())
    for most in itertools.count(count):
        for rest in itertools.permutations(range(1, most), count - 1):
            for place in range(count):
                yield (*rest[:place], most, *rest[place:])


def _axis(op: OpOverload, nodes: tuple) -> int:
    """The axis of the first result that has the size."""
    if op is aten.unique_dim.default:
        return nodes[1] % len(nodes[0].meta["val"].shape)
    if op is aten.unique_consecutive.default and len(nodes) > 3 and nodes[3] is not None:
        return nodes[3] % len(nodes[0].meta["val"].shape)
    return 0


def _sized(tensor: torch.Tensor, sizes: dict[int, int]) -> Layout:
    shape = [sizes.get(axis, size) for axis, size in enumerate(tensor.size())]
    return Layout.of(torch.empty(shape, dtype=tensor.dtype, device="meta"))


def _unique(op: OpOverload, nodes: tuple, out: Any, source: Layout, count: int) -> list[Layout]:
    """Values, the place of each input element among them, and how often each occurs; empty where not asked for."""
    values, inverse, *counts = out
    axis = _axis(op, nodes)
    whole = len(values.size()) == 1 and inverse.dim() != 1
    along = dict(enumerate(source.size)) if whole or inverse.dim() == len(source.size) else {0: source.size[axis]}
    others = {place: size for place, size in enumerate(source.size) if place != axis} if values.dim() > 1 else {}
    return [
        _sized(values, {**others, axis: count}),
        _sized(inverse, along if inverse.numel() else {}),
        *(_sized(each, {0: count} if each.numel() else {}) for each in counts),
    ]


class _Twins:
    """Nodes that compute the same from the same: the first of them stands for all."""

    def __init__(self, graph: fx.Graph) -> None:
        self._graph = graph
        self._last: fx.Node = graph._root
        self._first: dict[Any, fx.Node] = {}
        self._of: dict[fx.Node, fx.Node] = {}

    def of(self, node: fx.Node) -> fx.Node:
        following = self._last.next
        while following is not self._graph._root:
            self._of[following] = self._first_like(following)
            self._last, following = following, following.next
        return self._of.get(node, node)

    def _first_like(self, node: fx.Node) -> fx.Node:
        if node.op != "call_function" or (isinstance(node.target, OpOverload) and traits(node.target).is_random):
            return node
        key = (node.target, self.form(node.args), self.form(tuple(sorted(node.kwargs.items()))))
        return self._first.setdefault(key, node)

    def form(self, value: Any) -> Any:
        if isinstance(value, fx.Node):
            return self._of.get(value, value)
        if isinstance(value, (list, tuple)):
            return tuple(self.form(each) for each in value)
        return (type(value), repr(value))
