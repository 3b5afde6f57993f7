"""PyTorch stores uint16, uint32 and uint64 but computes little with them: operators compute in int64 instead."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

import torch

Function = TypeVar("Function", bound=Callable[..., Any])
UNSIGNED = (torch.uint16, torch.uint32, torch.uint64)


def widened(function: Function) -> Function:
    """Run a function on int64 where it is given unsigned integers; results of int64 get the type of the first one."""

    @functools.wraps(function)
    def run(*inputs: Any, **attributes: Any) -> Any:
        narrow = next((x.dtype for x in inputs if isinstance(x, torch.Tensor) and x.dtype in UNSIGNED), None)
        if narrow is None:
            return function(*inputs, **attributes)
        result = function(*map(_wide, inputs), **attributes)
        if isinstance(result, tuple):
            return tuple(_back(each, narrow) for each in result)
        return _back(result, narrow)

    return run  # type: ignore[return-value]


def _wide(value: Any) -> Any:
    return value.to(torch.int64) if isinstance(value, torch.Tensor) and value.dtype in UNSIGNED else value


def _back(value: Any, dtype: torch.dtype) -> Any:
    return value.to(dtype) if isinstance(value, torch.Tensor) and value.dtype == torch.int64 else value
