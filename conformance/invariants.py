"""What to compare where an operator's answer is not unique.

Eigenvectors and singular vectors are right with either sign, and where values coincide any basis is. Which one LAPACK
returns depends on its version and on the processor. So of these operators alone the judge compares what every right
answer has in common: the values, the matrix that vectors and values make up again, and that vectors are orthonormal.
"""

from __future__ import annotations

from collections.abc import Callable

import torch

from onward.tables import registrar

Results = list[torch.Tensor]
INVARIANTS: dict[str, Callable[[Results], Results]] = {}
of = registrar(INVARIANTS)


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
