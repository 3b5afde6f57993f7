"""Answers that a program is tried with: drawn ones, and patterns beside them.

A run follows from the answers that are drawn for it. So answers that begin as those of an earlier run, as many as that
run has asked for, would give that run once more: most models ask for few, and a model without decisions for none.

Python may count how often a question was answered yes, and go another way at the eighth time. No operator shows the
count, and answers that are drawn evenly hardly ever say yes eight times. So there are runs with one answer throughout,
with one answer first and the other one behind it, and with one answer nearly always.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence

_FEWEST, _MOST = 3, 40  # questions: fewer get all answers by chance
_BIASED = (0.85, 0.85, 0.15, 0.15)
_DRAWN = 16  # runs whose answers are drawn


class Draw:
    """Answers that are drawn when they are asked for, and remembered."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self.answers: list[bool] = []

    def answer(self) -> bool:
        self.answers.append(self._random.random() < 0.5)
        return self.answers[-1]

    def begins_with(self, answers: Sequence[bool]) -> bool:
        """Whether these would be the first answers."""
        while len(self.answers) < len(answers) and self.answers == [*answers[: len(self.answers)]]:
            self.answer()
        return self.answers == [*answers]


def draws(ways: int) -> Iterator[tuple[int, Draw]]:
    """Drawn answers for several runs, no two of them for the same one. Runs also differ by the number that comes with
    the answers, of which there are so many."""
    known: list[tuple[int, list[bool]]] = []
    for seed in range(_DRAWN):
        number = seed % ways
        if any(Draw(seed).begins_with(answers) for other, answers in known if other == number):
            continue
        draw = Draw(seed)
        yield number, draw
        known.append((number, draw.answers))


def patterns(questions: int, draw: random.Random) -> Iterator[tuple[bool, ...]]:
    """Answers to so many questions."""
    if questions < _FEWEST:
        return
    count = min(questions, _MOST)
    for answer in (True, False):
        yield (answer,) * count
        for first in dict.fromkeys((1, 3, count // 2, count - 1)):
            yield (answer,) * first + (not answer,) * (count - first)
    for share in _BIASED:
        yield tuple(draw.random() < share for _ in range(count))
