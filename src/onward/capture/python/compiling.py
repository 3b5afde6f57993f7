"""PyTorch's compiler, which has no part in a run of ours: what is wrapped in torch.compile runs as it is written.

The compiler takes seconds to import, so as long as nobody has loaded it, it is only waited for. `torch.cond` and its
kin load it in their first plain call. If it were then let loose on a run with our modes around it, it would mark
their functions as ones to leave alone, for as long as the process lives.
"""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import torch

from .detours import detour
from .patches import patched


class _Eager:
    """PyTorch's stance is the process's: the first thread that needs it sets it, and the last one puts it back."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._inside = 0
        self._stance: Any = None

    def __enter__(self) -> None:
        with self._lock:
            if self._inside == 0:
                self._stance = torch.compiler.set_stance("force_eager")
            self._inside += 1

    def __exit__(self, *error: object) -> None:
        with self._lock:
            self._inside -= 1
            if self._inside == 0:
                self._stance.__exit__(None, None, None)


class _Waiting(threading.local):
    """What is open in this thread until the compiler comes, and takes in the stance then."""

    stack: contextlib.ExitStack | None = None


_EAGER = _Eager()
_WAITING = _Waiting()


def _in_eager_stance(original: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    stack, _WAITING.stack = _WAITING.stack, None
    if stack is not None:
        stack.enter_context(_EAGER)
    return original(*args, **kwargs)


_COMPILE = detour(torch.compile, _in_eager_stance)


@contextlib.contextmanager
def without_compiling() -> Iterator[None]:
    """Parts of the model that are wrapped in torch.compile run as they are written."""
    if "torch._dynamo" in sys.modules:
        with _EAGER:
            yield
    elif _WAITING.stack is not None:  # an export inside another one's run
        yield
    else:
        with patched([_COMPILE]), contextlib.ExitStack() as stack:
            _WAITING.stack = stack
            try:
                yield
            finally:
                _WAITING.stack = None
