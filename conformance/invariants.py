"""What to compare where an operator's answer is not unique.

Eigenvectors and singular vectors are right with either sign, and where values coincide any basis is. Which one LAPACK
returns depends on its version and on the processor. Operators that name places may name any of equal elements. So of
these operators alone the judge compares what every right answer has in common: the values, the matrix that vectors and
values make up again, and that vectors are orthonormal; what is at the places, and that none is named twice.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from onward.tables import registrar

Results = list[torch.Tensor]
INVARIANTS: dict[str, Callable[[Results], Results]] = {}
of = registrar(INVARIANTS)

# Operators that are free to choose among equal elements -> where `dim` stands among their arguments.
FREE_AMONG_EQUALS = {"topk": 2, "kthvalue": 2, "sort": 1, "argsort": 1}


@of("linalg.eigh")
def eigh(results: Results) -> Results:
    values, vectors = results
    return [values, (vectors * values.unsqueeze(-2)) @ vectors.mT, vectors.mT @ vectors]


@of("linalg.svd")
def linalg_svd(results: Results) -> Results:
    left, values, right = results
    return svd([left, values, right.mT])


@of("svd")
def svd(results: Results) -> Results:
    left, values, right = results
    count = values.shape[-1]
    product = (left[..., :count] * values.unsqueeze(-2)) @ right[..., :count].mT
    return [values, product, left.mT @ left, right.mT @ right]


def free_axis(name: str, args: tuple, kwargs: dict[str, Any]) -> int | None:
    """Where an operator may choose among equal elements, the axis that it looks along."""
    place = FREE_AMONG_EQUALS.get(name)
    if place is None or kwargs.get("stable"):
        return None
    return int(args[place] if len(args) > place else kwargs.get("dim", -1))


def named(of: torch.Tensor, axis: int, results: Results) -> Results:
    """Places along an axis of a tensor replaced by what is there, and by whether each is named once."""
    shown: Results = []
    for result in results:
        if result.dtype is not torch.int64 or of.dim() == 0 or not result.numel():
            shown.append(result)
            continue
        places = result if result.dim() == of.dim() else result.unsqueeze(axis)
        shown += [of.take_along_dim(places, axis), places.sort(axis)[0].diff(dim=axis) > 0]
    return shown
