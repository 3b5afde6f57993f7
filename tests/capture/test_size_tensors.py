"""Questions to tensors that depend on sizes alone: silent where all sizes answer alike, else decisions on sizes."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

import onward

SIZES = (2, 3, 5, 9, 40)
SAME_EVERYWHERE: dict[str, Callable[[Tensor], Tensor]] = {
    "consecutive": lambda x: x * 2 if torch.arange(x.shape[0]).diff().eq(1).all() else x,
    "ones": lambda x: x * 2 if torch.ones(x.shape[0], dtype=torch.bool).all() else x,
    "like another": lambda x: x * 2 if torch.zeros_like(x).any() else x,
    "new": lambda x: x * 2 if x.new_ones(x.shape).bool().all() else x,
    "lower triangle": lambda x: x * 2 if torch.ones(x.shape[0], x.shape[0]).tril().diagonal().all() else x,
    "a plain constant": lambda x: x * 2 if (torch.arange(x.shape[0]) < torch.tensor(10**9)).all() else x,
    "in every turn": lambda x: sum((x for _ in range(20) if torch.arange(x.shape[0]).min() == 0), x),
}
NUMBERS: dict[str, Callable[[Tensor], Tensor]] = {
    "sum": lambda x: x * torch.arange(x.shape[0]).sum().item(),
    "as a slice": lambda x: x[: torch.arange(x.shape[0]).max().item()],
    "product of a shape": lambda x: x * torch.tensor(x.shape).prod().item(),
    "as an int": lambda x: x * int(torch.ones(x.shape[0], x.shape[0]).triu().sum()),
    "of a number": lambda x: x + torch.arange(torch.arange(x.shape[0]).max().item() + 1)[:, None],
}


@pytest.mark.parametrize("model", [*SAME_EVERYWHERE.values(), *NUMBERS.values()], ids=[*SAME_EVERYWHERE, *NUMBERS])
def test_nothing_is_said(model: Callable[[Tensor], Tensor]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        program = onward.export(model, torch.randn(4, 3), input_names=["x"], dynamic_axes={"x": {0: "n"}})
    for size in SIZES:
        x = torch.randn(size, 3)
        torch.testing.assert_close(program(x), model(x))


@pytest.mark.parametrize(
    ("model", "flip"),
    [
        (lambda x: x * 2 if torch.ones(x.shape[0], x.shape[0]).sum() > 30 else x, 6),
        (lambda x: x * 2 if torch.arange(x.shape[0]).max().item() > 30 else x, 32),
    ],
)
def test_a_flip_is_kept(model: Any, flip: int) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        program = onward.export(model, torch.randn(4, 3), input_names=["x"], dynamic_axes={"x": {0: "n"}})
    for rows in (1, flip - 1, flip, flip + 1, 100):
        x = torch.randn(rows, 3)
        torch.testing.assert_close(program(x), model(x))


@pytest.mark.parametrize(
    "model",
    [
        lambda x: x * 2 if (x > 100).any() else x,
        lambda x: x * 2 if (torch.rand(x.shape) > 2).any() else x,
        lambda x: x * 2 if (torch.arange(x.shape[0]) > x.sum()).any() else x,
        lambda x: x * 2 if torch.arange(x[x > 0].shape[0]).sum() > 1000 else x,
    ],
    ids=["data", "random numbers", "both", "a size from data"],
)
def test_data_is_no_matter_of_sizes(model: Any) -> None:
    program = onward.export(model, torch.randn(4, 3), input_names=["x"], dynamic_axes={"x": {0: "n"}})
    assert any(" kept as If" in text for text in program.warnings)  # where sizes alone decide, nothing is said
