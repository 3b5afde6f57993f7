"""Runs at several sizes, laid side by side: the numbers that differ are those that depend on sizes.

A `Journal` writes down every op of a run with the numbers among its arguments. A `Comparison` goes along with a later
run and puts a size in the place of every number that the journals show to depend on one.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from torch._ops import OpOverload

from .formulas import candidates
from .sizes import SYMBOLIC, Size, symbol

if TYPE_CHECKING:
    from .tracer import Tracer

_MOST = 8  # formulas kept for one number

Entry = tuple[OpOverload, tuple[Any, ...]]


class CannotThaw(Exception):
    """The runs differ in more than numbers, or a number has no formula."""


class Journal:
    """The ops of one run."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []

    def enter(self, tracer: Tracer, op: OpOverload, args: tuple, kwargs: dict[str, Any]) -> tuple[tuple, dict]:
        self.entries.append((op, tuple(_numbers((args, kwargs)))))
        return args, kwargs


class Witness(NamedTuple):
    """A journal at sizes that are no probe's."""

    sizes: Mapping[str, int]
    journal: Journal


class Comparison:
    """A run that knows the journals of the same model at the other probes' sizes.

    Witnesses are journals at further sizes, which decide between formulas. Where several fit all the same,
    `preference` says which of them to take.
    """

    def __init__(self, journals: list[Journal], witnesses: list[Witness], preference: int = 0) -> None:
        self._journals, self._witnesses, self._preference = journals, witnesses, preference
        self._position = 0
        self._found: dict[tuple[Any, ...], Size] = {}
        self.most_choices = 1

    def enter(self, tracer: Tracer, op: OpOverload, args: tuple, kwargs: dict[str, Any]) -> tuple[tuple, dict]:
        position, self._position = self._position, self._position + 1
        others = []
        for journal in self._journals:
            if position >= len(journal.entries) or journal.entries[position][0] is not op:
                raise CannotThaw(f"other sizes run other operations, the first of them at {op}")
            others.append(journal.entries[position][1])
        mine = tuple(_numbers((args, kwargs)))
        if any(len(each) != len(mine) for each in others):
            raise CannotThaw(f"{op} takes other arguments at other sizes")
        columns = iter(range(len(mine)))

        def look(number: Any) -> Any:
            column = next(columns)
            return self._seen(tracer, number, (number, *(each[column] for each in others)), position, column)

        new_args, new_kwargs = _replace((args, kwargs), look)
        return new_args, new_kwargs

    def finish(self) -> None:
        if any(len(journal.entries) != self._position for journal in self._journals):
            raise CannotThaw("other sizes run more operations")

    def _seen(self, tracer: Tracer, number: Any, values: tuple[Any, ...], position: int, column: int) -> Any:
        if isinstance(number, SYMBOLIC) or all(value == values[0] for value in values):
            return number
        found = self._found.get(values)
        if found is None:
            fitting = [c for c in tracer.decisions.sizes_like(values) if self._holds(c, position, column)]
            if not fitting:
                known = [*tracer.axis_sizes().values(), *tracer.decisions.committed()]
                offered = candidates(values, list({size.values: size for size in known}.values()))
                fitting = list(itertools.islice((c for c in offered if self._holds(c, position, column)), _MOST))
            if not fitting:
                raise CannotThaw(f"no formula of the axes gives {', '.join(map(str, values))}")
            self.most_choices = max(self.most_choices, len(fitting))
            found = self._found[values] = fitting[min(self._preference, len(fitting) - 1)]
        return symbol(found)

    def _holds(self, size: Size, position: int, column: int) -> bool:
        """Whether a formula gives what the witnesses saw; one that cannot be evaluated there is not contradicted."""
        for witness in self._witnesses:
            if position < len(witness.journal.entries):
                _, numbers = witness.journal.entries[position]
                value = size.at(witness.sizes)
                if value is not None and (column >= len(numbers) or not math.isclose(value, numbers[column])):
                    return False
        return True


def _is_number(value: Any) -> bool:
    return isinstance(value, SYMBOLIC) or (isinstance(value, (int, float)) and not isinstance(value, bool))


def _numbers(value: Any) -> Iterator[Any]:
    if isinstance(value, (list, tuple)):
        for each in value:
            yield from _numbers(each)
    elif isinstance(value, dict):
        for each in value.values():
            yield from _numbers(each)
    elif _is_number(value):
        yield value


def _replace(value: Any, replace: Callable[[Any], Any]) -> Any:
    """The same nesting with every number replaced, in the order of `_numbers`."""
    if isinstance(value, (list, tuple)):
        return type(value)([_replace(each, replace) for each in value])
    if isinstance(value, dict):
        return {name: _replace(each, replace) for name, each in value.items()}
    return replace(value) if _is_number(value) else value
