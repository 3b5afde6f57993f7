"""Lists, dicts and attributes that a script changes inside a branch or a loop that depends on data.

They are shared by reference, so a change inside a body would show outside at once. A `Snapshot` puts everything back;
what did change is handed on as values of the branch or the loop: `encode` turns a container into a structure of tensors
and numbers, `decode` turns it back.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

from .lists import Element, Rows, ScriptDict, ScriptList, ScriptObject, element_of, list_with
from .optionals import Maybe

Attributes = dict[tuple[Any, str], Any]


class Form(enum.IntEnum):
    """How a value goes through a branch or a loop, from the simplest on."""

    SAME = 0  # it is one container from outside, and stays it
    ITEMS = 1  # item by item
    APPENDED = 2  # a list that a loop only appends to: what every turn appends, stacked over the turns
    ROWS = 3  # a list whose length depends on data: a tensor with a row for each element, while they have one shape
    LIST = 4  # the same, as a list of the graph's own


class Fixed:
    """A part of a value that control flow does not touch."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Fixed):
            return False
        mine, others = self.value, other.value
        return mine is others or (isinstance(mine, Element) and mine == others)

    __hash__ = object.__hash__

    def __repr__(self) -> str:
        return f"a {type(self.value).__name__.replace('ScriptList', 'list')} from outside"


class _Encoded(NamedTuple):
    """A list whose length depends on data."""

    element: Fixed
    columns: list[Any]


class _EncodedObject(NamedTuple):
    """An instance of a class of the script's own."""

    attributes: dict[str, Any]


class _EncodedOptional(NamedTuple):
    """A value that may be None."""

    present: Any
    value: Any


# --- values ----------------------------------------------------------------------------------------------------------
def encode(value: Any, is_outside: Callable[[Any], bool], form: Form = Form.SAME) -> Any:
    """A value as a structure of tensors, numbers and fixed parts. A container from outside is fixed, unless the form
    says that its items are meant."""
    if isinstance(value, (ScriptList, dict)) and form is Form.SAME and is_outside(value):
        return Fixed(value)
    if isinstance(value, ScriptList):
        if value.rows is not None:
            return _Encoded(Fixed(value.rows.element), list(value.rows.columns))
        return [encode(each, is_outside) for each in value]
    if type(value) is tuple:
        return tuple(encode(each, is_outside) for each in value)
    if isinstance(value, Maybe):
        return _EncodedOptional(value.present, encode(value.value, is_outside))
    if isinstance(value, ScriptObject):
        return _EncodedObject({key: encode(each, is_outside) for key, each in value.items()})
    if isinstance(value, dict):
        return {key: encode(each, is_outside) for key, each in value.items()}
    return value


def decode(value: Any) -> Any:
    """The value again."""
    if isinstance(value, Fixed):
        return value.value
    if isinstance(value, _Encoded):
        return list_with(Rows(value.element.value, tuple(value.columns)))
    if isinstance(value, _EncodedOptional):
        inner = decode(value.value)
        return Maybe(value.present, inner) if not isinstance(value.present, bool) else inner if value.present else None
    if isinstance(value, _EncodedObject):
        return ScriptObject((key, decode(each)) for key, each in value.attributes.items())
    if type(value) is list:
        return ScriptList(map(decode, value))
    if type(value) is tuple:
        return tuple(map(decode, value))
    if type(value) is dict:
        return ScriptDict((key, decode(each)) for key, each in value.items())
    return value


# --- places where values are held ------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Place:
    """A container, or an attribute of a module."""

    container: Any
    key: Any = None  # of an attribute

    @property
    def id(self) -> Any:
        return id(self.container) if self.key is None else self.key

    def get(self) -> Any:
        return self.container if self.key is None else self.container[self.key]

    def put(self, value: Any) -> None:
        """Make this the content."""
        if self.key is not None:
            self.container[self.key] = value
        elif isinstance(self.container, dict):
            self.container.clear()
            self.container.update(value)
        else:
            self.container.become(value, value.rows)

    def element(self) -> Element | None:
        """What the elements of a list look like, if it has any."""
        return element_in(self.get())


def element_in(value: Any) -> Element | None:
    if not isinstance(value, ScriptList):
        return None
    if value.rows is not None:
        return value.rows.element
    return element_of(value[0]) if value else None


class Snapshot:
    """All containers that can be reached from some values, and the attributes, as they are now."""

    def __init__(self, values: Iterable[Any], attributes: Attributes) -> None:
        self._attributes, self._assigned = attributes, dict(attributes)
        self._content: dict[int, tuple[Any, Any]] = {}
        for value in (*values, *attributes.values()):
            self._visit(value)

    def _visit(self, value: Any) -> None:
        if isinstance(value, (ScriptList, dict)) and id(value) not in self._content:
            items = list(value.items()) if isinstance(value, dict) else list(value)
            state = None if isinstance(value, dict) else (value.rows, value.writer)
            self._content[id(value)] = (value, (items, state))
            for each in items:
                self._visit(each)
        elif isinstance(value, tuple):
            for each in value:
                self._visit(each)

    def read(self, key: tuple[Any, str], value: Any) -> None:
        """An attribute that was read for the first time since: it was there all along."""
        self._assigned.setdefault(key, value)
        self._visit(value)

    def is_outside(self, value: Any) -> bool:
        return id(value) in self._content

    def changed(self) -> list[Place]:
        found = [Place(self._attributes, key) for key, value in self._assigned.items() if self._now(key) is not value]
        for container, (items, state) in self._content.values():
            now = list(container.items()) if isinstance(container, dict) else list(container)
            moved = state is not None and (container.rows is not state[0] or container.writer is not state[1])
            if moved or len(now) != len(items) or not all(map(_is_same, now, items)):
                found.append(Place(container))
        return found

    def _now(self, key: tuple[Any, str]) -> Any:
        return self._attributes[key]

    def restore(self) -> None:
        self._attributes.update(self._assigned)
        for container, (items, state) in self._content.values():
            if isinstance(container, dict):
                container.clear()
                container.update(items)
            else:
                container.become(items, *state)


def _is_same(now: Any, before: Any) -> bool:
    """Of items of a list, or of pairs of a dict's key and value."""
    if isinstance(now, tuple) and isinstance(before, tuple):
        return len(now) == len(before) and all(map(_is_same, now, before))
    return now is before or (type(now) in (bool, int, float, str) and type(now) is type(before) and now == before)
