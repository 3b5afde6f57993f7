"""Loops over lists that an earlier loop has filled.

Python says nothing when a turn of `for state in states` begins, so a run has the turns one after the other. Here they
are found in a program: the same items at the same places, again and again, that take the values of a list one by one.

    stack of (s0, s1, s2, s3) by a Loop         stack of (s0, s1, s2, s3) by a Loop
    a1 = add(a0, s0)                            Loop, as often as the list is long:
    a2 = add(a1, s1)                    ->          a = add(a, s[turn])
    a3 = add(a2, s2)
    a4 = add(a3, s3)

That the loop is as long as the list is a guess; `acceptance.py` checks it in runs with other numbers of turns.
"""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from .items import (
    Block,
    Branch,
    Calc,
    Item,
    Last,
    Loop,
    Op,
    Piece,
    Ref,
    SizeOf,
    Unlike,
    item_changed,
    made_by,
    replaced,
)
from .loops import Roll
from .turns import FEWEST

Lengths = dict[int, int]  # by the value that stands for a list: how many values were in it when the program was made


def with_loops_over_lists(
    items: Sequence[Item], results: Any, known: set[int], lengths: Mapping[int, int], fresh: Callable[[], int]
) -> tuple[list[Item], Any]:
    """The items and what is made of them, with such loops; `known` are the values that were there before."""
    return _Block(dict(lengths), fresh).changed(list(items), results, set(known))


class _Block:
    """Items that follow each other, and those inside of them."""

    def __init__(self, lengths: Lengths, fresh: Callable[[], int]) -> None:
        self._lengths, self._fresh = lengths, fresh
        self._lasts: dict[int, Piece] = {}  # values of lists that go by another name: the first or the last one

    def changed(self, items: list[Item], results: Any, known: set[int]) -> tuple[list[Item], Any]:
        found: list[Item] = []
        place = 0
        while place < len(items):
            rolled = self._rolled(items, place, results, known)
            if rolled is not None:
                made, rest, results = rolled
                found += made
                for each in made:
                    self._note(each, known)
                items, place = rest, 0
                continue
            item = self._inside(items[place], known)
            found.append(item)
            self._note(item, known)
            place += 1
        return found, results

    def _inside(self, item: Item, known: set[int]) -> Item:
        """An item with the loops inside of it."""
        if isinstance(item, Branch):
            sides = []
            for side in (item.yes, item.no):
                inner, results = self.changed(list(side.items), side.results, set(known))
                sides.append(Block(tuple(inner), results))
            return replace(item, yes=sides[0], no=sides[1])
        if isinstance(item, Loop):
            given = (item.going, item.nexts, item.stacked, item.pasts)
            body, (going, nexts, stacked, pasts) = self.changed(list(item.body), given, known | set(item.state))
            return replace(item, body=tuple(body), going=going, nexts=nexts, stacked=stacked, pasts=pasts)
        return item

    def _rolled(
        self, items: list[Item], begin: int, results: Any, known: set[int]
    ) -> tuple[list[Item], list[Item], Any] | None:
        """The loop that begins at an item, and what comes behind it; None if there is none."""
        for length in _periods(items, begin):
            turns = _turns(items, begin, length)
            over = self._over(items, begin, length, turns)
            if over is None:
                continue
            name, is_backwards = over
            end = begin + length * turns
            bodies = [items[at : at + length] for at in range(begin, end, length)]
            bodies = [[self._from_the_list(each, name, is_backwards) for each in body] for body in bodies]
            rest = items[end:]
            try:
                roll = Roll(bodies, known, self._fresh(), self._fresh, self._lengths)
                roll.look(rest, results, items[begin].at)
                after = [item_changed(each, roll.after, roll.same_name) for each in rest]
                given = roll.after(results)
            except Unlike:
                continue
            less = self._lengths[name] - turns
            count = SizeOf(name, 0) if not less else Calc(operator.sub, (SizeOf(name, 0), less))
            loop = roll.loop(
                count=count,
                condition=None,
                going=None,
                goes_on=True,
                at=items[begin].at,
                expression="",
                is_silent=True,
            )
            return [loop, *roll.lasts()], after, given
        return None

    def _over(self, items: list[Item], begin: int, length: int, turns: int) -> tuple[int, bool] | None:
        """The list that is taken from in every turn, and whether it is so from its end."""
        if turns < FEWEST:
            return None
        for offset in range(length):
            columns = [set(_pieces_in(items[begin + offset + turn * length], self._lasts)) for turn in range(turns)]
            for (name, first), step in itertools.product(sorted(columns[0]), (1, -1)):
                if name in self._lengths and all(
                    (name, first + turn * step) in column for turn, column in enumerate(columns)
                ):
                    return name, step < 0
        return None

    def _note(self, item: Item, known: set[int]) -> None:
        """An item that later ones may take values of."""
        known.update(made_by(item))
        if isinstance(item, Last) and item.stacked in self._lengths:
            self._lasts[item.out] = Piece(item.stacked, item.index % self._lengths[item.stacked])
        if isinstance(item, Loop):
            for out, following in zip(item.outs, item.nexts, strict=True):
                for name, each in item.stacked:
                    if each == following and name in self._lengths:
                        self._lasts[out] = Piece(name, self._lengths[name] - 1)

    def _from_the_list(self, item: Item, name: int, is_backwards: bool) -> Item:
        """An item that takes what it takes from the list under the list's name, counted from where the loop begins."""

        def change(leaf: Any) -> Any:
            known = self._lasts.get(leaf.value) if type(leaf) is Ref else leaf
            if type(known) is not Piece or known.pieces != name or type(known.index) is not int:
                return None
            return Piece(name, known.index - self._lengths[name]) if is_backwards else known

        return item_changed(item, lambda template: replaced(template, change), lambda value: value)


def _periods(items: Sequence[Item], begin: int) -> Iterator[int]:
    """After how many items the same may begin again, the shortest first."""
    kind = _kind(items[begin])
    for other in range(begin + 1, (len(items) + begin) // 2 + 1):
        if other < len(items) and _kind(items[other]) == kind:
            yield other - begin


def _turns(items: Sequence[Item], begin: int, length: int) -> int:
    """How often the same kinds of items follow each other."""
    kinds = [_kind(each) for each in items[begin : begin + length]]
    turns = 1
    while True:
        start = begin + turns * length
        if [_kind(each) for each in items[start : start + length]] != kinds:
            return turns
        turns += 1


def _kind(item: Item) -> Any:
    return type(item), item.at.place, item.target if isinstance(item, Op) else None


def _pieces_in(item: Item, lasts: Mapping[int, Piece]) -> Iterator[tuple[int, int]]:
    """The lists that an item takes values of, and which."""
    found: list[tuple[int, int]] = []

    def change(leaf: Any) -> Any:
        known = lasts.get(leaf.value) if type(leaf) is Ref else leaf
        if type(known) is Piece and type(known.index) is int:
            found.append((known.pieces, known.index))
        return None

    item_changed(item, lambda template: replaced(template, change), lambda value: value)
    return iter(found)
