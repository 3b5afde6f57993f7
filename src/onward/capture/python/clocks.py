"""The clock, and the random numbers of the operating system: what a run asks them for is a plain number in a file.

Functions of `time` and `os` tell the tracer who asks. They are also replaced where the model's files have imported them
by name. The classes of `datetime` are written in C and stay as they are: `second_look` reads the model's code instead.
"""

from __future__ import annotations

import contextlib
import functools
import os
import random
import sys
import time
import types
from collections.abc import Callable, Iterator
from typing import Any

from ..ground.source import is_library
from ..ground.threads import current, later, seconds_later
from ..program.facts import Source
from ..record.tracer import Tracer
from ..state.own_code import namespaces
from .patches import Patch, patched

_CLOCKS = ("time", "perf_counter", "monotonic", "process_time", "thread_time")
_DATES = ("localtime", "gmtime")
_MUCH_LATER = 1_234_567_890.123  # seconds: enough to be seen in a float32 that holds the time
_ASKING_FOR_OTHERS = frozenset({"random", "secrets", "uuid", "numpy"})  # libraries that hand the answer on


def _asked(name: str, answer: Callable[..., Any], *, when: Callable[[tuple, dict[str, Any]], bool]) -> Any:
    """A replacement that does what the original does, after telling the tracer."""

    def make(original: Any) -> Any:
        @functools.wraps(original)
        def asked(*args: Any, **kwargs: Any) -> Any:
            tracer: Tracer | None = current()
            if tracer is not None and when(args, kwargs):
                source = _asking_line()
                if source is not None:
                    tracer.asked.setdefault(name, source)
            return answer(original, *args, **kwargs)

        return asked

    return make


def _asking_line() -> Source | None:
    """The user's line that asks; None if a library asks for itself, as a logger does."""
    frame: types.FrameType | None = sys._getframe(2)
    while frame is not None and is_library(frame.f_code):
        if str(frame.f_globals.get("__name__")).split(".")[0] not in _ASKING_FOR_OTHERS:
            return None
        frame = frame.f_back
    return None if frame is None else Source(frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name)


def _same(original: Any, *args: Any, **kwargs: Any) -> Any:
    return original(*args, **kwargs)


def _seconds(original: Any) -> float:
    return float(original()) + seconds_later()


def _nanoseconds(original: Any) -> int:
    return int(original()) + int(seconds_later() * 1e9)


def _date(original: Any, *args: Any) -> Any:
    return original(*args) if args or not seconds_later() else original(time.time())


def _always(args: tuple, kwargs: dict[str, Any]) -> bool:
    return True


def _has_no_argument(args: tuple, kwargs: dict[str, Any]) -> bool:
    return not args


def _has_no_seed(args: tuple, kwargs: dict[str, Any]) -> bool:
    return (args[1] if len(args) > 1 else kwargs.get("a")) is None


_PATCHES = (
    *(Patch(time, name, _asked(f"time.{name}", _seconds, when=_always)) for name in _CLOCKS),
    *(Patch(time, f"{name}_ns", _asked(f"time.{name}_ns", _nanoseconds, when=_always)) for name in _CLOCKS),
    *(Patch(time, name, _asked(f"time.{name}", _date, when=_has_no_argument)) for name in _DATES),
    Patch(os, "urandom", _asked("os.urandom", _same, when=_always)),
    Patch(random, "_urandom", _asked("os.urandom", _same, when=_always)),  # what SystemRandom and `secrets` call
    Patch(random.Random, "seed", _asked("random.Random()", _same, when=_has_no_seed)),
)
_PLAIN = {id(patch.present()): patch for patch in _PATCHES if patch.owner in (time, os)}


def moments(model: Any) -> list[Patch]:
    """All of them, and those that the model's files have by names of their own."""
    found = [*_PATCHES]
    for names in namespaces(model):
        for name, value in names.copy().items():
            patch = _PLAIN.get(id(value))
            if patch is not None:
                found.append(Patch(names, name, patch.make))
    return found


@contextlib.contextmanager
def much_later(model: Any) -> Iterator[None]:
    """Inside, the clocks that this thread asks are far ahead."""
    with later(_MUCH_LATER), patched(moments(model)):
        yield
