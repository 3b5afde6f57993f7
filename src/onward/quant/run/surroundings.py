"""What PyTorch does around a quantized model: checkpointing, autocast, transforms of functions.

`torch.utils.checkpoint` keeps nothing of a part of the model, and runs that part again while gradients are computed,
when the run that knew which of its tensors lie on which grid is over. So everything is kept here, and nothing runs
again.

A model that is evaluated or exported under autocast computes as without it. What is left in float (a recurrence, a
norm, a layer that is switched off) would run in the shorter type otherwise, and the file, which has no autocast, would
give other numbers than evaluation did.
"""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.graph import saved_tensors_hooks
from torch.utils import _pytree as pytree

from ...errors import ExportError, QuantizationError
from ..config.checks import QuantizationWarning
from .controller import Controller, quantized_parameters

# Checkpointing

_CHECKPOINTING = "torch.utils.checkpoint"
saved_hooks = torch._C._autograd._top_saved_tensors_default_hooks


def is_checkpointed() -> bool:
    """Whether what autograd is about to keep would be thrown away, to be computed again."""
    hooks: Any = saved_hooks(True)
    return hooks is not None and hooks[0].__module__ == "torch.utils.checkpoint"


def kept(controller: Controller) -> contextlib.AbstractContextManager[None]:
    """Let autograd keep what it needs, although checkpointing would throw it away."""
    if _CHECKPOINTING not in controller.warned:
        controller.warned.add(_CHECKPOINTING)
        warnings.warn(
            "torch.utils.checkpoint saves no memory in a quantized model: what it would compute again is kept",
            QuantizationWarning,
            stacklevel=4,
        )
    return saved_tensors_hooks(_as_it_is, _as_it_is)


def _as_it_is(x: Tensor) -> Tensor:
    return x


def check_forward() -> None:
    """Refuse modules that are called while gradients are computed, by the older kind of checkpointing and by reversible
    layers."""
    if torch._C._current_graph_task_id() != -1:
        raise QuantizationError(
            "a part of a quantized model runs again while gradients are computed, when nobody knows any more which of "
            "its inputs lie on which grids",
            hint="give torch.utils.checkpoint use_reentrant=False, and nothing that runs behind the quantized model; "
            "reversible layers cannot be had",
        )


# Autocast

_KINDS = ("cpu", "cuda", "xpu", "mps")
_SHORTER = (torch.bfloat16, torch.float16)

is_autocast = torch._C._is_any_autocast_enabled


def leave_autocast() -> tuple[str, ...]:
    """Turn autocast off, and say for which kinds of devices it was on."""
    found = tuple(kind for kind in _KINDS if torch.is_autocast_enabled(kind))
    for kind in found:
        torch.set_autocast_enabled(kind, False)
    return found


def return_to_autocast(kinds: tuple[str, ...]) -> None:
    """Turn autocast on again for these kinds of devices."""
    for kind in kinds:
        torch.set_autocast_enabled(kind, True)


@contextlib.contextmanager
def no_autocast() -> Iterator[None]:
    """Turn autocast off around something."""
    kinds = leave_autocast()
    try:
        yield
    finally:
        return_to_autocast(kinds)


def in_full(args: tuple, kwargs: dict[str, Any]) -> tuple[tuple, dict[str, Any]]:
    """The arguments of a model in float32, where something before it has given them a shorter type."""
    full: tuple[tuple, dict[str, Any]] = pytree.tree_map_only(
        Tensor, lambda each: each.float() if each.dtype in _SHORTER else each, (args, kwargs)
    )
    return full


# Errors that PyTorch raises in the middle of a model. A check beforehand would be one in every step of a training.


def hint_for(controller: Controller, model: nn.Module, path: str, error: RuntimeError) -> QuantizationError | None:
    """The error to raise instead of an error of PyTorch's whose reason is known; `path` is that of the model inside of
    the one that was initialized."""
    if isinstance(error, ExportError):
        return None
    for where, _, _, each in quantized_parameters(controller, model, path):
        if each.dtype is not torch.float32:
            place = where or "the model itself"
            return QuantizationError(
                f"{place} has parameters of {each.dtype} by now, and what is quantized is float32",
                hint="call model.float(); autocast may still compute in half precision",
            )
    if torch._C._functorch.peek_interpreter_stack() is not None:
        return QuantizationError(
            "torch.func cannot look into a quantized model: its ranges are read as numbers, and follow the batches",
            hint="take gradients by backward() or torch.autograd.grad",
        )
    return None
