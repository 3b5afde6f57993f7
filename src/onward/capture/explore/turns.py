"""The turns of a loop, laid one upon the other: one body, and what it carries from turn to turn.

In every turn the same items stand in the same places. What stands in one place of all turns is

    the same value                  from outside of the loop
    made in the turn itself         a value of the body
    made in the turn before         carried, and what stands there in the first turn is its start
    a number that grows             counted by the turns
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from .branches import is_same
from .items import (
    Block,
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
    Piece,
    Ref,
    SizeOf,
    Star,
    TooFew,
    Turns,
    Unlike,
    item_changed,
    leaf_key,
    made_by,
    replaced,
)

aten = torch.ops.aten
FEWEST = 3  # turns: two tell what is carried, a third confirms it
Fresh = Callable[[], int]


@dataclass
class State:
    """A carried value: what stands for it in each turn, and its name in the body."""

    leaves: tuple[Any, ...]
    name: int
    next: Any = None


class Laid:
    """Turns that become one body. `known` are the values that were there before the loop."""

    def __init__(
        self,
        turns: Sequence[Sequence[Item]],
        known: set[int],
        number: int,
        fresh: Fresh,
        lengths: dict[int, int] | None = None,
    ) -> None:
        if len(turns) < FEWEST:
            raise TooFew("the loop has too few turns to see what they have in common")
        self._turns, self._number, self._fresh = turns, number, fresh
        self._lengths = {} if lengths is None else lengths  # of lists, by the values that stand for them
        self._made: dict[int, tuple[int, Any]] = {}  # by value: the turn that made it, and where in the turn
        self._names: dict[Any, int] = {}  # by where in a turn: the name in the body
        self._states: dict[tuple[Any, ...], State] = {}
        self._stacked: dict[Any, tuple[int, Any]] = {}
        self._lasts: dict[Any, Last] = {}
        self._pasts: dict[Any, int] = {}  # lists of what all turns before have made, by where in a turn
        self._singly: dict[Any, set[int]] = {}
        self._outs: dict[int, int] = {}  # carried values behind the loop
        self.starts: dict[int, Any] = {}  # what stands for values of the last turn where there is no turn at all
        self.turns: int | None = None  # the name of the number of turns behind the loop, if anybody asks
        self._is_closed = False  # whether it is known what is taken from it
        seen = set(known)
        for turn, items in enumerate(turns):
            self._note(turn, items, (), seen)
        self.body = self._bodies(turns)

    @property
    def count(self) -> int:
        """How many turns there were."""
        return len(self._turns)

    # --- what is made where ------------------------------------------------------------------------------------------
    def _note(self, turn: int, items: Sequence[Item], path: tuple[Any, ...], seen: set[int]) -> None:
        for place, item in enumerate(items):
            if isinstance(item, Branch):
                self._note(turn, item.yes.items, (*path, place, True), seen)
                self._note(turn, item.no.items, (*path, place, False), seen)
            if isinstance(item, Loop):
                self._make(turn, item.state, (*path, place, "state"), seen)
                self._make(turn, tuple(name for name, _ in item.pasts), (*path, place, "past"), seen)
                self._note(turn, item.body, (*path, place, "body"), seen)
            self._make(turn, tuple(made_by(item)), (*path, place), seen)

    def _make(self, turn: int, values: tuple[int, ...], path: tuple[Any, ...], seen: set[int]) -> None:
        for number, value in enumerate(values):
            if value not in seen:
                seen.add(value)
                self._made[value] = (turn, (*path, "out", number))

    def _name(self, where: Any) -> int:
        return self._names.setdefault(where, self._names.get(where) or self._fresh())

    # --- one upon the other ------------------------------------------------------------------------------------------
    def _bodies(self, turns: Sequence[Sequence[Item]]) -> tuple[Item, ...]:
        if len({len(items) for items in turns}) > 1:
            raise Unlike("its turns do different things")
        return tuple(self._item(list(column)) for column in zip(*turns, strict=True))

    def _item(self, column: list[Item]) -> Item:
        first = column[0]
        if any(type(each) is not type(first) or _place(each) != _place(first) for each in column):
            raise Unlike("its turns do different things")
        if isinstance(first, Op):
            if any(each.target is not first.target or len(each.outs) != len(first.outs) for each in column):  # type: ignore[union-attr]
                raise Unlike("its turns do different things")
            args = self.merged([(each.args, dict(each.kwargs)) for each in column])  # type: ignore[union-attr]
            outs = tuple(self._out([each.outs[i] for each in column]) for i in range(len(first.outs)))  # type: ignore[union-attr]
            pieces = self._out([each.pieces for each in column])  # type: ignore[union-attr]
            self._is_as_long(pieces, first.pieces)
            return Op(first.target, args[0], args[1], outs, first.at, pieces)
        if isinstance(first, Branch):
            if len({len(each.outs) for each in column}) > 1:  # type: ignore[union-attr]
                raise Unlike("its turns do different things")
            blocks = []
            for name in ("yes", "no"):
                sides: list[Block] = [getattr(each, name) for each in column]
                items = self._bodies([side.items for side in sides])
                blocks.append(Block(items, self.merged([side.results for side in sides])))
            outs = tuple(self._out([each.outs[i] for each in column]) for i in range(len(first.outs)))  # type: ignore[union-attr]
            predicate = self.merged([each.predicate for each in column])  # type: ignore[union-attr]
            return replace(first, predicate=predicate, yes=blocks[0], no=blocks[1], outs=outs)
        if isinstance(first, Loop):
            return self._loop(column)  # type: ignore[arg-type]
        if isinstance(first, Decision):
            if any(not first.is_idle and not is_same(each.answer, first.answer) for each in column):  # type: ignore[union-attr]
                raise Unlike("its turns get different answers to a question that is not kept")
            return replace(first, predicate=self.merged([each.predicate for each in column]))  # type: ignore[union-attr]
        if isinstance(first, Exit):
            if len({(each.number, each.leaves) for each in column}) > 1:  # type: ignore[union-attr]
                raise Unlike("its turns do different things")
            return replace(first, predicate=self.merged([each.predicate for each in column]))  # type: ignore[union-attr]
        if isinstance(first, Last):
            outs = (self._out([each.out for each in column]),)  # type: ignore[union-attr]
            stacked = self._inner([each.stacked for each in column])  # type: ignore[union-attr]
            return replace(first, stacked=stacked, out=outs[0])
        raise Unlike("a loop inside of it is not kept")

    def _loop(self, column: list[Loop]) -> Loop:
        """A loop in every turn. Numbers that grow with its own turns are its own affair."""
        first = column[0]
        own = {each.number for each in column}
        shapes = {
            (len(e.state), len(e.stacked), len(e.pasts), len(e.flags), e.goes_on, e.count is None, e.turns is None)
            for e in column
        }
        if len(shapes) > 1:
            raise Unlike("its turns do different things")
        column = [_numbered(each, first) if len(own) > 1 else each for each in column]
        state = tuple(self._inner([each.state[i] for each in column]) for i in range(len(first.state)))
        outs = tuple(self._inner([each.outs[i] for each in column]) for i in range(len(first.outs)))
        stacked = tuple(
            (self._inner([e.stacked[i][0] for e in column]), self.merged([e.stacked[i][1] for e in column]))
            for i in range(len(first.stacked))
        )
        for (name, _), (known, _) in zip(stacked, first.stacked, strict=True):
            self._is_as_long(name, known)
        return replace(
            first,
            count=self.merged([each.count for each in column]),
            condition=self.merged([each.condition for each in column]),
            going=self.merged([each.going for each in column]),
            start=self.merged([each.start for each in column]),
            state=state,
            body=self._bodies([each.body for each in column]),
            nexts=self.merged([each.nexts for each in column]),
            outs=outs,
            stacked=stacked,
            pasts=tuple(
                (self._inner([e.pasts[i][0] for e in column]), self.merged([e.pasts[i][1] for e in column]))
                for i in range(len(first.pasts))
            ),
            flags=tuple(
                (first.flags[i][0], self._inner([each.flags[i][1] for each in column])) for i in range(len(first.flags))
            ),
            turns=self._out([each.turns for each in column]),
        )

    def _is_as_long(self, name: int | None, known: int | None) -> None:
        """A list in the body is as long as that of a turn."""
        if name is not None and known in self._lengths:
            self._lengths[name] = self._lengths[known]

    def _inner(self, values: list[Any]) -> int:
        made: int = self._out(values)
        return made

    def _out(self, values: list[Any]) -> Any:
        if all(value is None for value in values):
            return None
        if any(value is None for value in values):
            raise Unlike("its turns do different things")
        merged = self.merged([Ref(value) for value in values])
        if type(merged) is not Ref:
            raise Unlike("its turns do different things")
        return merged.value

    # --- templates ---------------------------------------------------------------------------------------------------
    def merged(self, column: list[Any]) -> Any:
        """One template for what stands in one place of the turns."""
        first = column[0]
        if any(self._is_value(each) for each in column):
            return self._value(column)
        if any(type(each) is not type(first) for each in column):
            raise Unlike("its turns do different things")
        if type(first) is SizeOf:
            tensor = self._value([Ref(each.value) for each in column])
            if len({each.axis for each in column}) > 1 or type(tensor) is not Ref:
                raise Unlike("its turns ask for sizes of different tensors")
            return SizeOf(tensor.value, first.axis)
        if type(first) is Calc:
            if any(each.function is not first.function for each in column):
                raise Unlike("its turns compute different numbers")
            return Calc(first.function, self.merged([each.operands for each in column]))
        if type(first) is Counted:
            if len({(each.start, each.step) for each in column}) > 1:
                raise Unlike("its turns count differently")
            return first
        if type(first) is Flag and not first.is_inside:
            return Flag(self._inner([each.name for each in column]))
        if type(first) is Turns:
            if len({(each.start, each.step) for each in column}) > 1:
                raise Unlike("its turns count differently")
            return replace(first, name=self._inner([each.name for each in column]))
        if type(first) is Star:
            if len({(each.backwards, len(each.more), each.depth) for each in column}) > 1:
                raise Unlike("its turns do different things")
            stacked, *more = (self._inner(list(names)) for names in zip(*(each.names for each in column), strict=True))
            return Star(stacked, first.backwards, tuple(more), first.depth)
        if isinstance(first, (list, tuple)):
            if len({len(each) for each in column}) > 1:
                return self._growing(column)
            made = [self.merged(list(each)) for each in zip(*column, strict=True)]
            return made if type(first) is list else tuple(made)
        if isinstance(first, dict):
            if any(each.keys() != first.keys() for each in column):
                raise Unlike("its turns do different things")
            return {key: self.merged([each[key] for each in column]) for key in first}
        if all(is_same(each, first) for each in column):
            return first
        if type(first) is int:
            return self._counted(column)
        raise Unlike(f"a plain value changes from turn to turn ({column[0]!r}, {column[1]!r})")

    def _growing(self, column: list[Any]) -> list[Any]:
        """A list with what every turn before has made: some values, those of the turns, and some more."""
        fixed = len(column[0])
        if any(type(each) is not list or len(each) != fixed + turn for turn, each in enumerate(column)):
            raise Unlike("it uses a list that grows with every turn")
        for first in range(fixed + 1):
            past = [leaves[first : first + turn] for turn, leaves in enumerate(column)]
            made = [(self._made.get(leaf_key(leaf)), turn) for leaves in past for turn, leaf in enumerate(leaves)]
            places = {found[1] if found is not None and found[0] == turn else None for found, turn in made}
            if len(places) == 1 and None not in places:
                before = [self.merged(list(each)) for each in zip(*(leaves[:first] for leaves in column), strict=True)]
                rests = (leaves[first + turn :] for turn, leaves in enumerate(column))
                rest = [self.merged(list(each)) for each in zip(*rests, strict=True)]
                return [*before, Star(self._pasts.setdefault(places.pop(), self._fresh())), *rest]
        raise Unlike("it uses a list that grows with every turn, and not by what the turn before has made")

    def _is_value(self, leaf: Any) -> bool:
        return type(leaf) in (Ref, Const, Piece)

    def _counted(self, numbers: Sequence[int]) -> Counted:
        step = numbers[1] - numbers[0]
        if any(b - a != step for a, b in itertools.pairwise(numbers)):
            raise Unlike(f"a number changes from turn to turn, and not by the same ({', '.join(map(str, numbers))})")
        return Counted(numbers[0], step, self._number)

    def _value(self, column: list[Any]) -> Any:
        first = column[0]
        keys = [leaf_key(each) for each in column]
        same = all(_is_equal(each, first) for each in column)
        if same and not self._is_made(first):
            return first
        made = [self._made.get(key) if type(key) is int else None for key in keys]
        if all(each is not None and each[0] == turn for turn, each in enumerate(made)):
            if len({each[1] for each in made}) == 1:  # type: ignore[index]
                return Ref(self._name(made[0][1]))  # type: ignore[index]
            raise Unlike("its turns use different values")
        if all(type(each) is Piece for each in column):
            return self._piece(column)
        return Ref(self._state(tuple(column)).name)

    def _piece(self, column: list[Piece]) -> Any:
        """A part of one list, or of a list that every turn makes for itself."""
        try:
            pieces = self._value([Ref(each.pieces) for each in column])
            if type(pieces) is Ref:
                numbers = [each.index for each in column]
                length = self._lengths.get(column[0].pieces)
                if length is not None and numbers == list(range(length - 1, length - 1 - len(numbers), -1)):
                    numbers = [number - length for number in numbers]  # counted from its end, wherever that is
                return Piece(pieces.value, self._index(numbers))
        except Unlike:
            pass  # it may be carried from turn to turn all the same
        return Ref(self._state(tuple(column)).name)

    def _index(self, numbers: list[Any]) -> Any:
        if all(is_same(each, numbers[0]) for each in numbers):
            return numbers[0]
        if any(type(each) is not int for each in numbers):
            raise Unlike("its turns take different parts of a list")
        return self._counted(numbers)

    def _is_made(self, leaf: Any) -> bool:
        key = leaf.pieces if type(leaf) is Piece else leaf_key(leaf)
        return type(key) is int and key in self._made

    # --- what is carried ---------------------------------------------------------------------------------------------
    def _state(self, leaves: tuple[Any, ...]) -> State:
        key = tuple(map(key_of, leaves))
        for known, state in list(self._states.items()):
            if known[0] == "behind":
                continue
            shared = min(len(known), len(key))
            if known[:shared] == key[:shared] and shared >= 2:
                if len(leaves) > len(state.leaves):
                    state.leaves = leaves
                    self._states[key] = self._states.pop(known)
                return state
        if self._is_made(leaves[0]):
            raise Unlike("a turn uses what the turn before has not made")
        state = self._states[key] = State(leaves, self._fresh())
        state.next = self._next(leaves)
        return state

    def _next(self, leaves: tuple[Any, ...]) -> Any:
        """What a turn hands on, seen from the turn that follows it."""
        following = leaves[1:]
        if len(following) < 2:
            raise Unlike("what it carries from turn to turn follows no rule")
        made = [self._made.get(leaf_key(each)) if type(each) is Ref else None for each in following]
        if all(each is not None and each[0] == turn for turn, each in enumerate(made)):
            if len({each[1] for each in made}) == 1:  # type: ignore[index]
                return Ref(self._name(made[0][1]))  # type: ignore[index]
            raise Unlike("its turns hand on different values")
        if all(_is_equal(each, following[0]) for each in following) and not self._is_made(following[0]):
            return following[0]
        return Ref(self._state(following).name)


def _numbered(loop: Loop, like: Loop) -> Loop:
    """A loop whose turns and exits have the numbers of another one."""
    exits = {mine[0]: theirs[0] for mine, theirs in zip(loop.flags, like.flags, strict=True)}

    def change(template: Any) -> Any:
        def leaf(each: Any) -> Any:
            if type(each) is Flag and each.is_inside:
                return replace(each, name=exits.get(each.name, each.name))
            if type(each) is Counted and each.loop == loop.number:
                return replace(each, loop=like.number)
            if type(each) is Piece and type(each.index) is Counted:
                return Piece(each.pieces, leaf(each.index))
            return None

        return replaced(template, leaf)

    flags = tuple((exits[number], name) for number, name in loop.flags)
    made = item_changed(loop, change, lambda value: value)
    return replace(made, number=like.number, flags=flags, body=_with_exits(made.body, exits))


def _with_exits(items: Sequence[Item], numbers: Mapping[int, int]) -> tuple[Item, ...]:
    """Items whose exits have other numbers."""

    def change(item: Item) -> Item:
        if isinstance(item, Exit):
            return replace(item, number=numbers.get(item.number, item.number))
        if isinstance(item, Branch):
            yes, no = (replace(side, items=_with_exits(side.items, numbers)) for side in (item.yes, item.no))
            return replace(item, yes=yes, no=no)
        return replace(item, body=_with_exits(item.body, numbers)) if isinstance(item, Loop) else item

    return tuple(map(change, items))


def _place(item: Any) -> Any:
    return item.at.place


def key_of(leaf: Any) -> Any:
    key = leaf_key(leaf)
    return ("plain", type(leaf), leaf) if key is None else key


def _is_equal(one: Any, other: Any) -> bool:
    if type(one) is Const and type(other) is Const:
        return one.is_like(other)
    return type(one) is type(other) and bool(one == other)
