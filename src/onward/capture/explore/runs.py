"""The runs of a model that its decisions are explored with."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from .items import At, CannotExplore, Counter, Decision, Item, Place, Raw, TooMuch, item_renamed, made_by, renamed
from .readings import as_hints
from .recorder import Rules, Ways
from .renaming import Shift

Sizes = Mapping[str, int]
Runner = Callable[[Ways, Sizes], Raw]

TURNS = 4  # of a loop that is to be rolled
_MOST_RUNS = 200
_MOST_WORK = 30_000  # items of all runs together


class OtherSideFails(CannotExplore):
    """The model raises an error on the other side."""


@dataclass
class Runs:
    """The model, run in other ways, and what all runs have in common; `runner` runs it."""

    runner: Runner
    sizes: Sizes
    wide: Sizes  # sizes at which every loop gets as few turns as it takes
    rules: Rules = field(default_factory=dict)
    counters: frozenset[Counter] = frozenset()
    asked: frozenset[Place] = frozenset()
    across: frozenset[Place] = frozenset()
    has_few_turns: bool = False  # whether loops over ranges and axes get as many turns as others
    known: dict[Any, Raw] = field(default_factory=dict)  # by the ways, and the sizes

    def __post_init__(self) -> None:
        self._count = self._work = self._shifted = 0
        self._named = 1 << 50

    def fresh(self) -> int:
        """A name that no value of a run has."""
        self._named += 1
        return self._named

    def run(self, ways: Ways, sizes: Sizes | None = None) -> Raw:
        """One run. The same ways give the same run, unless answers are drawn."""
        if sizes is None and self.has_few_turns:
            sizes, ways = self.wide, replace(ways, turns=TURNS)
        sizes = self.sizes if sizes is None else sizes
        ways = replace(ways, counters=ways.counters | self.counters, asked=self.asked, across=self.across)
        key = (ways.key, tuple(sizes.items()))
        if ways.draw is None and key in self.known:
            return self.known[key]
        self._count += 1
        if self._count > _MOST_RUNS or self._work > _MOST_WORK:
            raise TooMuch("it takes too many runs to see every way through it")
        found = self.runner(ways, sizes)
        self._work += len(found.items)
        if ways.draw is None:
            self.known[key] = found
        return found

    def forget(self) -> None:
        """From now on, runs write down something else."""
        self.known.clear()

    def flipped(self, run: Raw, at: int, hints: Any = None) -> Raw:
        """The run with the other answer to one decision, and behind it with the answers of the run, or of another."""
        decision = run.items[at]
        assert isinstance(decision, Decision)
        number = answers_before(run, at)
        other = self.run(Ways((*run.answers[:number], not decision.answer), self.rules, hints or hints_behind(run, at)))
        if other.error is not None:
            raise OtherSideFails(f"{type(other.error).__name__}: {other.error}") from other.error
        return self.renumbered(other, run, decision.made)

    def renumbered(self, other: Raw, run: Raw, made: int) -> Raw:
        """A run that is the same as another one until so many values were made."""
        self._shifted += 1
        shifts = (*run.shifts, (made, self._shifted * 10_000_000))
        names = Shift(shifts)
        items = [item_renamed(each, names) for each in other.items]
        return replace(other, items=items, results=renamed(other.results, names), shifts=shifts)


def answers_before(run: Raw, at: int) -> int:
    """How many decisions were made before an item."""
    return sum(isinstance(each, Decision) and each.is_kept for each in run.items[:at])


def hints_behind(run: Raw, at: int) -> tuple[tuple[Any, tuple[Any, ...]], ...]:
    """The answers that a run gave behind an item, by their places, and all that it has read from data."""
    found: dict[Place, list[bool]] = {}
    for item in run.items[at + 1 :]:
        if isinstance(item, Decision) and item.is_kept:
            found.setdefault(item.at.place, []).append(item.answer)
    return (*((place, tuple(answers)) for place, answers in found.items()), *as_hints(run.readings))


def asked_again(run: Raw, at: int) -> bool | None:
    """Whether a question is asked again in the same call of a function, or only in others; None if it is not."""
    first = run.items[at].at
    later = [each.at for each in run.items[at + 1 :] if isinstance(each, Decision) and each.at.place == first.place]
    return any(each.frame == first.frame for each in later) if later else None


def stops(item: Item, at: At, goes_on: bool) -> bool:
    """Whether an item is the question of a loop with the answer that ends it."""
    asks = isinstance(item, Decision) and (item.at.place, item.at.frame) == (at.place, at.frame)
    return asks and item.answer is not goes_on  # type: ignore[union-attr]


def made_until(run: Raw, at: int) -> set[int]:
    """The values that there are before an item."""
    found = set(run.inputs)
    for item in run.items[:at]:
        found.update(made_by(item))
    return found
