"""What values of a run are called in the program: other names behind a branch or a loop, and in other runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .items import Item, item_changed, item_renamed, renamed
from .loops import Roll

Rewriters = tuple[Any, ...]  # in the order in which they were found


@dataclass(frozen=True)
class Names:
    """Other names for values behind a branch."""

    names: Mapping[Any, Any]

    def template(self, template: Any, done: set[int]) -> Any:
        return renamed(template, self.names)

    def apply(self, item: Item, done: set[int]) -> Item:
        return item_renamed(item, self.names)


@dataclass(frozen=True)
class Behind:
    """What the turns of a loop have made, as the loop gives it; `inside` are the names that the turns have given."""

    roll: Roll
    inside: Rewriters

    def template(self, template: Any, done: set[int]) -> Any:
        return self.roll.after(_said(template, self.inside, done))

    def apply(self, item: Item, done: set[int]) -> Item:
        item = _applied(item, self.inside, done)
        return item_changed(item, self.roll.after, self.roll.same_name)


def applied(item: Item, rewriters: Rewriters) -> Item:
    """An item of a run with other names; the latest name of a value counts."""
    return _applied(item, rewriters, set())


def said(template: Any, rewriters: Rewriters) -> Any:
    """A template of a run with other names."""
    return _said(template, rewriters, set())


def _applied(item: Item, rewriters: Rewriters, done: set[int]) -> Item:
    """`done` holds the rewriters that were applied already. A loop has the names from before it among its `inside`, so
    without `done` every loop of a row would take twice as long as the one before it."""
    for each in reversed(rewriters):
        if id(each) not in done:
            done.add(id(each))
            item = each.apply(item, done)
    return item


def _said(template: Any, rewriters: Rewriters, done: set[int]) -> Any:
    for each in reversed(rewriters):
        if id(each) not in done:
            done.add(id(each))
            template = each.template(template, done)
    return template


class Shift:
    """The values of a run under the numbers that tell runs apart."""

    def __init__(self, shifts: Sequence[tuple[int, int]]) -> None:
        self._shifts = shifts

    def get(self, key: Any) -> int | None:
        if type(key) is not int:
            return None
        offset = 0
        for start, by in self._shifts:
            if key >= start:
                offset = by
        return key + offset if offset else None
