"""`int(tensor)`, `int(n / 2)` and `float(tensor)` as numbers that the graph computes.

Python insists that `__int__` and `__float__` give plain numbers, so nothing that they return remembers where it comes
from. The names cannot be other functions either, as `len` can (`python/builtin_functions.py`): `int` is also a type, in
`isinstance(n, int)` or `dtype=float`. So the model's own functions run, while they are traced, with code in which
exactly the calls go to the functions below (`python/calls.py`). For all that is neither a tensor nor a number from data
or from sizes, and in every other thread, these do what Python's do. They outlive the trace: so may a lambda that was
made meanwhile.

Some code needs a plain number for good: as a key, in the name of an attribute. It fails with ours, and the model is
traced once more as it is written (`Freedom.conversions`), with the warning that a number was read out.
"""

from __future__ import annotations

import builtins
import functools
import math
from collections.abc import Callable
from typing import Any

import torch

from ..functions.loop_turns import counting, numbered
from ..ground.threads import current
from ..memory.tensor import Traced
from ..record.tracer import Tracer
from ..sizes.sizes import SYMBOLIC, computed, symbol
from ..state.own_code import functions
from . import Patch
from .calls import Calls


def _number(value: Any) -> Any:
    """The number from data or from sizes that a value is or holds; None if it is something else."""
    if isinstance(value, torch.Tensor) and value.numel() == 1 and not value.is_complex():
        value = value.item()
    return value if isinstance(value, SYMBOLIC) else None


def _counted(number: Any) -> Any:
    """True and False as 1 and 0."""
    if not isinstance(number, torch.SymBool):
        return number
    size = number.node
    return symbol(computed(torch.sym_int, size))


def _int(plain: Any, value: Any) -> Any:
    number = _number(value)
    if number is None:
        return plain(value)
    return math.trunc(number) if isinstance(number, torch.SymFloat) else _counted(number)


def _float(plain: Any, value: Any) -> Any:
    number = _number(value)
    return plain(value) if number is None else torch.sym_float(_counted(number))


def _isinstance(plain: Any, value: Any, kinds: Any) -> bool:
    """What stands for a number is one."""
    number = value.node.values[0] if isinstance(value, SYMBOLIC) else value
    return plain(value, kinds) or plain(number, kinds)


def _type(plain: Any, value: Any) -> Any:
    """The type of what a value stands for: `type(n) is int`, `type(x) is torch.Tensor`."""
    if isinstance(value, SYMBOLIC):
        return plain(value.node.values[0])
    return torch.Tensor if isinstance(value, Traced) else plain(value)


# What is called in place of Python's function, which comes first among the arguments, and how many follow it.
_FOLLOWING: dict[str, tuple[Callable[..., Any], int | None]] = {
    "int": (_int, 1),
    "float": (_float, 1),
    "isinstance": (_isinstance, 2),
    "type": (_type, 1),
    "range": (counting, None),
    "enumerate": (numbered, None),
}


def _following(name: str) -> Callable[..., Any]:
    plain, (function, count) = getattr(builtins, name), _FOLLOWING[name]

    @functools.wraps(plain, updated=())
    def following(*args: Any, **kwargs: Any) -> Any:
        tracer: Tracer | None = current()
        if tracer is None or count not in (None, len(args)) or kwargs or not tracer.data_sizes.follows_conversions:
            return plain(*args, **kwargs)
        result = function(plain, *args)
        if isinstance(result, SYMBOLIC):
            tracer.data_sizes.has_conversions = True
        return result

    return following


_CALLS = Calls({name: _following(name) for name in _FOLLOWING})


def conversions(model: Any) -> list[Patch]:
    """The code of the model's own functions in which `int(...)` and `float(...)` keep where a number comes from."""
    if not _CALLS.is_possible():
        return []
    patches = []
    for function in functions(model):
        shadowed = any(name in function.__globals__ for name in _FOLLOWING)
        if not shadowed and getattr(function, "__builtins__", None) is vars(builtins):
            code = function.__code__
            if _CALLS.rewritten(code.co_filename, code) is not code:
                patches.append(Patch(function, "__code__", lambda code: _CALLS.rewritten(code.co_filename, code)))
    return patches
