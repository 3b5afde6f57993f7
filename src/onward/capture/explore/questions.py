"""Questions about the numbers of turns: whether the answer is the same in all turns that a loop may have."""

from __future__ import annotations

import operator
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from .items import Branch, Calc, CannotExplore, Counted, Decision, Item, Loop, Op, Ref, is_of_numbers

_COMPARISONS = (operator.lt, operator.le, operator.gt, operator.ge, operator.eq, operator.ne)
_ENDLESS = 1 << 62  # turns
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
        elif isinstance(item, Decision) and _is_open(item) and not _is_constant(item, known, loop):
            yield item


def _is_open(decision: Decision) -> bool:
    """Whether a question about the numbers of turns got an answer that nobody has questioned."""
    return decision.of_turns and not decision.is_kept and not decision.is_idle


def _questions(items: Sequence[Item]) -> Iterator[Decision]:
    for item in items:
        if isinstance(item, Decision) and _is_open(item):
            yield item
        elif isinstance(item, Branch):
            yield from _questions((*item.yes.items, *item.no.items))
        elif isinstance(item, Loop):
            yield from _questions(item.body)


def _is_constant(decision: Decision, makers: Makers, loop: Loop | None) -> bool:
    """Whether a question is sure to get the answer that it got, in every turn of a loop."""
    predicate = decision.predicate
    if type(predicate) is Ref and predicate.value in makers:
        made = makers[predicate.value]
        predicate = Calc(made.target, made.args)
    if type(predicate) is not Calc or predicate.function not in _COMPARISONS:
        return False
    try:
        (step, start), (other_step, other_start) = (_line(each, makers, loop) for each in predicate.operands)
    except _Unknown:
        return False
    last = loop.count - 1 if loop is not None and type(loop.count) is int else _ENDLESS
    step, start = step - other_step, start - other_start  # compared with 0
    turns = {0, last}
    if step:  # the turn at which it is 0
        turns |= {turn for turn in (-start // step, -(start // step)) if 0 <= turn <= last}
    return all(predicate.function(start + step * turn, 0) is decision.answer for turn in turns)


def _line(template: Any, makers: Makers, loop: Loop | None) -> tuple[int, int]:
    """What a whole number grows by in every turn of a loop, and what it is in the first."""
    kind = type(template)
    if kind is int:
        return 0, template
    if kind is Counted and loop is not None and template.loop == loop.number:
        return template.step, template.start
    if kind is Ref and template.value in makers:
        made = makers[template.value]
        return _line(Calc(made.target, made.args), makers, loop)
    if kind is not Calc or len(template.operands) != 2:
        raise _Unknown("it is computed from something else")
    one, other = (_line(each, makers, loop) for each in template.operands)
    if template.function is operator.add:
        return one[0] + other[0], one[1] + other[1]
    if template.function is operator.sub:
        return one[0] - other[0], one[1] - other[1]
    if template.function is operator.mul and not (one[0] and other[0]):
        return one[0] * other[1] + other[0] * one[1], one[1] * other[1]
    raise _Unknown("it does not grow by the same in every turn")
