"""Looking at a quantised model while it runs, without changing it: what analyses and dumps are made of."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from ..capture.model import set_training
from .grid import Grid
from .initialise import controller_of
from .quantize import as_call, check_call
from .sites import Site

if TYPE_CHECKING:
    from .session import Call, Frame

Saw = Callable[[Site, Tensor, Tensor | None, Grid | None], None]


@dataclass(frozen=True)
class Study:
    """What a session does differently.

    exact    integers, or float arithmetic
    only     the modules that are quantised; all others stay in float
    saw      is shown every tensor at its site: its values and, in integers, these and their grid
    joined   is told what becomes part of an earlier call, a batch norm or an activation
    """

    exact: bool
    only: frozenset[str] | None = None
    saw: Saw | None = None
    joined: Callable[[Call, Frame], None] | None = None

    def with_range(self, site: Site, y: Tensor) -> Site:
        """A module that is quantised alone meets tensors that have no range: theirs is what they have."""
        if self.only is None:
            return site
        return _SeenSite(site.owner, site.path, site.name, site.settings, site.rounding, torch.stack(y.aminmax()))


@dataclass(frozen=True, eq=False)
class _SeenSite(Site):
    seen: Tensor | None = None

    @property
    def range(self) -> Tensor | None:
        return self.seen


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
