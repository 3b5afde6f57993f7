"""Lists in scripts. Where the length is known, a list is a Python list. Where it depends on data, it is stacked rows.

A list that grows in a loop whose turns depend on data cannot be a Python list: nobody knows how long it is. If all its
elements have one shape, it is one tensor with a row for each (for tuples, one tensor per item; for numbers, a tensor of
one axis): appending concatenates, `len` is a size, `stack` is the tensor itself. That needs no sequences, so it works
at every opset.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from ..facts import Dim, SymDim, TensorFact
from ..levels import Level
from ..sizes import AxisOf, NumberOf, Size, symbol
from ..tensor import Traced
from ..tree import Structure, flatten

if TYPE_CHECKING:
    from ..tracer import Tracer

_KINDS: dict[type, type] = {torch.SymBool: bool, torch.SymInt: int, torch.SymFloat: float}
DTYPES = {bool: torch.bool, int: torch.int64, float: torch.float64}


class ScriptList(list[Any]):
    """A list of a script: its items, or, if nobody knows how many there are, `rows`.

    In a loop that only appends to it, a list is write-only: it holds what the present turn appends, and `writer` is
    the loop.
    """

    rows: Rows | None = None
    writer: object | None = None

    @property
    def is_known(self) -> bool:
        return self.rows is None and self.writer is None

    def become(self, content: Iterable[Any], rows: Rows | None = None, writer: object | None = None) -> None:
        self[:] = content
        self.rows, self.writer = rows, writer

    __hash__ = object.__hash__  # type: ignore[assignment]


class ScriptDict(dict[Any, Any]):
    """A dict of a script."""


class ScriptObject(ScriptDict):
    """An instance of a class of the script's own: its attributes."""


class _Uninitialized:
    """What stands where a script leaves a value open, because nothing reads it: after a `return`, a `break`."""

    def __repr__(self) -> str:
        return "a value that was never assigned"


UNINITIALIZED = _Uninitialized()


@dataclass(frozen=True)
class Element:
    """What every element of a list looks like: its structure, and per leaf its number's type or a tensor's fact."""

    structure: Structure
    leaves: tuple[TensorFact | type, ...]

    def __eq__(self, other: object) -> bool:
        """Alike enough to be in one list: shapes are compared when rows meet."""
        return isinstance(other, Element) and (self.structure.paths, self.kinds) == (other.structure.paths, other.kinds)

    def __hash__(self) -> int:
        return hash((self.structure.paths, self.kinds))

    @property
    def kinds(self) -> tuple[Any, ...]:
        return tuple((each.dtype, each.rank) if isinstance(each, TensorFact) else each for each in self.leaves)

    @property
    def facts(self) -> list[TensorFact]:
        return [each if isinstance(each, TensorFact) else TensorFact(DTYPES[each], ()) for each in self.leaves]


class NotAlike(Exception):
    """Elements that do not fit into one tensor; the text says why."""


def element_of(value: Any) -> Element:
    """What an element of a list looks like."""
    leaves, structure = flatten(plain(value))
    return Element(structure, tuple(_leaf_of(each) for each in leaves))


def _leaf_of(value: Any) -> TensorFact | type:
    if isinstance(value, torch.Tensor):
        return TensorFact(value.dtype, shape_of(value))
    if type(value) in _KINDS or type(value) in DTYPES:
        return _KINDS.get(type(value), type(value))
    if isinstance(value, ScriptList):
        raise NotAlike("its elements are lists whose length depends on data")
    raise NotAlike(f"an element is {value!r}")


def shape_of(tensor: torch.Tensor) -> tuple[Dim, ...]:
    return tensor.fact.shape if isinstance(tensor, Traced) else tuple(tensor.shape)


@dataclass(frozen=True, eq=False)
class Rows:
    """A list whose length depends on data: for every leaf of an element a tensor with one row per element."""

    element: Element
    tensors: tuple[torch.Tensor, ...]

    # --- made --------------------------------------------------------------------------------------------------------
    @staticmethod
    def empty(tracer: Tracer, element: Element) -> Rows:
        tensors = []
        for fact in element.facts:
            sizes = [size_outside(tracer, tracer.levels, dim) for dim in fact.shape]
            if any(size is None for size in sizes):
                raise NotAlike("the shape of its elements depends on the turn of the loop")
            tensors.append(torch.zeros((0, *sizes), dtype=fact.dtype))
        return Rows(element, tuple(tensors))

    @staticmethod
    def of(items: Sequence[Any]) -> Rows:
        """At least one element."""
        element = element_of(items[0])
        columns = zip(*(_checked(element, element.facts, item) for item in items), strict=True)
        return Rows(element, tuple(torch.stack(column) for column in columns))

    # --- read --------------------------------------------------------------------------------------------------------
    def length(self) -> Any:
        return counted(self.tensors[0].shape[0])

    def get(self, index: Any) -> Any:
        leaves = [each.select(0, index) for each in self.tensors]
        return adopt(self.element.structure.unflatten(self._as_leaves(leaves)))

    def _as_leaves(self, tensors: Sequence[torch.Tensor]) -> list[Any]:
        return [
            each if isinstance(kind, TensorFact) else each.item()
            for each, kind in zip(tensors, self.element.leaves, strict=True)
        ]

    @property
    def only(self) -> torch.Tensor:
        """The one tensor, if elements are tensors or numbers."""
        if len(self.tensors) != 1 or self.element.structure.paths != ((),):
            raise NotAlike("its elements are tuples")
        return self.tensors[0]

    def _facts(self) -> list[TensorFact]:
        return [TensorFact(each.dtype, shape_of(each)[1:]) for each in self.tensors]

    # --- changed -----------------------------------------------------------------------------------------------------
    def _mapped(self, change: Callable[[torch.Tensor], torch.Tensor]) -> Rows:
        return Rows(self.element, tuple(map(change, self.tensors)))

    def plus(self, other: Rows) -> Rows:
        if self.element != other.element:
            raise NotAlike(f"its elements are {_text(self.element)} and {_text(other.element)}")
        for mine, others in zip(self.tensors, other.tensors, strict=True):
            if shape_of(mine)[1:] != shape_of(others)[1:]:
                raise NotAlike(f"its elements are {_text(self.element)} and {_text(other.element)}")
        return Rows(self.element, tuple(torch.cat([a, b]) for a, b in zip(self.tensors, other.tensors, strict=True)))

    def slice(self, start: Any = None, end: Any = None, step: int = 1) -> Rows:
        return self._mapped(lambda each: each[slice(start, end, step)])

    def replaced(self, index: Any, value: Any) -> Rows:
        place = _place(index, self.length())
        news = _checked(self.element, self._facts(), value)
        return Rows(
            self.element,
            tuple(a.index_copy(0, place, b.unsqueeze(0)) for a, b in zip(self.tensors, news, strict=True)),
        )

    def without(self, index: Any) -> Rows:
        before = self.slice(None, index)
        return before if index == -1 else before.plus(self.slice(index + 1, None))

    def inserted(self, index: Any, value: Any) -> Rows:
        return self.slice(None, index).plus(Rows.of([value])).plus(self.slice(index, None))

    def reversed(self) -> Rows:
        return self._mapped(lambda each: each.flip(0))


def _place(index: Any, length: Any) -> torch.Tensor:
    if isinstance(index, int) and index < 0:
        index = length + index
    return torch.scalar_tensor(index, dtype=torch.int64).reshape(1)


def _checked(element: Element, facts: Sequence[TensorFact], item: Any) -> list[torch.Tensor]:
    """The leaves of an item as tensors, which must look like the element."""
    other = element_of(item)
    if other != element or other.facts != list(facts):
        raise NotAlike(f"its elements are {_text(element)} and {_text(other)}")
    return [as_tensor(leaf) for leaf in flatten(plain(item))[0]]


def as_tensor(leaf: Any) -> torch.Tensor:
    if isinstance(leaf, torch.Tensor):
        return leaf
    return torch.scalar_tensor(leaf, dtype=DTYPES[_KINDS.get(type(leaf), type(leaf))])


def _text(element: Element) -> str:
    parts = [
        each.__name__
        if isinstance(each, type)
        else f"{str(each.dtype).removeprefix('torch.')}[{', '.join(map(str, each.shape))}]"
        for each in element.leaves
    ]
    return parts[0] if element.structure.paths == ((),) else f"({', '.join(parts)})"


def filler(tracer: Tracer, element: Element) -> Any:
    """Something that looks like an element, for nobody to read."""
    leaves: list[Any] = []
    for kind in element.leaves:
        if isinstance(kind, TensorFact):
            sizes = [size_outside(tracer, tracer.levels, dim) for dim in kind.shape]
            leaves.append(torch.zeros([1 if size is None else size for size in sizes], dtype=kind.dtype))
        else:
            leaves.append(kind(0))
    return adopt(element.structure.unflatten(leaves))


# --- sizes that are known outside of a loop --------------------------------------------------------------------------
def size_outside(tracer: Tracer, levels: Sequence[Level], dim: Dim) -> Any:
    """A dimension as a number for the graphs of some levels; None if no tensor there has it."""
    if isinstance(dim, int):
        return dim
    origin = next((found for level in levels if (found := _axis_with(level, dim)) is not None), None)
    return None if origin is None else symbol(Size(tracer, dim.values, origin))


def _axis_with(level: Level, dim: SymDim) -> AxisOf | None:
    known = level.sizes.get(dim.values)
    if isinstance(known, AxisOf):
        return known
    for node in level.graph.nodes:
        fact = node.meta.get("val")
        if isinstance(fact, TensorFact) and dim in fact.shape:
            return AxisOf(node, fact.shape.index(dim))
    return None


def counted(size: Any) -> Any:
    """A size that depends on data, as a number that does: a branch on it is kept, whatever the probes say."""
    if not isinstance(size, torch.SymInt) or size.node.from_data:
        return size
    tracer = size.node.tracer
    if not tracer.dims.is_of_data(size.node.values):
        return size
    return symbol(Size(tracer, size.node.values, NumberOf(tracer.size_node(size.node))))


def is_known_outside(tracer: Tracer, levels: Sequence[Level], fact: TensorFact) -> bool:
    return all(size_outside(tracer, levels, dim) is not None for dim in fact.shape)


# --- values as the interpreter has them, and as control flow carries them --------------------------------------------
def adopt(value: Any) -> Any:
    """Python's lists and dicts, wherever they are in a value, as those of the script."""
    if type(value) is list:
        return ScriptList(map(adopt, value))
    if type(value) is tuple:
        return tuple(map(adopt, value))
    if type(value) is dict:
        return ScriptDict((key, adopt(each)) for key, each in value.items())
    return value


def plain(value: Any) -> Any:
    """The same with Python's lists, where the length is known."""
    if isinstance(value, ScriptList):
        return [plain(each) for each in value] if value.is_known else value
    if type(value) is tuple:
        return tuple(map(plain, value))
    if isinstance(value, ScriptDict):
        return {key: plain(each) for key, each in value.items()}
    return value
