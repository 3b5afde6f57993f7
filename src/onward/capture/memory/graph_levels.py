"""The graphs that are being written: the program's, and inside it those of the bodies of control flow.

While a body is traced, tensors from outside are read through placeholders, and nothing that happens in it may show
outside before the operator that runs it is in place: what was written to memory from outside, and which node computes
a tensor, are put back when the body ends.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import fx

from ...errors import CaptureError
from ..ground.source import ScopeStack
from ..sizes.sizes import AxisOf, Size
from .tensor import Cell, TensorTrace, Traced


@dataclass(frozen=True)
class _Before:
    """A piece of memory from outside as it was before a body wrote to it."""

    base: Traced
    example: torch.Tensor
    content: torch.Tensor
    version: int
    shared: bool


class Level:
    """One graph, and what has to be put back when it is finished."""

    def __init__(self, graph: fx.Graph) -> None:
        self.graph = graph
        self.sizes: dict[Any, fx.Node | AxisOf] = {}  # numbers that the graph has already
        self.operands: list[fx.Node] = []  # what it takes from outside, as the next level out has it
        self.origins: list[fx.Node] = []  # the same, as the graph has it in which it was made
        self.examples: dict[fx.Node, Any] = {}  # what tensors, and lists of them, from outside hold for the example
        self.views: dict[Any, Traced] = {}  # of plain memory that was written to
        self._imported: dict[fx.Node, fx.Node] = {}
        self._last_placeholder: fx.Node | None = None
        self._nodes: dict[int, tuple[Traced, fx.Node, int]] = {}
        self._written: dict[Cell, _Before] = {}
        self._doubts: dict[Cell, str] = {}  # of memory from outside: as they were before

    # --- inputs ----------------------------------------------------------------------------------------------------
    def placeholder(self, name: str, fact: Any) -> fx.Node:
        """A new input, after those that are there."""
        root = self.graph._root
        with self.graph.inserting_after(self._last_placeholder or root):
            node = self.graph.create_node("placeholder", name, (), {}, name)
        node.meta["val"] = fact
        self._last_placeholder = node
        return node

    def imported(self, node: fx.Node, origin: fx.Node) -> fx.Node:
        """The placeholder for a node of the next level out."""
        if node not in self._imported:
            self._imported[node] = self.placeholder(node.name, node.meta["val"])
            self.operands.append(node)
            self.origins.append(origin)
        return self._imported[node]

    # --- what must not show outside --------------------------------------------------------------------------------
    def remember(self, tensor: Traced) -> None:
        """Before the node that computes a tensor is another one."""
        if tensor.cell.level is not self:
            self._nodes.setdefault(id(tensor), (tensor, tensor.node, tensor.version))

    def before_write(self, chain: list[Traced]) -> None:
        """Before a write through a chain of views, the base last."""
        base, cell = chain[-1], chain[-1].cell
        if cell.level is self:
            return
        for each in chain:
            self.remember(each)
        if cell not in self._written:
            content = base.example.clone()
            self._written[cell] = _Before(base, base.example, content, cell.version, cell.shared)

    def doubt(self, cell: Cell, where: str) -> None:
        """Other memory was written to, which may be this."""
        if cell.level is not self:
            self._doubts.setdefault(cell, cell.doubt)
        cell.doubt = where

    @property
    def doubted(self) -> list[tuple[Cell, str]]:
        """Memory from outside that may be what was written to, and where that was."""
        return [(cell, cell.doubt) for cell in self._doubts]

    @property
    def written(self) -> list[Traced]:
        """The tensors from outside whose memory was written to."""
        return [before.base for before in self._written.values()]

    def undo(self) -> None:
        """Put everything from outside back as it was."""
        for cell, before in self._written.items():
            before.base.example = before.example
            before.example.copy_(before.content)
            cell.mirror()
            cell.version, cell.shared = before.version, before.shared
        for tensor, node, version in self._nodes.values():
            tensor.node, tensor.version = node, version
        for cell, before_it in self._doubts.items():
            cell.doubt = before_it


class GraphTrace(TensorTrace, Protocol):
    """A trace that writes nodes into graphs."""

    @property
    def levels(self) -> list[Level]:
        """The program, and then the bodies of control flow that are being traced."""

    @property
    def graph(self) -> fx.Graph:
        """The innermost graph."""

    @property
    def scopes(self) -> ScopeStack:
        """The modules that are running."""

    def make(self, target: Any, args: tuple, kwargs: dict[str, Any], fact: Any) -> fx.Node:
        """A new node, and what is known of its result."""

    def here(self, node: fx.Node) -> fx.Node:
        """A node of an outer graph, as the present one has it."""

    def node_of(self, tensor: Traced) -> fx.Node:
        """The node that computes a tensor's present content."""

    def size_node(self, size: Size) -> Any:
        """The node that computes a size, or a plain number."""

    def where(self) -> str | None:
        """The user's line that is running."""


def import_node(levels: list[Level], node: fx.Node) -> fx.Node:
    """A node as the innermost graph has it."""
    if node.graph is levels[-1].graph:
        return node
    if len(levels) == 1:
        raise CaptureError(
            "a tensor that was made inside a branch or a loop is used outside of it",
            hint="return it from the function that makes it",
        )
    return levels[-1].imported(import_node(levels[:-1], node), node)


def known_size(levels: list[Level], key: Any) -> fx.Node | AxisOf | None:
    """A number that some graph has already, the outermost that does."""
    return next((level.sizes[key] for level in levels if key in level.sizes), None)


@functools.lru_cache(maxsize=1 << 10)
def node_name(target: Any) -> str:
    """What the nodes that call a function are called, before they are numbered: as PyTorch would call them."""
    name: str = fx.Graph()._target_to_str(target)
    return name
