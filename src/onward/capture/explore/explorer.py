"""From the first run to the program: every decision is explored once, and loops are rolled."""

from __future__ import annotations

import contextlib
import itertools
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from .accept import OtherSize, Rejected, accept
from .bodies import DEEPEST, check_depth, check_joins, with_turns, with_whole_lists
from .branches import Ambiguous, Meeting, item_pairs, joined, meet, pairs_of
from .exits import Around, Exits
from .items import (
    At,
    Block,
    Branch,
    CannotExplore,
    Counter,
    Decision,
    Flag,
    Item,
    Loop,
    Op,
    Place,
    Program,
    Raw,
    Ref,
    Turn,
    Unlike,
    item_renamed,
    leaf_key,
    made_by,
    refs_in,
    renamed,
)
from .loops import Roll
from .questions import answers_that_vary, questions_that_vary
from .ranges import FEW
from .readings import as_hints
from .recorder import Rules, Ways
from .renaming import Behind, Names, Rewriters, Shift, applied, said
from .unseen import is_seen

Sizes = Mapping[str, int]
Runner = Callable[[Ways, Sizes], Raw]

_TURNS = 4  # of a loop that is to be rolled
_LONG = 60  # turns after which a loop is taken to have no end of its own
_MOST_STARTS = 24
_MOST_RUNS = 200
_MOST_WORK = 40_000  # items of all runs together
_MOST_LATER = 10  # decisions behind a branch whose values are looked for in both runs


class Escapes(CannotExplore):
    """A decision leads out of the part of a run that is looked at."""

    def __init__(self, end: int) -> None:
        super().__init__("it leaves a loop, or returns, from inside of a branch")
        self.end = end


class Again(Exception):
    """The first run has to be another one: with other rules, or with other answers."""

    def __init__(self, rules: Rules, answers: tuple[bool, ...] | None = None) -> None:
        super().__init__("another first run")
        self.rules, self.answers = rules, answers


class OtherSideFails(CannotExplore):
    """The model raises an error on the other side."""


Found = tuple[list[Item], int, Rewriters]  # items, where the run goes on behind them, and the names there


@dataclass
class Explorer:
    """One model at one example. `run` runs it."""

    run: Runner
    sizes: Sizes = field(default_factory=dict)
    others: Sequence[Sizes] = ()  # sizes at which the program is checked
    unkept: dict[Place, str] = field(default_factory=dict)  # decisions that stay as they are, and why

    def __post_init__(self) -> None:
        self._count = self._work = self._shifted = self._depth = 0
        self._numbers: dict[int, Item] = {}  # items with numbers in them that a loop has counted
        self._results: dict[int, Any] = {}
        self._endless: dict[Place, bool | None] = {}  # by the place of a question: the answer with which a loop goes on
        self._started: set[tuple[bool, ...]] = set()
        self._named = 1 << 50
        self._known: dict[Any, Raw] = {}
        self._rules: Rules = {}
        self._counters: frozenset[Counter] = frozenset()
        self._asked: frozenset[Place] = frozenset()
        self._across: frozenset[Place] = frozenset()
        self._fixed: set[Place] = set()  # loops over plain numbers
        self._unrolled: set[Place] = set()  # loops over plain numbers whose turns are not alike

    # --- runs --------------------------------------------------------------------------------------------------------
    def fresh(self) -> int:
        self._named += 1
        return self._named

    def _run(self, ways: Ways, sizes: Sizes | None = None) -> Raw:
        sizes = self.sizes if sizes is None else sizes
        ways = replace(ways, counters=ways.counters | self._counters, asked=self._asked, across=self._across)
        key = (ways.key, tuple(sizes.items()))
        if ways.draw is None and key in self._known:
            return self._known[key]
        self._count += 1
        if self._count > _MOST_RUNS or self._work > _MOST_WORK:
            raise CannotExplore("it takes too many runs to see every way through it")
        found = self.run(ways, sizes)
        self._work += len(found.items)
        if ways.draw is None:
            self._known[key] = found
        return found

    def program(self) -> Program:
        """The structured program, accepted by runs that went other ways."""
        answers: tuple[bool, ...] = ()
        for _ in range(_MOST_STARTS):
            self._numbers.clear()
            self._results.clear()
            base = self._run(Ways(answers, self._rules))
            if base.error is not None:
                raise CannotExplore(f"it fails when it is run again: {base.error}") from base.error
            try:
                items, rewriters = self._region(base, 0, len(base.items))
                self._check_questions(items)
                results = said(self._results.get(id(base), base.results), rewriters)
                items = with_whole_lists(items)
                check_joins(items)
                check_depth(items)
                program = Program(tuple(items), tuple(results), base.form, base.inputs)
                self._check(program, base)
                return program
            except Again as again:
                self._rules = again.rules
                answers = answers if again.answers is None else again.answers
            except (Unlike, Rejected):
                fixed = self._fixed_loops()
                if not fixed:
                    raise
                self._unroll(fixed)
        raise CannotExplore("its decisions depend on each other in a way that is not followed")

    def _fixed_loops(self) -> list[Place]:
        """The loops over plain numbers that are to be rolled."""
        return [place for place in self._rules if place in self._fixed]

    def _unroll(self, places: Sequence[Place]) -> None:
        """Write the turns of loops one by one: they are not alike."""
        self._unrolled.update(places)
        self._rules = {place: rule for place, rule in self._rules.items() if place not in self._unrolled}
        self._known.clear()

    def _check_questions(self, items: Sequence[Item]) -> None:
        """Questions about the numbers of turns that got one answer: ask them where the answer would change."""
        self._ask_if_any(list(questions_that_vary(items)))

    def _ask(self, decisions: Sequence[Decision]) -> None:
        """From now on, questions about the numbers of turns are decisions with two sides."""
        for each in decisions:
            if each.at.place in self.unkept or each.at.place in self._asked:
                raise CannotExplore(f"the answer to `{each.expression}` is not the same in all turns")
        self._asked |= {each.at.place for each in decisions}
        self._known.clear()
        raise Again(self._rules)

    # --- a part of a run ---------------------------------------------------------------------------------------------
    def _region(self, run: Raw, low: int, high: int, around: Around | None = None) -> tuple[list[Item], Rewriters]:
        """A part of a run with its decisions kept, and what the values it has made are called behind it.

        `around` is the loop of which the part is a turn, or a part of one.
        """
        items: list[Item] = []
        rewriters: Rewriters = ()
        place = low
        while place < high:
            item = run.items[place]
            if isinstance(item, Turn):
                made, place, more = self._turns(run, place, high)
            elif isinstance(item, Decision) and item.is_kept and item.at.place not in self.unkept:
                try:
                    made, place, more = self._decision(run, place, high, around)
                except OtherSideFails as fails:
                    self.unkept[item.at.place] = str(fails)
                    made, place, more = [item], place + 1, ()
            else:
                made, place, more = [self._numbers.get(id(item), item)], place + 1, ()
            items += [applied(each, rewriters) for each in made]
            rewriters += more
        return items, rewriters

    def part(self, run: Raw, low: int, high: int) -> tuple[list[Item], Rewriters]:
        """A part of a run that is in no loop."""
        return self._region(run, low, high)

    # --- decisions ---------------------------------------------------------------------------------------------------
    def _decision(self, run: Raw, at: int, high: int, around: Around | None) -> Found:
        decision = run.items[at]
        assert isinstance(decision, Decision)
        if decision.at.place in self._rules:
            return self._while(run, at, high)
        other = self._flipped(run, at)
        again = [_asked_again(each, at) for each in (run, other)]
        if any(each is not None for each in again):
            goes_on = self._goes_on_with(run, at) if True in again else self._across_calls(run, at)
            if goes_on is not None:
                raise Again({**self._rules, decision.at.place: (goes_on, _TURNS)})
        return self._branch(run, at, other, high, around)

    def _across_calls(self, run: Raw, at: int) -> bool | None:
        """The answer with which a function that asks is called again and again; None if there is none."""
        place = run.items[at].at.place
        if place not in self._endless:
            before = self._across
            self._across |= {place}
            if self._goes_on_with(run, at) is None:
                self._across = before
            else:
                self._known.clear()
        return self._endless[place]

    def _flipped(self, run: Raw, at: int, hints: Any = None) -> Raw:
        """The run with the other answer to one decision, and behind it with the answers of the run, or of another."""
        decision = run.items[at]
        assert isinstance(decision, Decision)
        number = _number(run, at)
        other = self._run(Ways((*run.answers[:number], not decision.answer), self._rules, hints or _hints(run, at)))
        if other.error is not None:
            raise OtherSideFails(f"{type(other.error).__name__}: {other.error}") from other.error
        return self._renumbered(other, run, decision.made)

    def _renumbered(self, other: Raw, run: Raw, made: int) -> Raw:
        """A run that is the same as another one until so many values were made."""
        self._shifted += 1
        shifts = (*run.shifts, (made, self._shifted * 10_000_000))
        names = Shift(shifts)
        items = [item_renamed(each, names) for each in other.items]
        return replace(other, items=items, results=renamed(other.results, names), shifts=shifts)

    def _goes_on_with(self, run: Raw, at: int) -> bool | None:
        """The answer with which a question is asked again and again; None if there is none."""
        place = run.items[at].at.place
        if place not in self._endless:
            self._endless[place] = next((each for each in (True, False) if self._has_no_end(run, at, each)), None)
        return self._endless[place]

    def _has_no_end(self, run: Raw, at: int, goes_on: bool) -> bool:
        """Whether a question is asked again and again: as it is for some turns, and for many if no variable ends it."""
        short = self._asked_for(run, at, goes_on, FEW + 1, frozenset())
        if short is None:
            return False
        counters = frozenset(each for each in short.changing if each[0] == run.items[at].at.place)
        if self._asked_for(run, at, goes_on, _LONG, counters) is None:
            return False
        if not counters <= self._counters:
            self._counters |= counters
            self._known.clear()
        return True

    def _asked_for(self, run: Raw, at: int, goes_on: bool, turns: int, counters: frozenset[Counter]) -> Raw | None:
        """A run in which a question is asked that many times in a row; None if it is not."""
        decision = run.items[at]
        rules = {**self._rules, decision.at.place: (goes_on, turns)}
        ways = Ways(run.answers[: _number(run, at)], rules, counters=counters, is_steady=bool(counters))
        found = self._run(ways)
        frame = 0 if decision.at.place in self._across else decision.at.frame
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
        return place not in self._across and all(each.in_for for each in asked)

    def _branch(self, run: Raw, at: int, other: Raw, high: int, around: Around | None) -> Found:
        self._depth += 1
        try:
            if self._depth > DEEPEST:
                raise CannotExplore("more branches stand inside of each other than a file can hold")
            return self._both_sides(run, at, other, high, around)
        finally:
            self._depth -= 1

    def _both_sides(self, run: Raw, at: int, other: Raw, high: int, around: Around | None) -> Found:
        decision = run.items[at]
        assert isinstance(decision, Decision)
        try:
            meeting = meet(run, other, at)
        except Ambiguous as ambiguous:
            raise self._from_the_other_side(run, other, at) from ambiguous
        if around is not None and len(run.items) - meeting.common >= max(around.end, high + 1):
            other, meeting = self._that_stays(run, at, other, meeting, high)
        most = meeting.common
        while True:
            cut, there = len(run.items) - most, len(other.items) - most
            if cut > high:
                if around is not None and cut >= around.end:
                    return [around.leave(self.part, run, at, other)], at + 1, ()
                raise Escapes(cut)
            try:
                mine, my_names = self._region(run, at + 1, cut, around)
            except Escapes as escapes:
                most = min(most - 1, len(run.items) - escapes.end)
                continue
            try:
                moved = None if around is None else around.moved(len(other.items) - len(run.items))
                theirs, their_names = self._region(other, at + 1, there, moved)
            except Escapes as escapes:
                most = min(most - 1, len(other.items) - escapes.end)
                continue
            break
        try:
            if most != meeting.common:
                meeting = meet(run, other, at, most)
            self._look_behind(run, cut, other, there, meeting)
        except Ambiguous as ambiguous:
            raise self._from_the_other_side(run, other, at) from ambiguous
        branch, names = joined(decision, meeting, mine, theirs, self.fresh)
        sides = (my_names, their_names) if decision.answer else (their_names, my_names)
        yes, no = (
            replace(block, results=said(block.results, side))
            for block, side in zip((branch.yes, branch.no), sides, strict=True)
        )
        if not mine and not theirs and not names:
            return [replace(decision, is_idle=True)], cut, ()
        return [replace(branch, yes=yes, no=no)], cut, (Names(names),)

    def _that_stays(self, run: Raw, at: int, other: Raw, meeting: Meeting, high: int) -> tuple[Raw, Meeting]:
        """Where the other side leaves a loop because of a further question (`a and b`), the way that does not."""
        for place in range(at + 1, len(other.items) - meeting.common):
            item = other.items[place]
            if isinstance(item, Decision) and item.is_kept and item.at.place not in self.unkept:
                try:
                    stays = self._flipped(other, place, _hints(run, at))
                    found = meet(run, stays, at)
                except CannotExplore:
                    continue
                if len(run.items) - found.common <= high:
                    return stays, found
        return other, meeting

    def _from_the_other_side(self, run: Raw, other: Raw, at: int) -> Exception:
        """Where one value of a run stands for two of the other, the other is the one to start from."""
        if other.answers in self._started:
            return CannotExplore("two variables that are one on one side of a branch change places on the other")
        self._started.add(other.answers)
        return Again(self._rules, other.answers)

    def _look_behind(self, run: Raw, cut: int, other: Raw, there: int, meeting: Meeting) -> None:
        """Values that are used behind a later decision only, on the side that neither run has taken."""
        later = [
            place
            for place in range(cut, len(run.items))
            if isinstance(run.items[place], Decision)
            and run.items[place].is_kept  # type: ignore[union-attr]
            and run.items[place].at.place not in self.unkept
            and run.items[place].at.place not in self._rules
        ]
        known = _made_until(run, cut)
        for place in later[:_MOST_LATER]:
            try:
                one = self._flipped(run, place)
                if is_seen(run, place, one, known, meeting):
                    continue
                two = self._flipped(other, place - cut + there)
            except CannotExplore:
                continue
            rest = one.items[place + 1 :], two.items[place - cut + there + 1 :]
            if len(rest[0]) != len(rest[1]):
                continue
            columns = [item_pairs(a, b) for a, b in zip(*rest, strict=True)]
            if any(pairs is None for pairs in columns):
                continue
            for a, b in (pair for pairs in columns for pair in pairs or ()):
                key = leaf_key(a)
                if any(value not in known for value in refs_in(a)):
                    continue
                if key in meeting.values:
                    if leaf_key(meeting.values[key]) != leaf_key(b):
                        raise Ambiguous("one tensor stands for two")
                elif key is not None:
                    meeting.values[key], meeting.leaves[key] = b, a

    # --- loops -------------------------------------------------------------------------------------------------------
    def _while(self, run: Raw, at: int, high: int) -> Found:
        """A loop that goes on as long as the answer to one question is the same."""
        first = run.items[at]
        assert isinstance(first, Decision)
        goes_on, _ = self._rules[first.at.place]
        asked = [
            place
            for place, each in enumerate(run.items)
            if place >= at
            and isinstance(each, Decision)
            and each.at.place == first.at.place
            and each.at.frame == first.at.frame
        ]
        ends = [place for place in asked if run.items[place].answer is not goes_on]  # type: ignore[union-attr]
        if not ends or ends[0] > high:
            raise CannotExplore("a loop does not end where the answer says so")
        asked = asked[: asked.index(ends[0]) + 1]
        bounds = list(itertools.pairwise(asked))
        around = Around(run, ends[0] + 1, {})
        turns, rewriters = self._bodies(run, bounds, around)
        self._ask_if_any(answers_that_vary(turns))
        roll = Roll(turns, _made_until(run, at), self.fresh(), self.fresh)
        predicates = [said(run.items[place].predicate, rewriters) for place in asked]  # type: ignore[union-attr]
        going = roll.merged(predicates[1:])
        roll.starts = self._without_turns(run, at, ends[0], goes_on, rewriters)
        behind: Rewriters = (Behind(roll, rewriters),)
        roll.look(*self._rest(run, ends[0] + 1, rewriters), first.at)
        exits = self._exits(run, ends[0] + 1, around, roll, behind)
        turns_name = self._count_behind(run, at, ends[0], goes_on, len(bounds))
        loop = roll.loop(
            turns=turns_name,
            count=None,
            condition=predicates[0],
            going=going,
            goes_on=goes_on,
            at=first.at,
            expression=first.expression,
            flags=exits.flags,
        )
        return [loop, *roll.lasts(), *exits.items], exits.cut, (*behind, *exits.names)

    def _count_behind(self, run: Raw, at: int, end: int, goes_on: bool, turns: int) -> int | None:
        """Find plain numbers behind a loop that every turn has changed by the same: with one turn more they differ."""
        decision = run.items[at]
        rules = {**self._rules, decision.at.place: (goes_on, turns + 1)}
        other = self._run(Ways(run.answers[: _number(run, at)], rules, _hints(run, end)))
        ends = [place for place, each in enumerate(other.items) if _stops(each, decision.at, goes_on) and place >= end]
        if other.error is not None or not ends or len(other.results) != len(run.results):
            return None
        rest, more = run.items[end + 1 :], other.items[ends[0] + 1 :]
        name, found = self.fresh(), {}
        for mine, theirs in zip(rest, more, strict=False):
            if type(mine) is not type(theirs) or mine.at.place != theirs.at.place:
                break  # further on, the runs have nothing in common any more
            if isinstance(mine, Op) and isinstance(theirs, Op) and mine.target is theirs.target:
                args = with_turns((mine.args, dict(mine.kwargs)), (theirs.args, dict(theirs.kwargs)), name, turns)
                if args is not None:
                    found[id(mine)] = replace(mine, args=args[0], kwargs=args[1])
        results = with_turns(run.results, other.results, name, turns)
        if results is not None:
            self._results[id(run)] = results
        self._numbers.update(found)
        return name if found or results is not None else None

    def _without_turns(self, run: Raw, at: int, end: int, goes_on: bool, rewriters: Rewriters) -> dict[int, Any]:
        """What stands for the values of the last turn if there is no turn at all."""
        decision = run.items[at]
        number = _number(run, at)
        rules = {**self._rules, decision.at.place: (goes_on, 0)}
        other = self._run(Ways(run.answers[:number], rules, _hints(run, end)))
        if other.error is not None:
            return {}
        other = self._renumbered(other, run, decision.made)  # type: ignore[union-attr]
        rest = run.items[end + 1 :], other.items[at + 1 :]
        if len(rest[0]) != len(rest[1]):
            return {}
        columns = [item_pairs(a, b) for a, b in zip(*rest, strict=True)]
        results = pairs_of(run.results, other.results)
        if results is None or any(pairs is None for pairs in columns):
            return {}
        found: dict[int, Any] = {}
        for a, b in (*(pair for pairs in columns for pair in pairs or ()), *results):
            named = said(a, rewriters)
            if leaf_key(a) != leaf_key(b) and type(named) is Ref:
                found.setdefault(named.value, b)
        return found

    def _bodies(
        self, run: Raw, bounds: Sequence[tuple[int, int]], around: Around
    ) -> tuple[list[list[Item]], Rewriters]:
        turns: list[list[Item]] = []
        rewriters: Rewriters = ()
        for begin, end in bounds:
            around.begin(begin, rewriters)
            try:
                items, more = self._region(run, begin + 1, end, around)
            except Escapes as escapes:
                raise CannotExplore("it leaves two loops at once") from escapes
            around.finish(more)
            turns.append([applied(each, rewriters) for each in items])
            rewriters += more
        return turns, rewriters

    def _exits(self, run: Raw, end: int, around: Around, roll: Roll, behind: Rewriters) -> Exits:
        """What comes behind a loop that may be left at some places of its turns."""
        if not around.exits:
            return Exits((), end, (), ())
        cuts = {way.cut for ways in around.exits.values() for way in ways}
        if len(cuts) > 1:
            raise CannotExplore("it leaves a loop to different places")
        cut = cuts.pop()
        rest, names = self._region(run, end, cut)
        rest = [applied(each, behind) for each in rest]
        leaves: dict[Any, Any] = {}
        for ways in around.exits.values():
            if len(ways) != roll.count:
                raise CannotExplore("it leaves a loop at some of its turns only")
            for way in ways:
                leaves.update((key, leaf) for key, leaf in way.meeting.leaves.items() if way.changes(key))
        results = tuple(said(said(leaf, names), behind) for leaf in leaves.values())
        block = Block(tuple(rest), results)
        known = _made_until(run, len(run.items))
        flags: list[tuple[int, int]] = []
        for number, ways in reversed(around.exits.items()):
            columns = [(way.items, tuple(way.result(key, leaf) for key, leaf in leaves.items())) for way in ways]
            flag = self.fresh()
            flags.insert(0, (number, flag))
            outs = tuple(self.fresh() for _ in leaves)
            at = ways[0].at
            branch = Branch(Flag(flag), roll.leave(number, columns, known), block, outs, at, "the loop is left")
            block = Block((branch,), tuple(map(Ref, outs)))
        named = {key: leaf.value for key, leaf in zip(leaves, block.results, strict=True)}
        return Exits(block.items, cut, (Names(named),), tuple(flags))

    def _rest(self, run: Raw, place: int, rewriters: Rewriters) -> tuple[list[Item], Any]:
        """What comes behind a loop, with the names that the loop's own branches have given."""
        return [applied(each, rewriters) for each in run.items[place:]], said(run.results, rewriters)

    def _turns(self, run: Raw, at: int, high: int) -> Found:
        """A loop over a range or an axis."""
        first = run.items[at]
        assert isinstance(first, Turn)
        marks = [place for place, each in enumerate(run.items) if isinstance(each, Turn) and each.loop == first.loop]
        ends = [place for place in marks if run.items[place].is_end]  # type: ignore[union-attr]
        is_fixed = first.is_static
        if is_fixed and not first.number and first.at.place not in self._rules:
            self._shorten(run, first, at, ends)
        if first.number or (is_fixed and first.at.place not in self._rules):  # of a loop that goes along with another
            return [], at + 1, ()
        if not ends:
            self._stay(run, at)
        if not ends or ends[0] >= high:
            return [], at + 1, ()
        around = Around(run, ends[0] + 1, {})
        turns, rewriters = self._bodies(run, list(itertools.pairwise(marks)), around)
        known = _made_until(run, at)
        first_turn: list[Item] = []
        self._ask_if_any(answers_that_vary(turns[1:]))
        try:
            roll = Roll(turns, known, self.fresh(), self.fresh)
        except Unlike:  # the first turn may be special: `if h is None`
            if around.exits or len(turns) < 4:
                raise
            first_turn = turns[0]
            roll = Roll(turns[1:], known | _made_until(run, marks[1]), self.fresh(), self.fresh)
        behind: Rewriters = (Behind(roll, rewriters),)
        roll.look(*self._rest(run, ends[0] + 1, rewriters), first.at)
        exits = self._exits(run, ends[0] + 1, around, roll, behind)
        loop = roll.loop(
            count=first.count,
            condition=None,
            going=None,
            goes_on=True,
            at=first.at,
            expression="",
            flags=exits.flags,
            skipped=1 if first_turn else 0,
        )
        return [*first_turn, loop, *roll.lasts(), *exits.items], exits.cut, (*behind, *exits.names)

    def _shorten(self, run: Raw, first: Turn, at: int, ends: Sequence[int]) -> None:
        """Have a loop over plain numbers rolled if there are decisions in its turns: there may be many of them."""
        self._fixed.add(first.at.place)
        inside = run.items[at : ends[0] if ends else len(run.items)]
        decides = any(isinstance(each, Decision) and each.is_kept for each in inside)
        if decides and first.at.place not in self._unrolled:
            self._known.clear()
            raise Again({**self._rules, first.at.place: (True, _TURNS)})

    def _stay(self, run: Raw, at: int) -> None:
        """The example leaves a loop: look at a run that stays in it to the end."""
        last = [place for place in range(at, len(run.items)) if isinstance(run.items[place], Turn)][-1]
        for place in range(last, len(run.items)):
            item = run.items[place]
            if isinstance(item, Decision) and item.is_kept and item.at.place not in self.unkept:
                answers = (*run.answers[: _number(run, place)], not item.answer)
                if answers not in self._started:
                    self._started.add(answers)
                    raise Again(self._rules, answers)

    def _ask_if_any(self, decisions: Sequence[Decision]) -> None:
        if decisions:
            self._ask(decisions)

    # --- the check ---------------------------------------------------------------------------------------------------
    def _check(self, program: Program, base: Raw) -> None:
        """Runs that went other ways must be runs of the program."""
        accept(program, base)
        draw = random.Random(0)
        for number in range(16):
            rules = dict.fromkeys(self._fixed_loops(), (True, number % 7))
            self._accept(program, self._run(Ways(rules=rules, draw=draw)))
        for times in (0, 1, 2, 9):
            if self._rules:
                rules = {place: (goes_on, times) for place, (goes_on, _) in self._rules.items()}
                self._accept(program, self._run(Ways((), rules)))
        for other in self.others:
            with contextlib.suppress(OtherSize):  # what the file does there is tried out when the program is settled
                self._accept(program, self._run(Ways((), self._rules), other))
        here = tuple(self.sizes.items())
        for (_, sizes), raw in list(self._known.items()):
            if sizes == here:
                self._accept(program, raw)

    def _accept(self, program: Program, raw: Raw) -> None:
        if raw.error is None:
            accept(program, raw)


def _number(run: Raw, at: int) -> int:
    """How many decisions were made before an item."""
    return sum(isinstance(each, Decision) and each.is_kept for each in run.items[:at])


def _hints(run: Raw, at: int) -> tuple[tuple[Any, tuple[Any, ...]], ...]:
    """The answers that a run gave behind an item, by their places, and all that it has read from data."""
    found: dict[Place, list[bool]] = {}
    for item in run.items[at + 1 :]:
        if isinstance(item, Decision) and item.is_kept:
            found.setdefault(item.at.place, []).append(item.answer)
    return (*((place, tuple(answers)) for place, answers in found.items()), *as_hints(run.readings))


def _asked_again(run: Raw, at: int) -> bool | None:
    """Whether a question is asked again in the same call of a function, or only in others; None if it is not."""
    first = run.items[at].at
    later = [each.at for each in run.items[at + 1 :] if isinstance(each, Decision) and each.at.place == first.place]
    return any(each.frame == first.frame for each in later) if later else None


def _stops(item: Item, at: At, goes_on: bool) -> bool:
    """Whether an item is the question of a loop with the answer that ends it."""
    asks = isinstance(item, Decision) and (item.at.place, item.at.frame) == (at.place, at.frame)
    return asks and item.answer is not goes_on  # type: ignore[union-attr]


def _made_until(run: Raw, at: int) -> set[int]:
    found = set(run.inputs)
    for item in run.items[:at]:
        found.update(made_by(item))
    return found


def has_lists(items: Sequence[Item]) -> bool:
    """Whether a program takes tensors apart into as many pieces as a size says."""
    return any(getattr(item, "pieces", None) is not None for item in items)


def kept(items: Sequence[Item]) -> list[Branch | Loop]:
    """All branches and loops of a program, outermost first."""
    found: list[Branch | Loop] = []
    for item in items:
        if isinstance(item, Branch):
            found += [item, *kept(item.yes.items), *kept(item.no.items)]
        elif isinstance(item, Loop):
            found += [item, *kept(item.body)]
    return found


__all__ = ["CannotExplore", "Explorer", "Rejected", "has_lists", "kept"]
