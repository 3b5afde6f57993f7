"""The check of a program: runs that went other ways must be runs of it."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Sequence

from .accept import accept
from .items import OtherSize, Place, Program, Raw, Rejected
from .patterns import draws, patterns
from .recorder import Ways
from .runs import Runs, Sizes

_MOST_DRAWN_TURNS = 7  # of loops over plain numbers, in runs whose answers are drawn
_TURNS = (0, 1, 2, 9)
_FARTHEST = 64  # sizes of an axis at which a question may get another answer
_MOST_SIDES = 8  # such sizes that are tried
_MOST_QUESTIONS = 16  # about sizes, whose other sides are compared with the program
_MOST_WORK_FAR = 1_000  # items of all runs at sizes far away


def check(
    program: Program, base: Raw, runs: Runs, fixed: Sequence[Place], others: Sequence[Sizes], far: Sequence[Sizes]
) -> None:
    """Raise Rejected if some run of the model could not have been a run of the program.

    fixed   loops over plain numbers that were rolled
    others  sizes at which the program is checked
    far     more of them, for a model that makes plain numbers of sizes
    """
    accept(program, base)
    shapes = base.shapes if any(each.is_shaped for each in runs.known.values()) else None
    for turns, draw in draws(_MOST_DRAWN_TURNS if fixed else 1):
        rules = dict.fromkeys(fixed, (True, turns))
        _accept(program, runs.run(Ways(rules=rules, draw=draw, shapes=shapes), runs.sizes))
    for answers in patterns(max(len(each.answers) for each in (base, *runs.known.values())), random.Random(0)):
        _accept(program, runs.apart(Ways(answers, runs.rules, shapes=shapes), runs.sizes))
    for times in _TURNS:
        if runs.rules:
            rules = {place: (goes_on, times) for place, (goes_on, _) in runs.rules.items()}
            _accept(program, runs.run(Ways((), rules), runs.sizes))
        if runs.has_few_turns:
            _accept(program, runs.run(Ways((), runs.rules, turns=times), runs.wide))
    for other in (*(tried := (runs.sizes, *others)), *_other_sides(runs, tried)):
        with contextlib.suppress(OtherSize):  # what the file does there is tried out when the program is settled
            _accept(program, runs.run(Ways((), runs.rules), other))
    if base.has_plain_sizes:
        _check_far(program, runs, far)
    here = {tuple(sizes.items()) for sizes in (runs.sizes, runs.wide)}
    for (_, sizes), raw in list(runs.known.items()):
        if sizes in here:
            _accept(program, raw)


def _other_sides(runs: Runs, tried: Sequence[Sizes]) -> list[Sizes]:
    """More sizes: those at which a question about sizes gets an answer that it gets at none of these."""
    found: list[Sizes] = []
    near = [{**runs.sizes, axis: size} for size in range(1, _FARTHEST) for axis in runs.sizes]
    for question in dict.fromkeys(each for raw in list(runs.known.values()) for each in raw.questions):
        seen = {question.at(sizes) for sizes in (*tried, *found)}
        if len(seen) == 1 and len(found) < _MOST_SIDES:
            found += [each for each in near if question.at(each) not in (*seen, None) and runs.allows(each)][:1]
    return found


def is_one_sided(program: Program, runs: Runs, others: Sequence[Sizes]) -> bool:
    """Whether the model does something else than the program behind another answer to a question about sizes.

    It may do so where only few inputs lead: the answers of a run that asked the question are given again.
    """
    asked = {
        question: raw
        for (_, sizes), raw in reversed(runs.known.items())
        if raw.error is None and dict(sizes) == runs.sizes
        for question in raw.questions
    }
    near = [{**runs.sizes, axis: size} for size in range(1, _FARTHEST) for axis in runs.sizes]
    for question, raw in list(asked.items())[:_MOST_QUESTIONS]:
        here = question.at(runs.sizes)
        there = (each for each in (*others, *near) if question.at(each) not in (here, None) and runs.allows(each))
        sizes = next(there, None)
        if sizes is None:
            continue
        found = runs.apart(Ways(raw.answers, runs.rules), sizes)
        try:
            if found.error is None:
                accept(program, found, at_any_size=True)
        except Rejected:
            return True
    return False


def _check_far(program: Program, runs: Runs, far: Sequence[Sizes]) -> None:
    """Plain numbers that were made of sizes must be what the program takes them for at other sizes too."""
    work = 0
    for sizes in far:
        if work > _MOST_WORK_FAR:
            break
        raw = runs.apart(Ways((), runs.rules), sizes)
        work += len(raw.items)
        with contextlib.suppress(OtherSize):
            _accept(program, raw)


def _accept(program: Program, raw: Raw) -> None:
    if raw.error is None:
        accept(program, raw)
