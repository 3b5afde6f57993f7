"""Linear algebra that is traced as an algorithm: what is believed of it, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import onward
from onward.errors import ExportError


class Function(torch.nn.Module):
    def __init__(self, function: Any) -> None:
        super().__init__()
        self._function = function

    def forward(self, x: torch.Tensor) -> Any:
        return self._function(x)


def matrices(*size: int) -> torch.Tensor:
    return torch.randn(size, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize(
    "function",
    [torch.linalg.inv, torch.linalg.det, torch.linalg.pinv, torch.linalg.svdvals, torch.matrix_exp],
    ids=lambda function: function.__name__,
)
def test_the_example_is_pytorchs_own(function: Any) -> None:
    """Bit by bit: verification would otherwise hold an algorithm against itself."""
    x = matrices(3, 8, 8)
    program = onward.export(Function(function), (x,))
    assert torch.equal(program.captured.example_outputs[0], function(x))


def test_what_eager_refuses_is_refused() -> None:
    with pytest.raises(ExportError, match="singular"):
        onward.export(Function(torch.linalg.inv), (torch.zeros(2, 2),))


@pytest.mark.parametrize("full", [True, False])
def test_vectors_are_verified_with_the_signs_of_a_rule(full: bool) -> None:
    """Which signs LAPACK returns is chance: eager's are changed to ours before they are compared."""

    def both(x: torch.Tensor) -> Any:
        return torch.linalg.eigh(x), torch.linalg.svd(x, full_matrices=full)

    axes = {"x": {0: "batch", 1: "n", 2: "n"}}
    program = onward.export(Function(both), (matrices(3, 4, 4),), input_names=["x"], dynamic_axes=axes, verify=True)
    assert program.captured.results.has_vectors


def test_complex_matrices_are_reported_by_name() -> None:
    def inverse(x: torch.Tensor) -> torch.Tensor:
        return torch.view_as_real(torch.linalg.inv(torch.view_as_complex(x)))

    with pytest.raises(ExportError, match="linalg_inv"):
        onward.export(Function(inverse), (matrices(3, 3, 2),))


def test_eigenvalues_that_are_complex_are_reported_by_name() -> None:
    with pytest.raises(ExportError, match="linalg_eig"):
        onward.export(Function(lambda x: torch.linalg.eigvals(x).abs()), (matrices(3, 3),))
