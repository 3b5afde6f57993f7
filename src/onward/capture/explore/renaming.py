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

    def template(self, template: Any) -> Any:
        return renamed(template, self.names)

    def apply(self, item: Item) -> Item:
        return item_renamed(item, self.names)


@dataclass(frozen=True)
class Behind:
    """What the turns of a loop have made, as the loop gives it; `inside` are the names that the turns have given."""

    roll: Roll
    inside: Rewriters

    def template(self, template: Any) -> Any:
        return self.roll.after(said(template, self.inside))

    def apply(self, item: Item) -> Item:
        item = applied(item, self.inside)
        return item_changed(item, self.roll.after, self.roll.same_name)


def applied(item: Item, rewriters: Rewriters) -> Item:
    """An item of a run with other names; the latest name of a value counts."""
    for each in reversed(rewriters):
        item = each.apply(item)
    return item


def said(template: Any, rewriters: Rewriters) -> Any:
    for each in reversed(rewriters):
        template = each.template(template)
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
