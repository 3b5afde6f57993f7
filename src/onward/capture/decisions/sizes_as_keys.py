"""Sizes, and texts of sizes, as keys of tables.

As a key a size is like no other, so that what a model keeps by size is made anew (`numbers_of_sizes.py`). A table that
holds fixed keys is another matter: `{4: a}.get(n, b)` decides by the size, and the file holds one answer. Every size
that is asked for its hash is noted with the table that asks. After the run, a table that got a key of ours is one that
the model fills as sizes come by, and decides nothing. Of any other, each key is a comparison with the size.
"""

from __future__ import annotations

import functools
import itertools
import operator
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from types import CodeType, FrameType
from typing import Any

from ..ground.lookup_tables import UNSEEN, gathers, table_at
from ..ground.source import user_source
from ..ground.threads import current
from ..program.facts import Source, caution
from ..sizes.sizes import Size, computed, constant
from .cannot_thaw import CannotThaw

_MOST_KEYS = 64  # of one table
_MOST_GATHERED = 6  # sizes that one line makes a set of


@dataclass
class _Lookup:
    """One place of the code that looks sizes up, with the sizes in the order in which they were asked."""

    table: Any  # None for a set or a dict that is made of the sizes
    source: Source | None
    sizes: list[Size] = field(default_factory=list)


class Keys:
    """The sizes of one trace that were used as keys."""

    def __init__(self, assume: Callable[[Size, Source | None], None]) -> None:
        self._assume = assume  # what notes a decision on sizes that was made on a line
        self._lookups: dict[tuple[Any, int, int], _Lookup] = {}
        self._last: tuple[int, CodeType, int] | None = None  # the instruction that last asked for a hash

    def note(self, size: Size, frame: FrameType) -> None:
        """A size is asked for its hash by the code of this frame."""
        if current() is not size.tracer:  # another thread asks, or somebody who has a number left
            return
        self._last = id(frame), frame.f_code, frame.f_lasti
        table = table_at(frame)
        if table is None and not gathers(frame):
            return
        key = (frame.f_code, frame.f_lasti, id(table))
        lookup = self._lookups.setdefault(key, _Lookup(table, user_source()))
        lookup.sizes.append(size)

    def is_lookup(self, frame: FrameType) -> bool:
        """Whether the frame compares keys of a table: then the present instruction has asked for a hash."""
        return self._last == (id(frame), frame.f_code, frame.f_lasti)

    def settle(self) -> list[tuple[str, Source | None]]:
        """Note the decisions that tables of fixed keys make. Raises CannotThaw if one has the example's size.

        What is to be told of tables that cannot be seen is returned, with the lines.
        """
        unseen = {lookup.source for lookup in self._lookups.values() if lookup.table is UNSEEN}
        lookups, self._lookups, self._last = list(self._lookups.values()), {}, None
        for lookup in lookups:
            if lookup.table is None:
                for one, other in itertools.combinations(_different(lookup.sizes)[:_MOST_GATHERED], 2):
                    self._assume(computed(operator.eq, one, other), lookup.source)
            elif lookup.table is not UNSEEN and not any(map(_is_ours, list(lookup.table))):  # others may write to it
                for predicate in _predicates(lookup):
                    if predicate.values[0]:
                        raise CannotThaw(f"{lookup.source}: a table of fixed keys decides by the size")
                    self._assume(predicate, lookup.source)
        return [(_unseen(source), source) for source in unseen]


def _unseen(source: Source | None) -> str:
    return caution(
        f"{source or 'unknown line'}: a size is looked up in a table, and which keys it has cannot be seen",
        "Inputs of a size that the table has may be computed wrongly",
        "give the table a name, or compute with the size itself",
    )


def _different(sizes: Sequence[Size]) -> list[Size]:
    return list({size.values: size for size in sizes}.values())


def _is_ours(key: Any) -> bool:
    parts = key if isinstance(key, tuple) else (key,)
    return any(isinstance(getattr(part, "size", None), Size) for part in parts)


def _predicates(lookup: _Lookup) -> Iterator[Size]:
    """For each key, whether the size is that key; of several numbers in a key, whether all are. Where a key has other
    parts than sizes, whether one of the sizes is one of its numbers."""
    for key in list(lookup.table)[:_MOST_KEYS]:
        parts = [_number(part) for part in (key if isinstance(key, tuple) else (key,))]
        wanted = [part for part in parts if part is not None]
        if not wanted:
            continue
        if len(wanted) == len(parts) and len(lookup.sizes) % len(wanted) == 0:
            for first in range(0, len(lookup.sizes), len(wanted)):
                yield _all_equal(lookup.sizes[first : first + len(wanted)], wanted)
        else:
            yield from (_all_equal([size], [number]) for size in lookup.sizes for number in wanted)


def _all_equal(sizes: Sequence[Size], numbers: Sequence[float]) -> Size:
    pairs = zip(sizes, numbers, strict=True)
    equal = [computed(operator.eq, size, constant(size.tracer, number)) for size, number in pairs]
    return functools.reduce(functools.partial(computed, operator.and_), equal)


def _number(part: Any) -> int | float | None:
    """The size that equals a part of a key, or whose text does."""
    if isinstance(part, str):
        return int(part) if part.isdigit() else None
    return part if isinstance(part, (int, float)) else None
