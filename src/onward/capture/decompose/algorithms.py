"""All algorithms that are traced in the place of an operator, by operator."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch._ops import OpOverload

from ...tables import merged
from .linalg import cholesky, inverses, jacobi, ldl, loops, lu, qr, triangular
from .packed import layers

_ALGORITHMS = merged(
    cholesky.ALGORITHMS,
    inverses.ALGORITHMS,
    jacobi.ALGORITHMS,
    ldl.ALGORITHMS,
    loops.ALGORITHMS,
    lu.ALGORITHMS,
    qr.ALGORITHMS,
    triangular.ALGORITHMS,
    layers.ALGORITHMS,
)


def algorithm_for(op: OpOverload, args: Sequence[Any]) -> loops.Algorithm | None:
    """The algorithm for a call. All algorithms are for real numbers: an operator of complex numbers stays as it is, so
    that an error can name it."""
    found = _ALGORITHMS.get(op)
    return None if found is None or any(isinstance(x, torch.Tensor) and x.is_complex() for x in args) else found
