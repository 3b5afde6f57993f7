"""Whether a question about the number of a turn gets one answer in all turns."""

from __future__ import annotations

import operator

import pytest

from onward.capture.explore.items import At, Calc, Counted, Decision, Item, Loop, Op, Ref, SizeOf
from onward.capture.explore.questions import answers_that_vary, questions_that_vary
from onward.capture.program.facts import Scope

AT = At(((0, 1),), 1, None, Scope("", ""), None)
LOOP = 7


def question(predicate: object, answer: bool = True) -> Decision:
    return Decision(predicate, answer, AT, "a question", is_kept=False, of_turns=True)


def loop(*body: Item, count: object = None) -> Loop:
    return Loop(LOOP, count, None, None, True, (), (), body, (), (), (), AT, "")


@pytest.mark.parametrize("limit", [3, 50, 1_999, 2_000, 1_000_003, 1 << 30])
def test_a_limit_is_found_however_far_away_it_is(limit: int) -> None:
    asked = question(Calc(operator.lt, (Counted(0, 1, LOOP), limit)))
    assert list(questions_that_vary([loop(asked)])) == [asked]


@pytest.mark.parametrize("limit", [-1, 0])
def test_a_limit_that_no_turn_reaches_is_none(limit: int) -> None:
    assert not list(questions_that_vary([loop(question(Calc(operator.ge, (Counted(0, 1, LOOP), limit))))]))


def test_a_fixed_number_of_turns_ends_before_the_limit() -> None:
    asked = question(Calc(operator.lt, (Counted(0, 1, LOOP), 50)))
    assert not list(questions_that_vary([loop(asked, count=50)]))
    assert list(questions_that_vary([loop(asked, count=51)])) == [asked]


def test_numbers_are_followed_through_the_items_that_compute_them() -> None:
    doubled = Op(operator.mul, (Counted(1, 1, LOOP), 2), {}, (20,), AT)
    asked = question(Calc(operator.ne, (Ref(20), 9_000)))
    assert list(questions_that_vary([loop(doubled, asked)])) == [asked]


def test_what_is_not_known_may_vary() -> None:
    of_a_size = question(Calc(operator.lt, (Counted(0, 1, LOOP), SizeOf(3, 0))))
    of_another_loop = question(Calc(operator.ge, (Counted(0, 1, LOOP + 1), 0)))
    assert list(questions_that_vary([loop(of_a_size, of_another_loop)])) == [of_a_size, of_another_loop]


def test_a_question_outside_of_loops_has_one_answer() -> None:
    assert not list(questions_that_vary([question(Calc(operator.lt, (3, 5)))]))


def test_answers_of_the_turns_are_compared() -> None:
    yes, no = question(True), question(False, answer=False)
    assert answers_that_vary([[yes], [no], [yes]]) == [yes]
    assert not answers_that_vary([[yes], [yes]])
