"""What convolutions, pooling and resizing share: spatial axes after [batch, channels], and tensors without a batch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from onward.capture.program.facts import Dim

from ..emitter import Emitter, Value
from ..registry import lowers


def by_axes(*ops: Any, since: int = 9) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register one function for the 1d, 2d and 3d forms of an operator; it learns the form by the keyword `spatial`."""

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        for spatial, op in enumerate(ops, 1):
            lowers(op, since=since)(partial(function, spatial=spatial))
        return function

    return decorate


def per_axis(values: Sequence[Any], count: int) -> list[Any]:
    """PyTorch lets one number stand for all spatial axes."""
    return list(values) * count if len(values) == 1 else list(values)


def batched(g: Emitter, x: Value, spatial: int) -> tuple[Value, bool]:
    """x as [batch, channels, *spatial], and whether the batch axis had to be added."""
    return (x, False) if g.rank(x) == spatial + 2 else (g.unsqueeze(x, [0]), True)


def unbatched(g: Emitter, result: Value, added: bool, shape: Sequence[Dim]) -> Value:
    """The result without the batch axis that was added."""
    return g.squeeze(g.annotate(result, (1, *shape)), [0]) if added else result


def apply_matrix(g: Emitter, x: Value, matrix: Value, axis: int) -> Value:
    """The product with a matrix [size, wanted] along one axis."""
    rank = g.rank(x)
    if axis == rank - 1:
        return g.matmul(x, matrix)
    if axis == rank - 2:
        return g.matmul(g.op.Transpose(matrix, perm=[1, 0]), x)
    order = [a for a in range(rank) if a != axis] + [axis]
    back = [order.index(a) for a in range(rank)]
    return g.op.Transpose(g.matmul(g.op.Transpose(x, perm=order), matrix), perm=back)
