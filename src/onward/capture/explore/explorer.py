"""From the first run to the program: every decision is explored once, and loops are rolled."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from .bodies import DEEPEST, check_depth, check_joins, with_turns, with_whole_lists
from .branches import Ambiguous, Meeting, item_pairs, joined, meet, pairs_of
from .checking import LeftOut, check, left_out
from .endless_loops import Endless
from .exits import Around, Exits
from .items import (
    Block,
    Branch,
    CannotExplore,
    Decision,
    Flag,
    Item,
    Op,
    Place,
    Program,
    Raw,
    Ref,
    Rejected,
    TooFew,
    TooMuch,
    Turn,
    Unlike,
    leaf_key,
    leaves_in,
    refs_in,
)
from .loops import Roll
from .questions import answers_that_vary, questions_that_vary
from .recorder import Rules, Ways
from .renaming import Behind, Names, Rewriters, applied, said
from .repeats import with_loops_over_lists
from .runs import (
    TURNS,
    OtherSideFails,
    Runs,
    Sizes,
    answers_before,
    asked_again,
    hints_behind,
    made_until,
    stops,
)

_MOST_STARTS = 24
_MOST_LOOKED = 2_000  # branches, those that are looked at again included
_MOST_LATER = 10  # decisions behind a branch whose values are looked for in both runs


class Escapes(CannotExplore):
    """A decision leads out of the part of a run that is looked at."""

    def __init__(self, end: int) -> None:
        super().__init__("it leaves a loop, or returns, from inside of a branch")
        self.end = end


class Again(Exception):
    """The first run has to be another one: with other rules, or with other answers."""

    def __init__(self, rules: Rules, answers: tuple[bool, ...] | None = None, shapes: Any = None) -> None:
        super().__init__("another first run")
        self.rules, self.answers, self.shapes = rules, answers, shapes


Found = tuple[list[Item], int, Rewriters]  # items, where the run goes on behind them, and the names there


class Explorer:
    """One model at one example.

    others  for the sizes that it is run at, those at which the program is checked
    far     more of them, for a model that makes plain numbers of sizes
    assumed_at  the example's sizes, if questions about sizes that all probes answer alike there keep their answers
    """

    def __init__(
        self,
        runs: Runs,
        others: Callable[[Sizes], Sequence[Sizes]] = lambda sizes: (),
        far: Sequence[Sizes] = (),
        *,
        assumed_at: Sizes | None = None,
    ) -> None:
        self._runs, self._others, self._far, self._assumed_at = runs, others, far, assumed_at
        self._endless = Endless(runs)
        self.unkept: dict[Place, str] = {}  # decisions that stay as they are, and why
        self._depth = self._looked = 0
        self._numbers: dict[int, Item] = {}  # items with numbers in them that a loop has counted
        self._results: dict[int, Any] = {}
        self._lengths: dict[int, int] = {}  # of lists, by the values that stand for them
        self._started: set[tuple[bool, ...]] = set()
        self._known_taken: dict[Any, tuple[Raw, Raw, list[Any] | None]] = {}  # with the runs, whose ids are in the key
        self._common: dict[Any, tuple[int, Raw, Raw]] = {}  # items behind a branch, as far as known, and the two runs
        self._fixed: set[Place] = set()  # loops over plain numbers
        self._unrolled: set[Place] = set()  # loops over plain numbers whose turns are not alike

    def program(self) -> Program:
        """The structured program, accepted by runs that went other ways."""
        answers: tuple[bool, ...] = ()
        shapes = None
        for _ in range(_MOST_STARTS):
            self._numbers.clear()
            self._results.clear()
            self._common.clear()
            base = self._runs.run(Ways(answers, self._runs.rules, shapes=shapes))
            if base.error is not None:
                if self._runs.enlarge(base):
                    continue
                raise CannotExplore(f"it fails when it is run again: {base.error}") from base.error
            if self._assumed_at is not None and self._runs.assume(base, self._assumed_at):
                continue
            try:
                items, rewriters = self._region(base, 0, len(base.items))
                self._check_questions(items)
                results = said(self._results.get(id(base), base.results), rewriters)
                return self._checked(items, results, base)
            except Again as again:
                self._runs.rules = again.rules
                if again.answers is not None:
                    answers, shapes = again.answers, again.shapes
            except TooFew:
                if self._runs.enlarge(base):
                    continue
                if self._runs.has_few_turns:  # a loop may begin where another one is: `for j in range(i + 1, n)`
                    raise
                self._runs.has_few_turns = True
            except (Unlike, Rejected):
                fixed = self._fixed_loops()
                if not fixed:
                    raise
                self._unroll(fixed)
        raise CannotExplore("its decisions depend on each other in a way that is not followed")

    def _checked(self, items: list[Item], results: Any, base: Raw) -> Program:
        """The program with loops over lists, or without where the model takes single values of them."""
        rolled = with_loops_over_lists(items, results, set(base.inputs), self._lengths, self._runs.fresh)
        reason: CannotExplore | None = None
        for each, given in (rolled, (items, results)):
            try:
                whole = with_whole_lists(each)
                check_joins(whole)
                check_depth(whole)
                program = Program(tuple(whole), tuple(given), base.form, base.inputs)
                check(program, base, self._runs, self._fixed_loops(), self._others(self._runs.sizes), self._far)
                return program
            except (Rejected, Unlike) as error:
                reason = reason or error
                if len(each) == len(items):  # there were no such loops
                    break
        assert reason is not None
        raise reason

    def left_out(self, program: Program) -> LeftOut:
        """What the program leaves out of what the model does on the other sides of questions about sizes."""
        return left_out(program, self._runs, self._others(self._runs.sizes))

    def _fixed_loops(self) -> list[Place]:
        """The loops over plain numbers that are to be rolled."""
        return [place for place in self._runs.rules if place in self._fixed]

    def _unroll(self, places: Sequence[Place]) -> None:
        """Write the turns of loops one by one: they are not alike."""
        self._unrolled.update(places)
        self._runs.rules = {place: rule for place, rule in self._runs.rules.items() if place not in self._unrolled}
        self._runs.forget()

    def _check_questions(self, items: Sequence[Item]) -> None:
        """Questions about the numbers of turns that got one answer: ask them where the answer would change."""
        self._ask_if_any(list(questions_that_vary(items)))

    def _ask(self, decisions: Sequence[Decision]) -> None:
        """From now on, questions about the numbers of turns are decisions with two sides."""
        for each in decisions:
            if each.at.place in self.unkept or each.at.place in self._runs.asked:
                raise CannotExplore(f"the answer to `{each.expression}` is not the same in all turns")
        self._runs.asked |= {each.at.place for each in decisions}
        self._runs.forget()
        raise Again(self._runs.rules)

    # --- a part of a run ---------------------------------------------------------------------------------------------
    def _region(
        self, run: Raw, low: int, high: int, around: Around | None = None, before: Rewriters = ()
    ) -> tuple[list[Item], Rewriters]:
        """A part of a run with its decisions kept, and what the values it has made are called behind it.

        `around` is the loop of which the part is a turn, or a part of one. `before` has the names that were given to
        values before the part, which the turns of a loop are compared with.
        """
        items: list[Item] = []
        rewriters: Rewriters = ()
        place = low
        while place < high:
            item = run.items[place]
            if isinstance(item, Turn):
                made, place, more = self._turns(run, place, high, (*before, *rewriters))
            elif isinstance(item, Decision) and item.is_kept and item.at.place not in self.unkept:
                try:
                    made, place, more = self._decision(run, place, high, around, (*before, *rewriters))
                except OtherSideFails as fails:
                    self.unkept[item.at.place] = str(fails)
                    made, place, more = [item], place + 1, ()
            else:
                if isinstance(item, Op) and item.pieces is not None:
                    self._lengths[item.pieces] = len(item.outs)
                made, place, more = [self._numbers.get(id(item), item)], place + 1, ()
            items += [applied(each, rewriters) for each in made]
            rewriters += more
        return items, rewriters

    def part(self, run: Raw, low: int, high: int) -> tuple[list[Item], Rewriters]:
        """A part of a run that is in no loop."""
        return self._region(run, low, high)

    # --- decisions ---------------------------------------------------------------------------------------------------
    def _decision(self, run: Raw, at: int, high: int, around: Around | None, before: Rewriters) -> Found:
        decision = run.items[at]
        assert isinstance(decision, Decision)
        if decision.at.place in self._runs.rules:
            return self._while(run, at, high, before)
        other = self._runs.flipped(run, at)
        again = [asked_again(each, at) for each in (run, other)]
        if any(each is not None for each in again):
            goes_on = (
                self._endless.goes_on_with(run, at) if True in again else self._endless.goes_on_across_calls(run, at)
            )
            if goes_on is not None:
                raise Again({**self._runs.rules, decision.at.place: (goes_on, TURNS)})
        return self._branch(run, at, other, high, around, before)

    def _branch(self, run: Raw, at: int, other: Raw, high: int, around: Around | None, before: Rewriters) -> Found:
        self._depth, self._looked = self._depth + 1, self._looked + 1
        try:
            if self._looked > _MOST_LOOKED:
                raise TooMuch("its branches meet in too many ways")
            if self._depth > DEEPEST:
                raise CannotExplore("more branches stand inside of each other than a file can hold")
            return self._both_sides(run, at, other, high, around, before)
        finally:
            self._depth -= 1

    def _both_sides(self, run: Raw, at: int, other: Raw, high: int, around: Around | None, before: Rewriters) -> Found:
        decision = run.items[at]
        assert isinstance(decision, Decision)
        try:
            meeting = meet(run, other, at)
        except Ambiguous as ambiguous:
            raise self._from_the_other_side(run, other, at) from ambiguous
        if around is not None and len(run.items) - meeting.common >= max(around.end, high + 1):
            other, meeting = self._that_stays(run, at, other, meeting, high)
        key = id(run), at, id(other), None if around is None else around.end, len(self.unkept)
        most = self._common.get(key, (meeting.common,))[0]
        while True:
            self._common[key] = most, run, other
            cut, there = len(run.items) - most, len(other.items) - most
            if cut > high:
                if around is not None and cut >= around.end:
                    return [around.leave(self.part, run, at, other)], at + 1, ()
                raise Escapes(cut)
            try:
                mine, my_names = self._region(run, at + 1, cut, around, before)
            except Escapes as escapes:
                most = min(most - 1, len(run.items) - escapes.end)
                continue
            try:
                moved = None if around is None else around.moved(len(other.items) - len(run.items))
                theirs, their_names = self._region(other, at + 1, there, moved, before)
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
        branch, names = joined(decision, meeting, mine, theirs, self._runs.fresh)
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
                    stays = self._runs.flipped(other, place, hints_behind(run, at))
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
        return Again(self._runs.rules, other.answers, run.shapes if other.is_shaped else None)

    def _look_behind(self, run: Raw, cut: int, other: Raw, there: int, meeting: Meeting) -> None:
        """Values that are used behind a later decision only, on the side that neither run has taken."""
        later = [
            place
            for place in range(cut, len(run.items))
            if isinstance(run.items[place], Decision)
            and run.items[place].is_kept  # type: ignore[union-attr]
            and run.items[place].at.place not in self.unkept
            and run.items[place].at.place not in self._runs.rules
        ]
        known = made_until(run, cut)
        for place in later[:_MOST_LATER]:
            try:
                one = self._runs.flipped(run, place)
                if self._is_seen(run, place, one, known, meeting):
                    continue
                two = self._runs.flipped(other, place - cut + there)
            except CannotExplore:
                continue
            rest = one.items[place + 1 :], two.items[place - cut + there + 1 :]
            if len(rest[0]) != len(rest[1]):
                continue
            columns = [item_pairs(a, b) for a, b in zip(*rest, strict=True)]
            results = pairs_of(one.results, two.results)
            columns.append(None if results is None else list(results))
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

    def _is_seen(self, run: Raw, at: int, other: Raw, known: set[int], meeting: Meeting) -> bool:
        """Whether all that the other side of a later decision takes from before is known to stand for something."""
        taken = self._taken(run, at, other)
        if taken is None:
            return False
        return all(
            leaf_key(leaf) in meeting.values or any(value not in known for value in refs_in(leaf)) for leaf in taken
        )

    def _taken(self, run: Raw, at: int, other: Raw) -> list[Any] | None:
        """What the other side of a decision takes from before, and what stands for something else behind it."""
        key = (id(run), id(other), at)
        if key not in self._known_taken:
            self._known_taken[key] = run, other, _taken(run, at, other)
        return self._known_taken[key][2]

    # --- loops -------------------------------------------------------------------------------------------------------
    def _while(self, run: Raw, at: int, high: int, before: Rewriters) -> Found:
        """A loop that goes on as long as the answer to one question is the same."""
        first = run.items[at]
        assert isinstance(first, Decision)
        goes_on, _ = self._runs.rules[first.at.place]
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
        turns, rewriters = self._bodies(run, bounds, around, before)
        self._ask_if_any(answers_that_vary(turns))
        roll = Roll(turns, made_until(run, at), self._runs.fresh(), self._runs.fresh, self._lengths)
        predicates = [said(run.items[place].predicate, rewriters) for place in asked]  # type: ignore[union-attr]
        going = roll.merged(predicates[1:])
        roll.starts = self._without_turns(run, at, ends[0], goes_on, rewriters)
        behind: Rewriters = (Behind(roll, rewriters),)
        roll.look(*self._rest(run, ends[0] + 1, rewriters), first.at)
        exits = self._exits(run, ends[0] + 1, around, roll, behind)
        self._count_behind(run, at, ends[0], goes_on, roll)
        loop = roll.loop(
            count=None,
            condition=predicates[0],
            going=going,
            goes_on=goes_on,
            at=first.at,
            expression=first.expression,
            flags=exits.flags,
        )
        return [loop, *roll.lasts(), *exits.items], exits.cut, (*behind, *exits.names)

    def _count_behind(self, run: Raw, at: int, end: int, goes_on: bool, roll: Roll) -> None:
        """Find plain numbers behind a loop that every turn has changed by the same: with one turn more they differ."""
        decision, turns = run.items[at], roll.count
        rules = {**self._runs.rules, decision.at.place: (goes_on, turns + 1)}
        other = self._runs.run(Ways(run.answers[: answers_before(run, at)], rules, hints_behind(run, end)))
        ends = [place for place, each in enumerate(other.items) if stops(each, decision.at, goes_on) and place >= end]
        if other.error is not None or not ends or len(other.results) != len(run.results):
            return
        rest, more = run.items[end + 1 :], other.items[ends[0] + 1 :]
        name, found = roll.turns or self._runs.fresh(), {}
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
        if found or results is not None:
            roll.turns = name

    def _without_turns(self, run: Raw, at: int, end: int, goes_on: bool, rewriters: Rewriters) -> dict[int, Any]:
        """What stands for the values of the last turn if there is no turn at all."""
        decision = run.items[at]
        number = answers_before(run, at)
        rules = {**self._runs.rules, decision.at.place: (goes_on, 0)}
        other = self._runs.run(Ways(run.answers[:number], rules, hints_behind(run, end)))
        if other.error is not None:
            return {}
        other = self._runs.renumbered(other, run, decision.made)  # type: ignore[union-attr]
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
        self, run: Raw, bounds: Sequence[tuple[int, int]], around: Around, before: Rewriters
    ) -> tuple[list[list[Item]], Rewriters]:
        """The turns of a loop, and the names that they and what came before them have given."""
        turns: list[list[Item]] = []
        rewriters: Rewriters = ()
        for begin, end in bounds:
            around.begin(begin, rewriters)
            try:
                items, more = self._region(run, begin + 1, end, around, (*before, *rewriters))
            except Escapes as escapes:
                raise CannotExplore("it leaves two loops at once") from escapes
            around.finish(more)
            turns.append([applied(each, (*before, *rewriters)) for each in items])
            rewriters += more
        return turns, (*before, *rewriters)

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
                leaves.update(way.leaves_changed())
        results = tuple(said(said(leaf, names), behind) for leaf in leaves.values())
        block = Block(tuple(rest), results)
        known = made_until(run, len(run.items))
        flags: list[tuple[int, int]] = []
        for number, ways in reversed(around.exits.items()):
            columns = [(way.items, tuple(way.result(key, leaf) for key, leaf in leaves.items())) for way in ways]
            flag = self._runs.fresh()
            flags.insert(0, (number, flag))
            outs = tuple(self._runs.fresh() for _ in leaves)
            at = ways[0].at
            branch = Branch(Flag(flag), roll.leave(number, columns, known), block, outs, at, "the loop is left")
            block = Block((branch,), tuple(map(Ref, outs)))
        named = {key: leaf.value for key, leaf in zip(leaves, block.results, strict=True)}
        return Exits(block.items, cut, (Names(named),), tuple(flags))

    def _rest(self, run: Raw, place: int, rewriters: Rewriters) -> tuple[list[Item], Any]:
        """What comes behind a loop, with the names that the loop's own branches have given."""
        return [applied(each, rewriters) for each in run.items[place:]], said(run.results, rewriters)

    def _turns(self, run: Raw, at: int, high: int, before: Rewriters) -> Found:
        """A loop over a range or an axis."""
        first = run.items[at]
        assert isinstance(first, Turn)
        marks = [place for place, each in enumerate(run.items) if isinstance(each, Turn) and each.loop == first.loop]
        ends = [place for place in marks if run.items[place].is_end]  # type: ignore[union-attr]
        is_fixed = first.is_static
        if is_fixed and not first.number and first.at.place not in self._runs.rules:
            self._shorten(run, first, at, ends)
        if first.number or (
            is_fixed and first.at.place not in self._runs.rules
        ):  # of a loop that goes along with another
            return [], at + 1, ()
        if not ends:
            self._stay(run, marks)
        if not ends or ends[0] >= high:
            return [], at + 1, ()
        around = Around(run, ends[0] + 1, {})
        turns, rewriters = self._bodies(run, list(itertools.pairwise(marks)), around, before)
        known = made_until(run, at)
        first_turn: list[Item] = []
        self._ask_if_any(answers_that_vary(turns[1:]))
        try:
            roll = Roll(turns, known, self._runs.fresh(), self._runs.fresh, self._lengths)
        except Unlike:  # the first turn may be special: `if h is None`
            if around.exits or len(turns) < 4:
                raise
            first_turn = turns[0]
            known |= made_until(run, marks[1])
            roll = Roll(turns[1:], known, self._runs.fresh(), self._runs.fresh, self._lengths)
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
            self._runs.forget()
            raise Again({**self._runs.rules, first.at.place: (True, TURNS)})

    def _stay(self, run: Raw, marks: Sequence[int]) -> None:
        """The example leaves a loop: start from a run that stays in it."""
        loop = run.items[marks[0]].loop  # type: ignore[union-attr]
        for place in range(marks[-1], len(run.items)):
            item = run.items[place]
            if isinstance(item, Decision) and item.is_kept and item.at.place not in self.unkept:
                answers = (*run.answers[: answers_before(run, place)], not item.answer)
                other = self._runs.run(Ways(answers, self._runs.rules))
                more = [each for each in other.items if isinstance(each, Turn) and each.loop == loop]
                if len(more) > len(marks) and other.error is None and answers not in self._started:
                    self._started.add(answers)
                    raise Again(self._runs.rules, answers)

    def _ask_if_any(self, decisions: Sequence[Decision]) -> None:
        if decisions:
            self._ask(decisions)


def _taken(run: Raw, at: int, other: Raw) -> list[Any] | None:
    try:
        side = meet(run, other, at)
    except CannotExplore:
        return None
    items = other.items[at + 1 : len(other.items) - side.common]
    taken = [leaf for item in items if isinstance(item, Op) for leaf in leaves_in((item.args, item.kwargs))]
    taken += [leaf for item in items if isinstance(item, Decision) for leaf in leaves_in(item.predicate)]
    taken += [leaf for item in items if isinstance(item, Turn) for leaf in leaves_in(item.count)]
    return [*taken, *(there for key, there in side.values.items() if leaf_key(there) != key)]
