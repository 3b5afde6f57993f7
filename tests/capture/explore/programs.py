"""Runs and programs in a few words, for tests of what is made of them."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import torch

from onward.capture.explore.items import At, Decision, Item, Op, Program, Raw, Ref, Turn
from onward.capture.program.facts import Scope

aten = torch.ops.aten
FORM = SimpleNamespace(paths=("output",))


def at(line: int) -> At:
    return At(((0, line),), 1, None, Scope("", ""), None)


def op(line: int, out: int, *args: Any, target: Any = aten.add.Tensor) -> Op:
    """`out = target(*args)`, an int among the arguments being a value."""
    return Op(target, tuple(Ref(each) if type(each) is int else each for each in args), {}, (out,), at(line))


def asked(line: int, value: int, answer: bool) -> Decision:
    return Decision(Ref(value), answer, at(line), "")


def turn(loop: int, number: int, count: Any, *, is_end: bool = False) -> Turn:
    return Turn(loop, number, count, False, is_end, at(1000 + loop))


def run(items: Sequence[Item], *results: Any, inputs: tuple[int, ...] = (0,), sizes: Any = None) -> Raw:
    answers = tuple(each.answer for each in items if isinstance(each, Decision))
    return Raw(list(items), answers, tuple(results), FORM, inputs=inputs, sizes=sizes or {})


def program(items: Sequence[Item], *results: Any, inputs: tuple[int, ...] = (0,)) -> Program:
    return Program(tuple(items), tuple(results), FORM, inputs)


def names() -> Callable[[], int]:
    """Numbers for new values, which no run has."""
    return itertools.count(1000).__next__
