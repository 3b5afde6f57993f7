"""Fingerprints: which dimension is which.

A dimension is the tuple of its values across the probes. All equal: an int. Otherwise a `SymDim`, the same one wherever
the same values turn up. Names go by what the values say: an input axis' own name, a simple formula of axes where the
probes confirm it, and a numbered name otherwise.
"""

from __future__ import annotations

import itertools
import operator
from collections.abc import Iterable
from fractions import Fraction
from typing import Any

from .facts import Dim, SymDim, line

Fingerprint = tuple[int, ...]
_MOST_IN_FORMULAS = 8  # sizes from data that others are looked for as formulas of


class DimTable:
    """All dimensions seen in one trace, each known by its fingerprint."""

    def __init__(self, axes: dict[str, Fingerprint], following: dict[str, Fingerprint] | None = None) -> None:
        """`axes` are independent of each other; `following` are input axes with a formula of those (`2*batch`)."""
        self.axes = axes
        self.input_axes = {**axes, **(following or {})}
        self._by_values: dict[Fingerprint, SymDim] = {}
        for name, values in self.input_axes.items():
            self._by_values.setdefault(values, SymDim(values, name))
        self._input_names = {values: dim.name for values, dim in self._by_values.items()}
        self._used = set(self.input_axes)
        self._from_lines: dict[Fingerprint, frozenset[Any]] = {}  # of sizes that depend on data
        self._from_data: dict[str, Fingerprint] = {}
        self._counts: dict[str, int] = {}
        self._depends: dict[Fingerprint, frozenset[str]] = {values: frozenset((name,)) for name, values in axes.items()}
        for values in (following or {}).values():
            if values not in self._depends:
                formula = self._formula(values, axes)
                self._depends[values] = formula[1] if formula else frozenset(axes)

    def dim(self, values: Fingerprint, made_from: Iterable[Dim] = (), lines: frozenset[Any] = frozenset()) -> Dim:
        """The dimension with this fingerprint; `made_from` are the dimensions that the op which made it has seen, and
        `lines` those at which numbers came from data that it was given."""
        first = values[0]
        if all(value == first for value in values):
            return first
        known = self._by_values.get(values)
        if known is None:
            known = self._by_values[values] = self._new(values, made_from, lines)
        return known

    def fresh(self, values: Fingerprint, name: str, line: Any = None) -> SymDim:
        """A dimension that depends on data, asked for at this line: its size has no formula."""
        dim = SymDim(values, self._unique(name))
        self._by_values[values] = dim
        self._depends[values] = frozenset()
        self._from_lines[values] = frozenset((line,))
        if len(self._from_data) < _MOST_IN_FORMULAS:
            self._from_data[dim.name] = values
        return dim

    def count(self, stem: str) -> int:
        """A number for the next dimension of a kind: 1, 2, ..."""
        self._counts[stem] = self._counts.get(stem, 0) + 1
        return self._counts[stem]

    def is_known(self, values: tuple) -> bool:
        """Whether there is a dimension with this fingerprint."""
        return values in self._by_values

    def lines_of(self, values: tuple) -> frozenset[Any]:
        """The lines at which the data was asked that a dimension depends on."""
        return self._from_lines.get(values, frozenset())

    def is_of_data(self, values: tuple) -> bool:
        """Whether a dimension depends on data, or was made of one that does."""
        return values in self._from_lines

    def data_lines(self) -> frozenset[Any]:
        """All lines at which sizes came from data."""
        return frozenset[Any]().union(*self._from_lines.values())

    def rename(self, dim: SymDim, name: str) -> None:
        """Give a dimension that is not an input's own axis the name the user wants; identity is the fingerprint."""
        if dim.values not in self._input_names:
            object.__setattr__(self._by_values[dim.values], "name", name)

    def name_of(self, values: tuple) -> str | None:
        """The input axis with this fingerprint."""
        return self._input_names.get(values)

    def depends_on(self, values: tuple) -> frozenset[str]:
        """The input axes that a dimension follows, as far as the probes tell."""
        known = self._depends.get(values)
        if known is not None:
            return known
        formula = self._formula(values, self.axes) if all(type(v) is int for v in values) else None
        return formula[1] if formula else frozenset(self.axes)

    def describe(self, values: tuple) -> str:
        known = self._by_values.get(values)
        return known.name if known else str(values[0])

    def _new(self, values: Fingerprint, made_from: Iterable[Dim], lines: frozenset[Any]) -> SymDim:
        formula = self._formula(values, {**self.axes, **self._from_data})
        made = [dim.values for dim in made_from if isinstance(dim, SymDim)]
        lines = lines.union(*map(self.lines_of, made))
        if formula:
            text, names = formula
            name, depends = self._unique(text), names & frozenset(self.axes)
            lines |= frozenset[Any]().union(*(self.lines_of(self._from_data[each]) for each in names - depends))
        else:
            depends = frozenset[str]().union(*map(self.depends_on, made))
            if not depends and not lines:
                depends = frozenset(self.axes)
            name = self._unique(f"{next(iter(depends))}_1" if len(depends) == 1 and not lines else "dim_1")
        self._depends[values] = depends
        if lines:
            self._from_lines[values] = lines
        return SymDim(values, name)

    def _formula(self, values: Fingerprint, axes: dict[str, Fingerprint]) -> tuple[str, frozenset[str]] | None:
        """`2*height`, `sequence + 1`, `batch*sequence`; a fraction (a stride) has a name but no formula."""
        for name, axis in axes.items():
            slope, offset = line(axis, values)
            if slope is None:
                continue
            if slope.denominator != 1 or offset.denominator != 1 or slope < 1:
                return f"{name}_1", frozenset((name,))
            scaled = name if slope == 1 else f"{slope}*{name}"
            return scaled + _signed(offset), frozenset((name,))
        for (a, first), (b, second) in itertools.combinations(axes.items(), 2):
            product = tuple(x * y for x, y in zip(first, second, strict=True))
            slope, offset = line(product, values)
            if slope is not None and offset == 0 and slope.denominator == 1:
                scaled = "" if slope == 1 else f"{slope}*"
                return f"{scaled}{a}*{b}", frozenset((a, b))
            for text, total in (
                (f"{a} + {b}", map(operator.add, first, second)),
                (f"{a} - {b}", map(operator.sub, first, second)),
                (f"{b} - {a}", map(operator.sub, second, first)),
            ):
                offsets = set(map(operator.sub, values, total))
                if len(offsets) == 1:
                    return text + _signed(offsets.pop()), frozenset((a, b))
        return None

    def _unique(self, name: str) -> str:
        stem, _, tail = name.rpartition("_")
        candidate = name
        for number in itertools.count(int(tail) + 1 if tail.isdigit() else 1):
            if candidate not in self._used:
                self._used.add(candidate)
                return candidate
            candidate = f"{stem if tail.isdigit() else name}_{number}"
        raise AssertionError("unreachable: itertools.count never ends")


def _signed(offset: int | Fraction) -> str:
    """` + 1`, ` - 1`, or nothing."""
    return f" {'+' if offset > 0 else '-'} {abs(offset)}" if offset else ""
