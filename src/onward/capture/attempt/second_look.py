"""What a run takes from Python and a file keeps: counters, flags for the first call, random numbers, written weights.

A trace notices that a plain value was replaced, that a generator of Python's or numpy's was moved, or that a parameter
was written to. Only then is the model called again, twice and eagerly, to find out whether that matters, and at which
line it happens.
"""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import dis
import functools
import sys
import types
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from ..call.inputs import Call
from ..call.weights import owner
from ..decisions.assumptions import alike
from ..frontends.twins import Twin, on_copies
from ..ground.source import is_library
from ..ground.tree import flatten
from ..program.facts import Source, caution
from ..python.clocks import much_later
from ..python.fast_path import without_fast_path
from ..state.fingerprints import CONTAINERS, SEQUENCES, is_iterator
from ..state.first_reads import is_only_filled
from ..state.generators import generators
from ..state.own_code import called, classes, closed_over, codes_of, namespaces
from ..state.state import run_guarded
from ..state.state_changes import SIMPLE, Change


@dataclass
class Watch:
    """What the traces of one export noticed."""

    changes: dict[tuple[int, Any], Change] = field(default_factory=dict)
    moved: set[str] = field(default_factory=set)
    asked: dict[str, Source] = field(default_factory=dict)  # for the time or for random numbers of the system
    writes: dict[str, Source | None] = field(default_factory=dict)  # to parameters, by name

    def note_run(self, changes: Mapping[tuple[int, Any], Change], moved: set[str], asked: Mapping[str, Source]) -> None:
        """A run replaced plain values, drew from generators of random numbers, and asked for the time."""
        self.changes.update(changes)
        self.moved.update(moved)
        self.asked.update(asked)

    def note_writes(self, writes: Mapping[str, Source | None]) -> None:
        """A run wrote to these parameters, at these lines."""
        self.writes.update(writes)

    def cautions(self, model: Any, call: Call, inputs: Sequence[torch.Tensor]) -> list[tuple[str, Source | None]]:
        """The warnings that are due, each with its line."""
        changes = _that_may_matter(model, self.changes.values()) if self.changes else []
        dates = _dates_asked_for(model)
        if not changes and not self.moved and not self.writes and not self.asked and not dates:
            return []
        found = _Twice(model, call, inputs, changes, self.writes, wait=bool(self.asked))
        written = self.writes.items() if found.differs else ()
        drawn = [(name, source) for name, source in found.draws.items() if name in self.moved]
        asked = self.asked if found.depends_on_the_moment else {}
        return [
            *((_of_change(each), each.source) for each in found.lasting),
            *((_of_write(name, source), source) for name, source in written),
            *((_of_draw(name, source), source) for name, source in drawn),
            *((_of_moment(name, source), source) for name, source in (*asked.items(), *found.among(dates))),
        ]


def _that_may_matter(model: Any, changes: Iterable[Change]) -> list[Change]:
    """The changes without containers that the model's code only puts something into, and without iterators that it does
    not use. The others get their names."""
    codes = [code for each in called(model) for code in codes_of(each)]
    found = []
    for change in changes:
        name = _name_of(model, change.holder) if change.key is None else None
        if name is None:
            found.append(change)
            continue
        if type(change.holder) in (*SEQUENCES, set) and is_only_filled(name, codes):
            continue
        if is_iterator(change.holder) and not any(_mentions(code, name) for code in codes):
            continue
        kind = type(change.holder).__name__.replace("_", " ")
        found.append(dataclasses.replace(change, label=f"{kind} {name!r}"))
    return found


def _mentions(code: types.CodeType, name: str) -> bool:
    return name in (*code.co_names, *code.co_freevars, *code.co_consts)


def _name_of(model: Any, value: Any) -> str | None:
    """The attribute of a module or of its class, the global, or the variable of a closure, that something is."""
    module = owner(model)
    spaces = [] if module is None else [vars(each) for each in (*module.modules(), *classes(module))]
    variables = [{n: c.cell_contents for n, c in closed_over(each)} for each in called(model)]
    for names in (*spaces, *namespaces(model), *variables):
        for name, each in names.copy().items():
            if each is value:
                return name
    return None


def _of_change(change: Change) -> str:
    return caution(
        f"{change.source or 'unknown line'}: the model changes its {change.label} from run to run, and the "
        "file keeps what the first run computes with it",
        "Later runs of the model give something else than the file",
        "keep it as a tensor in a buffer (self.register_buffer) and export with mutable_buffers=True, or pass it as an "
        "input",
    )


def _of_write(name: str, source: Source | None) -> str:
    return caution(
        f"{source or 'unknown line'}: the model writes to its parameter {name!r}, and the file does not keep the "
        "change",
        "Every run starts from what the parameter holds now",
        "make it a buffer (self.register_buffer) and export with mutable_buffers=True, or compute a new tensor in "
        "place of the write",
    )


def _of_draw(name: str, source: Source | None) -> str:
    return caution(
        f"{source or 'unknown line'}: a random number was drawn in Python ({name}), and the file keeps it",
        "Every run of the file computes with the same number",
        "draw it with PyTorch (torch.rand), which the file does too, or pass it as an input",
    )


def _of_moment(name: str, source: Source) -> str:
    if not name.startswith(("time", "datetime")):
        return _of_draw(name, source)
    return caution(
        f"{source}: the model asks for the time ({name}), and the file keeps the answer",
        "Every run of the file computes with the time of the export",
        "pass the time as an input",
    )


_NOW = frozenset({"now", "utcnow", "today"})
_DATES = (datetime, datetime.datetime, datetime.date)


def _dates_asked_for(model: Any) -> list[tuple[str, types.CodeType, Source]]:
    """Where the model's code calls `datetime.now()` and the like. Nothing but the code tells: they are written in C."""
    if not any(value is each for names in namespaces(model) for value in list(names.values()) for each in _DATES):
        return []
    found = []
    for function in called(model):
        for code in codes_of(function) if _has_dates(function) else ():
            for line, each in _by_line(code):
                if each.argval in _NOW and each.opname.startswith(("LOAD_ATTR", "LOAD_METHOD")):
                    found.append((f"datetime.{each.argval}", code, Source(code.co_filename, line, code.co_name)))
    return found


def _has_dates(function: types.FunctionType) -> bool:
    names = {name for code in codes_of(function) for name in code.co_names}
    return bool(names & _NOW) and any(function.__globals__.get(name) is each for name in names for each in _DATES)


class _Twice:
    """Two runs of the model on the example, the second after what the first has left, and perhaps one much later."""

    def __init__(
        self,
        model: Any,
        call: Call,
        inputs: Sequence[torch.Tensor],
        changes: list[Change],
        writes: Collection[str],
        *,
        wait: bool,
    ) -> None:
        self.draws: dict[str, Source | None] = {}
        self.lasting: list[Change] = []
        self.differs = self.depends_on_the_moment = self._moves = True  # unless it turns out otherwise
        self._entered: Collection[types.CodeType] = ()
        with on_copies(model, changed=writes) as twin:
            self._look(twin, call, inputs, changes, wait)

    def among(self, dates: Sequence[tuple[str, types.CodeType, Source]]) -> list[tuple[str, Source]]:
        """The calls of `datetime.now()` that may be why the second answer is another one."""
        return [(name, source) for name, code, source in dates if self._moves and code in self._entered]

    def _look(self, twin: Twin, call: Call, inputs: Sequence[torch.Tensor], changes: list[Change], wait: bool) -> None:
        model, sources = twin.model, generators(twin.model)
        unplaced = [each for each in changes if each.source is None]
        now = {each.place: functools.partial(each.value, twin.of(each.holder)) for each in changes}
        lines = _Lines([*(each.state for each in sources), *(now[each.place] for each in unplaced)])
        with run_guarded(model), torch.no_grad(), without_fast_path():
            start, states = torch.get_rng_state(), [each.state() for each in sources]
            results, values = [], []
            for turn in range(3 if wait else 2):
                torch.set_rng_state(start)
                for each, state in zip(sources, states, strict=True):
                    if each.state() != state:
                        each.set(state)
                args, kwargs = call.arguments([each.clone() for each in inputs])
                try:
                    with (lines, contextlib.nullcontext(), much_later(model))[turn]:
                        results.append(flatten(model(*args, **kwargs))[0])
                except Exception:  # the model does not take a second call, or none without us: nothing is known
                    self.lasting = changes
                    return
                values.append([now[each.place]() for each in changes])
        self.draws = {each.name: lines.found[i] for i, each in enumerate(sources) if i in lines.found}
        places = {each.place: lines.found.get(len(sources) + i) for i, each in enumerate(unplaced)}
        self._entered = lines.entered
        self.differs = not _alike(*results[:2])
        self._moves = not all(map(_is_equal, *results[:2]))
        for change, one, other in zip(changes, *values[:2], strict=True):
            if self.differs or (_counts(one, other) and _is_read(change, lines.entered)):
                source = change.source or places.get(change.place) or lines.line_of(change)
                self.lasting.append(dataclasses.replace(change, source=source))
        later_differs = wait and (self.differs or not _alike(*results[1:]))
        self.depends_on_the_moment = later_differs and not (self.differs and self.lasting)  # that explains it


def _alike(first: Sequence[Any], second: Sequence[Any]) -> bool:
    if len(first) != len(second):
        return False
    for one, other in zip(first, second, strict=True):
        if isinstance(one, torch.Tensor) and isinstance(other, torch.Tensor):
            if not alike([one], [other]):  # but for rounding: to renormalize a row twice moves its last bits
                return False
        elif type(one) is not type(other) or (isinstance(one, (bool, int, float, str)) and one != other):
            return False
    return True


def _is_equal(one: Any, other: Any) -> bool:
    return torch.equal(one, other) if isinstance(one, torch.Tensor) and isinstance(other, torch.Tensor) else True


def _counts(one: Any, other: Any) -> bool:
    return type(one) in SIMPLE and type(other) in SIMPLE and bool(one != other)


def _is_read(change: Change, entered: Collection[types.CodeType]) -> bool:
    """Whether code that has run reads a plain attribute or a global for more than to count it up: on some line, more
    often than it is assigned there."""
    named = (type(change.holder) not in CONTAINERS) or "__builtins__" in change.holder
    for code in entered if named and isinstance(change.key, str) else ():
        reads: dict[int, int] = {}
        for line, each in _by_line(code):
            if each.argval == change.key and each.opname.startswith(_STORING):
                reads[line] = reads.get(line, 0) - 1
            elif each.argval == change.key and each.opname.startswith(_LOADING):
                reads[line] = reads.get(line, 0) + 1
        if any(count > 0 for count in reads.values()):
            return True
    return False


_LOADING = ("LOAD_ATTR", "LOAD_GLOBAL", "LOAD_DEREF")
_STORING = ("STORE_ATTR", "STORE_GLOBAL", "STORE_DEREF")


def _by_line(code: types.CodeType) -> Iterator[tuple[int, dis.Instruction]]:
    starts, line = dict(dis.findlinestarts(code)), 0
    for each in dis.get_instructions(code):
        line = starts.get(each.offset) or line
        yield line, each


class _Lines:
    """Inside, the first line of the user's code is noted after which each of some values is another one.

    Python calls a function before every line of the thread. A debugger, or a measurement of coverage, that has one in
    place gets it back.
    """

    def __init__(self, values: Sequence[Callable[[], Any]]) -> None:
        self._values = values
        self.found: dict[int, Source | None] = {}
        self.entered: dict[types.CodeType, None] = {}  # the user's code that has run

    def __enter__(self) -> None:
        self._seen = [each() for each in self._values]
        self._outer = sys.gettrace()
        sys.settrace(self._enter)

    def __exit__(self, *error: object) -> None:
        sys.settrace(self._outer)
        for place, each in enumerate(self._values):  # in a library that no line of the user's came back from
            if each() != self._seen[place]:
                self.found.setdefault(place, None)

    def _enter(self, frame: types.FrameType, event: str, argument: Any) -> Any:
        if is_library(frame.f_code):
            return None
        self.entered[frame.f_code] = None
        if frame.f_back is not None and not is_library(frame.f_back.f_code):
            self._look(frame.f_back, frame.f_back.f_lineno)
        last = frame.f_lineno

        def follow(frame: types.FrameType, event: str, argument: Any) -> Any:
            nonlocal last
            self._look(frame, last)
            last = frame.f_lineno
            return follow

        return follow

    def _look(self, frame: types.FrameType, line: int) -> None:
        for place, each in enumerate(self._values):
            now = each()
            if now != self._seen[place]:
                self._seen[place] = now
                code = frame.f_code
                self.found.setdefault(place, Source(code.co_filename, line, code.co_name))

    def line_of(self, change: Change) -> Source | None:
        """Where an iterator is moved on that does not tell when: the first line that calls `next`."""
        if change.key is None and is_iterator(change.holder):
            for code in self.entered:
                for line, each in _by_line(code):
                    if each.opname == "LOAD_GLOBAL" and each.argval == "next":
                        return Source(code.co_filename, line, code.co_name)
        return None
