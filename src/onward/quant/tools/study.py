"""Looking at a quantised model while it runs, without changing it: what analyses and dumps are made of."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from ...capture.frontends.model import set_training
from ..exact.integers import dequantize, quantize
from ..grids.grid import Grid
from ..grids.sites import Site
from ..setup.initialize import controller_of
from .quantize import as_call, check_call

if TYPE_CHECKING:
    from ..run.session import Call, Frame

Saw = Callable[[Site, Tensor, Tensor | None, Grid | None], None]
Weighed = Callable[[str, str, Tensor, Tensor, int], None]


@dataclass(frozen=True)
class Study:
    """What a session does differently.

    exact    integers, or float arithmetic
    only     what is rounded in float arithmetic: sites, by their labels, and what modules round at none (`siteless`)
    saw      is shown every tensor at its site: its values and, in integers, these and their grid
    weighed  is shown every weight in integers: the module's path, which of its weights it is, the weight (a batch norm
             folded in), the same rounded, and the axis of its output channels
    joined   is told what becomes part of an earlier call, a batch norm or an activation, and the site of what comes out
    """

    exact: bool
    only: frozenset[str] = frozenset()
    saw: Saw | None = None
    weighed: Weighed | None = None
    joined: Callable[[Call, Frame, Site], None] | None = None

    def passed(self, site: Site, values: Tensor) -> Tensor:
        """What goes on from a site in float arithmetic."""
        if self.saw is not None:
            self.saw(site, values, None, None)
        if site.label not in self.only or site.range is None:
            return values
        grid = site.grid()
        return dequantize(quantize(values, grid, site.rounding), grid)


@contextlib.contextmanager
def studying(model: nn.Module, study: Study, what: str) -> Iterator[None]:
    """Run the model in evaluation mode and under a study."""
    controller = controller_of(model, what)
    before = controller.study
    controller.study = study
    try:
        with set_training(model, False), torch.no_grad():
            yield
    finally:
        controller.study = before


def run(model: nn.Module, batch: Any, study: Study, what: str) -> Any:
    """One batch through the model."""
    args, kwargs = as_call(batch)
    check_call(model, args, kwargs)
    with studying(model, study, what):
        return model(*args, **kwargs)
