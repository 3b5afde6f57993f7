"""Weights that are made of other parameters whenever they are read: by `nn.utils.parametrizations`, or by the hooks of
`nn.utils.spectral_norm`. What makes them runs in float, also with buffers, such as the vectors of a power iteration;
what comes out is a weight like any other, and is rounded as one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torch import Tensor, nn
from torch.nn.utils.parametrize import ParametrizationList
from torch.nn.utils.spectral_norm import SpectralNorm

from ..run.calls import Frame
from ..run.controller import Controller, running
from ..run.tags import mark_weight

if TYPE_CHECKING:
    from ..run.session import Session


def watch_made_weights(module: nn.Module, controller: Controller, path: str) -> None:
    """Add the hooks that tell such weights, to be called before those for a module's forward are added."""
    if isinstance(module, ParametrizationList):
        module.register_forward_hook(_gives_a_weight)
    names = [each.name for each in module._forward_pre_hooks.values() if isinstance(each, SpectralNorm)]
    if names:
        module.register_forward_pre_hook(_Begins(controller, path), prepend=True)
        module.register_forward_pre_hook(_Ends(controller, names))


def _gives_a_weight(module: nn.Module, args: tuple, result: Tensor) -> None:
    mark_weight(result)


class _Begins:
    """Before the hook of a spectral norm, which runs in the module around the layer: a frame that is switched off."""

    def __init__(self, controller: Controller, path: str) -> None:
        self.controller, self.path = controller, path

    def __call__(self, module: nn.Module, args: Any) -> None:
        session = _session(self.controller)
        if session is not None:
            session.frames.append(Frame(module, self.path, None, 0, False, {}))


class _Ends:
    """After it. If it has raised, the layer's own hook takes the frame away."""

    def __init__(self, controller: Controller, names: list[str]) -> None:
        self.controller, self.names = controller, names

    def __call__(self, module: nn.Module, args: Any) -> None:
        session = _session(self.controller)
        if session is not None:
            session.frames.pop()
        for name in self.names:
            mark_weight(getattr(module, name))


def _session(controller: Controller) -> Session | None:
    stack = running.stack
    return stack[-1] if stack and stack[-1].controller is controller else None
