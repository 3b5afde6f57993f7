"""Functions of others that are entered through ours.

Whoever imported such a function by name holds the function itself, so it is its code that is another one for a while.
"""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any

from .patches import Patch


def detour(function: Any, around: Callable[..., Any]) -> Patch:
    """Calls of the function go to `around`, with the original as the first argument."""

    def make(code: types.CodeType) -> types.CodeType:
        original = _copy(function)

        def hook(*args: Any, **kwargs: Any) -> Any:
            return around(original, *args, **kwargs)

        return _calling(hook, code)

    return Patch(function, "__code__", make)


def _template(*args: Any, **kwargs: Any) -> Any:
    hook: Any = "the hook"
    return hook(*args, **kwargs)


def _calling(hook: Callable[..., Any], code: types.CodeType) -> types.CodeType:
    """Code that calls the hook, which is one of its constants: no name is needed for that. It says that it stands where
    the original stands, for those who look for the source."""
    template = _template.__code__
    constants = tuple(hook if each == "the hook" else each for each in template.co_consts)
    return template.replace(
        co_consts=constants, co_name=code.co_name, co_filename=code.co_filename, co_firstlineno=code.co_firstlineno
    )


def _copy(function: types.FunctionType) -> types.FunctionType:
    """The function as it is now, whatever becomes of its code."""
    code, names, defaults = function.__code__, function.__globals__, function.__defaults__
    copy = types.FunctionType(code, names, function.__name__, defaults, function.__closure__)
    copy.__kwdefaults__ = function.__kwdefaults__
    return copy
