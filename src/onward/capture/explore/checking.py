"""The check of a program: runs that went other ways must be runs of it."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Sequence
from enum import Enum

from .acceptance import accept
from .answer_patterns import draws, patterns
from .items import OtherSize, Place, Program, Raw, Rejected
from .recorder import Ways
from .runs import Runs, Sizes

_MOST_DRAWN_TURNS = 7  # of loops over plain numbers, in runs whose answers are drawn
_TURNS = (0, 1, 2, 9)
_FARTHEST = 64  # sizes of an axis at which a question may get another answer
_MOST_SIDES = 8  # such sizes that are tried
_MOST_COMPARED = 60  # runs on the other sides of questions about sizes
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


class LeftOut(Enum):
    """What a program leaves out of what the model does where a question about sizes has another answer."""

    NOTHING = "nothing"
    SHOWN = "what the model does on the example's data, so that running both shows whether it matters"
    HIDDEN = "what the model does behind answers about data that the example does not give"


def left_out(program: Program, runs: Runs, others: Sequence[Sizes]) -> LeftOut:
    """Compare the program with runs at sizes where questions have another answer, and with all answers about data.

    A difference may show long after the question: `k = 2 if n == 1 else 3`, and `x * k` behind a branch on data. If
    there are more runs than are compared, something may be hidden in the rest.
    """
    found = LeftOut.NOTHING
    natural = runs.run(Ways((), runs.rules), runs.sizes)
    known = [raw for (_, sizes), raw in runs.known.items() if raw.error is None and dict(sizes) == runs.sizes]
    near = [{**runs.sizes, axis: size} for size in range(1, _FARTHEST) for axis in runs.sizes]
    compared: dict[tuple[tuple[bool, ...], tuple[int, ...]], bool] = {}
    for question in dict.fromkeys(each for raw in known for each in raw.questions):
        here = question.at(runs.sizes)
        there = (each for each in (*others, *near) if question.at(each) not in (here, None) and runs.allows(each))
        sizes = next(there, None)
        if sizes is None:
            continue
        for raw in sorted(known, key=lambda each: each is not natural):
            key = raw.answers, tuple(sizes.values())
            if question not in raw.questions:
                continue
            if key not in compared:
                if len(compared) == _MOST_COMPARED:
                    return LeftOut.HIDDEN
                compared[key] = _is_run_of(program, runs.apart(Ways(raw.answers, runs.rules), sizes))
            if not compared[key]:
                if raw is not natural:
                    return LeftOut.HIDDEN
                found = LeftOut.SHOWN
                break
    return found


def _is_run_of(program: Program, raw: Raw) -> bool:
    try:
        if raw.error is None:
            accept(program, raw, at_any_size=True)
    except Rejected:
        return False
    return True


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
