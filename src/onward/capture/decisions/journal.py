"""Runs at several sizes, laid side by side: the numbers that differ are those that depend on sizes.

A `Journal` writes down every op of a run with the numbers among its arguments. A `Comparison` goes along with a later
run and puts a size in the place of every number that the journals show to depend on one.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple, Protocol

from torch._ops import OpOverload

from ..ground.source import user_source
from ..program.facts import Source
from ..sizes.number_formulas import candidates, chosen
from ..sizes.sizes import SYMBOLIC, Size, size_lines, symbol
from .cannot_thaw import CannotThaw
from .decisions import Decisions

_MOST = 8  # formulas kept for one number


class JournalTrace(Protocol):
    """What a journal asks of the run that it goes along with."""

    @property
    def probes(self) -> int: ...

    @property
    def decisions(self) -> Decisions: ...

    def axis_sizes(self) -> dict[str, Size]:
        """The dynamic axes of the inputs, as sizes."""


class Entry(NamedTuple):
    """An op of a run: the numbers among its arguments, and the line of the user's that called it."""

    op: Any  # an OpOverload, or the function that makes a tensor of plain data
    numbers: tuple[Any, ...]
    source: Source | None

    def __str__(self) -> str:
        name = self.op if isinstance(self.op, OpOverload) else f"torch.{self.op.__name__}"
        return f"{name} ({self.source or 'an unknown line'})"


class Journal:
    """The ops of one run at some sizes of the axes."""

    def __init__(self, sizes: Mapping[str, int]) -> None:
        self.sizes = sizes
        self.entries: list[Entry] = []
        self.returned: tuple[Any, ...] = ()

    @property
    def ops(self) -> list[Any]:
        """What was run, in order."""
        return [each.op for each in self.entries]

    def enter(self, tracer: JournalTrace, op: Any, args: tuple, kwargs: dict[str, Any]) -> tuple[tuple, dict]:
        self.entries.append(Entry(op, tuple(_numbers((args, kwargs))), user_source()))
        return args, kwargs

    def read(self, tracer: JournalTrace, op: Any, data: Any) -> Any:
        """Numbers that a tensor is made of, `torch.tensor([height, width])`: they are no arguments of an operator."""
        self.enter(tracer, op, (data,), {})
        return data

    def leave(self, tracer: JournalTrace, leaves: list[Any]) -> list[Any]:
        """What the model returned: plain values as they are, anything else as a placeholder."""
        self.returned = tuple(_plain(each) for each in leaves)
        return leaves


class Thawed(NamedTuple):
    """A number of Python's that turned out to follow the axes."""

    number: Any  # in the example
    size: Size
    source: Source | None  # where Python asked for it; if that is not known, where it was used


class Comparison:
    """A run that knows the journals of the same model at the other probes' sizes.

    Witnesses are journals at further sizes, which decide between formulas. Where several fit all the same,
    `preference` says which of them to take. After a branch on sizes, a number is one of these sizes or it is
    not known: `2 if height > 40 else 3` has no formula, and one that fits by chance must not be found.
    """

    def __init__(
        self,
        example: Mapping[str, int],
        journals: list[Journal],
        witnesses: list[Journal],
        preference: int = 0,
    ) -> None:
        self._example = example
        self.has_branches = False
        self._journals, self._witnesses, self._preference = journals, witnesses, preference
        self._position = 0
        self._last: Entry | None = None
        self._found: dict[tuple[Any, ...], Size] = {}
        self.thawed: dict[tuple[Any, ...], Thawed] = {}
        self.most_choices = 1
        self.frozen_at: list[Source] = []  # lines at which Python made plain numbers of sizes
        self.to_be_told: list[tuple[str, Source | None]] = []  # of what this run decided, with the lines

    def enter(self, tracer: JournalTrace, op: Any, args: tuple, kwargs: dict[str, Any]) -> tuple[tuple, dict]:
        position, self._position = self._position, self._position + 1
        mine = tuple(_numbers((args, kwargs)))
        entry = Entry(op, mine, user_source())
        others = []
        for journal in self._journals:
            other = journal.entries[position] if position < len(journal.entries) else None
            if other is None or other.op is not op or len(other.numbers) != len(mine):
                raise CannotThaw(self._parting(entry, journal, other))
            others.append(other.numbers)
        self._last = entry
        self.has_branches = tracer.decisions.has_branches
        columns = iter(range(len(mine)))

        def look(number: Any) -> Any:
            column = next(columns)
            witnessed = self._witnessed(op, position, column)
            return self._seen(tracer, number, tuple(each[column] for each in others), witnessed)

        new_args, new_kwargs = _replace((args, kwargs), look)
        return new_args, new_kwargs

    def read(self, tracer: JournalTrace, op: Any, data: Any) -> Any:
        """The same with sizes where there are some."""
        (data,), _ = self.enter(tracer, op, (data,), {})
        return data

    def leave(self, tracer: JournalTrace, leaves: list[Any]) -> list[Any]:
        """The values that the model returned, with a size for every plain number that follows one.

        Plain values of other kinds, such as strings, must be the same in all runs.
        """
        self.has_branches = tracer.decisions.has_branches
        self.frozen_at = [each.source for each in tracer.decisions.freezes if each.source is not None]
        for journal in self._journals:
            if len(journal.returned) != len(leaves):
                counts = len(leaves), len(journal.returned)
                runs = zip((self._example, journal.sizes), counts, strict=True)
                raise CannotThaw(
                    _table(
                        "the model returns another number of values at other sizes:",
                        [f"{count} at {_at(sizes)}" for sizes, count in runs],
                    )
                )
        return [self._left(tracer, leaf, place) for place, leaf in enumerate(leaves)]

    def _left(self, tracer: JournalTrace, leaf: Any, place: int) -> Any:
        others = tuple(journal.returned[place] for journal in self._journals)
        if _is_plain_number(leaf) or isinstance(leaf, SYMBOLIC):
            if not all(map(_is_plain_number, others)):
                raise CannotThaw("the model returns a number at some sizes and something else at others")
            leaf = leaf if isinstance(leaf, (bool, *SYMBOLIC)) else int(leaf) if isinstance(leaf, int) else float(leaf)
            if isinstance(leaf, float) and math.isnan(leaf) and all(map(math.isnan, others)):
                return leaf
            witnessed = [(each.sizes, each.returned[place]) for each in self._witnesses if place < len(each.returned)]
            return self._seen(tracer, leaf, others, witnessed)
        if isinstance(leaf, _TEXTS) and any(other != leaf for other in others):
            sizes = [self._example, *(journal.sizes for journal in self._journals)]
            rows = zip((leaf, *others), sizes, strict=True)
            raise CannotThaw(
                _table(
                    "the model returns a plain value that depends on sizes, and the file has no form for it:",
                    [f"{value!r} at {_at(each)}" for value, each in rows],
                )
            )
        return leaf

    def finish(self) -> None:
        for journal in self._journals:
            if len(journal.entries) != self._position:
                raise CannotThaw(self._parting(None, journal, journal.entries[self._position]))

    def _parting(self, mine: Entry | None, journal: Journal, other: Entry | None) -> str:
        """Where the example's run and another part: the op, the line and the sizes of both."""
        after = f"after {self._last}" if self._last else "at the very first"
        here, there = (f"comes {each}" if each else "the model is done" for each in (mine, other))
        if mine and other and mine.op is other.op:
            here, there = (f"{each} takes {_count(len(each.numbers))}" for each in (mine, other))
        runs = ((self._example, here), (journal.sizes, there))
        return _table(
            f"the model runs other operations at other sizes. They part {after}:",
            [f"at {_at(sizes)} {what}" for sizes, what in runs],
        )

    def _seen(
        self, tracer: JournalTrace, number: Any, others: tuple[Any, ...], witnessed: list[tuple[Any, Any]]
    ) -> Any:
        """What to use in place of a number: itself if it is the same in all runs, else a size.

        `witnessed` has the sizes of every witness and the number that it saw, or None if it saw no number.
        """
        if isinstance(number, SYMBOLIC):
            if size_lines(number.node) or number.node.values[1 : tracer.probes] == others:
                return number  # one that depends on data has other values in every run
            number = number.node.values[0]  # Python put a plain number of the example into it: 32 - width
        values = (number, *others)
        if all(value == number for value in others):
            return number
        key = (type(number), values)  # 4.0 is no size of an axis, though Python takes it for 4
        found = self._found.get(key)
        if found is None:
            fitting = [each for each in tracer.decisions.sizes_like(values) if _holds(each, witnessed)]
            if not fitting and not isinstance(number, bool):
                known = [*tracer.axis_sizes().values(), *tracer.decisions.committed()]
                offered = (chosen if self.has_branches else candidates)(
                    values, list({size.values: size for size in known}.values())
                )
                fitting = list(itertools.islice((each for each in offered if _holds(each, witnessed)), _MOST))
            if not fitting:
                raise CannotThaw(self._without_formula(values))
            self.most_choices = max(self.most_choices, len(fitting))
            found = self._found[key] = fitting[min(self._preference, len(fitting) - 1)]
            source = tracer.decisions.frozen_at(values) or user_source()
            self.thawed[key] = Thawed(number, found, source)
        return symbol(found)

    def _without_formula(self, values: tuple[Any, ...]) -> str:
        sizes = [self._example, *(journal.sizes for journal in self._journals)]
        return _table(
            f"{user_source() or 'an unknown line'} uses a number that no formula of the axes gives:",
            [f"{value} at {_at(each)}" for value, each in zip(values, sizes, strict=True)],
        )

    def _witnessed(self, op: Any, position: int, column: int) -> list[tuple[Mapping[str, int], Any]]:
        """The number in one column of an op, as every witness saw it that ran the same op there; None where it has no
        such number."""
        found = []
        for witness in self._witnesses:
            if position < len(witness.entries) and witness.entries[position].op is op:
                numbers = witness.entries[position].numbers
                found.append((witness.sizes, numbers[column] if column < len(numbers) else None))
        return found


def _holds(size: Size, witnessed: list[tuple[Mapping[str, int], Any]]) -> bool:
    """Whether a formula gives what the witnesses saw. One that cannot be evaluated there is not contradicted, nor is
    one where an operator has no number: PyTorch leaves out an argument that is the default."""
    for sizes, seen in witnessed:
        value = size.at(sizes)
        if value is not None and isinstance(seen, (int, float)) and not math.isclose(value, seen):
            return False
    return True


def _table(title: str, rows: list[str]) -> str:
    return "\n    ".join((title, *rows))


def _at(sizes: Mapping[str, int]) -> str:
    return ", ".join(f"{axis} = {size}" for axis, size in sizes.items())


def _count(many: int) -> str:
    return "one number" if many == 1 else f"{many or 'no'} numbers"


_TEXTS = (str, bytes, type(None))


def _is_plain_number(value: Any) -> bool:
    return isinstance(value, (bool, int, float))


def _plain(leaf: Any) -> Any:
    """A returned value that other runs can be compared with."""
    if isinstance(leaf, SYMBOLIC):
        return leaf.node.values[0]
    return leaf if _is_plain_number(leaf) or isinstance(leaf, _TEXTS) else ...


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
        yield _bare(value)


def _bare(number: Any) -> Any:
    """A number without the formula that it may remember (`numbers_of_sizes.py`): other runs have others."""
    if isinstance(number, SYMBOLIC):
        return number
    return int(number) if isinstance(number, int) else float(number)


def _replace(value: Any, replace: Callable[[Any], Any]) -> Any:
    """The same nesting with every number replaced, in the order of `_numbers`."""
    if isinstance(value, (list, tuple)):
        return type(value)([_replace(each, replace) for each in value])
    if isinstance(value, dict):
        return {name: _replace(each, replace) for name, each in value.items()}
    return replace(_bare(value)) if _is_number(value) else value
