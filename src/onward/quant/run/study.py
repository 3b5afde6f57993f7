"""Looking at a quantized model while it runs, without changing it: what analyses and dumps are made of."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor

from ..exact.integers import dequantize, quantize
from ..grids.grid import Grid
from ..grids.sites import Site
from .calls import Call, Frame

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


def siteless(path: str) -> str:
    """What a module rounds at no site: its weights, and results of a range that is known beforehand."""
    return f"{path}:siteless"


def is_rounded(study: Study | None, path: str) -> bool:
    """Whether a study in float arithmetic wants what a module rounds at no site to be rounded."""
    return study is not None and siteless(path) in study.only


def show_weight(
    study: Study | None, path: str, name: str, weight: Tensor, rounded: Callable[[], Tensor], axis: int = 0
) -> None:
    """Show a weight, and what is made of it, to a study that wants to see it."""
    if study is not None and study.weighed is not None:
        study.weighed(path, name, weight.detach(), rounded(), axis)
