"""How a traced tensor lies in memory at the probes and at the points, found by its recipe (`layout_recipes.py`)."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from ..sizes.layouts import Layout
from .layout_recipes import Recipe
from .tensor import TensorTrace, Traced


def recipe_of(tensor: Traced) -> Recipe:
    """How a traced tensor comes to lie in memory."""
    *views, bottom = chain(tensor)
    steps = tuple(each.step for each in reversed(views) if each.step is not None)
    return Recipe((Layout.of(bottom.example), *bottom.layouts), bottom.fact.shape, bottom.copied, steps)


def chain(tensor: Traced) -> Iterator[Traced]:
    """A tensor, and those that it is a view of."""
    each: Traced | None = tensor
    while each is not None:
        yield each
        each = each.parent


def tensors_elsewhere(tracer: TensorTrace, tensor: Traced) -> list[torch.Tensor | None] | None:
    """For each probe and each point, a tensor without data that lies in memory as the tensor does there; None at points
    at which this is not known, and in place of the list if it is not known at the probes either."""
    table, recipe = tracer.dims, recipe_of(tensor)
    with tracer.aside():
        at_probes = [recipe.at(place) for place in range(table.probes)]
        known = [Layout.of(tensor.example), *tensor.layouts]
        first = 0 if recipe.copied is None else 1  # the example is copied as other sizes are, where PyTorch views it
        if (
            any(made is None for made in at_probes)
            or any(
                Layout.of(made)[:2] != each[:2]  # type: ignore[arg-type]
                for made, each in zip(at_probes[first:], known[first:], strict=True)
            )
        ):
            return None
        points = range(table.probes, table.width)
        return [*at_probes, *(None if place in table.dead else recipe.at(place) for place in points)]
