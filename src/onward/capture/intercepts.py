"""Calls caught one level above the dispatcher, where a size or an index would otherwise lose its origin."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch

from .sizes import SYMBOLIC
from .tensor import Traced

if TYPE_CHECKING:
    from .tracer import Tracer

Intercept = Callable[["Tracer", Any, tuple, dict[str, Any]], Any]
INTERCEPTS: dict[Any, Intercept] = {}


def _intercepts(*functions: Any) -> Callable[[Intercept], Intercept]:
    def register(handler: Intercept) -> Intercept:
        for function in functions:
            INTERCEPTS[function] = handler
        return handler

    return register


def _is_number_tensor(index: Any) -> bool:
    return (
        isinstance(index, Traced)
        and index.fact.rank == 0
        and index.fact.dtype not in (torch.bool, torch.uint8)
        and not index.fact.dtype.is_floating_point
    )


@_intercepts(torch.Tensor.__getitem__)
def getitem(tracer: Tracer, func: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
    """`x[i]` with a 0-d tensor: a gather with one index, whose axis then goes, rather than a number read from data."""
    tensor, index = args
    entries = index if isinstance(index, tuple) else (index,)
    if not any(_is_number_tensor(entry) for entry in entries):
        return NotImplemented
    spread = tuple(entry.reshape(1) if _is_number_tensor(entry) else entry for entry in entries)
    if any(isinstance(entry, (torch.Tensor, list)) for entry in entries if not _is_number_tensor(entry)):
        return tensor[spread]  # other tensors broadcast against it
    axes, axis = [], 0
    consumed = sum(1 for entry in entries if entry is not None and entry is not Ellipsis)
    for entry in entries:
        if entry is Ellipsis:
            axis += tensor.dim() - consumed
        elif _is_number_tensor(entry):
            axes.append(axis)
            axis += 1
        elif not isinstance(entry, int) or isinstance(entry, bool):
            axis += 1
    plain = tuple(slice(None) if _is_number_tensor(entry) else entry for entry in entries)
    result = tensor[plain]
    numbers = [entry for entry in entries if _is_number_tensor(entry)]
    for position, entry in reversed(list(zip(axes, numbers, strict=True))):
        result = result.index_select(position, entry.reshape(1)).squeeze(position)
    return result


@_intercepts(torch.Tensor.__setitem__)
def setitem(tracer: Tracer, func: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
    """`x[i] = v` with a 0-d tensor `i`: an index_put with one index."""
    tensor, index, value = args
    entries = index if isinstance(index, tuple) else (index,)
    if not any(_is_number_tensor(entry) for entry in entries):
        return NotImplemented
    if not isinstance(value, torch.Tensor):
        value = torch.as_tensor(value, dtype=tensor.dtype)
    spread = tuple(entry.reshape(1) if _is_number_tensor(entry) else entry for entry in entries)
    whole = [entry for entry in entries if not _is_number_tensor(entry)]
    if value.dim() and not whole:
        value = value.unsqueeze(0)
    tensor[spread] = value
    return None


def _has_symbol(data: Any) -> bool:
    if isinstance(data, (list, tuple)):
        return any(_has_symbol(each) for each in data)
    return isinstance(data, (*SYMBOLIC, Traced))


@_intercepts(torch.tensor, torch.as_tensor, torch.Tensor.new_tensor)
def tensor_of(tracer: Tracer, func: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
    """`torch.tensor([x.shape[0], 2])`: the numbers keep their origin."""
    data = args[-1] if args else kwargs.get("data")
    if func is torch.as_tensor and isinstance(data, torch.Tensor):
        return NotImplemented
    if isinstance(data, Traced) or not _has_symbol(data):
        return NotImplemented
    dtype = kwargs.get("dtype") or _dtype_of(data)

    def build(value: Any) -> torch.Tensor:
        if isinstance(value, (list, tuple)):
            return torch.stack([build(each) for each in value])
        if isinstance(value, torch.Tensor):
            return value.to(dtype)
        return torch.scalar_tensor(value, dtype=dtype)

    return build(data)


def _dtype_of(data: Any) -> torch.dtype:
    if isinstance(data, (list, tuple)):
        dtypes = [_dtype_of(each) for each in data]
        result = dtypes[0]
        for dtype in dtypes[1:]:
            result = torch.promote_types(result, dtype)
        return result
    if isinstance(data, torch.Tensor):
        return data.dtype
    if isinstance(data, (bool, torch.SymBool)):
        return torch.bool
    return torch.get_default_dtype() if isinstance(data, (float, torch.SymFloat)) else torch.int64


@_intercepts(torch.Tensor.numpy, torch.Tensor.tolist, torch.Tensor.__array__)
def read_out(tracer: Tracer, func: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
    """The tensor leaves PyTorch: what it holds for the example becomes part of the graph."""
    tensor = args[0]
    if not isinstance(tensor, Traced):
        return NotImplemented
    tracer.decisions.warn(
        f"a tensor was read out of PyTorch ({func.__name__}), and the graph keeps the example's values",
        hint="stay with torch operations on tensors that depend on the inputs",
    )
    return func(tensor.example, *args[1:], **kwargs)


def _whole_axis_pool(reduce: Callable[..., torch.Tensor]) -> Intercept:
    def pool(tracer: Tracer, func: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
        """`max_pool1d(x, x.size(2))`: a window as wide as the tensor is a reduction, at any size."""
        names = ("input", "kernel_size", "stride", "padding", "dilation", "ceil_mode")
        bound = {**dict(zip(names, args, strict=False)), **kwargs}
        tensor, window = bound["input"], bound["kernel_size"]
        window = list(window) if isinstance(window, (list, tuple)) else [window]
        if not isinstance(tensor, Traced) or not any(isinstance(each, torch.SymInt) for each in window):
            return NotImplemented
        axes = list(range(-len(window), 0))
        padding = bound.get("padding", 0)
        whole = all(_same_size(each, tensor.shape[axis]) for each, axis in zip(window, axes, strict=True))
        if not whole or any(padding if isinstance(padding, (list, tuple)) else [padding]):
            return NotImplemented
        return reduce(tensor, axes, True)

    return pool


def _same_size(first: Any, second: Any) -> bool:
    values = [each.node.values if isinstance(each, torch.SymInt) else each for each in (first, second)]
    return values[0] == values[1]


# Both names of each: the Python wrapper hands over itself, and what it calls is then no longer seen.
_functional = torch.nn.functional
_intercepts(
    *(torch.max_pool1d, torch.max_pool2d, torch.max_pool3d),
    *(_functional.max_pool1d, _functional.max_pool2d, _functional.max_pool3d),
)(_whole_axis_pool(torch.amax))
_intercepts(_functional.avg_pool1d, _functional.avg_pool2d, _functional.avg_pool3d)(_whole_axis_pool(torch.mean))
