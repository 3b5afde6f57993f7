"""A call that must come to an end.

A model that decides on data may never end on values that nobody had in mind (`while x > 1: x = x * 2`). Another thread
watches, and has Python raise an exception in this one. Nothing of the model's is changed for it.
"""

from __future__ import annotations

import contextlib
import ctypes
import threading
from collections.abc import Iterator


class TookTooLong(Exception):
    """The call was stopped."""


class _Stop(BaseException):
    """Raised in the middle of the call; the model's own `except Exception` does not catch it."""


@contextlib.contextmanager
def at_most(seconds: float) -> Iterator[None]:
    """Inside, code in Python is stopped with TookTooLong after some seconds; one operator is never interrupted."""
    thread, lock, finished = threading.get_ident(), threading.Lock(), threading.Event()

    def stop() -> None:
        with lock:
            if not finished.is_set():
                _raise_in(thread, _Stop)

    timer = threading.Timer(seconds, stop)
    timer.daemon = True
    timer.start()
    try:
        try:
            yield
        finally:
            with lock:
                finished.set()
                timer.cancel()
                _raise_in(thread, None)  # if it was about to be raised, it is not any more
    except _Stop:
        raise TookTooLong(f"it did not come to an end within {seconds:.0f} s") from None


def _raise_in(thread: int, kind: type[BaseException] | None) -> None:
    asked = None if kind is None else ctypes.py_object(kind)
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), asked)
