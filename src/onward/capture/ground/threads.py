"""Which trace the present thread is in."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..record.tracer import Tracer

# A trace, and a call of a model whose state is put back afterwards, change what several threads may share: the modes
# and buffers of the model, patches. One thread at a time does that. It may do so again inside: an export in a forward.
ONE_AT_A_TIME = threading.RLock()


class _Active(threading.local):
    tracer: Tracer | None = None
    later: float = 0.0  # how many seconds the clocks of this thread are ahead
    slow: int = 0  # how often this thread asked for the slow path of transformer layers
    exported: type | None = None  # the class of tensors of a model that runs as if it were being exported


_ACTIVE = _Active()


def current() -> Tracer | None:
    """The tracer at work in this thread; the innermost one, if a model exports another one in its forward."""
    return _ACTIVE.tracer


@contextlib.contextmanager
def tracing(tracer: Tracer) -> Iterator[None]:
    """Inside, this thread is tracing."""
    outer = _ACTIVE.tracer
    _ACTIVE.tracer = tracer
    try:
        yield
    finally:
        _ACTIVE.tracer = outer


def is_tracing() -> bool:
    """Whether this thread is tracing a model at this moment."""
    return _ACTIVE.tracer is not None


def runs_as_exported() -> type | None:
    """The class of tensors whose data is unknown, if libraries hear in this thread that they are being exported."""
    return _ACTIVE.exported


@contextlib.contextmanager
def as_exported(kind: type) -> Iterator[None]:
    """Inside, `runs_as_exported` gives this class in this thread."""
    before, _ACTIVE.exported = _ACTIVE.exported, kind
    try:
        yield
    finally:
        _ACTIVE.exported = before


def has_no_fast_path() -> bool:
    """Whether this thread asked for the slow path of transformer layers."""
    return _ACTIVE.slow > 0


@contextlib.contextmanager
def on_slow_path() -> Iterator[None]:
    """Inside, `has_no_fast_path` is true in this thread."""
    _ACTIVE.slow += 1
    try:
        yield
    finally:
        _ACTIVE.slow -= 1


def seconds_later() -> float:
    """How many seconds the clocks are ahead that this thread asks."""
    return _ACTIVE.later


@contextlib.contextmanager
def later(seconds: float) -> Iterator[None]:
    """Inside, the clocks of this thread are ahead."""
    before, _ACTIVE.later = _ACTIVE.later, seconds
    try:
        yield
    finally:
        _ACTIVE.later = before
