"""Lists in scripts. Where the length is known, a list is a Python list. Where it depends on data, it is `Rows`.

A list that grows in a loop whose turns depend on data cannot be a Python list: nobody knows how long it is. It is one
column (`columns.py`), or for tuples one per item: a tensor with a row for each element, or where they have different
shapes, a list of the graph's own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from ...bodies.traced_list import TracedList, TracedNumbers
from ...ground.tree import Structure, flatten
from ...memory.graph_levels import Level
from ...program.facts import ListFact, TensorFact
from ...record.tracer import Tracer
from .columns import (
    Column,
    NotAlike,
    as_list,
    column_of,
    extended,
    fits,
    inserted,
    item,
    joined,
    length,
    no_items,
    no_rows,
    preceded,
    replaced,
    reversed_,
    shape_of,
    size_outside,
    sliced,
    tracer_among,
    without,
)
from .enumerations import ENUMERATED, number_of

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
    leaves: tuple[TensorFact | ListFact | type, ...]

    @property
    def is_single(self) -> bool:
        """Whether an element is one value, in no container."""
        return self.structure.paths == ((),)

    def __eq__(self, other: object) -> bool:
        """Alike enough to be in one list: shapes are compared when rows meet."""
        return isinstance(other, Element) and (self.structure.paths, self.kinds) == (other.structure.paths, other.kinds)

    def __hash__(self) -> int:
        return hash((self.structure.paths, self.kinds))

    @property
    def kinds(self) -> tuple[Any, ...]:
        return tuple(each if isinstance(each, type) else (each.dtype, each.rank) for each in self.leaves)

    @property
    def facts(self) -> list[TensorFact | ListFact]:
        return [TensorFact(DTYPES[each], ()) if isinstance(each, type) else each for each in self.leaves]


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


@dataclass(frozen=True, eq=False)
class Rows:
    """A list whose length depends on data: for every leaf of an element a column with all of them."""

    element: Element
    columns: tuple[Column, ...]

    def __post_init__(self) -> None:
        tracer = tracer_among(*self.columns)
        if tracer is not None:
            tracer.copies_into_lists = True

    # --- made --------------------------------------------------------------------------------------------------------
    @staticmethod
    def empty(tracer: Tracer, element: Element, *, dense: bool = True) -> Rows:
        leaves = zip(element.leaves, element.facts, strict=True)
        return Rows(
            element,
            tuple(
                no_rows(tracer, fact) if dense or isinstance(leaf, type) else no_items(tracer, fact)
                for leaf, fact in leaves
            ),
        )

    @staticmethod
    def of(items: Sequence[Any], tracer: Any = None, *, dense: bool = True) -> Rows:
        """At least one element."""
        element = element_of(items[0])
        leaves = zip(element.leaves, *(_checked(element, item) for item in items), strict=True)
        return Rows(
            element,
            tuple(column_of(each, tracer, dense=dense or isinstance(leaf, type)) for leaf, *each in leaves),
        )

    def as_lists(self, tracer: Tracer) -> Rows:
        """The same with tensors as lists, whether or not they have one shape; numbers are rows all the same."""
        leaves = zip(self.element.leaves, self.columns, strict=True)
        return Rows(self.element, tuple(c if isinstance(leaf, type) else as_list(c, tracer) for leaf, c in leaves))

    # --- read --------------------------------------------------------------------------------------------------------
    def length(self) -> Any:
        dense = [each for each in self.columns if not isinstance(each, TracedList)]
        return length((dense or self.columns)[0])

    def get(self, index: Any) -> Any:
        leaves = [item(each, index) for each in self.columns]
        return adopt(self.element.structure.unflatten(self._as_leaves(leaves)))

    def _as_leaves(self, tensors: Sequence[torch.Tensor]) -> list[Any]:
        return [
            each.item() if isinstance(kind, type) else each
            for each, kind in zip(tensors, self.element.leaves, strict=True)
        ]

    @property
    def only(self) -> Any:
        """The one column, if elements are tensors or numbers; of numbers it is a tensor."""
        if len(self.columns) != 1 or self.element.structure.paths != ((),):
            raise NotAlike("its elements are tuples")
        return self.columns[0]

    # --- changed -----------------------------------------------------------------------------------------------------
    def _mapped(self, change: Callable[[Column], Column]) -> Rows:
        return Rows(self.element, tuple(map(change, self.columns)))

    def _with(self, change: Callable[[Column, Sequence[torch.Tensor]], Column], items: Sequence[Any]) -> Rows:
        """Every column changed by the leaves of items that belong to it."""
        news = [_checked(self.element, each) for each in items]
        return Rows(self.element, tuple(change(c, [new[at] for new in news]) for at, c in enumerate(self.columns)))

    def plus(self, other: Rows) -> Rows:
        if self.element != other.element:
            raise NotAlike(f"its elements are {_text(self.element)} and {_text(other.element)}")
        return Rows(self.element, tuple(map(joined, self.columns, other.columns)))

    def is_dense_with(self, other: Rows) -> bool:
        """Whether all elements of both have one shape, and are rows."""
        return all(map(fits, self.columns, other.columns))

    def extended(self, items: Sequence[Any]) -> Rows:
        return self._with(extended, items)

    def preceded(self, items: Sequence[Any]) -> Rows:
        return self._with(preceded, items)

    def slice(self, start: Any = None, end: Any = None, step: int = 1) -> Rows:
        return self._mapped(lambda each: sliced(each, start, end, step))

    def replaced(self, index: Any, value: Any) -> Rows:
        return self._with(lambda column, leaves: replaced(column, index, leaves[0]), [value])

    def without(self, index: Any) -> Rows:
        return self._mapped(lambda each: without(each, index))

    def inserted(self, index: Any, value: Any) -> Rows:
        return self._with(lambda column, leaves: inserted(column, index, leaves[0]), [value])

    def reversed(self) -> Rows:
        return self._mapped(reversed_)


def _checked(element: Element, item: Any) -> list[torch.Tensor]:
    """The leaves of an item as tensors, of the same dtypes and numbers of axes as the element's."""
    other = element_of(item)
    if other != element:
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
        else f"{str(each.dtype).removeprefix('torch.')}[{', '.join('?' if d is None else str(d) for d in each.shape)}]"
        for each in element.leaves
    ]
    return parts[0] if element.structure.paths == ((),) else f"({', '.join(parts)})"


def filler(tracer: Tracer, element: Element) -> Any:
    """Something that looks like an element, for nobody to read."""
    leaves: list[Any] = []
    for kind in element.leaves:
        if isinstance(kind, type):
            leaves.append(kind(0))
        else:
            sizes = [size_outside(tracer, tracer.levels, dim) for dim in kind.shape]
            leaves.append(torch.zeros([1 if size is None else size for size in sizes], dtype=kind.dtype))
    return adopt(element.structure.unflatten(leaves))


def is_known_outside(tracer: Tracer, levels: Sequence[Level], fact: TensorFact | ListFact) -> bool:
    return all(size_outside(tracer, levels, dim) is not None for dim in fact.shape)


# --- values as the interpreter has them, and as control flow carries them --------------------------------------------
def list_with(rows: Rows) -> ScriptList:
    """A new list whose length depends on data."""
    made = ScriptList()
    made.become((), rows)
    return made


def adopt(value: Any) -> Any:
    """Python's lists and dicts, wherever they are in a value, as those of the script; dtypes as its numbers."""
    if isinstance(value, ENUMERATED):
        return number_of(value)
    if isinstance(value, TracedList):
        return list_with(Rows(Element(flatten(0)[1], (value.fact,)), (value,)))
    if isinstance(value, TracedNumbers):
        return list_with(Rows(Element(flatten(0)[1], (value.kind,)), (value.tensor,)))
    if type(value) is list:
        return ScriptList(map(adopt, value))
    if type(value) is tuple or (isinstance(value, tuple) and hasattr(value, "_fields")):
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
