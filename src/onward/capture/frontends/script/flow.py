"""Branches and loops of a script that stay, with everything that they change.

What a body changes is found by running it: where a container turns out to change, or a list to grow, everything is put
back, the form in which it goes through the branch or the loop is raised by one (`containers.Form`), and the body is
traced again.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch

from ....errors import CaptureError
from ...bodies.control_flow import NUMBERS, capture_branch, capture_loop
from ...bodies.traced_list import TracedList
from ...ground.tree import Structure, flatten
from ...record.tracer import Tracer
from .columns import NotAlike
from .containers import Attributes, Fixed, Form, Place, Snapshot, decode, element_in, encode
from .lists import (
    UNINITIALIZED,
    Element,
    Rows,
    ScriptList,
    as_tensor,
    element_of,
    filler,
    is_known_outside,
    list_with,
    plain,
)
from .optionals import Maybe, is_open

Slot = int | Place  # a value that goes through, by its number, or a container that changes


class Again(Exception):
    """A value needs another form; `of` is the branch or the loop that it goes through."""

    def __init__(
        self, of: object, slot: Slot, form: Form, element: Element | None = None, *, optional: bool = False
    ) -> None:
        super().__init__(slot, form)
        self.of, self.slot, self.form, self.element, self.optional = of, slot, form, element, optional


class Flow:
    """One branch or loop that is kept: the forms of its values, as far as they are known."""

    def __init__(self, tracer: Tracer, values: Iterable[Any], attributes: Attributes, open_: list[Snapshot]) -> None:
        self._tracer, self._values, self._attributes, self._open = tracer, list(values), attributes, open_
        self._is_loop = False
        self._places: dict[Any, Place] = {}
        self._forms: dict[Any, Form] = {}
        self._elements: dict[Any, Element] = {}
        self._reasons: dict[Any, str] = {}  # why lists have no element that others are like
        self._optional: set[Any] = set()  # values that are None or not, depending on data

    # --- branches ----------------------------------------------------------------------------------------------------
    def branch(self, condition: Any, sides: Sequence[Callable[[], list[Any]]]) -> list[Any]:
        """Both sides; what the branch gives."""
        return self._until_settled(functools.partial(self._try_branch, condition, sides))

    def _try_branch(self, condition: Any, sides: Sequence[Callable[[], list[Any]]]) -> list[Any]:
        places = self._convert()
        ready = self._snapshot()
        first: list[tuple[Any, Any]] = []  # of the first side: every value, and as it is encoded

        def traced(side: Callable[[], list[Any]]) -> list[Any]:
            ready.restore()
            results = side()
            self._note_changes(ready)
            slots: list[Slot] = [*range(len(results)), *places]
            found = [*results, *(place.get() for place in places)]
            encoded = [self._encode(slot, value, ready) for slot, value in zip(slots, found, strict=True)]
            pairs = list(zip(found, encoded, strict=True))
            for slot, (was, one), (value, other) in zip(slots, first or pairs, pairs, strict=True):
                self._agree(slot, one, other, was, value)
            first[:] = pairs
            return encoded

        made = capture_branch(self._tracer, condition, *(functools.partial(traced, side) for side in sides))
        ready.restore()
        count = len(made) - len(places)
        for place, value in zip(places, made[count:], strict=True):
            place.put(decode(value))
        return [decode(value) for value in made[:count]]

    # --- loops -------------------------------------------------------------------------------------------------------
    def loop(
        self,
        limit: Any,
        condition: Any,
        carried: Sequence[Any],
        turn: Callable[[Any, list[Any]], tuple[Any, list[Any]]],
    ) -> list[Any]:
        """The carried values after the last turn."""
        self._is_loop = True
        return self._until_settled(functools.partial(self._try_loop, limit, condition, carried, turn))

    def _try_loop(self, limit: Any, condition: Any, carried: Sequence[Any], turn: Any) -> list[Any]:
        places = self._convert()
        appended = [place for place in self._places.values() if self._forms[place.id] is Form.APPENDED]
        for place in appended:
            if place.get().writer is not None:
                raise Again(place.get().writer, place, Form.ROWS, self._elements.get(place.id))
        ready = self._snapshot()
        slots: list[Slot] = [*range(len(carried)), *places]
        given = [*carried, *(place.get() for place in places)]
        initial = [self._encode(slot, value, ready) for slot, value in zip(slots, given, strict=True)]
        leaves, structure = flatten(initial)
        moving = [isinstance(leaf, (torch.Tensor, TracedList, *NUMBERS)) for leaf in leaves]
        news: list[list[Any]] = []

        def step(number: Any, current: Any) -> Any:
            ready.restore()
            rest = iter(current)
            values = structure.unflatten([next(rest) if m else leaf for leaf, m in zip(leaves, moving, strict=True)])
            for place, value in zip(places, values[len(carried) :], strict=True):
                place.put(decode(value))
            for place in appended:
                place.get().become((), None, self)
            going, following = turn(number, [decode(value) for value in values[: len(carried)]])
            self._note_changes(ready)
            found = [*following, *(place.get() for place in places)]
            encoded = [self._encode(slot, value, ready) for slot, value in zip(slots, found, strict=True)]
            for slot, one, other, was, value in zip(slots, initial, encoded, given, found, strict=True):
                self._agree(slot, one, other, was, value)
            results, _ = flatten(encoded)
            self._same_constants(leaves, results, moving)
            news[:] = [list(place.get()) for place in appended]
            slices = [
                piece for place, items in zip(appended, news, strict=True) for piece in self._slices(place, items)
            ]
            return going, [leaf for leaf, m in zip(results, moving, strict=True) if m], slices

        start = [leaf for leaf, m in zip(leaves, moving, strict=True) if m]
        ends, stacked = capture_loop(self._tracer, limit, condition, start, step, watched=True)
        ready.restore()
        self._extend(appended, news, stacked)
        rest = iter(ends)
        made = structure.unflatten([next(rest) if m else leaf for leaf, m in zip(leaves, moving, strict=True)])
        for place, value in zip(places, made[len(carried) :], strict=True):
            place.put(decode(value))
        return [decode(value) for value in made[: len(carried)]]

    def _slices(self, place: Place, items: list[Any]) -> list[Any]:
        """What a turn appends to a list, per leaf of its elements; several elements are stacked."""
        if not items:
            return []
        element = element_of(items[0])
        outside = self._tracer.levels[:-1]
        if not all(is_known_outside(self._tracer, outside, fact) for fact in element.facts):
            raise Again(self, place, Form.LIST, element)  # the shape depends on the turn
        if len(items) == 1:
            return [as_tensor(leaf) for leaf in flatten(plain(items[0]))[0]]
        columns = Rows.of(items, self._tracer).columns
        if any(isinstance(each, TracedList) for each in columns):
            raise Again(self, place, Form.LIST, element)
        return list(columns)

    def _extend(self, appended: list[Place], news: list[list[Any]], stacked: list[Any]) -> None:
        """After a loop, the lists that it only appended to."""
        rest = iter(stacked)
        for place, items in zip(appended, news, strict=True):
            if not items:
                continue
            element = element_of(items[0])
            columns = [next(rest) for _ in element.leaves]
            if len(items) > 1:
                columns = [each.flatten(0, 1) for each in columns]
            rows, old = Rows(element, tuple(columns)), place.get()
            if old.rows is not None or old:
                before = old.rows or Rows.of(old, self._tracer)
                if before.element == element and not before.is_dense_with(rows):
                    raise Again(self, place, Form.LIST, element)
                rows = before.plus(rows)
            old.become((), rows)

    def _same_constants(self, before: list[Any], after: list[Any], moving: list[bool]) -> None:
        for was, now, moves in zip(before, after, moving, strict=True):
            if not moves and (type(was) is not type(now) or was != now):
                raise self._cannot(
                    f"a loop that depends on data is entered with {_name(was)} and goes on with {_name(now)}",
                    "give it a tensor or a number before the loop",
                )
            if moves and not isinstance(now, (torch.Tensor, TracedList, *NUMBERS)):
                raise self._cannot(
                    f"a loop that depends on data is entered with {_name(was)} and goes on with {_name(now)}",
                    "keep a tensor or a number in it",
                )

    # --- forms -------------------------------------------------------------------------------------------------------
    def _until_settled(self, attempt: Callable[[], list[Any]]) -> list[Any]:
        while True:
            depth = len(self._open)
            before = self._snapshot()
            try:
                return attempt()
            except Again as again:
                before.restore()
                if again.of is not self:
                    raise
                self._raise_form(again)
            except NotAlike as error:
                raise self._cannot(
                    f"a list that changes inside a branch or a loop that depends on data has no form in ONNX: {error}",
                    "keep tensors of one dtype and one number of axes in it, or collect the results with torch.cat",
                ) from error
            finally:
                del self._open[depth:]

    def _raise_form(self, again: Again) -> None:
        key = _key(again.slot)
        if isinstance(again.slot, Place):
            self._places[key] = again.slot
        self._forms[key] = max(again.form, self._forms.get(key, Form.SAME))
        if again.element is not None:
            self._elements[key] = again.element
        if again.optional:
            self._optional.add(key)

    def _snapshot(self) -> Snapshot:
        made = Snapshot(self._values, self._attributes)
        self._open.append(made)
        return made

    def _convert(self) -> list[Place]:
        """Lists that need it become rows; the places whose values go through."""
        found = [place for place in self._places.values() if self._forms[place.id] is not Form.APPENDED]
        for place in found:
            value = place.get()
            if isinstance(value, ScriptList) and self._forms[place.id] >= Form.ROWS:
                rows = self._rows(place, value)
                if rows is not value.rows:
                    value.become((), rows)
        return found

    def _rows(self, slot: Slot, value: ScriptList) -> Rows:
        """A list as the slot's form wants it: rows, or lists of the graph's own."""
        element, form = self._elements.get(_key(slot)), self._forms[_key(slot)]
        if value.writer is not None:
            raise Again(value.writer, Place(value), form, element)
        dense = form is not Form.LIST
        if value.rows is not None:
            return value.rows if dense else value.rows.as_lists(self._tracer)
        if value:
            return Rows.of(value, self._tracer, dense=dense)
        if element is None:
            raise NotAlike(self._reasons.get(_key(slot), "it is empty"))
        return Rows.empty(self._tracer, element, dense=dense)

    def _encode(self, slot: Slot, value: Any, ready: Snapshot) -> Any:
        key = _key(slot)
        form = self._forms.get(key, Form.SAME)
        element = self._element(key, value)
        if element is not None:
            self._elements.setdefault(key, element)
        if value is UNINITIALIZED and key in self._elements:
            value = filler(self._tracer, self._elements[key])
        if key in self._optional and not isinstance(value, Maybe):
            filled = filler(self._tracer, self._elements[key]) if value is None else value
            value = Maybe(value is not None, filled)
        if form >= Form.ROWS and isinstance(value, ScriptList):
            value = list_with(self._rows(slot, value))
        return encode(value, ready.is_outside, form)

    def _element(self, key: Any, value: Any) -> Element | None:
        try:
            return element_in(value)
        except NotAlike as error:
            self._reasons[key] = str(error)
            return None

    def _note_changes(self, ready: Snapshot) -> None:
        """A container that changes and is not known to is a reason to begin again."""
        for place in ready.changed():
            if place.id not in self._places:
                raise Again(self, place, Form.ITEMS, self._element(place.id, place.get()))

    def _agree(self, slot: Slot, one: Any, other: Any, was: Any, value: Any) -> None:
        """Two encoded forms of one value must have one structure."""
        if is_open(was) != is_open(value) and _key(slot) not in self._optional:
            there = value if is_open(was) else was
            if there is not UNINITIALIZED:
                raise Again(self, slot, Form.SAME, element_of(there), optional=True)
        if isinstance(was, Maybe) != isinstance(value, Maybe) and _key(slot) not in self._optional:
            raise Again(self, slot, Form.SAME, _inside(was) or _inside(value), optional=True)
        (leaves, first), (others, second) = flatten(one), flatten(other)
        if was is not value and (was is UNINITIALIZED or value is UNINITIALIZED) and _key(slot) not in self._elements:
            raise Again(self, slot, Form.SAME, element_of(value if was is UNINITIALIZED else was))
        if first.paths == second.paths and not _differ(leaves, others):
            return
        form = self._forms.get(_key(slot), Form.SAME)
        if first.paths == second.paths and not _differ(leaves, others, but_lists=True):
            raise Again(self, slot, Form.LIST)
        if form is Form.SAME:
            raise Again(self, slot, Form.ITEMS)
        if isinstance(was, ScriptList) and isinstance(value, ScriptList) and form < Form.ROWS:
            appendable = self._is_loop and form is Form.ITEMS and isinstance(slot, Place) and slot.key is None
            raise Again(self, slot, Form.APPENDED if appendable else Form.ROWS)
        if first.paths != second.paths:
            raise self._cannot(
                f"a {_kind(was)} changes its structure inside a branch or a loop that depends on data: "
                f"{_paths(first)} becomes {_paths(second)}",
                "give it the same keys and items on every way, before the branch or the loop",
            )

    def _cannot(self, what: str, hint: str) -> CaptureError:
        tracer = self._tracer
        return CaptureError(what, source=tracer.where(), module=tracer.scopes.path or None, hint=hint)


def _inside(value: Any) -> Element | None:
    return element_of(value.value) if isinstance(value, Maybe) else None


def _key(slot: Slot) -> Any:
    return slot.id if isinstance(slot, Place) else ("value", slot)


def _differ(leaves: list[Any], others: list[Any], *, but_lists: bool = False) -> bool:
    """Whether a fixed part is another, or a list of the graph's own has come in place of rows."""
    return any(
        (isinstance(one, Fixed) and one != other)
        or (isinstance(one, TracedList) != isinstance(other, TracedList) and not but_lists)
        for one, other in zip(leaves, others, strict=True)
    )


def _paths(structure: Structure) -> str:
    return "[" + ", ".join(".".join(path) for path in structure.paths) + "]"


def _kind(value: Any) -> str:
    return type(value).__name__.removeprefix("Script").lower()


def _name(value: Any) -> str:
    if isinstance(value, torch.Tensor):
        return "a tensor"
    return "a number" if isinstance(value, NUMBERS) else repr(value)
