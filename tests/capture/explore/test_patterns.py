"""Answers that are drawn: no two runs get the same ones, and no run gets more than it asks for."""

from __future__ import annotations

import pytest

from onward.capture.explore.answer_patterns import Draw, draws


def asked(questions: int, ways: int = 1) -> list[tuple[int, tuple[bool, ...]]]:
    """What runs are answered that ask so many questions."""
    found = []
    for number, draw in draws(ways):
        found.append((number, tuple(draw.answer() for _ in range(questions))))
    return found


@pytest.mark.parametrize(("questions", "runs"), [(0, 1), (1, 2), (2, 4)])
def test_few_questions_get_every_answer_once(questions: int, runs: int) -> None:
    found = asked(questions)
    assert len(found) == runs
    assert len(set(found)) == runs


def test_many_questions_get_as_many_runs_as_there_are() -> None:
    assert len(asked(20)) == len(set(asked(20))) == 16


def test_runs_that_differ_in_something_else_are_runs_of_their_own() -> None:
    assert asked(0, ways=7) == [(number, ()) for number in range(7)]


def test_a_run_that_asks_more_after_one_answer_is_not_cut_short() -> None:
    """`while question: question`: how many questions there are depends on the answers."""
    found = []
    for _, draw in draws(1):
        answers = [draw.answer()]
        while answers[-1] and len(answers) < 3:
            answers.append(draw.answer())
        found.append(tuple(answers))
    assert sorted(found) == [(False,), (True, False), (True, True, False), (True, True, True)]


def test_answers_begin_with_what_was_drawn_and_with_nothing_else() -> None:
    first = Draw(3)
    answers = [first.answer() for _ in range(5)]
    assert Draw(3).begins_with(answers)
    assert Draw(3).begins_with([])
    assert not Draw(3).begins_with([*answers[:4], not answers[4]])
