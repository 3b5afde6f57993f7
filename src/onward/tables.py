"""Tables of functions. A key has one function in a table; a second one is an error that names both."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

Key = TypeVar("Key")
Function = TypeVar("Function", bound=Callable[..., Any])


def registrar(table: dict[Any, Any]) -> Callable[..., Callable[[Function], Function]]:
    """A decorator that enters a function into a table under every key that it is given."""

    def under(*keys: Any) -> Callable[[Function], Function]:
        def register(function: Function) -> Function:
            for key in dict.fromkeys(keys):  # PyTorch has some functions under two names
                enter(table, key, function)
            return function

        return register

    return under


def merged(*tables: Mapping[Key, Function]) -> dict[Key, Function]:
    """One table of several. A key that is in two of them is an error."""
    whole: dict[Key, Function] = {}
    for table in tables:
        for key, function in table.items():
            enter(whole, key, function)
    return whole


def enter(table: dict[Any, Any], key: Any, entry: Any) -> None:
    """Put an entry, which is a function or has one, under a key that has none yet."""
    if key in table:
        places = " and ".join(f"at {place_of(getattr(each, 'function', each))}" for each in (table[key], entry))
        raise ValueError(f"{_name_of(key)} is registered twice in one table: {places}")
    table[key] = entry


def _name_of(key: Any) -> str:
    name = getattr(key, "__qualname__", None)  # of a function or a method; operators write themselves
    return name if isinstance(name, str) else str(key)


def place_of(function: Callable[..., Any]) -> str:
    """Where a function is written: `file.py:42`."""
    code = getattr(inspect.unwrap(function), "__code__", None)
    return f"{code.co_filename}:{code.co_firstlineno}" if code else repr(function)
