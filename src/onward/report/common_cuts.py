"""The file's graph and the one that onnxruntime made of it, cut at the values that both have (see `profile.py`).

Values keep their names through onnxruntime's optimizations, but for convolutions that work on blocks of channels: their
results are called `reorder_token_7`, and the node is called after the value that it stands for, `conv1_nchwc`. Such a
node may have taken in more since it got its name: a sum with what it reads besides, an activation. Other nodes between
two of them keep their own names. Operators on integers that work on channels last are called after the node that they
stand for, and their results after nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import onnx
import onnx_ir as ir

from .memory import reads

_BLOCKED = "com.microsoft.nchwc"
_OWN = "com.microsoft"
_TOKEN = re.compile(r"_token_\d+$")
_BLOCKED_NAME = re.compile(r"^(.+?)(?:_bn)?_nchwc(?:_token_\d+)?$", re.DOTALL)
_TAKEN_IN = frozenset({
    "Add", "Sum", "Relu", "LeakyRelu", "Sigmoid", "Tanh", "Clip", "HardSigmoid", "HardSwish", "Elu", "Gelu",
})  # fmt: skip


@dataclass(frozen=True)
class Step:
    """A node: what it reads and gives, by name. One of onnxruntime's may have no name."""

    place: int
    name: str
    op: str
    domain: str
    reads: tuple[str, ...]
    gives: tuple[str, ...]


@dataclass
class Stretch:
    """Nodes of the file, by their places, and the nodes of onnxruntime's that do the same."""

    file: list[int]
    runtime: list[Step]


@dataclass
class Cut:
    """stretches  what runs; `loaded` are places of nodes that are computed when the file is loaded, and `inserted` are
    nodes of onnxruntime's that stand for none of the file"""

    stretches: list[Stretch] = field(default_factory=list)
    loaded: set[int] = field(default_factory=set)
    inserted: list[Step] = field(default_factory=list)


def file_steps(graph: ir.Graph) -> list[Step]:
    names = unique_names(graph)
    return [
        Step(
            place,
            names[node],
            node.op_type,
            node.domain,
            tuple(sorted(str(value.name) for value in reads(node) if value.name)),
            tuple(str(value.name) for value in node.outputs if value.name),
        )
        for place, node in enumerate(graph)
    ]


def unique_names(graph: ir.Graph) -> dict[ir.Node, str]:
    """A name for every node, in bodies too, that no other has: its own if that is one."""
    names: dict[ir.Node, str] = {}
    seen: set[str] = set()
    for node in graph.all_nodes():
        name = base = node.name or f"unnamed {node.op_type}"
        number = 1
        while name in seen:
            name, number = f"{base} ({number})", number + 1
        seen.add(name)
        names[node] = name
    return names


def runtime_steps(graph: onnx.GraphProto) -> list[Step]:
    return [
        Step(place, node.name, node.op_type, node.domain, tuple(_reads(node)), tuple(filter(None, node.output)))
        for place, node in enumerate(graph.node)
    ]


def _reads(node: onnx.NodeProto) -> Iterator[str]:
    yield from filter(None, node.input)
    for attribute in node.attribute:
        for graph in (attribute.g, *attribute.graphs):
            yield from (value.name for value in graph.output)
            for inner in graph.node:
                yield from _reads(inner)


def cut(file: Sequence[Step], runtime: Sequence[Step], constants: Iterable[str]) -> Cut:
    """`constants` are names of what is computed at loading, unless onnxruntime's graph has a node for it."""
    return _Cutter(file, runtime, constants).cut()


class _Cutter:
    def __init__(self, file: Sequence[Step], runtime: Sequence[Step], constants: Iterable[str]) -> None:
        self.file = file
        self.names = {step.name: step for step in file}
        self.makers = {name: step for step in file for name in step.gives}
        self.readers: dict[str, list[Step]] = {}
        for step in file:
            for name in step.reads:
                self.readers.setdefault(name, []).append(step)
        self.folded = {name for name in constants if name in self.makers}
        self.same: dict[str, str] = {}  # the file's value that a value of onnxruntime's is
        self.runtime: dict[str, Step] = {}  # who computes it there
        self.by_name = {name: step for step in runtime for name in step.gives}
        self.converters: list[Step] = []
        self._find_common(_ordered(runtime, self.by_name))
        self.folded -= self.runtime.keys()

    def _find_common(self, runtime: Sequence[Step]) -> None:
        exact = {name for step in runtime for name in step.gives if name in self.makers}
        for step in runtime:
            blocked = _BLOCKED_NAME.match(step.name) if step.domain == _BLOCKED else None
            if blocked is not None and blocked[1] in self.makers and step.gives[0] not in self.makers:
                value = self._with_more(blocked[1], step, exact)
                self.same[step.gives[0]] = value
                self.runtime[value] = step
                continue
            if step.domain == _OWN and step.op.startswith("Q") and not set(step.gives) & self.makers.keys():
                quantized = self._on_grid(_TOKEN.sub("", step.name))
                if quantized is not None:
                    self.same[step.gives[0]] = quantized
                    self.runtime[quantized] = step
                    continue
            kept = self.names.get(step.name)
            if kept is not None and kept.op == step.op and not set(step.gives) & self.makers.keys():
                self.same.update(zip(step.gives, kept.gives, strict=False))
                self.runtime[kept.gives[0]] = step
                continue
            for name in step.gives:
                if name not in self.makers:
                    continue
                if any(self.same.get(read) == name for read in step.reads):
                    self.converters.append(step)
                else:
                    self.runtime[name] = step
                self.same[name] = name

    def _with_more(self, value: str, step: Step, exact: set[str]) -> str:
        """What a blocked node computes, after what it has taken in."""
        at_hand = {self.same.get(name, name) for name in step.reads}
        while value not in exact:
            readers = self.readers.get(value, [])
            if len(readers) != 1 or readers[0].op not in _TAKEN_IN:
                break
            others = {name for name in readers[0].reads if name != value and name in self.makers}
            if not others <= at_hand:
                break
            value = readers[0].gives[0]
        return value

    def _on_grid(self, name: str) -> str | None:
        """What an operator on integers computes that is called after a node: the node's result, quantised."""
        node = self.names.get(name)
        value = node.gives[0] if node is not None else ""
        while node is not None and node.op != "QuantizeLinear":
            readers = self.readers.get(value, [])
            node = readers[0] if len(readers) == 1 and readers[0].op in {*_TAKEN_IN, "QuantizeLinear"} else None
            value = node.gives[0] if node is not None else ""
        return value or None

    def cut(self) -> Cut:
        found = Cut()
        used: set[int] = set()
        taken: set[int] = set()
        known = {*self.runtime, *self.folded}
        for step in self.file:
            for value in step.gives:
                maker = self.runtime.get(value)
                if maker is None:
                    continue
                inner = [each for each in _between(step, self.makers, known) if each.place not in taken]
                own = [each for each in _between(maker, self.by_name, set(self.same)) if each.place not in used]
                taken.update(each.place for each in inner)
                used.update(each.place for each in own)
                if inner:
                    found.stretches.append(Stretch([each.place for each in inner], own))
                elif own and found.stretches:  # another result of a node that has its stretch
                    found.inserted += own
        for value in self.folded:
            found.loaded.update(
                each.place for each in _between(self.makers[value], self.makers, known) if each.place not in taken
            )
        found.inserted += [each for each in self.converters if each.place not in used]
        return found


def _between(step: Step, makers: dict[str, Step], known: set[str]) -> list[Step]:
    """A node and those before it, up to known values, in order."""
    found, waiting = {step.place: step}, [step]
    while waiting:
        for name in waiting.pop().reads:
            maker = makers.get(name)
            if maker is not None and name not in known and maker.place not in found:
                found[maker.place] = maker
                waiting.append(maker)
    return [found[place] for place in sorted(found)]


def _ordered(steps: Sequence[Step], makers: dict[str, Step]) -> list[Step]:
    """In an order in which everything is computed before it is read; onnxruntime's file may have another."""
    done: dict[int, Step] = {}
    for root in steps:
        waiting = [root]
        while waiting:
            step = waiting[-1]
            before = [makers[name] for name in step.reads if name in makers and makers[name].place not in done]
            before = [each for each in before if each is not step]
            if before:
                waiting += before
            else:
                done.setdefault(step.place, waiting.pop())
    return list(done.values())
