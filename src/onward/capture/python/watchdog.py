"""A call that must come to an end.

A model that decides on data may never end on values that nobody had in mind (`while x > 1: x = x * 2`). Python is asked
to look at the clock at every line of such a call. Nothing of the model's is changed for it.
"""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Iterator
from types import FrameType
from typing import Any


class TookTooLong(Exception):
    """The call was stopped."""


class _Stop(BaseException):
    """Raised in the middle of the call; the model's own `except Exception` does not catch it."""


@contextlib.contextmanager
def at_most(seconds: float) -> Iterator[None]:
    """Inside, code in Python is stopped with TookTooLong after some seconds; one operator is never interrupted.

    A debugger, or a measurement of coverage, that watches the lines of this thread gets its place back.
    """
    until = time.monotonic() + seconds

    def look(frame: FrameType, event: str, argument: Any) -> Any:
        if time.monotonic() > until:
            raise _Stop
        return look

    outer = sys.gettrace()
    sys.settrace(look)
    try:
        yield
    except _Stop:
        raise TookTooLong(f"it did not come to an end within {seconds:.0f} s") from None
    finally:
        sys.settrace(outer)
