"""`min`, `max`, `divmod` and `round` for sizes, and `len` in the files of the model.

Python's `min` would decide for one of two sizes. Ours computes with sizes in the thread that traces, and is Python's in
every other thread.

Python insists that `__len__` gives a plain number, so `len(tensor)` would freeze an axis, or lose a size that depends
on data. `len` is another function only in the files in which the model's own classes are written: other files keep
Python's, also those that are imported meanwhile and look closely at Python's functions, as PyTorch's compiler does.
"""

from __future__ import annotations

import builtins
import functools
from collections.abc import Callable
from typing import Any

import torch

from ..functions.numbers_of_sizes import number_extremes
from ..ground.threads import current
from ..memory.tensor import Traced
from ..record.tracer import Tracer
from ..sizes.python_functions import symbolic_bit_length, symbolic_divmod, symbolic_extremes, symbolic_round
from ..state.own_code import namespaces
from .patches import Patch


def _extreme(place: int) -> Callable[[Any], Any]:
    def make(original: Any) -> Any:
        of_sizes = symbolic_extremes(original, original)[place]
        of_numbers = number_extremes(of_sizes, of_sizes)[place]

        @functools.wraps(original)
        def extreme(*args: Any, **kwargs: Any) -> Any:
            tracer: Tracer | None = current()
            if tracer is None:
                return original(*args, **kwargs)
            return (of_numbers if tracer.sizes_as_numbers else of_sizes)(*args, **kwargs)

        return extreme

    return make


def _divmod(original: Any) -> Any:
    of_sizes = symbolic_divmod(original)

    @functools.wraps(original)
    def divide(one: Any, other: Any, /) -> Any:
        return (original if current() is None else of_sizes)(one, other)

    return divide


BUILTINS = (
    Patch(builtins, "min", _extreme(0)),
    Patch(builtins, "max", _extreme(1)),
    Patch(builtins, "divmod", _divmod),
    Patch(torch.SymInt, "__round__", symbolic_round),
    Patch(torch.SymInt, "bit_length", symbolic_bit_length),
)


def symbolic_length(value: Any, /) -> Any:
    """Python's `len`, which is a size for a traced tensor, and for a list that grows with the turns of a loop."""
    if isinstance(value, Traced) and value.dim():
        return value.size(0)
    tracer: Tracer | None = current() if type(value) is list else None
    recorder = None if tracer is None else tracer.recorder
    return len(value) if recorder is None or recorder.is_off else recorder.length(value)


def lengths(model: Any) -> list[Patch]:
    """`len` in the model's own files, where they have no other."""
    own = [names for names in namespaces(model) if names.get("len", symbolic_length) is symbolic_length]
    return [Patch(names, "len", lambda _: symbolic_length) for names in own]
