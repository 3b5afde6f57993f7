"""Newton's iteration with `torch.while_loop`: the file goes on until the result is good enough, as the model does.

    python examples/newton.py [out.onnx]

The inverse of a matrix by Newton and Schulz: X <- X (2 - A X), until A X is the identity to within a tolerance that is
an input. How many turns that takes depends on the data, so a trace of a Python `while` would keep the example's number.
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch
from torch import Tensor, nn
from torch._higher_order_ops.while_loop import while_loop

import onward


class Inverse(nn.Module):
    """For a batch of matrices of any size. Returns how many turns it took as well."""

    def __init__(self, most: int = 100) -> None:
        super().__init__()
        self.most = most

    def forward(self, matrix: Tensor, tolerance: Tensor) -> tuple[Tensor, Tensor]:
        identity = torch.eye(matrix.shape[-1], dtype=matrix.dtype)

        def error(guess: Tensor) -> Tensor:
            return (matrix @ guess - identity).abs().max()

        def going(turns: Tensor, guess: Tensor) -> Tensor:
            return (error(guess) > tolerance) & (turns < self.most)

        def better(turns: Tensor, guess: Tensor) -> tuple[Tensor, Tensor]:
            return turns + 1, guess @ (2 * identity - matrix @ guess)

        columns, rows = matrix.abs().sum(-2).amax(-1), matrix.abs().sum(-1).amax(-1)
        start = matrix.mT / (columns * rows)[..., None, None]  # from here it converges for every regular matrix
        turns, guess = while_loop(going, better, (torch.tensor(0), start))
        return guess, turns


def regular(batch: int, size: int, seed: int) -> Tensor:
    """Matrices that have an inverse."""
    noise = torch.randn(batch, size, size, generator=torch.Generator().manual_seed(seed))
    return torch.eye(size) * size + noise


def export(file: Path) -> onward.Program:
    return onward.export(
        Inverse().eval(),
        (regular(2, 3, seed=0), torch.tensor(1e-4)),
        file,
        output_names=["inverse", "turns"],
        dynamic_axes={"matrix": {0: "batch", 1: "n", 2: "n"}},
        verify=True,
    )


def main(file: Path) -> None:
    program = export(file)
    print(repr(program))
    for batch, size, tolerance in ((1, 2, 1e-1), (3, 4, 1e-4), (2, 8, 1e-5), (1, 5, 1e9)):
        matrix = regular(batch, size, seed=size)
        inverse, turns = program(matrix, torch.tensor(tolerance))
        error = (matrix @ inverse - torch.eye(size)).abs().max()
        print(f"{batch} of {size}x{size}, to {tolerance:g}: {int(turns)} turns, off by {error:.1e}")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "newton.onnx"))
