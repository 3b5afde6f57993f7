"""Tables that are filled by decorating functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

Function = TypeVar("Function", bound=Callable[..., Any])


def registrar(table: dict[Any, Any]) -> Callable[..., Callable[[Function], Function]]:
    """A decorator that enters a function into a table under every key that it is given."""

    def under(*keys: Any) -> Callable[[Function], Function]:
        def register(function: Function) -> Function:
            table.update(dict.fromkeys(keys, function))
            return function

        return register

    return under
