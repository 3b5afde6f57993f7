"""Small scripts, each with an example and with inputs that take another way: the other branch, another number of turns.

A row is a function or a module; `x` has two axes and `n` is a number in a tensor, unless the row says otherwise.
TorchScript reads annotations as they are written, so they are not postponed here.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

Tensor = torch.Tensor


@dataclass(frozen=True)
class Row:
    name: str
    model: Any
    example: tuple
    others: tuple[tuple, ...]
    axes: dict[str, dict[int, str]]
    first_opset: int = 9


ROWS: list[Row] = []
_DEFAULT = {"x": {0: "batch"}}


def sample(rows: int = 2, seed: int = 0) -> Tensor:
    return torch.randn(rows, 3, generator=torch.Generator().manual_seed(seed))


def turns(*counts: int) -> tuple[tuple, ...]:
    return tuple((sample(rows, seed), torch.tensor(n)) for seed, n in enumerate(counts) for rows in (1, 4))


def rows_in(table: list[Row]) -> Callable[..., Callable[[Any], Any]]:
    """A decorator that adds rows to a table."""

    def row(
        example: tuple | None = None,
        others: tuple[tuple, ...] | None = None,
        axes: dict[str, dict[int, str]] | None = None,
        first_opset: int = 9,
        name: str | None = None,
    ) -> Callable[[Any], Any]:
        """Add a function or a module class; without inputs of its own it takes `x` and `n`."""

        def add(model: Any) -> Any:
            inputs = example or (sample(), torch.tensor(3))
            more = others if others is not None else turns(0, 1, 2, 7) if example is None else ()
            named = _DEFAULT if axes is None else axes
            table.append(Row(name or model.__name__, model, inputs, more, named, first_opset))
            return model

        return add

    return row


row = rows_in(ROWS)
SIGNS = ((sample(4).abs(),), (-sample(4).abs(),), (sample(1) * 0,))
