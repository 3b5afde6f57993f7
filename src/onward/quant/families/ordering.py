"""Values in their order. On a grid many are equal, and PyTorch may put any of these first; runtimes put the one with
the lower index there, and so does evaluation: which expert or which box is taken must not depend on who computes.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ...capture.attempt.session import is_capturing
from ..run.handlers import HANDLERS, SWITCHED_OFF, handles
from ..run.session import Phase, Session


@handles(torch.topk, Tensor.topk, table=SWITCHED_OFF)
@handles(torch.topk, Tensor.topk, table=HANDLERS)
def topk(
    session: Session, func: Any, input: Tensor, k: int, dim: int = -1, largest: bool = True, sorted: bool = True
) -> Any:
    """Without `sorted` a runtime could choose any order as well: a file always has it."""
    if session.phase is not Phase.EXACT or input.dim() == 0:
        return NotImplemented
    if is_capturing() or k > input.shape[dim]:
        return session.in_float(func, input, k, dim, largest, True)
    return session.in_float(_first_of_equals, input, k, dim, largest)


def _first_of_equals(x: Tensor, k: int, dim: int, largest: bool) -> Any:
    values, indices = torch.sort(x, dim=dim, descending=largest, stable=True)
    return torch.return_types.topk((values.narrow(dim, 0, k), indices.narrow(dim, 0, k)))


_SORTS = (torch.sort, Tensor.sort, torch.argsort, Tensor.argsort)


@handles(*_SORTS, table=SWITCHED_OFF)
@handles(*_SORTS, table=HANDLERS)
def sort(
    session: Session, func: Any, input: Tensor, dim: int = -1, descending: bool = False, stable: bool | None = False
) -> Any:
    if not session.is_evaluated:  # what is captured is written as it is called, training is PyTorch's
        return NotImplemented
    return session.in_float(func, input, dim=dim, descending=descending, stable=True)
