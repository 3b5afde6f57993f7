"""A loop: the turns laid one upon the other, and what stands behind it for the values that they have made.

A list behind the loop with one value of every turn is stacked by it.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

from .bodies import guarded
from .items import (
    At,
    Block,
    Counted,
    Item,
    Last,
    Loop,
    Piece,
    Ref,
    SizeOf,
    Star,
    Turns,
    Unlike,
    item_changed,
    refs_in,
    replaced,
    taken_by,
)
from .turns import Laid, State, key_of


class Roll(Laid):
    """Turns that become a loop."""

    # --- what is left ------------------------------------------------------------------------------------------------
    def look(self, items: Sequence[Item], results: Any, at: At) -> None:
        """Find what the items behind the loop take from it."""
        self._at = at
        for item in items:
            for value in taken_by(item):
                if value in self._made:
                    turn, where = self._made[value]
                    self._used(where).add(turn)
        for item in items:
            item_changed(item, self.after, self.same_name)
        self.after(results)

    def lasts(self) -> list[Last]:
        """What is taken out of stacked values right behind the loop."""
        return list(self._lasts.values())

    def same_name(self, value: int) -> int:
        """The name of what an operator in place gives back."""
        if value not in self._made:
            return value
        leaf = self._final(Ref(value))
        return leaf.value if type(leaf) is Ref else value

    def after(self, template: Any) -> Any:
        """A template behind the loop, with what the loop gives in place of what the turns have made."""

        def change(leaf: Any) -> Any:
            if type(leaf) is list:
                return self._list(leaf)
            if type(leaf) in (Ref, Piece):
                return self._final(leaf)
            if type(leaf) is SizeOf:
                found = self._final(Ref(leaf.value))
                if type(found) is not Ref:
                    raise Unlike("the size of what a turn has made is asked for behind it")
                return SizeOf(found.value, leaf.axis)
            return None

        return replaced(template, change)

    def _final(self, leaf: Any) -> Any:
        """A value behind the loop that the last turn, or the first, has made."""
        if not self._is_made(leaf):
            return leaf
        last = len(self._turns) - 1
        for state in self._states.values():
            if self._after_last(state) == key_of(leaf):
                return Ref(self._ends(state))
        turn, where = self._made[leaf.value]
        if turn == last and leaf.value in self.starts and not any(type(part) is bool for part in where):
            state = State((self.starts[leaf.value],), self._fresh(), Ref(self._name(where)))
            if not self._is_closed:
                self._states["behind", leaf.value] = state
                return Ref(self._ends(state))
        delayed = self._delayed(leaf) if turn == last - 1 else None
        if delayed is not None:
            return Ref(self._ends(delayed))
        if any(type(part) is bool for part in where):
            raise Unlike("what one side of a branch in it has made is used behind it")
        if turn not in (0, last) or len(self._used(where)) > 2:
            return Piece(self._stack(Ref(self._name(where)))[0], turn)
        key = (where, turn)
        if key not in self._lasts:
            self._check_open()
            stacked, _ = self._stack(Ref(self._name(where)))
            self._lasts[key] = Last(stacked, 0 if turn == 0 else -1, self._fresh(), self._at)
        return Ref(self._lasts[key].out)

    def _delayed(self, leaf: Ref) -> State | None:
        """What was carried into the last turn, as something that is carried itself; None if nothing is known of it.

        `if new == old: return old` in a loop that goes on with `old = new` takes it.
        """
        last = len(self._turns) - 1
        if leaf.value not in self.starts or self._is_closed:
            return None
        for state in self._states.values():
            if len(state.leaves) > last and key_of(state.leaves[last]) == key_of(leaf):
                found = State((self.starts[leaf.value],), self._fresh(), Ref(state.name))
                self._states["behind", leaf.value] = found
                return found
        return None

    def _used(self, where: Any) -> set[int]:
        """The turns whose values from one place are used one by one behind the loop."""
        return self._singly.setdefault(where, set())

    def _after_last(self, state: State) -> Any:
        """What a carried value is after the last turn, by its key."""
        last = len(self._turns) - 1
        following = state.next
        if type(following) is Ref:
            for value, (turn, where) in self._made.items():
                if turn == last and self._names.get(where) == following.value:
                    return value
            for other in self._states.values():
                if other.name == following.value and len(other.leaves) > last:
                    return key_of(other.leaves[last])
        return key_of(following)

    def _list(self, leaves: list[Any]) -> list[Any]:
        """A list in which there may be one value of every turn, one after the other, or as many of each."""
        inside = [place for place, leaf in enumerate(leaves) if self._is_made(_of_star(leaf))]
        if len(inside) < 2:
            return [self.after(leaf) for leaf in leaves]
        reason: Unlike | None = None
        for each_turn in range(1, len(leaves) // len(self._turns) + 1):
            count = each_turn * len(self._turns)
            starts = range(max(0, inside[-1] - count + 1), min(inside[0], len(leaves) - count) + 1)
            for start, backwards in itertools.product(reversed(starts), (False, True)):
                window = leaves[start : start + count]
                window = window[::-1] if backwards else window
                try:
                    depth = _depth_of(window, each_turn)
                    window = list(map(_of_star, window))
                    merged = [self._value(window[place::each_turn]) for place in range(each_turn)]
                except Unlike as error:
                    reason = error
                    continue
                stacked, *more = (self._stack(each)[0] for each in merged)
                star = Star(stacked, backwards, tuple(more), depth)
                return [*(self.after(each) for each in leaves[:start]), star, *map(self.after, leaves[start + count :])]
        raise reason or Unlike("a list behind it holds values of some turns only")

    def _stack(self, inside: Any) -> tuple[int, Any]:
        key = key_of(inside)
        if key not in self._stacked:
            self._check_open()
            self._stacked[key] = (self._fresh(), inside)
            self._lengths[self._stacked[key][0]] = len(self._turns)
        return self._stacked[key]

    def _ends(self, state: State) -> int:
        """The name of a carried value behind the loop."""
        if state.name not in self._outs:
            self._check_open()
            self._outs[state.name] = self._fresh()
        return self._outs[state.name]

    def _check_open(self) -> None:
        if self._is_closed:
            raise Unlike("what it leaves is used on a side of a later branch only")

    # --- exits -------------------------------------------------------------------------------------------------------
    def leave(self, number: int, ways: Sequence[tuple[Sequence[Item], tuple[Any, ...]]], known: set[int]) -> Block:
        """What happens behind the loop if it is left at an exit: `ways` has, for every turn, items and results."""
        seen = known | set(self._made)
        for turn, (items, _) in enumerate(ways):
            self._note(turn, items, ("exit", number), seen)
        body = self._bodies([items for items, _ in ways])
        results = self.merged([results for _, results in ways])
        inside = {name for where, name in self._names.items() if where[0] != "exit"}
        inside |= {state.name for state in self._states.values()}
        nested = {name for where, name in self._names.items() if any(type(part) is bool for part in where)}
        lasts: dict[Any, Last] = {}

        def outside(leaf: Any) -> Any:
            if type(leaf) is Piece and (type(leaf.index) is Counted and leaf.index.loop == self._number):
                key = key_of(leaf)
                if key not in lasts:
                    lasts[key] = Last(self._stack(leaf)[0], -1, self._fresh(), self._at)
                return Ref(lasts[key].out)
            if type(leaf) is Counted and leaf.loop == self._number:
                self.turns = self.turns or self._fresh()  # it counts the turn in which it was left, too
                return Turns(self.turns, leaf.start - leaf.step, leaf.step)
            if type(leaf) in (SizeOf, Star, Piece) and any(value in inside for value in refs_in(leaf)):
                raise Unlike("it asks for sizes of what a turn has made after it was left")
            if type(leaf) is not Ref or leaf.value not in inside:
                return None
            if leaf.value in nested:
                raise Unlike("what one side of a branch in it has made is used behind it")
            if leaf.value not in lasts:
                lasts[leaf.value] = Last(self._stack(leaf)[0], -1, self._fresh(), self._at)
            return Ref(lasts[leaf.value].out)

        items = [item_changed(item, lambda each: replaced(each, outside), lambda value: value) for item in body]
        results = replaced(results, outside)
        return Block((*lasts.values(), *items), tuple(results))

    # --- the loop ----------------------------------------------------------------------------------------------------
    def loop(
        self,
        *,
        count: Any,
        condition: Any,
        going: Any,
        goes_on: bool,
        at: At,
        expression: str,
        flags: Sequence[tuple[int, int]] = (),
        skipped: int = 0,
        is_silent: bool = False,
    ) -> Loop:
        """Everything that was found; after `look`."""
        self._is_closed = True
        states = list(self._states.values())
        return Loop(
            self._number,
            count,
            condition,
            going,
            goes_on,
            tuple(state.leaves[0] for state in states),
            tuple(state.name for state in states),
            guarded(self.body),
            tuple(state.next for state in states),
            tuple(self._outs.get(state.name) or self._fresh() for state in states),
            tuple(self._stacked.values()),
            at,
            expression,
            self.turns,
            skipped,
            tuple(flags),
            tuple((name, Ref(self._name(where))) for where, name in self._pasts.items()),
            is_silent,
        )


def _of_star(leaf: Any) -> Any:
    """What stands for a value in a list, or for the list of an inner loop in it."""
    return Ref(leaf.stacked) if type(leaf) is Star else leaf


def _depth_of(window: Sequence[Any], each_turn: int) -> int:
    """How deep lists are nested that all turns give, or 1 if all give values."""
    lists = [each for each in window if type(each) is Star]
    if not lists:
        return 1
    if len(lists) < len(window) or each_turn > 1 or any(each.more or each.backwards for each in lists):
        raise Unlike("a list behind it holds other lists of every turn")
    return 1 + max(each.depth for each in lists)
