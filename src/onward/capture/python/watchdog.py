"""A call that must come to an end.

A model that decides on data may never end on values that nobody had in mind (`while x > 1: x = x * 2`). Python is asked
to look at the clock at every line of such a call. Nothing of the model's is changed for it.
"""

from __future__ import annotations

import contextlib
import dis
import functools
import os
import sys
import time
from collections.abc import Iterator
from types import CodeType, FrameType
from typing import Any

import torch

from ..ground.source import OURS

# A mode that is stopped halfway on its way in or out would stay open for ever. These all return to the model's lines.
_MODES = (os.path.dirname(os.path.abspath(torch.__file__)) + os.sep, OURS, os.path.abspath(contextlib.__file__))


_PATIENCE = 0.2  # seconds that a stopped call has to come to its end


class TookTooLong(Exception):
    """The call was stopped."""


class _Stop(BaseException):
    """Raised in the middle of the call; the model's own `except Exception` does not catch it."""


@contextlib.contextmanager
def at_most(seconds: float) -> Iterator[None]:
    """Inside, code in Python is stopped with TookTooLong after some seconds; one operator is never interrupted,
    and neither is PyTorch, or we.

    A debugger, or a measurement of coverage, that watches the lines of this thread gets its place back.
    """
    until = time.monotonic() + seconds
    home, outer, outer_profile = sys._getframe(2), sys.gettrace(), sys.getprofile()
    stopped: float | None = None

    def look(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal stopped
        if event == "line" and time.monotonic() > until and _may_stop(frame):
            stopped = time.monotonic()
            sys.setprofile(look_again)
            raise _Stop
        return look

    def look_again(frame: FrameType, event: str, argument: Any) -> None:
        """Python drops `look` with what it raises. If the call goes on all the same, the exception came in the middle
        of a finalizer, and Python ignored it: everything begins again."""
        nonlocal stopped
        if stopped is not None and time.monotonic() > stopped + _PATIENCE:
            stopped = None
            sys.setprofile(outer_profile)
            inside: FrameType | None = frame
            while inside is not None and inside is not home:
                inside.f_trace = look
                inside = inside.f_back
            sys.settrace(look)

    sys.settrace(look)
    try:
        yield
    except _Stop:
        raise TookTooLong(f"it did not come to an end within {seconds:.0f} s") from None
    finally:
        sys.settrace(outer)
        sys.setprofile(outer_profile)


def _may_stop(frame: FrameType) -> bool:
    """Whether every mode that is open would be closed by an exception here."""
    return not frame.f_code.co_filename.startswith(_MODES) and frame.f_lasti not in _leaving(frame.f_code)


@functools.lru_cache(maxsize=64)
def _leaving(code: CodeType) -> frozenset[int]:
    """Where the end of a `with` block calls `__exit__(None, None, None)`: an exception there is no longer inside."""
    steps = list(dis.get_instructions(code))
    return frozenset(
        first.offset
        for first, *others in zip(steps, steps[1:], steps[2:], strict=False)
        if all(each.opname == "LOAD_CONST" and each.argval is None for each in (first, *others))
    )
