"""What `functools.lru_cache` keeps while a model is run at several sizes.

A table that was made for the example's size by an earlier call would not be made again, and runs at different sizes
would not be the same. And what is made while a model is traced must not be given to anybody afterwards. So the caches
of the model's own code are emptied before such a run and after it: a cache can be filled again.
"""

from __future__ import annotations

import contextlib
import functools
import gc
from collections.abc import Iterator
from typing import Any

from .own_code import packages


@contextlib.contextmanager
def caches_emptied(model: Any, *, wanted: bool) -> Iterator[None]:
    """Around a run, if it is one that others are compared with."""
    theirs = packages(model) if wanted else set()
    _empty(theirs)
    try:
        yield
    finally:
        _empty(theirs)


def _empty(theirs: set[str]) -> None:
    if theirs:
        for cache in [each for each in gc.get_objects() if type(each) is functools._lru_cache_wrapper]:
            if str(getattr(cache, "__module__", "")).split(".")[0] in theirs and cache.cache_info().currsize:
                cache.cache_clear()
