"""Hooks that a model registers when it is called for the first time are registered once, whatever onward has run."""

from __future__ import annotations

import torch
from torch import nn

import onward


class Capturing(nn.Module):
    """As transformers collects hidden states: by hooks, which the first call registers."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(4, 4) for _ in range(3)])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if not getattr(self, "is_hooked", False):
            for layer in self.layers:
                layer.register_forward_hook(lambda module, args, out: self.seen.append(out))
            self.is_hooked = True
        self.seen: list[torch.Tensor] = []
        for layer in self.layers:
            x = layer(x)
        if x.sum() > 0:
            x = x * 2
        return x + self.seen[-2]


def test_hooks_are_registered_once() -> None:
    torch.manual_seed(0)
    model, other = Capturing(), Capturing()
    other.load_state_dict(model.state_dict())
    program = onward.export(model, (torch.randn(2, 4),), dynamic_axes={"x": {0: "n"}}, verify=True)
    assert not any(layer._forward_hooks for layer in model.layers)
    for n in (1, 5):
        x = torch.randn(n, 4)
        torch.testing.assert_close(program(x), other(x))
        torch.testing.assert_close(model(x), other(x))
