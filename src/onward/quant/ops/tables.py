"""Functions that two runtimes compute differently in the last bit.

Those of one value have a table of all integers: what lies in a file is the same number on every machine. A softmax is
evaluated by onnxruntime itself, whose kernel depends on the vectors of the processor.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from .. import kernels
from ..grids.grid import Grid, dtype_bounds
from .core import define

FIRST = {torch.uint8: 0, torch.int8: -128, torch.uint16: 0, torch.int16: -(1 << 15)}


def _lookup(q: Tensor, table: Tensor) -> Tensor:
    places = q.to(torch.int64) - FIRST[q.dtype]
    return table.to(torch.int32)[places].to(table.dtype)  # torch cannot index integers of sixteen bits


define("lookup(Tensor q, Tensor table) -> Tensor", _lookup, lambda q, table: torch.empty_like(q, dtype=table.dtype))


def lookup(q: Tensor, table: Tensor) -> Tensor:
    """The entries of a table, whose first is that of the smallest integer of the type."""
    result: Tensor = torch.ops.onward.lookup(q, table)
    return result


for _name, _kernel in (("softmax", kernels.float_softmax), ("log_softmax", kernels.float_log_softmax)):
    define(
        f"{_name}(Tensor x, int dim) -> Tensor",
        _kernel,
        lambda x, dim: torch.empty_like(x, memory_format=torch.contiguous_format),
    )


def softmax(x: Tensor, dim: int) -> Tensor:
    """torch.softmax, to the bit as onnxruntime computes it on this machine."""
    result: Tensor = torch.ops.onward.softmax(x, dim)
    return result


def log_softmax(x: Tensor, dim: int) -> Tensor:
    """The same of torch.log_softmax."""
    result: Tensor = torch.ops.onward.log_softmax(x, dim)
    return result


def table_of(function: Callable[[Tensor], Tensor], x: Grid, y: Grid) -> Tensor:
    """The integers on the grid `y` that a function has for all integers of the grid `x`."""
    low, high = dtype_bounds(x.dtype)
    every = torch.arange(low, high + 1, dtype=torch.int32, device=x.scale.device).to(x.torch_dtype)
    values = kernels.dequantize(every, x).to(torch.float64)
    return kernels.quantize(function(values).to(torch.float32), y)
