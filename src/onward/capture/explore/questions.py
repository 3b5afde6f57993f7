"""Questions about the numbers of turns: whether the answer is the same in all turns that a loop may have."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from .items import Branch, Calc, CannotExplore, Counted, Decision, Item, Loop, Op, Ref, is_of_numbers

_MOST_TURNS = 2_000  # that are looked at one by one
_FAR = tuple(1 << power for power in range(11, 41))
_NEAR = (-2, -1, 0, 1, 2)
Makers = Mapping[int, Op]


class _Unknown(CannotExplore):
    """A number is not computed from the number of a turn alone."""


def answers_that_vary(turns: Sequence[Sequence[Item]]) -> list[Decision]:
    """Questions about the numbers of turns that got both answers in the turns of a loop."""
    answers: dict[Any, set[bool]] = {}
    found: dict[Any, Decision] = {}
    for turn in turns:
        for decision in _questions(turn):
            answers.setdefault(decision.at.place, set()).add(decision.answer)
            found[decision.at.place] = decision
    return [found[place] for place, both in answers.items() if len(both) > 1]


def questions_that_vary(items: Sequence[Item]) -> Iterator[Decision]:
    """Questions in a program that got one answer and may have the other one in some turn."""
    yield from _varying(items, {}, None)


def _varying(items: Sequence[Item], makers: Makers, loop: Loop | None) -> Iterator[Decision]:
    known = dict(makers)
    for item in items:
        if isinstance(item, Op) and is_of_numbers(item):
            known.update((out, item) for out in item.outs if out is not None)
        elif isinstance(item, Branch):
            yield from _varying(item.yes.items, known, loop)
            yield from _varying(item.no.items, known, loop)
        elif isinstance(item, Loop):
            yield from _varying(item.body, known, item)
        elif isinstance(item, Decision) and item.of_turns and not item.is_kept and not item.is_idle:
            if not _is_constant(item, known, loop):
                yield item


def _questions(items: Sequence[Item]) -> Iterator[Decision]:
    for item in items:
        if isinstance(item, Decision) and item.of_turns and not item.is_kept:
            yield item
        elif isinstance(item, Branch):
            yield from _questions((*item.yes.items, *item.no.items))
        elif isinstance(item, Loop):
            yield from _questions(item.body)


def _is_constant(decision: Decision, makers: Makers, loop: Loop | None) -> bool:
    """Whether a question gets the answer that it got, in every turn of a loop."""
    numbers: set[int] = set()
    counts: set[Counted] = set()
    try:
        _collect(decision.predicate, makers, numbers, counts)
        if any(loop is None or each.loop != loop.number for each in counts):
            return False
        return all(
            bool(_value(decision.predicate, makers, turn)) is decision.answer for turn in _turns(loop, numbers, counts)
        )
    except (_Unknown, ArithmeticError, ValueError):
        return False


def _turns(loop: Loop | None, numbers: set[int], counts: set[Counted]) -> list[int]:
    """The turns at which a question is asked: the first ones, far ones, and those near the numbers that it names."""
    if not counts:
        return [0]
    most = loop.count if loop is not None and type(loop.count) is int else None
    found = set(range(_MOST_TURNS)) | set(_FAR)
    for count in counts:
        if count.step:
            found |= {(number - count.start) // count.step + each for number in numbers for each in _NEAR}
    return sorted(turn for turn in found if turn >= 0 and (most is None or turn < most))


def _collect(template: Any, makers: Makers, numbers: set[int], counts: set[Counted]) -> None:
    kind = type(template)
    if kind in (int, float, bool):
        numbers.add(int(template) if abs(template) < 1 << 62 else 0)
    elif kind is Counted:
        counts.add(template)
    elif kind is Calc or (kind is Ref and template.value in makers):
        for each in template.operands if kind is Calc else makers[template.value].args:
            _collect(each, makers, numbers, counts)
    else:
        raise _Unknown("it is computed from something else")


def _value(template: Any, makers: Makers, turn: int) -> Any:
    kind = type(template)
    if kind is Counted:
        return template.start + template.step * turn
    if kind is Calc:
        return template.function(*(_value(each, makers, turn) for each in template.operands))
    if kind is Ref:
        made = makers[template.value]
        return made.target(*(_value(each, makers, turn) for each in made.args))
    return template
