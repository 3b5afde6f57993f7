"""What a run takes from Python and a file keeps: counters, flags for the first call, random numbers.

A trace notices that a plain attribute was given another value, or that a generator of Python's or numpy's was moved.
Only then is the model called again, twice and eagerly, to find out whether that matters, and at which line it happens.
"""

from __future__ import annotations

import contextlib
import dis
import sys
import types
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from .facts import Source, caution
from .generators import Generator, generators
from .inputs import Call
from .python.fast_path import without_fast_path
from .python.state_changes import Change
from .source import is_library
from .state import own_state
from .tree import flatten


@dataclass
class Watch:
    """What the traces of one export noticed."""

    changes: dict[tuple[int, str], Change] = field(default_factory=dict)
    moved: set[str] = field(default_factory=set)

    def cautions(self, model: Any, call: Call, inputs: Sequence[torch.Tensor]) -> list[tuple[str, Source | None]]:
        """The warnings that are due, each with its line."""
        if not self.changes and not self.moved:
            return []
        found = _Twice(model, call, inputs, list(self.changes.values()))
        drawn = [(_of_draw(name, source), source) for name, source in found.draws.items() if name in self.moved]
        return [*((_of_change(each), each.source) for each in found.lasting), *drawn]


def _of_change(change: Change) -> str:
    return caution(
        f"{change.source or 'unknown line'}: the model changes its attribute {change.name!r} from run to run, and the "
        "file keeps what the first run computes with it",
        "Later runs of the model give something else than the file",
        "keep it as a tensor in a buffer (self.register_buffer) and export with mutable_buffers=True, or pass it as an "
        "input",
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
        sources = generators(model)
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
                    with _drawing(sources, self.draws) if turn == 0 else contextlib.nullcontext():
                        results.append(flatten(model(*args, **kwargs))[0])
                except Exception:  # the model does not take a second call, or none without us: nothing is known
                    self.lasting = changes
                    return
                values.append([vars(each.module).get(each.name) for each in changes])
            differs = not _alike(*results)
            for change, one, other in zip(changes, *values, strict=True):
                if differs or (one != other and _is_read(change)):
                    self.lasting.append(change)


def _alike(first: Sequence[Any], second: Sequence[Any]) -> bool:
    if len(first) != len(second):
        return False
    for one, other in zip(first, second, strict=True):
        if isinstance(one, torch.Tensor) and isinstance(other, torch.Tensor):
            if one.shape != other.shape or not torch.equal(_numbers(one), _numbers(other)):
                return False
        elif type(one) is not type(other) or (isinstance(one, (bool, int, float, str)) and one != other):
            return False
    return True


def _numbers(tensor: torch.Tensor) -> torch.Tensor:
    return torch.nan_to_num(tensor) if tensor.is_floating_point() else tensor


def _is_read(change: Change) -> bool:
    """Whether the module's own code reads the attribute for more than to count it up."""
    reads = writes = 0
    for kind in type(change.module).__mro__:
        for value in vars(kind).values():
            if isinstance(value, types.FunctionType) and value.__name__ != "__init__":
                for each in dis.get_instructions(value):
                    reads += each.opname.startswith("LOAD_ATTR") and each.argval == change.name
                    writes += each.opname.startswith("STORE_ATTR") and each.argval == change.name
    return reads > writes


@contextlib.contextmanager
def _drawing(sources: Sequence[Generator], draws: dict[str, Source | None]) -> Iterator[None]:
    """Inside, every line of the user's code that moves a generator is noted, the first one for each.

    Python calls a function before every line of the thread. A debugger, or a measurement of coverage, that has one in
    place gets it back.
    """
    states = [each.state() for each in sources]

    def look(frame: types.FrameType, line: int) -> None:
        for place, each in enumerate(sources):
            now = each.state()
            if now != states[place]:
                states[place] = now
                draws.setdefault(each.name, Source(frame.f_code.co_filename, line, frame.f_code.co_name))

    def enter(frame: types.FrameType, event: str, argument: Any) -> Any:
        if is_library(frame.f_code):
            return None
        last = frame.f_lineno

        def follow(frame: types.FrameType, event: str, argument: Any) -> Any:
            nonlocal last
            look(frame, last)
            last = frame.f_lineno
            return follow

        if frame.f_back is not None:
            look(frame.f_back, frame.f_back.f_lineno)
        return follow

    outer = sys.gettrace()
    sys.settrace(enter)
    try:
        yield
    finally:
        sys.settrace(outer)
        for place, each in enumerate(sources):  # in a library that no line of the user's came back from
            if each.state() != states[place]:
                draws.setdefault(each.name, None)
