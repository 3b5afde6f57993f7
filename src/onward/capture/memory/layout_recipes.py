"""How a tensor lies in memory at the probes and at the points.

A traced tensor has a layout at every probe, and dimensions alone at the points. Where somebody asks for more, the
layout at a point is made again. The tensor at the bottom fills its memory in the order of axes that it has at the
probes, or is a copy that a reshape may or may not make. Then every view on the way is taken by PyTorch's own kernels
for tensors without data. The result is believed only if the same steps give the known layouts at the probes.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import fx

from ..program.facts import Dim, SizeFact
from ..sizes.layouts import Layout, dense_like
from .view_inverses import ViewStep

_REFUSALS = (RuntimeError, TypeError, ValueError, IndexError)


class Copied(NamedTuple):
    """An operator that copies at some sizes and gives a view at others, and what it was given."""

    whole: Recipe
    step: ViewStep

    def at(self, place: int) -> torch.Tensor | None:
        """The result at one probe or point, without data; None where nobody knows."""
        whole = self.whole.at(place)
        return None if whole is None else _view_at(whole, self.step, place)

    def is_view_at(self, place: int) -> bool | None:
        """Whether the result is a view there."""
        whole = self.whole.at(place)
        made = None if whole is None else _view_at(whole, self.step, place)
        if whole is None or made is None:
            return None
        return whole.untyped_storage()._cdata == made.untyped_storage()._cdata


class Recipe(NamedTuple):
    """How a tensor comes to lie in memory: what is at the bottom, and the views that were taken."""

    layouts: tuple[Layout, ...]  # of the bottom, at the probes
    shape: tuple[Dim, ...]  # of the bottom
    copied: Copied | None  # if an operator made the bottom that may not have copied
    steps: tuple[ViewStep, ...]

    def at(self, place: int) -> torch.Tensor | None:
        """The tensor at one probe or point, without data; None where nobody knows."""
        found = self._bottom(place) if self.copied is None else self.copied.at(place)
        for step in self.steps:
            found = None if found is None else _view_at(found, step, place)
        return found

    def _bottom(self, place: int) -> torch.Tensor | None:
        """The results of operators fill their memory, in some order of axes."""
        if place < len(self.layouts):
            return _empty(self.layouts[place])
        widest = max(self.layouts, key=lambda layout: sum(layout.size))
        model = _empty(widest)
        if dense_like(widest.size, model).stride != widest.stride:  # it leaves gaps
            return None
        size = tuple(dim if isinstance(dim, int) else dim.values[place] for dim in self.shape)
        return _empty(dense_like(size, model))


def _view_at(whole: torch.Tensor, step: ViewStep, place: int) -> torch.Tensor | None:
    try:
        made = step.op(whole, *_at(step.args, place), **{name: _at(each, place) for name, each in step.kwargs.items()})
        found = made if step.output is None else made[step.output]
    except _REFUSALS:  # what is asked for at this place does not fit, or is not known
        return None
    return found if isinstance(found, torch.Tensor) else None


def _at(value: Any, place: int) -> Any:
    if isinstance(value, fx.Node):
        fact = value.meta.get("val")
        if not isinstance(fact, SizeFact) or len(fact.values) <= place:
            raise ValueError("a number that is not known everywhere")
        return fact.values[place]
    if isinstance(value, torch.SymInt):
        return value.node.values[place]
    if isinstance(value, (list, tuple)):
        return [_at(each, place) for each in value]
    return value


def _empty(layout: Layout) -> torch.Tensor:
    return torch.empty_strided(layout.size, layout.stride, dtype=layout.dtype, device="meta")
