"""Models for the command line; `pkg.module:attribute` and `file.py:attribute` mean what is here."""

from __future__ import annotations

import torch
from torch import nn


class Net(nn.Module):
    """A few layers; `scale` is no tensor."""

    def __init__(self, depth: int = 2, width: int = 8, bias: bool = True) -> None:
        super().__init__()
        print("the builder prints this")
        self.layers = nn.Sequential(*(nn.Linear(width, width, bias=bias) for _ in range(depth)))

    def forward(self, x: torch.Tensor, mask: torch.Tensor | None = None, scale: float = 1.0) -> torch.Tensor:
        y = self.layers(x) * scale
        return y if mask is None else torch.where(mask, y, 0)


def build(depth: int = 2) -> nn.Module:
    """A builder."""
    return Net(depth)


def with_example() -> tuple[nn.Module, torch.Tensor]:
    """A builder that knows an example."""
    return Net(), torch.ones(3, 8)


def broken(depth: int = 2) -> nn.Module:
    """A builder with a fault."""
    raise KeyError("no such depth")  # the line that has to be named


def number() -> int:
    """No builder."""
    return 3


def double(x: torch.Tensor) -> torch.Tensor:
    """A function to be exported."""
    return x * 2


class Rows(nn.Module):
    """Has as many outputs as the batch has rows."""

    def forward(self, x: torch.Tensor) -> list[torch.Tensor]:
        return [row * i for i, row in enumerate(x)]


class LoopedRows(nn.Module):
    """Takes the batch apart, and puts it together again."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.stack([row * i for i, row in enumerate(x)])


class Digits(nn.Module):
    """Freezes its batch axis for good: no formula has these numbers."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * pow(7, int(x.shape[0]), 101)


def dilated(x: torch.Tensor) -> torch.Tensor:
    """Not to be written in opset 9."""
    return nn.functional.max_pool1d(x[None], 2, dilation=2)


def three(x: torch.Tensor) -> torch.Tensor:
    """Always as wide."""
    return x[:, :3]


class Sub:
    """Attributes may have attributes."""

    small = Net


ready = nn.Linear(4, 4)
constant = 5
