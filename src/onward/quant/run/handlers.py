"""Which handler computes which torch function.

    @handles(torch.relu, F.relu, Tensor.relu)
    def relu(session: QuantSession, func, input, inplace=False): ...

A handler takes the session, the function that was called, and the function's own arguments under its own names. It
returns the result, or NotImplemented where the call is none of its business: then the function runs in float.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor

# Functions that ask about a tensor and not for its values: a result that waits goes on waiting.
ABOUT = frozenset(
    [getattr(Tensor, name) for name in (
        "dim", "size", "numel", "nelement", "ndimension", "stride", "storage_offset", "element_size", "get_device",
        "is_contiguous", "is_floating_point", "is_complex", "is_signed", "__len__", "type", "is_inference",
        "is_same_size", "requires_grad_", "register_hook", "retain_grad",
    )]
    + [getattr(Tensor, name).__get__ for name in (
        "shape", "dtype", "device", "ndim", "requires_grad", "layout", "is_cuda", "is_leaf", "grad_fn", "is_sparse",
        "is_quantized", "is_meta", "is_mkldnn", "is_nested", "is_cpu", "itemsize", "nbytes", "grad",
    )]
)  # fmt: skip

HANDLERS: dict[Any, Callable[..., Any]] = {}
WEIGHT_ONLY: dict[Any, Callable[..., Any]] = {}  # those for modules whose activations stay in float
INSIDE: dict[Any, Callable[..., Any]] = {}  # those for modules that are one function of sixteen bits
SWITCHED_OFF: dict[Any, Callable[..., Any]] = {}  # those for modules that stay in float altogether


def handles(*functions: Any, table: dict[Any, Callable[..., Any]] = HANDLERS) -> Callable[..., Callable[..., Any]]:
    """Register a handler. A function has one; a second one is an error."""

    def register(handler: Callable[..., Any]) -> Callable[..., Any]:
        for function in dict.fromkeys(functions):  # some have two names
            if function in table:
                raise ValueError(f"{function} is already handled by {table[function].__name__}")
            table[function] = handler
        return handler

    return register
