"""The side of a branch, or the body of a loop, as it has been traced."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import fx

from ..ground.tree import Structure
from ..memory.graph_levels import Level
from ..memory.tensor import Cell, Traced
from ..program.facts import ListFact, SizeFact, TensorFact


@dataclass(frozen=True)
class Leaf:
    """A value that a body takes or gives: what is known of it, and what it is for the example."""

    fact: TensorFact | SizeFact | ListFact
    example: Any
    memory: Cell | None = None  # where it lies, inside or outside of the body


@dataclass
class Side:
    """A body that has been traced, and what Python got from it."""

    level: Level
    leaves: list[Any]  # tensors and lists of them as (node, Leaf); everything else as it is
    structure: Structure
    writes: dict[int, tuple[Traced, fx.Node, torch.Tensor]]  # memory from outside: by base, its new content
    refused: set[int]  # points at which it cannot run
    doubts: list[tuple[Cell, str]]  # memory from outside that may be what was written to, and where
