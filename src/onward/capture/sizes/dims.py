"""Which dimension is which.

A dimension is the tuple of its values: first at the probes, which operators are asked at, then at the points
(`points.py`), at which its formula is evaluated. All equal: an int. Otherwise a `SymDim`, the same one wherever the
same values turn up. Names go by what the values say: an input axis' own name, a simple formula of axes where all values
confirm it, and a numbered name otherwise.

Points die in the course of a trace. A value at a dead point says nothing, and the example's value stands there.
Those that die in the body of a branch or a loop are alive again behind it, for there the body need not have run.
"""

from __future__ import annotations

import functools
import itertools
import operator
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from ..program.facts import Dim, SymDim, line

Fingerprint = tuple[int, ...]
_MOST_IN_FORMULAS = 8  # sizes from data that others are looked for as formulas of
_UNLIKE = 1_000_003  # values from here on, at points, are those of dimensions that nobody knows there


@dataclass
class _Body:
    """A body that is being traced: what was known before the first point died in it."""

    dead: frozenset[int]
    tables: dict[str, dict[Fingerprint, Any]] = field(default_factory=dict)
    values: dict[int, tuple[SymDim, Fingerprint]] = field(default_factory=dict)  # of dimensions that were changed
    made: list[tuple[SymDim, frozenset[int]]] = field(default_factory=list)  # since then, and the dead points then


class DimTable:
    """All dimensions seen in one trace, each known by its fingerprint."""

    def __init__(
        self, axes: dict[str, Fingerprint], following: dict[str, Fingerprint] | None = None, *, probes: int, width: int
    ) -> None:
        """`axes` are independent of each other; `following` are input axes with a formula of those (`2*batch`).

        A fingerprint has `width` values, of which the first `probes` are those of the probes."""
        self.axes, self.probes, self.width = axes, probes, width
        self.dead: set[int] = set()  # places in a fingerprint that say nothing any more
        self.revivals = 0
        self._bodies: list[_Body] = []
        self.on_refusal: Callable[[set[int]], None] = lambda places: None  # who wants to know of points that die
        self._computed: dict[tuple[Any, ...], Any] = {}  # numbers that Python has computed from sizes, by their values
        self._by_probes: dict[Fingerprint, list[SymDim]] = {}
        self.input_axes = {**axes, **(following or {})}
        self._by_values: dict[Fingerprint, SymDim] = {}
        for name, values in self.input_axes.items():
            if values not in self._by_values:
                self._keep(SymDim(values, name))
        self._input_names = {values: dim.name for values, dim in self._by_values.items()}
        self._used = set(self.input_axes)
        self._from_lines: dict[Fingerprint, frozenset[Any]] = {}  # of sizes that depend on data
        self._from_data: dict[str, Fingerprint] = {}
        self._counts: dict[str, int] = {}
        self._numbered: set[Fingerprint] = set()
        self._unlike = _UNLIKE
        self._alone: dict[str, list[int]] = {axis: [] for axis in axes}
        for place in range(probes, width):
            moved = [axis for axis, values in axes.items() if values[place] != values[0]]
            if len(moved) == 1:
                self._alone[moved[0]].append(place)
        self._depends: dict[Fingerprint, frozenset[str]] = {values: frozenset((name,)) for name, values in axes.items()}
        for values in (following or {}).values():
            if values not in self._depends:
                formula = self._formula(values, axes)
                self._depends[values] = formula[1] if formula else frozenset(axes)

    def dim(self, values: Fingerprint, made_from: Iterable[Dim] = (), lines: frozenset[Any] = frozenset()) -> Dim:
        """The dimension with this fingerprint; `made_from` are the dimensions that the op which made it has seen, and
        `lines` those at which numbers came from data that it was given."""
        live = self.live(values)
        if live.count(live[0]) == len(live):
            return live[0]
        known = self._by_values.get(live)
        if known is None:
            known = self._keep(self._new(values, made_from, lines))
        return known

    def at_probes(self, values: Fingerprint, made_from: Iterable[Dim] = (), lines: frozenset[Any] = frozenset()) -> Dim:
        """The dimension with these values at the probes, where nobody can say what it is at the points: one that the
        operator was given, or the only one that there is. Another one is never taken for equal to any."""
        if len(values) == self.width:
            return self.dim(values, made_from, lines)
        given = {dim for dim in made_from if isinstance(dim, SymDim) and dim.values[: self.probes] == values}
        if len(given) == 1:
            return given.pop()
        if not given and values.count(values[0]) == len(values):
            return values[0]
        known = self._by_probes.get(values, [])
        if not given and len(known) == 1:
            return known[0]
        return self.dim((*values, *self.unlike_others()), made_from, lines)

    def unlike_others(self) -> Iterator[int]:
        """Values at the points that no other size has."""
        for _ in range(self.width - self.probes):
            self._unlike += 2
            yield self._unlike

    def is_followed(self, values: tuple) -> bool:
        """Whether somebody knows what a dimension is at the points: it has no values there that no other size has."""
        return not any(value > _UNLIKE for place, value in enumerate(values) if place not in self.dead)

    def live(self, values: tuple) -> tuple:
        """The values, with the example's in place of those at dead points."""
        if not self.dead:
            return values
        return tuple(values[0] if place in self.dead else value for place, value in enumerate(values))

    def is_one(self, values: tuple) -> bool:
        """Whether the values are the same at all probes and at all points that are alive."""
        first = values[0]
        if values.count(first) == len(values):
            return True
        return bool(self.dead) and all(value == first for p, value in enumerate(values) if p not in self.dead)

    def differing(self, values: tuple) -> list[int]:
        """The places of the points, of those alive, at which a number is another one than in the example."""
        first = values[0]
        return [p for p in range(self.probes, self.width) if values[p] != first and p not in self.dead]

    def extent(self, place: int) -> int:
        """How large a point is: the sum of the sizes that the axes have there."""
        return sum(values[place] for values in self.axes.values())

    def refuse(self, places: Iterable[int]) -> None:
        """Points at which the model fails: from now on they say nothing."""
        fresh = set(places) - self.dead
        if not fresh:
            return
        body = self._bodies[-1] if self._bodies else None
        if body is not None and not body.tables:
            body.tables = {name: dict(table) for name, table in self._tables().items()}
        self.dead |= fresh
        self.on_refusal(fresh)
        for table in self._tables().values():
            entries = list(table.items())
            table.clear()
            for values, entry in entries:
                table.setdefault(self.live(values), entry)
        for dims in self._by_probes.values():  # so that dimensions are equal that are so at all points alive
            for dim in dims:
                if body is not None:
                    body.values.setdefault(id(dim), (dim, dim.values))
                object.__setattr__(dim, "values", self.live(dim.values))

    def _tables(self) -> dict[str, dict[Fingerprint, Any]]:
        """All that is looked up by the values at the points that are alive."""
        return {
            "by_values": self._by_values,
            "names": self._input_names,
            "depends": self._depends,
            "lines": self._from_lines,
        }

    def enter_body(self) -> None:
        """From now on, points die for the body of a branch or a loop alone."""
        self._bodies.append(_Body(frozenset(self.dead)))

    def leave_body(self) -> set[int]:
        """The points that have died in the body; they are alive again. A dimension that was made after they had died is
        like no other there."""
        body = self._bodies.pop()
        lost = self.dead - body.dead
        if not lost:
            return lost
        self.revivals += 1
        keys = [self.live(dim.values) for dim, _ in body.made]
        for dim, values in body.values.values():
            object.__setattr__(dim, "values", values)
        self.dead = set(body.dead)
        for dim, places in body.made:
            others = (*dim.values[: self.probes], *self.unlike_others())
            values = tuple(others[place] if place in places else value for place, value in enumerate(dim.values))
            object.__setattr__(dim, "values", values)
        for name, table in self._tables().items():
            found = [(dim, table[key]) for (dim, _), key in zip(body.made, keys, strict=True) if key in table]
            table.clear()
            table.update(body.tables[name])
            for dim, entry in found:
                table.setdefault(self.live(dim.values), entry)
        self._numbered |= {dim.values for (dim, _), key in zip(body.made, keys, strict=True) if key in self._numbered}
        return lost

    def _keep(self, dim: SymDim) -> SymDim:
        for body in self._bodies:
            if len(self.dead) > len(body.dead):
                body.made.append((dim, frozenset(self.dead - body.dead)))
        self._by_values[self.live(dim.values)] = dim
        self._by_probes.setdefault(dim.values[: self.probes], []).append(dim)
        return dim

    def fresh(self, values: Fingerprint, name: str, line: Any = None) -> SymDim:
        """A dimension that depends on data, asked for at this line: its size has no formula."""
        dim = self._keep(SymDim(values, self._unique(name)))
        values = self.live(values)
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
        return self.live(values) in self._by_values

    def key(self, values: tuple) -> Any:
        """What numbers of a graph are known by: the same for all that are the same at the points alive."""
        found = self._by_values.get(self.live(values))
        return values if found is None else ("dimension", found.name)

    def lines_of(self, values: tuple) -> frozenset[Any]:
        """The lines at which the data was asked that a dimension depends on."""
        return self._from_lines.get(self.live(values), frozenset())

    def is_of_data(self, values: tuple) -> bool:
        """Whether a dimension depends on data, or was made of one that does."""
        return self.live(values) in self._from_lines

    def data_lines(self) -> frozenset[Any]:
        """All lines at which sizes came from data."""
        return frozenset[Any]().union(*self._from_lines.values())

    def note_computed(self, values: tuple, number: Any) -> None:
        """Python has computed a number with these values from sizes."""
        self._computed.setdefault(values, number)

    def computed_as(self, values: tuple) -> Any:
        """The first number with these values that Python has computed from sizes; None if there is none."""
        return self._computed.get(values)

    def rename(self, dim: SymDim, name: str) -> None:
        """Give a dimension that is not an input's own axis the name the user wants; identity is the fingerprint."""
        values = self.live(dim.values)
        if values not in self._input_names:
            object.__setattr__(self._by_values.get(values, dim), "name", name)

    def name_of(self, values: tuple) -> str | None:
        """The input axis with this fingerprint."""
        return self._input_names.get(self.live(values))

    def depends_on(self, values: tuple) -> frozenset[str]:
        """The input axes that a dimension follows, as far as the probes tell."""
        values = self.live(values)
        known = self._depends.get(values)
        if known is not None:
            return known
        return self._moving(values) or frozenset(self.axes)

    def _moving(self, values: tuple) -> frozenset[str]:
        """The axes that change a number by themselves, at the points where one axis alone is not the example's."""
        found = {axis for axis, places in self._alone.items() if any(values[p] != values[0] for p in places)}
        return frozenset(found)

    def describe(self, values: tuple) -> str:
        known = self._by_values.get(self.live(values))
        return known.name if known else str(values[0])

    def has_formula(self, values: tuple) -> bool:
        """Whether the name of a dimension says what it is, and is no mere number."""
        values = self.live(values)
        return values not in self._numbered

    def _new(self, said: Fingerprint, made_from: Iterable[Dim], lines: frozenset[Any]) -> SymDim:
        values = self.live(said)
        formula = self._formula(values, {**self.axes, **self._from_data})
        made = [dim.values for dim in made_from if isinstance(dim, SymDim)]
        lines = lines.union(*map(self.lines_of, made))
        if formula:
            text, names = formula
            name, depends = self._unique(text), names & frozenset(self.axes)
            lines |= frozenset[Any]().union(*(self.lines_of(self._from_data[each]) for each in names - depends))
        else:
            depends = self._moving(values) if not lines else frozenset()
            depends = depends or frozenset[str]().union(*map(self.depends_on, made))
            if not depends and not lines:
                depends = frozenset(self.axes)
            self._numbered.add(values)
            name = self._unique(f"{next(iter(depends))}_1" if len(depends) == 1 and not lines else "dim_1")
        self._depends[values] = depends
        if lines:
            self._from_lines[values] = lines
        return SymDim(said, name)

    def _formula(self, values: Fingerprint, axes: dict[str, Fingerprint]) -> tuple[str, frozenset[str]] | None:
        return _formula(values, tuple((name, self.live(axis)) for name, axis in axes.items()))

    def _unique(self, name: str) -> str:
        stem, _, tail = name.rpartition("_")
        candidate = name
        for number in itertools.count(int(tail) + 1 if tail.isdigit() else 1):
            if candidate not in self._used:
                self._used.add(candidate)
                return candidate
            candidate = f"{stem if tail.isdigit() else name}_{number}"
        raise AssertionError("unreachable: itertools.count never ends")


@functools.lru_cache(maxsize=1 << 10)  # the runs of an exploration meet the same sizes again and again
def _formula(values: Fingerprint, axes: tuple[tuple[str, Fingerprint], ...]) -> tuple[str, frozenset[str]] | None:
    """`2*height`, `sequence + 1`, `batch*sequence`; a fraction (a stride) has a name but no formula."""
    for name, axis in axes:
        slope, offset = line(axis, values)
        if slope is None:
            continue
        if slope.denominator != 1 or offset.denominator != 1 or slope < 1:
            return f"{name}_1", frozenset((name,))
        scaled = name if slope == 1 else f"{slope}*{name}"
        return scaled + _signed(offset), frozenset((name,))
    for (a, first), (b, second) in itertools.combinations(axes, 2):
        slope, offset = line(tuple(map(operator.mul, first, second)), values)
        if slope is not None and offset == 0 and slope.denominator == 1:
            scaled = "" if slope == 1 else f"{slope}*"
            return f"{scaled}{a}*{b}", frozenset((a, b))
        for text, total in (
            (f"{a} + {b}", map(operator.add, first, second)),
            (f"{a} - {b}", map(operator.sub, first, second)),
            (f"{b} - {a}", map(operator.sub, second, first)),
        ):
            offset = values[0] - next(total)
            if all(value - each == offset for value, each in zip(values[1:], total, strict=True)):
                return text + _signed(offset), frozenset((a, b))
    return None


def _signed(offset: int | Fraction) -> str:
    """` + 1`, ` - 1`, or nothing."""
    return f" {'+' if offset > 0 else '-'} {abs(offset)}" if offset else ""
