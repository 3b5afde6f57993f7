"""Loops that a question keeps going: whether some answer makes it come again and again."""

from __future__ import annotations

from ..functions.loop_turns import FEW
from .items import Counter, Decision, Place, Raw
from .recorder import Ways
from .runs import Runs, answers_before

_LONG = 30  # turns after which a loop is taken to have no end of its own


class Endless:
    """What was found out about the questions of a model."""

    def __init__(self, runs: Runs) -> None:
        self._runs = runs
        self._answers: dict[Place, bool | None] = {}  # by the place of a question: the answer with which a loop goes on

    def goes_on_with(self, run: Raw, at: int) -> bool | None:
        """The answer with which a question is asked again and again; None if there is none."""
        place = run.items[at].at.place
        if place not in self._answers:
            self._answers[place] = next((each for each in (True, False) if self._has_no_end(run, at, each)), None)
        return self._answers[place]

    def _has_no_end(self, run: Raw, at: int, goes_on: bool) -> bool:
        """Whether a question is asked again and again: as it is for some turns, and for many if no variable ends it."""
        short = self._asked_for(run, at, goes_on, FEW + 1, frozenset())
        if short is None:
            return False
        counters = frozenset(each for each in short.changing if each[0] == run.items[at].at.place)
        if self._asked_for(run, at, goes_on, _LONG, counters) is None:
            return False
        if not counters <= self._runs.counters:
            self._runs.counters |= counters
            self._runs.forget()
        return True

    def _asked_for(self, run: Raw, at: int, goes_on: bool, turns: int, counters: frozenset[Counter]) -> Raw | None:
        """A run in which a question is asked that many times in a row; None if it is not."""
        decision = run.items[at]
        rules = {**self._runs.rules, decision.at.place: (goes_on, turns)}
        ways = Ways(run.answers[: answers_before(run, at)], rules, counters=counters, is_steady=bool(counters))
        found = self._runs.run(ways)
        frame = 0 if decision.at.place in self._runs.across else decision.at.frame
        asked = [
            each.answer
            for each in found.items
            if isinstance(each, Decision) and each.at.place == decision.at.place and each.at.frame == frame
        ]
        is_long = asked.count(goes_on) >= turns and all(each is goes_on for each in asked[-turns - 1 : -1])
        return found if is_long and not self._is_in_for(found, decision.at.place) else None

    def _is_in_for(self, run: Raw, place: Place) -> bool:
        """Whether a `for` asks a question, over something that nobody has announced: it may end any time."""
        asked = [each.at for each in run.items if isinstance(each, Decision) and each.at.place == place]
        return place not in self._runs.across and all(each.in_for for each in asked)

    def goes_on_across_calls(self, run: Raw, at: int) -> bool | None:
        """The answer with which a function that asks is called again and again; None if there is none."""
        place = run.items[at].at.place
        if place not in self._answers:
            before = self._runs.across
            self._runs.across |= {place}
            if self.goes_on_with(run, at) is None:
                self._runs.across = before
            else:
                self._runs.forget()
        return self._answers[place]
