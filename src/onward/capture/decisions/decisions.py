"""What a model decides once and for all while it is traced: sizes turned into numbers, branches, data read out."""

from __future__ import annotations

import threading
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from ..ground.attempts import surviving_try
from ..ground.axes import AxisSpace
from ..ground.source import ScopeStack, user_source, warn_user
from ..program.facts import Source, caution
from ..sizes.checks import check_at
from ..sizes.differences import where_they_differ
from ..sizes.dims import DimTable
from ..sizes.probes import GENERAL
from ..sizes.sizes import Computed, Size, size_lines, written
from .assumptions import Branches
from .bounds import Bounds
from .keys import Keys


class CaptureWarning(UserWarning):
    """Something in the model was decided once and for all while it was traced."""


@dataclass(frozen=True, slots=True)
class Freeze:
    """A size that Python turned into a plain number although the probes disagree."""

    axes: frozenset[str]
    expression: str
    value: int | float | bool
    values: tuple[Any, ...]
    source: Source | None
    scope: str


def _on_side(side: str, size: Size, probes: int) -> bool | None:
    """What a branch is told: what most probes say, what the example says, or the contrary; or that numbers differ which
    it compares, and nothing if it asks something else. A check, which only raises an error, is passed as the example
    passes it."""
    values = size.values[:probes]
    if side == GENERAL:
        return bool(values[0]) if check_at(user_source()) is not None else where_they_differ(size)
    if side == "most":
        return 2 * sum(map(bool, values)) > len(values) or (2 * sum(map(bool, values)) == len(values) and values[0])
    return bool(values[0]) is (side == "own")


class Decisions:
    """The decisions of one trace."""

    def __init__(self, dims: DimTable, scopes: ScopeStack, space: AxisSpace) -> None:
        self._dims, self._scopes, self._thread = dims, scopes, threading.get_ident()
        self.freezes: list[Freeze] = []
        self.warnings: list[str] = []
        self._steady: dict[str, bool] = {}  # questions about sizes that were looked at, as they are written
        self.branches, self._space = Branches(dims, space), space
        self.keys = Keys(self)
        self.bounds = Bounds(dims)
        dims.on_refusal = self._refused
        self._committed: dict[tuple[Any, ...], list[Size]] = {}
        self._offered: dict[tuple[Any, ...], Source | None] = {}
        self._warned: set[tuple[str, Source | None]] = set()
        self.read_at: dict[Source, None] = {}  # lines at which Python went on with the example's values or sizes
        self.by_data = False  # whether Python asked what data says, and went on with the answer
        self.thawing = False  # numbers become sizes again: a branch on which the probes disagree is kept on one side
        self.side = ""  # how a branch is answered on which the probes disagree: see `probes.py`

    def warn(self, what: str, means: str, instead: str) -> None:
        """Warn once per line of the user's code: what happened, what it means for the file, what to do instead."""
        source = user_source()
        if source is not None:
            self.read_at.setdefault(source)
        key = (what[:40], source)
        if key in self._warned:
            return
        self._warned.add(key)
        self.note(caution(f"{source or 'unknown line'}: {what}", means, instead))

    def note(self, text: str) -> None:
        """A warning, given at the user's line: the one that runs in the model, or the one that called export."""
        self.warnings.append(text)
        warn_user(text, CaptureWarning)

    def commit(self, size: Size) -> Any:
        """Python wants a plain number: it gets the example's."""
        if threading.get_ident() != self._thread:  # it found the size where the model keeps its own
            return size.values[0]
        settled = self.bounds.answer(size) if size.is_bool() and size_lines(size) else None
        if settled is not None:
            return settled
        recorder = size.tracer.recorder
        if recorder is not None and not recorder.is_off:
            return recorder.commit(size)
        if not size.from_data and not size.is_uniform and self.varies_with_data(size):
            if size.is_bool() and self._is_check():
                return size.values[0]
            self.keep_number(size)
        elif size.from_data:
            self.value_read(".item(), int() or float()", size.values[0])
        elif size.is_settled_at_probes:
            if (general := self._general_elsewhere(size)) is None:
                self.assume(size)
            else:
                self.branches.take_side(size, general, user_source(), self.axes_of(size))
                return general
        elif self.side and size.is_bool() and (answer := _on_side(self.side, size, self._dims.probes)) is not None:
            self.branches.take_side(size, answer, user_source(), self.axes_of(size))
            return answer
        else:
            self._commit(size)
            freeze = Freeze(
                axes=self.axes_of(size),
                expression=written(size),
                value=size.values[0],
                values=size.values,
                source=user_source(),
                scope=self._scopes.current.path,
            )
            self.freezes.append(freeze)
            if self.thawing and size.is_bool():
                self.branches.take_side(size, bool(size.values[0]), freeze.source, freeze.axes)
        return size.values[0]

    def _general_elsewhere(self, size: Size) -> bool | None:
        """The answer of a question on whether numbers differ which are equal at all probes, and not at some points."""
        if self.side != GENERAL or not size.is_bool() or not self._dims.differing(size.values):
            return None
        answer = _on_side(GENERAL, size, self._dims.probes)
        return None if answer == size.values[0] else answer

    def keep_number(self, size: Size) -> None:
        """A number depends on how many elements data picks, and Python goes on with the example's."""
        self.by_data = True
        self.warn(
            "how large a tensor is depends on data here, and the file keeps its size in the example "
            f"(`{written(size)}` is {size.values[0]!r})",
            means="Inputs that would give another size are computed wrongly",
            instead="compute with the size itself (no int(), range() or if on it), or use torch.jit.script on the "
            "function, which keeps loops and branches",
        )

    def varies_with_data(self, size: Size) -> bool:
        """Whether a number depends on how many elements data picks, and on no axis; or only data can change it."""
        return not self.axes_of(size) or (size.is_settled_at_probes and bool(size_lines(size)))

    def kept_size(self, what: str, count: int) -> None:
        """A size depends on data, and the model only works where it is the example's."""
        self.by_data = True
        self.warn(
            f"how large the result of {what} is depends on data, and the model works only where it is as large as in "
            f"the example ({count}), so the file is made for that size",
            means="Inputs that would give another size are computed wrongly",
            instead="use no fixed number where the size is meant, for example x.shape[0] or -1 in a reshape",
        )

    def value_read(self, how: str, answer: Any) -> None:
        """Python goes on with what a tensor holds in the example."""
        if isinstance(answer, bool) and self._is_check():
            return
        self.by_data = True
        self.warn(
            f"a value was read out of a tensor ({how}), and the file keeps the example's answer ({answer!r})",
            means="Inputs that would give another answer are computed wrongly",
            instead="use torch.where or torch.cond for a choice, or torch.jit.script on the function, which keeps "
            "loops and branches",
        )

    def _is_check(self) -> bool:
        """Whether a yes or no only decides if an error is raised: then no result depends on it, which is said."""
        kind = check_at(user_source())
        if kind is not None:
            self.warn(
                f"what a tensor holds is checked here ({kind}), and the file does not check it",
                means="Inputs that fail the check are computed like all others",
                instead="check them before the file is run, or return the condition as one more output",
            )
        return kind is not None

    def assume(self, size: Size, source: Source | None = None) -> None:
        """All probes agree on a branch or a number, and points may not.

        Such points stay alive: if the other side gives the same results, the file is to be right there as well.
        """
        source = source or user_source()
        flips = self._dims.differing(size.values)
        if flips:
            self.branches.note(size, source, flips)
        elif isinstance(size.origin, Computed):
            self.branches.note_if_solved(size, source)

    def never_flips(self, size: Size) -> bool:
        """Whether a question about sizes has one answer at every probe and point, and wherever it was solved for."""
        if size.from_data or not size.is_settled_at_probes or self._dims.differing(size.values):
            return False
        text = written(size)
        if text not in self._steady:
            self._steady[text] = not isinstance(size.origin, Computed) or not self.branches.solved(size)
        return self._steady[text]

    def answered_by_sizes(self, size: Size, answers: Mapping[int, Any]) -> None:
        """Python has the example's answer to a question about a tensor that depends on sizes alone. `answers` are those
        at other probes and points, by their places, as far as they could be found out."""
        flips = [place for place, answer in answers.items() if answer != size.values[0]]
        if flips:
            self.branches.note(size, user_source(), flips)

    def _refused(self, places: Collection[int]) -> None:
        """The model refuses points. If it survives that, these are sizes at which it takes another way."""
        survivor = surviving_try()
        if survivor is not None:
            self.branches.note_try(survivor, sorted(places), works=True)

    def is_settled(self, size: Size) -> bool:
        """Whether a size is one plain number: all probes and all points agree."""
        return size.is_uniform

    @property
    def has_branches(self) -> bool:
        """Whether Python branched on sizes on which the probes disagree."""
        return any(isinstance(freeze.value, bool) for freeze in self.freezes)

    def offer(self, size: Size) -> None:
        """A number that Python has, and may use as a plain one."""
        if not size.is_uniform:
            self._commit(size)
            self._offered.setdefault(self._at_probes(size.values), user_source())

    def _commit(self, size: Size) -> None:
        like = self._committed.setdefault(self._at_probes(size.values), [])
        if all(each.values != size.values for each in like):
            like.append(size)

    def _at_probes(self, values: tuple[Any, ...]) -> tuple[Any, ...]:
        return values[: self._dims.probes]

    def sizes_like(self, values: tuple[Any, ...]) -> list[Size]:
        """Sizes that Python asked for as plain numbers and that have these values."""
        return [each for each in self._committed.get(values, ()) if type(each.values[0]) is type(values[0])]

    def committed(self) -> list[Size]:
        """All sizes that Python asked for as whole numbers."""
        return [size for like in self._committed.values() for size in like if size.is_int()]

    def frozen_at(self, values: tuple[Any, ...]) -> Source | None:
        """The line at which Python first asked for a number with these values."""
        asked = (each.source for each in self.freezes if self._at_probes(each.values) == values)
        return next(asked, self._offered.get(values))

    def axes_of(self, size: Size) -> frozenset[str]:
        """The input axes that a size follows."""
        if isinstance(size.origin, Computed):
            return frozenset[str]().union(*(self.axes_of(each) for each in size.origin.operands))
        return frozenset() if size.is_uniform else self._dims.depends_on(size.values)
