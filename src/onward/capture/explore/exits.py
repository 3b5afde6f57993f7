"""Turns in which a loop is left: by `break`, by `return`, or because one of several questions says so."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from .branches import Meeting, meet
from .items import At, Decision, Exit, Item, Place, Raw, leaf_key
from .renaming import Rewriters, applied, said

Part = Callable[[Raw, int, int], tuple[list[Item], Rewriters]]  # what keeps the decisions of a part of a run


@dataclass(frozen=True)
class Way:
    """One turn in which a loop is left: what the model does from there on, until it does what it does in any case."""

    items: tuple[Item, ...]
    meeting: Meeting
    names: Rewriters
    before: Rewriters  # the names that earlier turns have given
    within: list[Rewriters]  # those that the turn itself has given, once it is known
    cut: int
    at: At

    def changes(self, key: Any) -> bool:
        """Whether another value stands for a value of the run that stays."""
        return leaf_key(self.meeting.values[key]) != key

    def leaves_changed(self) -> Iterator[tuple[Any, Any]]:
        """The values of the run that stays for which another value stands, each with what is known of it."""
        return ((key, leaf) for key, leaf in self.meeting.leaves.items() if self.changes(key))

    def result(self, key: Any, leaf: Any) -> Any:
        """What stands for a value of the run that stays."""
        there = self.meeting.values.get(key, leaf)
        return said(said(there, self.names), (*self.before, *self.within[0]))


@dataclass(frozen=True)
class Exits:
    """Behind a loop that may be left: items, where the run goes on, the names there, and the flags of the exits."""

    items: tuple[Item, ...]
    cut: int
    names: Rewriters
    flags: tuple[tuple[int, int], ...]


@dataclass
class Around:
    """The loop around a part of a run: where it ends, and where it is left, by the number of the exit."""

    base: Raw
    end: int  # in the run that is looked at
    exits: dict[int, list[Way]]
    low: int = 0  # where the turn begins
    before: Rewriters = ()
    within: list[Rewriters] = field(default_factory=list)
    numbers: dict[Place, int] = field(default_factory=dict)

    def begin(self, low: int, before: Rewriters) -> None:
        """A turn begins."""
        self.low, self.before, self.within = low, before, []

    def finish(self, names: Rewriters) -> None:
        """A turn ends."""
        self.within.append(names)

    def moved(self, by: int) -> Around:
        """The same loop in a run that has so many items more."""
        found = replace(self, end=self.end + by)
        found.exits, found.numbers, found.within = self.exits, self.numbers, self.within
        return found

    def leave(self, part: Part, run: Raw, at: int, other: Raw) -> Exit:
        """An exit: the other run leaves the loop."""
        meeting = meet(self.base, other, self.low)
        decision = run.items[at]
        assert isinstance(decision, Decision)
        number = self.numbers.setdefault(decision.at.place, len(self.numbers) + 1 + id(self.exits))
        there = len(other.items) - meeting.common
        items, names = part(other, at + 1, there)
        cut = len(self.base.items) - meeting.common
        shifted = tuple(applied(each, self.before) for each in items)
        way = Way(shifted, meeting, names, self.before, self.within, cut, decision.at)
        self.exits.setdefault(number, []).append(way)
        return Exit(number, decision.predicate, not decision.answer, decision.at)
