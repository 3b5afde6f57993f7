"""Operators that are written in another way because of the sizes that their tensors may have."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any, Protocol

from torch._ops import OpOverload

from ..functions.whole_axis_pools import POOLS, whole_axis
from ..memory.tensor_queries import ASKS_SIZES, QueryTrace
from .chunks_as_slices import CHUNKS, in_slices
from .empty_tensors import refuses_empties, with_a_row


class RewriteTrace(QueryTrace, Protocol):
    """What operators that are written in another way need of the trace."""

    def mode_again(self) -> AbstractContextManager[Any]:
        """Ops inside come to the trace one by one."""


def rewritten(tracer: RewriteTrace, op: OpOverload, args: tuple, kwargs: dict[str, Any]) -> Any:
    """The operator's result, computed in another way; NotImplemented where there is no reason for that."""
    if op in POOLS:
        with tracer.mode_again():
            result = whole_axis(POOLS[op], args[0], args[1], args[3] if len(args) > 3 else 0)
        if result is not NotImplemented:
            return result
    if refuses_empties(op):
        with tracer.mode_again():
            return with_a_row(tracer, op, args, lambda *rows: op(*rows, **kwargs))
    if op in CHUNKS:
        with tracer.mode_again():
            result = in_slices(tracer, *args, **kwargs)
        if result is not NotImplemented:
            ASKS_SIZES[op](tracer, *args, **kwargs)  # how many there are is a number that the model may go on with
        return result
    return NotImplemented
