"""What `functools.lru_cache` keeps while a model is run at several sizes.

A table that was made for the example's size by an earlier call would not be made again, and runs at different sizes
would not be the same. And what is made while a model is traced must not be given to anybody afterwards. So the caches
of the model's own code are emptied before such a run and after it: a cache can be filled again.
"""

from __future__ import annotations

import contextlib
import functools
import sys
from collections.abc import Iterable, Iterator
from typing import Any

from .own_code import functions, packages


@contextlib.contextmanager
def caches_emptied(model: Any, *, wanted: bool) -> Iterator[None]:
    """Around a run, if it is one that others are compared with."""
    if not wanted:
        yield
        return
    _empty(_caches(model))
    try:
        yield
    finally:
        _empty(_caches(model))  # some may have been imported meanwhile


def _empty(caches: Iterable[Any]) -> None:
    for cache in caches:
        if cache.cache_info().currsize:
            cache.cache_clear()


def _caches(model: Any) -> Iterator[Any]:
    """The caches of the files and classes of the model's packages, and those that its functions close over."""
    theirs = packages(model)
    for name, module in list(sys.modules.items()):
        if name.split(".")[0] in theirs:
            for value in list(vars(module).values()):
                yield from _of_class(value) if isinstance(value, type) else [value] if _is_cache(value) else []
    for function in functions(model):
        yield from (each for cell in function.__closure__ or () for each in _content(cell) if _is_cache(each))


def _of_class(kind: type) -> list[Any]:
    return [value for value in vars(kind).values() if _is_cache(value)]


def _content(cell: Any) -> list[Any]:
    try:
        return [cell.cell_contents]
    except ValueError:  # not filled yet
        return []


def _is_cache(value: Any) -> bool:
    return type(value) is functools._lru_cache_wrapper
