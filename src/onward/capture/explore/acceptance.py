"""Whether a program could have done what a run did: the check that decides.

The program is walked along the run. At a branch it takes the side that the run was told to take, and a loop turns as
often as the run did. Every operator, every argument and every result must then be the run's.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .branches import is_same
from .items import (
    Branch,
    Calc,
    Const,
    Counted,
    Decision,
    Exit,
    Flag,
    Item,
    Last,
    Loop,
    Op,
    OtherSize,
    Piece,
    Program,
    Raw,
    Ref,
    Rejected,
    SizeOf,
    Star,
    Turn,
    Turns,
    refs_in,
)


def accept(program: Program, run: Raw, *, at_any_size: bool = False) -> None:
    """Raise Rejected if the program would not have done what the run did.

    With `at_any_size`, other answers to questions about sizes that are not kept do not matter, only what comes of them.
    """
    walk = _Walk(run, at_any_size)
    env = {name: Ref(value) for name, value in zip(program.inputs, run.inputs, strict=True)}
    walk.items(program.items, env)
    walk.check_turns()
    if walk.rest():
        raise Rejected("the model goes on where the program ends")
    if program.form.paths != run.form.paths:
        raise Rejected("the model returns another structure")
    walk.match(program.results, run.results, env)


class _Left(Exception):
    """The run leaves a loop."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


class _Walk:
    def __init__(self, run: Raw, at_any_size: bool) -> None:
        self._items, self._place, self._sizes = run.items, 0, run.sizes
        self._at_any_size = at_any_size
        self._lengths: dict[int, int] = {}  # how many pieces an operator gave
        self._turns: dict[int, int] = {}  # of the loops that are being walked: the number of the turn
        self._marks: list[int] = []  # of the loops that are being walked: the number that the run gives the turn
        self._along: dict[int, int] = {}  # loops that go along with one that is walked, by its place in the marks
        self._begun: set[Turn] = set()  # first turns that stand before a loop of the program

    def rest(self) -> bool:
        return any(not isinstance(each, Turn) for each in self._items[self._place :])

    def _next(self, kind: type) -> Any:
        while self._place < len(self._items):
            item = self._items[self._place]
            self._place += 1
            if isinstance(item, kind):
                return item
            if not isinstance(item, Turn):
                raise Rejected(f"the model does something else at {item.at.source}")
            self._pass(item)
        raise Rejected("the model ends where the program goes on")

    def _pass(self, turn: Turn) -> None:
        """A turn that no loop of the program takes. The program must not have the turns of one run written out, so the
        turn has to be of a loop over plain numbers, be empty, or go along with a loop of the program's (`zip`)."""
        coming = self._items[self._place] if self._place < len(self._items) else None
        if turn.is_static or turn.is_end or coming is None or isinstance(coming, Turn):
            return
        like = [place for place, number in enumerate(self._marks) if number == turn.number]
        if turn.loop in self._along or like:
            owner = self._along.setdefault(turn.loop, like[-1] if like else -1)
            if owner in like:
                return
        if turn.number:
            raise _written_out(turn)
        self._begun.add(turn)  # the first turn may be special, and the loop begins with the second one

    def check_turns(self) -> None:
        """At the end: every loop that has begun is one of the program's."""
        for turn in self._begun:
            raise _written_out(turn)

    def items(self, items: Sequence[Item], env: dict[int, Any]) -> None:
        for item in items:
            if isinstance(item, Op):
                self._op(item, env)
            elif isinstance(item, Branch):
                self._branch(item, env)
            elif isinstance(item, Loop):
                self._loop(item, env)
            elif isinstance(item, Last):
                turns = self._leaf(Ref(item.stacked), env)
                if not turns:
                    raise Rejected("what no turn has made is used behind the loop")
                env[item.out] = turns[item.index]
            elif isinstance(item, Exit):
                asked = self._next(Decision)
                self.match(item.predicate, asked.predicate, env)
                if asked.answer is item.leaves:
                    raise _Left(item.number)
            elif isinstance(item, Decision):
                asked = self._next(Decision)
                if not item.is_idle and not is_same(asked.answer, item.answer):
                    of_sizes = not item.is_kept and not item.of_turns and isinstance(item.answer, bool)
                    reason = f"a question that is not kept gets another answer ({item.at.source})"
                    if not (of_sizes and self._at_any_size):
                        raise OtherSize(reason) if of_sizes else Rejected(reason)
                self.match(item.predicate, asked.predicate, env)

    def _op(self, op: Op, env: dict[int, Any]) -> None:
        done: Op = self._next(Op)
        counts = op.pieces is None and len(done.outs) != len(op.outs)
        if done.target is not op.target or done.at.place != op.at.place or counts:
            raise Rejected(f"the model does something else at {done.at.source}")
        self.match(op.args, done.args, env)
        self.match(op.kwargs, done.kwargs, env)
        if done.pieces is not None:
            self._lengths[done.pieces] = len(done.outs)
        elif op.pieces is not None:  # there is no axis there that it follows
            env[op.pieces] = [Ref(value) for value in done.outs if value is not None]
            return
        outs = ((op.pieces, done.pieces),) if op.pieces is not None else zip(op.outs, done.outs, strict=True)
        for name, value in outs:
            if (name is None) != (value is None):
                raise Rejected(f"the model makes something else at {done.at.source}")
            if name is not None:
                env[name] = Ref(value)  # type: ignore[arg-type]

    def _branch(self, branch: Branch, env: dict[int, Any]) -> None:
        if type(branch.predicate) is Flag:
            flag = branch.predicate
            block = branch.yes if not flag.is_inside and env[flag.name] else branch.no
        else:
            asked: Decision = self._next(Decision)
            if asked.at.place != branch.at.place:
                raise Rejected(f"the model asks something else at {asked.at.source}")
            self.match(branch.predicate, asked.predicate, env)
            block = branch.yes if asked.answer else branch.no
        inner = dict(env)
        try:
            self.items(block.items, inner)
        except _Left:  # the file goes on to the end of the turn: what was there before is what the side gives
            for out, result in zip(branch.outs, block.results, strict=True):
                if all(value in inner for value in refs_in(result)):
                    env[out] = self._leaf(result, inner)
            raise
        for out, result in zip(branch.outs, block.results, strict=True):
            env[out] = self._leaf(result, inner)

    def _loop(self, loop: Loop, env: dict[int, Any]) -> None:
        env.update((name, False) for _, name in loop.flags)
        state = [self._leaf(each, env) for each in loop.start]
        rows: list[list[Any]] = [[] for _ in loop.stacked]
        past: dict[int, list[Any]] = {name: [] for name, _ in loop.pasts}
        turn, mark = 0, None
        asked = loop.condition
        inner = dict(env)
        count = self._silent_count(loop, env)
        self._marks.append(-1)
        while True:
            if count is not None:
                if turn >= count:
                    break
            elif loop.count is not None:
                found = self._turn(mark)
                mark = found.loop
                self._marks[-1] = found.number
                self._begun = {each for each in self._begun if each.loop != mark}
                self.match(loop.count, found.count, env)
                if found.is_end:
                    break
            if loop.condition is not None:
                decision = self._next(Decision)
                self.match(asked, decision.predicate, inner)
                if decision.answer is not loop.goes_on:
                    break
            inner = {**env, **dict(zip(loop.state, state, strict=True)), **past}
            self._turns[loop.number] = turn
            try:
                self.items(loop.body, inner)
            except _Left as left:
                if left.number not in dict(loop.flags):
                    self._marks.pop()
                    raise
                env[dict(loop.flags)[left.number]] = True
                for row, (_, each) in zip(rows, loop.stacked, strict=True):
                    missing = type(each) is Ref and each.value not in inner
                    row.append(None if missing else self._leaf(each, inner))
                turn += 1
                break
            state = [self._leaf(each, inner) for each in loop.nexts]
            for row, (_, each) in zip(rows, loop.stacked, strict=True):
                row.append(self._leaf(each, inner))
            past = {name: [*past[name], self._leaf(each, inner)] for name, each in loop.pasts}
            asked = loop.going
            turn += 1
        self._marks.pop()
        env.update(zip(loop.outs, state, strict=True))
        if loop.turns is not None:
            env[loop.turns] = turn
        env.update((out, row) for (out, _), row in zip(loop.stacked, rows, strict=True))

    def _silent_count(self, loop: Loop, env: dict[int, Any]) -> int | None:
        """How many turns a loop has that the run does not announce; None for one that it does."""
        if loop.count is None:
            return None
        if not loop.is_silent:
            coming = self._items[self._place] if self._place < len(self._items) else None
            if isinstance(coming, Turn):
                return None
        count = self._plain(loop.count, env)
        if type(count) is not int:
            raise Rejected("the model does not say how many turns a loop has")
        return count - loop.skipped

    def _turn(self, mark: int | None) -> Turn:
        """The next turn of a loop; those of a loop that goes along with it are passed over."""
        while True:
            if self._place >= len(self._items):
                raise Rejected("a loop has fewer turns")
            item = self._items[self._place]
            if not isinstance(item, Turn):
                raise Rejected(f"the model does something else at {item.at.source}")
            self._place += 1
            if mark is None or item.loop == mark:
                return item

    # --- templates ---------------------------------------------------------------------------------------------------
    def _leaf(self, template: Any, env: dict[int, Any]) -> Any:
        """What a leaf of the program is in the run."""
        if type(template) is Ref:
            if template.value not in env:
                raise Rejected("the program uses a value that is not there")
            return env[template.value]
        if type(template) is Piece:
            index, rows = self._number(template.index), self._leaf(Ref(template.pieces), env)
            if isinstance(rows, list):
                if not -len(rows) <= index < len(rows):
                    raise Rejected("a turn is used that there is not")
                return rows[index]
            return Piece(rows.value, index)
        if type(template) is SizeOf:
            tensor = self._leaf(Ref(template.value), env)
            if type(tensor) is list:
                return len(tensor)
            return SizeOf(tensor.value, template.axis) if type(tensor) is Ref else None
        if type(template) is Turns:
            return template.start + template.step * self._leaf(Ref(template.name), env)
        return self._number(template)

    def _number(self, template: Any) -> Any:
        if type(template) is Counted:
            return template.start + template.step * self._turns[template.loop]
        return template

    def _plain(self, template: Any, env: dict[int, Any]) -> Any:
        """The number that a number computed from sizes is in the run; None if the run does not say."""
        if type(template) is SizeOf:
            leaf = self._leaf(template, env)
            if type(leaf) is SizeOf:
                if leaf.value in self._lengths and leaf.axis == 0:
                    return self._lengths[leaf.value]
                size = self._sizes.get(leaf.value)
                return None if size is None else size[leaf.axis]
            return leaf
        if type(template) is Calc:
            operands = [self._plain(each, env) for each in template.operands]
            return None if None in operands else template.function(*operands)
        return self._leaf(template, env) if type(template) in (Counted, Turns) else template

    def _rows(self, name: int, env: dict[int, Any], depth: int = 1) -> list[Any]:
        """The values of a list, one by one, or those of the lists in it."""
        row = self._leaf(Ref(name), env)
        if type(row) is Ref:
            return [Piece(row.value, index) for index in range(self._lengths[row.value])]
        for _ in range(depth - 1):
            row = [each for inner in row for each in inner]
        found: list[Any] = row
        return found

    def match(self, template: Any, seen: Any, env: dict[int, Any]) -> None:
        """Raise Rejected unless the template says what was seen."""
        if not self._matches(template, seen, env):
            raise Rejected("the model computes with something else")

    def _matches(self, template: Any, seen: Any, env: dict[int, Any]) -> bool:
        if isinstance(template, list) and isinstance(seen, list):
            expanded: list[Any] = []
            for each in template:
                if type(each) is Star:
                    rows = [self._rows(name, env, each.depth) for name in each.names]
                    row = [leaf for turn in zip(*rows, strict=True) for leaf in turn]
                    expanded += [("in the run", leaf) for leaf in (row[::-1] if each.backwards else row)]
                else:
                    expanded.append(each)
            return len(expanded) == len(seen) and all(
                _is_equal(a[1], b) if type(a) is tuple and a[:1] == ("in the run",) else self._matches(a, b, env)
                for a, b in zip(expanded, seen, strict=True)
            )
        if type(template) in (SizeOf, Calc) and type(seen) is int:  # there is no axis there that it follows
            return self._plain(template, env) == seen
        if type(template) in (Ref, Piece, SizeOf, Counted, Turns):
            return _is_equal(self._leaf(template, env), seen)
        if type(template) is Calc:
            same = type(seen) is Calc and seen.function is template.function
            return same and self._matches(template.operands, seen.operands, env)
        if isinstance(template, (list, tuple)):
            same = type(seen) is type(template) and len(seen) == len(template)
            return same and all(self._matches(a, b, env) for a, b in zip(template, seen, strict=True))
        if isinstance(template, dict):
            same = isinstance(seen, dict) and seen.keys() == template.keys()
            return same and all(self._matches(template[key], seen[key], env) for key in template)
        return _is_equal(template, seen)


def _written_out(turn: Turn) -> Rejected:
    return Rejected(
        f"the turns of a loop are written one by one, and how many there are is the input's ({turn.at.source})"
    )


def _is_equal(one: Any, other: Any) -> bool:
    if type(one) is Const and type(other) is Const:
        return one.is_like(other)
    return is_same(one, other)
