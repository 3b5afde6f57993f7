"""How an operator is called on the example, and what its results share with its arguments."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import torch
from torch._ops import OpOverload

from ..ground.memory import leaves, storage
from ..sizes.layouts import Layout
from .tensor import Traced


def protect(real_args: tuple, positions: tuple[int, ...]) -> tuple:
    """Copies of running statistics, where the op would update them."""
    return tuple(
        value.clone() if index in positions and value is not None else value for index, value in enumerate(real_args)
    )


def is_hidden_view(result: Any, values: tuple) -> bool:
    """Whether an op gave back memory of an argument, as `einsum("ij->ji", x)` does, though its schema is not a view's.
    A write to one of them has to reach the other, so the steps that lead from one to the other must be known."""
    given = {storage(each.example): each.cell for each in leaves(values) if isinstance(each, Traced)}
    return any(
        isinstance(each, Traced) and given.get(storage(each.example), each.cell) is not each.cell
        for each in leaves(result)
    )


def is_view_elsewhere(tensor: Traced, results: Sequence[Layout]) -> bool:
    """Whether a reshape is a view at the other probes too; an example with axes of size 1 is one by chance."""
    return tensor.fact.is_static or all(map(_viewed, tensor.layouts, results))


def _viewed(layout: Layout, result: Layout) -> bool:
    try:
        torch.empty_strided(layout.size, layout.stride, device="meta").view(result.size)
    except RuntimeError:
        return False
    return True


@functools.cache
def is_made_of_others(op: Any) -> bool:
    return isinstance(op, OpOverload) and torch._C._dispatch_has_kernel_for_dispatch_key(
        op.name(), "CompositeImplicitAutograd"
    )


def conjugating() -> Any:
    """PyTorch calls us where it no longer looks at conjugation bits, and an op like `fft.hfft` sets them inside."""
    tls = torch._C
    excluded = tls._dispatch_tls_local_exclude_set()
    for key in (tls.DispatchKey.Conjugate, tls.DispatchKey.Negative):
        excluded = excluded.remove(key)
    return tls._ForceDispatchKeyGuard(tls._dispatch_tls_local_include_set(), excluded)


def unaliased(out: torch.Tensor, args: tuple) -> torch.Tensor:
    """A result that lives in a constant's memory is copied, so that a write to it does not reach the constant."""
    memory = storage(out)
    for value in leaves(args):
        if isinstance(value, torch.Tensor) and not isinstance(value, Traced) and storage(value) == memory:
            return out.clone()
    return out
