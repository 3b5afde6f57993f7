"""What the algorithms of this folder share: the one way in which they repeat, and the parts of matrices.

An algorithm is what an operator is made of, for operators that neither lowering nor PyTorch can take apart (PyTorch
calls LAPACK). It is written with ordinary tensor operators, runs under the tracer like a model's own code, and so has
no opset, no element type and no size of its own. Three habits keep it short:

-   All matrices of a batch are done at once: every axis before the last two is left alone.
-   A triangle or a column is a mask (`rows > j`), not a slice, so that all turns of a loop have the same sizes.
-   What a turn finishes for good (a column of a factor, a row of a solution) it hands out to be stacked after the loop;
    only what later turns read is carried on.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch._ops import OpOverload

from ....tables import registrar
from ...bodies.control import capture_loop
from ...ground.attempts import surviving_try
from ...memory.tensor import Traced

if TYPE_CHECKING:
    from ...record.tracer import Tracer

Algorithm = Callable[..., Any]
Tensors = tuple[torch.Tensor, ...]
ALGORITHMS: dict[OpOverload, Algorithm] = {}  # of this file; `decompose/algorithms.py` lists the tables of all files
computes = registrar(ALGORITHMS)


def repeat(
    tracer: Tracer, count: Any, carried: Sequence[torch.Tensor], turn: Callable[..., tuple[Tensors, Tensors]]
) -> tuple[Tensors, Tensors]:
    """`turn(j, *carried) -> (carried, finished)` for j from 0 to count - 1.

    What is carried after the last turn, and what every turn finished: stacked in a new first axis.
    """

    def step(j: Any, values: Tensors) -> Any:
        values, finished = turn(j, *values)
        return True, values, finished

    values, stacked = capture_loop(tracer, count, True, tuple(carried), step)
    return tuple(values), tuple(stacked)


def computed_by(function: Callable[[torch.Tensor], torch.Tensor], matrix: Any, known: Any) -> torch.Tensor:
    """What a function of `regions.py` gives for a traced tensor, which is like a traced result that is known."""
    tracer = matrix.tracer
    made = Traced(known.example.clone(), known.layouts, known.fact, tracer)
    tracer.own(made, tracer.make(function, (tracer.node_of(matrix),), {}, known.fact))
    return made


def is_empty(*sizes: Any) -> bool:
    """Whether there is nothing to loop over; an axis that may vary is taken to have something."""
    return any(type(size) is int and size == 0 for size in sizes)


def shorter(tracer: Tracer, matrix: torch.Tensor) -> Any:
    """The smaller of the sizes of a matrix, one of which may vary.

    The probes keep a tall matrix tall: as with a branch of the model's own, sizes on the other side are tried after the
    trace, and warned of where the program fails there.
    """
    m, n = matrix.shape[-2:]
    is_tall = m >= n
    if isinstance(is_tall, torch.SymBool) and is_tall.node.is_settled_at_probes:
        tracer.decisions.assume(is_tall.node)
        return n if is_tall.node.values[0] else m
    return min(m, n)


def indices(matrix: torch.Tensor, axis: int) -> torch.Tensor:
    """0, 1, 2, ... along an axis."""
    return torch.arange(matrix.shape[axis], device=matrix.device)


def entry(vector: torch.Tensor, place: Any) -> torch.Tensor:
    """One entry of each vector, with an axis of size 1."""
    return vector.select(-1, place).unsqueeze(-1)


def outer(column: torch.Tensor, row: torch.Tensor) -> torch.Tensor:
    """The matrices column * row of vectors."""
    return column.unsqueeze(-1) * row.unsqueeze(-2)


def as_columns(stacked: torch.Tensor) -> torch.Tensor:
    """Vectors that a loop finished one after the other, as the columns of matrices."""
    return stacked.movedim(0, -1)


def as_rows(stacked: torch.Tensor) -> torch.Tensor:
    """Vectors that a loop finished one after the other, as the rows of matrices."""
    return stacked.movedim(0, -2)


def first_failure(bad: torch.Tensor) -> torch.Tensor:
    """LAPACK's info: the number, from 1, of the first pivot that failed, and 0 if none did."""
    if is_empty(bad.shape[-1]):
        return torch.zeros(bad.shape[:-1], dtype=torch.int32)
    return torch.where(bad.any(-1), bad.to(torch.int32).argmax(-1) + 1, 0).to(torch.int32)


_CATCHING = frozenset({"LinAlgError", "RuntimeError", "Exception", "BaseException"})  # what catches such an error


@computes(torch.ops.aten._linalg_check_errors.default)
def _linalg_check_errors(tracer: Tracer, info: torch.Tensor, api_name: str, *, is_matrix: bool) -> None:
    """_linalg_check_errors(Tensor info, str api_name, *, bool is_matrix) -> ()

    A file cannot raise: a matrix that eager refuses (singular, not positive definite) gives infinities or NaN in it.
    A model that catches the error would go another way there, which the file does not have.
    """
    if isinstance(info, Traced) and surviving_try(_CATCHING) is not None:
        tracer.decisions.warn(
            f"the model goes on where {api_name} fails (try), and the file has the way on which it works",
            means="Matrices that PyTorch refuses here give infinities or NaN in the file",
            instead=f"use the function that returns an info tensor ({api_name}_ex) and decide on that with torch.where",
        )
