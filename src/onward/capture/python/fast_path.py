"""The fast path of transformer layers, off in the threads that ask for that.

It leaves other numbers where a mask hides them, so a model that is traced, or compared, computes as it is written.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch

from ..ground.threads import has_no_fast_path, on_slow_path
from .detours import detour
from .patches import patched


def _is_enabled(original: Any) -> Any:
    return False if has_no_fast_path() else original()


_FLAG = detour(torch.backends.mha.get_fastpath_enabled, _is_enabled)


@contextlib.contextmanager
def without_fast_path() -> Iterator[None]:
    """Inside, transformer layers of this thread compute as they are written."""
    with on_slow_path(), patched([_FLAG]):
        yield
