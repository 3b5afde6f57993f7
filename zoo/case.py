"""One architecture, and how it is called at the sizes asked for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from torch import Tensor, nn

Sizes = Mapping[str, int]


@dataclass(frozen=True)
class Case:
    """A model that takes tensors by position, and the names of the axes that may change."""

    model: nn.Module
    inputs: Callable[[Sizes], dict[str, Tensor]]  # by name, in the order in which the model takes them
    axes: Mapping[str, Mapping[int, str]]
    sizes: Sizes  # of the example
    others: tuple[Sizes, ...]  # where the file is compared with PyTorch again, if PyTorch accepts them
