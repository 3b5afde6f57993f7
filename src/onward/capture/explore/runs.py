"""The runs of a model that its decisions are explored with."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from .data_readings import as_hints
from .items import At, CannotExplore, Counter, Decision, Item, Place, Raw, TooMuch, item_renamed, made_by, renamed
from .recorder import Rules, Ways
from .renaming import Shift

Sizes = Mapping[str, int]
Runner = Callable[[Ways, Sizes], Raw]

TURNS = 4  # of a loop that is to be rolled
_MOST_TURNS = 40  # of a loop, at sizes that are chosen so that all have some
_LARGEST = (600, 40)  # sizes that are looked at, of one axis, and of two
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
    allows: Callable[[Sizes], bool] = lambda sizes: True  # whether the axes may have these sizes
    rules: Rules = field(default_factory=dict)
    counters: frozenset[Counter] = frozenset()
    asked: frozenset[Place] = frozenset()
    across: frozenset[Place] = frozenset()
    assumed: frozenset[tuple[Place, bool]] = frozenset()
    has_few_turns: bool = False  # whether loops over ranges and axes get as many turns as others
    known: dict[Any, Raw] = field(default_factory=dict)  # by the ways, and the sizes

    def __post_init__(self) -> None:
        self._count = self._work = self._shifted = 0
        self._named = 1 << 50
        self._flipped: dict[Any, tuple[Raw, Raw]] = {}  # with the run itself, whose id is in the key

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
        ways = replace(ways, assumed=self.assumed)
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

    def enlarge(self, run: Raw) -> bool:
        """Go on with sizes at which all loops over sizes have some turns (`range(n // 4)`), and not more than it takes;
        whether there are others than those of the run."""
        names = sorted(frozenset[str]().union(*(each.names for each in run.counts)) & self.sizes.keys())
        if self.has_few_turns or not names or len(names) > len(_LARGEST):
            return False
        every = itertools.product(range(1, _LARGEST[len(names) - 1]), repeat=len(names))
        columns = [{**self.sizes, **dict(zip(names, each, strict=True))} for each in sorted(every, key=sum)]
        for least in (TURNS, TURNS - 1):
            for sizes in columns:
                turns = [each.at(sizes) for each in run.counts]
                if all(each is not None and least <= each <= _MOST_TURNS for each in turns) and self.allows(sizes):
                    is_other, self.sizes = sizes != self.sizes, sizes
                    self.forget()
                    return is_other
        return False

    def assume(self, run: Raw, example: Sizes) -> bool:
        """Take for granted what all probes of a run, and of one at the example's sizes, agree on; whether there is
        anything new."""
        there = self.run(Ways((), self.rules), example)
        settled = {place: answers | there.settled.get(place, answers) for place, answers in run.settled.items()}
        found = {(place, *answers) for place, answers in settled.items() if len(answers) == 1}
        new = {(place, answer) for place, answer in found if answer is not None} - self.assumed
        if new:
            self.assumed |= new
            self.forget()
        return bool(new)

    def apart(self, ways: Ways, sizes: Sizes) -> Raw:
        """A run that is looked at once."""
        counters = ways.counters | self.counters
        ways = replace(ways, counters=counters, asked=self.asked, across=self.across, assumed=self.assumed)
        return self.runner(ways, sizes)

    def forget(self) -> None:
        """From now on, runs write down something else."""
        self.known.clear()
        self._flipped.clear()

    def flipped(self, run: Raw, at: int, hints: Any = None) -> Raw:
        """The run with the other answer to one decision, and behind it with the answers of the run, or of another."""
        settings = (*self.rules.items(), self.counters, self.asked, self.across, self.has_few_turns)
        key = (id(run), at, hints, settings)
        if key not in self._flipped:
            self._flipped[key] = run, self._with_other_answer(run, at, hints)
        return self._flipped[key][1]

    def _with_other_answer(self, run: Raw, at: int, hints: Any) -> Raw:
        decision = run.items[at]
        assert isinstance(decision, Decision)
        answers = (*run.answers[: answers_before(run, at)], not decision.answer)
        ways = Ways(answers, self.rules, hints or hints_behind(run, at), shapes=run.shapes if run.is_shaped else None)
        other = self.run(ways)
        if other.error is not None and decision.of_sizes:  # what follows does not fit the sizes that come this way
            again = self.run(replace(ways, shapes=run.shapes))
            other = again if again.error is None else other
        if other.error is not None:
            raise OtherSideFails(f"{type(other.error).__name__}: {other.error}") from other.error
        return self.renumbered(other, run, decision.made)

    def renumbered(self, other: Raw, run: Raw, made: int) -> Raw:
        """A run that is the same as another one until so many values were made."""
        self._shifted += 1
        shifts = (*run.shifts, (made, self._shifted * 10_000_000))
        names = Shift(shifts)
        items = [item_renamed(each, names) for each in other.items]
        sizes = {names.get(value) or value: size for value, size in other.sizes.items()}
        return replace(other, items=items, results=renamed(other.results, names), shifts=shifts, sizes=sizes)


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
