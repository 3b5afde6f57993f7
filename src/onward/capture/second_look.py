"""What a run takes from Python and a file keeps: counters, flags for the first call, random numbers, written weights.

A trace notices that a plain value was replaced, that a generator of Python's or numpy's was moved, or that a parameter
was written to. Only then is the model called again, twice and eagerly, to find out whether that matters, and at which
line it happens.
"""

from __future__ import annotations

import contextlib
import dataclasses
import dis
import sys
import types
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from .assumptions import alike
from .facts import Source, caution
from .generators import generators
from .inputs import Call
from .python.fast_path import without_fast_path
from .python.state_changes import Change
from .source import is_library
from .state import own_state
from .tree import flatten


@dataclass
class Watch:
    """What the traces of one export noticed."""

    changes: dict[tuple[int, Any], Change] = field(default_factory=dict)
    moved: set[str] = field(default_factory=set)
    writes: dict[str, Source | None] = field(default_factory=dict)  # to parameters, by name

    def cautions(self, model: Any, call: Call, inputs: Sequence[torch.Tensor]) -> list[tuple[str, Source | None]]:
        """The warnings that are due, each with its line."""
        if not self.changes and not self.moved and not self.writes:
            return []
        found = _Twice(model, call, inputs, list(self.changes.values()))
        written = self.writes.items() if found.differs else ()
        drawn = [(name, source) for name, source in found.draws.items() if name in self.moved]
        return [
            *((_of_change(each), each.source) for each in found.lasting),
            *((_of_write(name, source), source) for name, source in written),
            *((_of_draw(name, source), source) for name, source in drawn),
        ]


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


class _Twice:
    """Two runs of the model on the example, the second after what the first has left."""

    def __init__(self, model: Any, call: Call, inputs: Sequence[torch.Tensor], changes: list[Change]) -> None:
        self.draws: dict[str, Source | None] = {}
        self.lasting: list[Change] = []
        self.differs = True  # unless it turns out otherwise
        sources = generators(model)
        unplaced = [each for each in changes if each.source is None]
        lines = _Lines([*(each.state for each in sources), *(each.value for each in unplaced)])
        with own_state(model), torch.no_grad(), without_fast_path():
            start, states = torch.get_rng_state(), [each.state() for each in sources]
            results, values = [], []
            for turn in range(2):
                torch.set_rng_state(start)
                for each, state in zip(sources, states, strict=True):
                    if each.state() != state:
                        each.set(state)
                args, kwargs = call.arguments([each.clone() for each in inputs])
                try:
                    with contextlib.nullcontext() if turn else lines:
                        results.append(flatten(model(*args, **kwargs))[0])
                except Exception:  # the model does not take a second call, or none without us: nothing is known
                    self.lasting = changes
                    return
                values.append([each.value() for each in changes])
        self.draws = {each.name: lines.found[i] for i, each in enumerate(sources) if i in lines.found}
        places = {each.place: lines.found.get(len(sources) + i) for i, each in enumerate(unplaced)}
        self.differs = not _alike(*results)
        for change, one, other in zip(changes, *values, strict=True):
            if self.differs if change.kind is None else (self.differs or one != other) and _is_read(change):
                source = change.source or places.get(change.place)
                self.lasting.append(dataclasses.replace(change, source=source))


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


def _is_read(change: Change) -> bool:
    """Whether the module's own code reads the attribute for more than to count it up: on some line, more often than it
    is assigned there."""
    for kind in () if change.kind is None else change.kind.__mro__:
        for value in vars(kind).values():
            if isinstance(value, types.FunctionType) and value.__name__ != "__init__":
                reads: dict[int | None, int] = {}
                for line, each in _by_line(value):
                    if each.argval == change.key and each.opname.startswith(("LOAD_ATTR", "STORE_ATTR")):
                        reads[line] = reads.get(line, 0) + (1 if each.opname.startswith("LOAD") else -1)
                if any(count > 0 for count in reads.values()):
                    return True
    return False


def _by_line(function: types.FunctionType) -> Iterator[tuple[int, dis.Instruction]]:
    starts, line = dict(dis.findlinestarts(function.__code__)), 0
    for each in dis.get_instructions(function):
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
