"""Sizes that depend on data: how many elements of a mask are true, how many values are different.

The example has such a size; the other probes get fresh numbers for it. Where the same question is asked of the same
data twice (`x[mask] + y[mask]`), the answer is the same size.

A model may need such a number to agree with another one (`x[mask].reshape(6, 4)`). It then refuses the fresh ones, and
is traced again with less freedom (`Freedom`): at last with the example's number, and a warning.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import torch
from torch import fx
from torch._ops import OpOverload

from ...errors import CaptureError
from ..ground.operator_schemas import traits
from ..ground.source import user_source
from ..program.facts import Dim, Source
from .dims import DimTable
from .layouts import Layout

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
    aten.repeat_interleave.Tensor: (0, "repeat_interleave"),
    aten.repeat_interleave.self_Tensor: (1, "repeat_interleave"),
}
_ASKED_BY_NAME = {"torchvision::nms": (0, "nms")}  # of libraries that need not be there
_REPEATS = (aten.repeat_interleave.Tensor, aten.repeat_interleave.self_Tensor)
_COUNTS = (aten.sum.default, aten.count_nonzero.default)  # of a mask: as many as nonzero finds


def is_data_sized(op: OpOverload, asked: tuple) -> bool:
    """Whether the result's size depends on data; `asked` are the arguments as fx has them."""
    return _question(op) is not None and (op not in _REPEATS or asked[_ASKED[op][0]].op != "get_attr")


def is_data_long(op: OpOverload) -> bool:
    """Whether it depends on data how many rows the result has; all else is of one size."""
    return op in (aten.nonzero.default, aten.masked_select.default) or getattr(op, "_name", "") in _ASKED_BY_NAME


def _question(op: OpOverload) -> tuple[int, str] | None:
    return _ASKED.get(op) or _ASKED_BY_NAME.get(getattr(op, "_name", ""))


@dataclass(frozen=True)
class Freedom:
    """How freely numbers that depend on data vary between the probes."""

    slices_fit: bool = False  # `x[:n]` is taken to be as long as n says
    multiples: bool = False  # sizes can be divided by small numbers
    kept: frozenset[Source | None] = frozenset()  # lines whose numbers stay the example's
    conversions: bool = True  # `int(tensor)` is followed

    def less(self, lines: Collection[Source | None], *, has_slices: bool, has_sizes: bool) -> Freedom | None:
        """The next to try after sizes that come from these lines were refused; None if there is none."""
        if not lines:
            return None
        if has_slices and not self.slices_fit:
            return replace(self, slices_fit=True)
        if has_sizes and not self.multiples:
            return replace(self, multiples=True)
        more = frozenset(lines) - self.kept
        return replace(self, kept=self.kept | more, multiples=False) if more else None


FREE = Freedom()
_FEW = (0, 1, 2, 3, 4, 5, 6, 7, 8, 11, 13, 17)  # sizes from data at the points
_MANY = range(20, 5000)
_TRIES = 50
_NEAR = range(1, 10)  # how far from the example's number those at the points are


class DataDecisions(Protocol):
    """What is told of sizes that depend on data."""

    def kept_size(self, what: str, count: int) -> None:
        """The model only works where a size is the example's."""

    def note_bound(self, values: tuple[int, ...], op: OpOverload, shape: Sequence[Dim]) -> None:
        """A size depends on data that an operator was given in a tensor of this shape."""


class DataTrace(Protocol):
    """What sizes that depend on data need of their trace."""

    @property
    def dims(self) -> DimTable: ...

    @property
    def probes(self) -> int: ...

    @property
    def decisions(self) -> DataDecisions: ...

    @property
    def in_body(self) -> bool:
        """Whether the body of a branch or of a loop is being traced."""

    def cannot(self, what: str, op: OpOverload | str, hint: str | None = None) -> CaptureError:
        """The error for what tracing cannot follow."""


class DataSizes:
    """The fresh numbers of one trace."""

    def __init__(self, tracer: DataTrace, freedom: Freedom) -> None:
        self._tracer, self._dims, self._probes = tracer, tracer.dims, tracer.probes
        self.freedom = freedom
        self.has_slices = self.has_sizes = self.has_conversions = False
        self._asked: set[Source | None] = set()  # lines that were given numbers which are no plain ones
        self._twins_of: dict[fx.Graph, _Twins] = {}
        self._known: dict[Any, tuple[int, ...]] = {}
        self._patterns = _patterns(self._probes - 1)
        self._draw = random.Random(0)

    def layouts(
        self, graph: fx.Graph, op: OpOverload, nodes: tuple, at_probe: Callable[[int, int], Any], out: Any
    ) -> tuple[Any, ...]:
        """What the other probes' results look like; `at_probe(argument, probe)` gives an argument's layout there."""
        question = _question(op)
        assert question is not None
        position, stem = question
        count = (out if isinstance(out, torch.Tensor) else out[0]).size(_axis(op, nodes))
        key = self._key(graph, op, nodes, position)
        sizes = self.fresh(key, count, stem)
        if key in self._known:
            self._tracer.decisions.note_bound((count, *self._known[key]), op, nodes[position].meta["val"].shape)
        if op is aten.repeat_interleave.self_Tensor:
            axis = _axis(op, nodes)
            sources = [at_probe(0, 1 + place).size if out.dim() > 1 else (0,) for place in range(len(sizes))]
            return tuple(
                _sized(out, {**dict(enumerate(source)), axis: size})
                for source, size in zip(sources, sizes, strict=True)
            )
        if isinstance(out, torch.Tensor):
            return tuple(_sized(out, {0: size}) for size in sizes)
        return tuple(_unique(op, nodes, out, at_probe(0, 1 + place), size) for place, size in enumerate(sizes))

    def _key(self, graph: fx.Graph, op: OpOverload, nodes: tuple, position: int) -> Any:
        """What the size depends on: for a mask of the tensor's own shape, the mask alone."""
        asked = nodes[position]
        same = op is aten.masked_select.default and nodes[0].meta["val"].shape == asked.meta["val"].shape
        twins = self._twins(graph)
        if op in _REPEATS:
            along = nodes[0].meta["val"].shape[_axis(op, nodes)] if len(nodes) > 1 else None
            return (aten.repeat_interleave, twins.of(asked), along)
        return twins.of(asked) if same or op is aten.nonzero.default else (op, twins.form(nodes))

    def form(self, graph: fx.Graph, nodes: Any) -> Any:
        """Arguments as fx has them, in a form that is the same for what is computed alike."""
        twins = self._twins(graph)
        return twins.form(fx.map_arg(nodes, twins.of))

    def _twins(self, graph: fx.Graph) -> _Twins:
        return self._twins_of.setdefault(graph, _Twins(graph))

    def numbers(self, example: Any) -> tuple[Any, ...]:
        """The other probes' numbers for one that is read from a tensor: near the example's and rather below, because
        they may be indices, but not 0, and each time in another pattern, so that no two numbers look alike."""
        while True:
            offsets = next(self._patterns)
            more = self._draw.choices(_NEAR, k=self._dims.width - self._probes)
            found = tuple(example - each if example > each else example + each for each in (*offsets, *more))
            if not offsets or not self._dims.is_known((example, *found)):
                return found

    def turn_numbers(self, example: int, counts: Sequence[int]) -> tuple[int, ...]:
        """The same for the number of a turn: wherever a loop has turns, it is the number of one of them, so that
        `x[i * 4 : (i + 1) * 4]` in a loop over `n // 4` is as long there as in the example."""
        for _ in range(_TRIES):
            near = self.numbers(example)
            found = tuple(
                each if each < count or count < 1 else self._draw.randint(min(1, count - 1), count - 1)
                for each, count in zip(near, counts[1:], strict=True)
            )
            if not found or not self._dims.is_known((example, *found)):
                return found
        return self.numbers(example)

    def number_in(self, tensor: fx.Node, example: Any) -> tuple[Any, ...]:
        """The same for the number that a tensor holds: asked again, it is the same one."""
        twins = self._twins(tensor.graph)
        key: Any = ("number", twins.of(tensor))
        if tensor.target in _COUNTS and len(tensor.args) == 1 and _is_mask(tensor.args[0]):
            key = twins.of(tensor.args[0])  # type: ignore[arg-type]
        if key not in self._known:
            self._known[key] = found = self.numbers(example)
            if type(example) is int and found:
                self._dims.fresh((example, *found), _stem(tensor), user_source())
        return self._known[key]

    def without_conversions(self) -> Freedom | None:
        """The next to try after the model failed, perhaps because `int(tensor)` gave it no plain number."""
        return replace(self.freedom, conversions=False) if self.has_conversions else None

    def without_numbers(self) -> Freedom | None:
        """The next to try after the model failed, perhaps because `x.item()` gave it no plain number: `~n`, `n.real`,
        `hash(n)`, `f"{n:3d}"`."""
        return replace(self.freedom, kept=self.freedom.kept | self._asked) if self._asked else None

    def gives_number(self) -> bool:
        """Whether a number that the present line reads from a tensor may be one that the graph computes."""
        line = user_source()
        if line in self.freedom.kept:
            if self._tracer.in_body:  # not even the example has this answer in every turn
                raise self._tracer.cannot(
                    "a number that is read from a tensor inside a branch or a loop that is kept has to be a plain one",
                    "item",
                    "compute with tensors there, or give the loop a number of turns that is known",
                )
            return False
        if not self._tracer.in_body:
            self._asked.add(line)
        return True

    @property
    def follows_conversions(self) -> bool:
        """Whether `int(tensor)` is followed."""
        return self.freedom.conversions

    @property
    def slices_fit(self) -> bool:
        """Whether `x[:n]` is taken to be as long as n says."""
        return self.freedom.slices_fit

    def keeps_line(self) -> bool:
        """Whether the present line's numbers are to stay the example's."""
        return bool(self.freedom.kept) and user_source() in self.freedom.kept

    def fresh(self, key: Any, count: int, stem: str) -> tuple[int, ...]:
        """The other probes' numbers for a size that the example has as `count`; the same ones for the same key."""
        others = self._probes - 1
        if self.keeps_line():
            self._tracer.decisions.kept_size(stem, count)
            return (count,) * others
        self.has_sizes = True
        if key not in self._known:
            number = len(self._known) + 1
            step, start = (720, 0) if self.freedom.multiples else (1, 1009)
            sizes = tuple(step * (start + 97 * number + 211 * probe * probe) for probe in range(1, self._probes))
            if sizes:
                sizes += tuple(step * size for size in self._at_points())
                self._dims.fresh((count, *sizes), f"{stem}_{self._dims.count(stem)}", user_source())
            self._known[key] = sizes
        return self._known[key][:others]

    def _at_points(self) -> list[int]:
        """Fresh numbers at the points. Each of the small ones, 0 too, is at some point that is alive: a question about
        it (`n == 0`) would seem to have one answer otherwise."""
        few = itertools.cycle(self._draw.sample(_FEW, len(_FEW)))
        found, is_few = [], False
        for place in range(self._probes, self._dims.width):
            is_few = is_few if place in self._dims.dead else not is_few
            found.append(next(few) if is_few and place not in self._dims.dead else self._draw.choice(_MANY))
        return found


def _is_mask(node: Any) -> bool:
    fact = node.meta.get("val") if isinstance(node, fx.Node) else None
    return getattr(fact, "dtype", None) is torch.bool


def _stem(tensor: fx.Node) -> str:
    """What a number is called: as the input that holds it, or as what computes it."""
    if tensor.op == "placeholder" and isinstance(tensor.target, str):
        return tensor.target
    name = str(tensor.target).split(".")[1] if isinstance(tensor.target, OpOverload) else ""
    return f"{name}_1" if name in ("max", "min", "sum", "amax", "amin", "argmax", "argmin", "numel") else "number_1"


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
    place = {aten.unique_consecutive.default: 3, aten.repeat_interleave.self_Tensor: 2}.get(op)
    if place is not None and len(nodes) > place and nodes[place] is not None:
        return nodes[place] % len(nodes[0].meta["val"].shape)
    return 0


def _sized(tensor: torch.Tensor, sizes: dict[int, int]) -> Layout:
    shape = [sizes.get(axis, size) for axis, size in enumerate(tensor.size())]
    return Layout.of(torch.empty(shape, dtype=tensor.dtype, device="meta"))


def _unique(op: OpOverload, nodes: tuple, out: Any, source: Layout, count: int) -> list[Layout]:
    """Values, the place of each input element among them, and how often each occurs; empty where not asked for."""
    values, inverse, *counts = out
    axis = _axis(op, nodes)
    whole = not source.size or (len(values.size()) == 1 and inverse.dim() != 1)
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
