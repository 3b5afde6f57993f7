"""Everything that must be in place while a model is traced, put in place and taken back by one context manager.

Thread-local: the dispatch mode, the function mode, the excluded dispatch keys. Process-wide: the patches of the room
`python`, which look at the thread before they act, so that a model in another thread is not disturbed. A lock admits
one trace at a time.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes

from ...tables import merged
from ..decompose.packed import layers
from ..functions import (
    element_counts,
    intercepts,
    memory_questions,
    multihead,
    numbers_of_sizes,
    texts_and_copies,
    whole_axis_pools,
)
from ..ground.threads import ONE_AT_A_TIME, current, is_tracing, tracing
from ..memory.tensor import Traced
from ..python import Patch, patched
from ..python.builtin_functions import BUILTINS, lengths
from ..python.clocks import moments
from ..python.conversions import conversions
from ..python.fast_path import without_fast_path
from ..python.libraries import libraries
from ..python.math_functions import MATH, NUMPY
from ..python.pytorch import pytorch
from ..python.size_types import KINDS
from ..record.tracer import Tracer

is_capturing = is_tracing

# Every function that is caught above the dispatcher while a model is traced.
_INTERCEPTS = merged(
    intercepts.INTERCEPTS,
    element_counts.INTERCEPTS,
    memory_questions.INTERCEPTS,
    multihead.INTERCEPTS,
    numbers_of_sizes.INTERCEPTS,
    whole_axis_pools.INTERCEPTS,
    texts_and_copies.INTERCEPTS,
    layers.INTERCEPTS,
)


def followed(tensor: torch.Tensor) -> torch.Tensor:
    """A constant that is followed like an input while a model is traced: what is computed from it is recorded.

    For what shall stay in the file as it is, where folding would lose something: weights of few bits.
    """
    tracer: Tracer | None = current()
    if tracer is None or isinstance(tensor, Traced):
        return tensor
    with _disable_current_modes():
        return tracer.plain.lift(tensor)


class _Follow(TorchDispatchMode):
    """Brings every op to the tracer, also those with nothing traced among their arguments."""

    def __init__(self, tracer: Tracer) -> None:
        super().__init__()
        self._tracer = tracer

    supports_higher_order_operators = True

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """No guard against torch.compile around our handler: it would import the compiler, seconds of it."""
        return False

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple = (), kwargs: dict[str, Any] | None = None) -> Any:
        return self._tracer.dispatch(func, args, kwargs or {})


class _Intercept(TorchFunctionMode):
    """A level above the dispatcher: the few calls that have lost information by the time they reach it."""

    def __init__(self, tracer: Tracer) -> None:
        super().__init__()
        self._tracer = tracer

    def __torch_function__(self, func: Any, types: Any, args: tuple = (), kwargs: dict[str, Any] | None = None) -> Any:
        kwargs = kwargs or {}
        intercept = _INTERCEPTS.get(func)
        if intercept is not None:
            result = intercept(self._tracer, func, args, kwargs)
            if result is not NotImplemented:
                return result
        return func(*args, **kwargs)


@contextlib.contextmanager
def _both(tracer: Tracer) -> Iterator[None]:
    with _Follow(tracer), _Intercept(tracer):
        yield


def below_autograd() -> Any:
    """Skip autograd and version counting, so that composite ops (conv2d, linear, lstm) arrive whole."""
    keys = torch._C.DispatchKeySet(torch._C.DispatchKey.ADInplaceOrView)
    for name in ("AutogradCPU", "AutogradCUDA", "AutogradMeta", "AutogradOther", "AutogradFunctionality"):
        keys = keys | torch._C.DispatchKeySet(getattr(torch._C.DispatchKey, name))
    return torch._C._ExcludeDispatchKeyGuard(keys)


@contextlib.contextmanager
def session(tracer: Tracer, model: Any = None) -> Iterator[None]:
    """Inside, ops that touch the tracer's tensors are recorded. Everything is undone on any exit."""
    with ONE_AT_A_TIME:
        tracer.mode_again = lambda: _Follow(tracer)  # type: ignore[method-assign]
        tracer.model_again = lambda: _both(tracer)  # type: ignore[method-assign]
        with (
            patched([*BUILTINS, *MATH, *NUMPY, *KINDS, *pytorch(), *libraries(), *_own_names(tracer, model)]),
            without_fast_path(),
            tracing(tracer),
            torch.no_grad(),
            below_autograd(),
            _Follow(tracer),
            _Intercept(tracer),
        ):
            yield


def _own_names(tracer: Tracer, model: Any) -> list[Patch]:
    """What is replaced in the model's own files and functions."""
    if model is None:
        return []
    return [
        *moments(model),
        *lengths(model),
        *(conversions(model) if tracer.data_sizes.follows_conversions else []),
    ]
