"""Seeded weights under which a deep network still says something.

With random convolutions and batch norms that never saw data, activations vanish or explode over fifty layers and every
comparison of outputs becomes a comparison of biases. One forward pass that lets the batch norms measure their own
inputs cures it; without batch norms, weights drawn at the right scale do.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm


def seeded(make: Callable[[], nn.Module], *, seed: int = 0, settle_on: tuple[Any, ...] | None = None) -> nn.Module:
    """Build a model in eval mode from a fixed seed, leaving the caller's random state as it was.

    `settle_on` is an input on which batch norms take their statistics.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = make().eval()
        if settle_on is not None:
            settle_batch_norms(model, settle_on)
    return model


def keep_signal(model: nn.Module) -> nn.Module:
    """Draw every convolution and linear weight at the scale that passes a signal on through ReLU.

    torchvision starts ViT's classifier at zero, which would hide any error before it, and AlexNet's too small.
    """
    for layer in model.modules():
        if isinstance(layer, nn.Conv2d | nn.Linear):
            nn.init.kaiming_normal_(layer.weight)
    return model


def settle_batch_norms(model: nn.Module, args: tuple[Any, ...]) -> None:
    """Give every batch norm its own input's statistics and a scale and shift that are not the identity."""
    norms = [module for module in model.modules() if isinstance(module, _BatchNorm)]
    momenta = [norm.momentum for norm in norms]
    with torch.no_grad():
        for norm in norms:
            norm.weight.uniform_(0.4, 0.9)
            norm.bias.uniform_(-0.5, 0.5)
            norm.momentum = 1.0
            norm.train()
        model(*args)
        for norm, momentum in zip(norms, momenta, strict=True):
            norm.momentum = momentum
            norm.eval()
            if norm.running_var is not None:
                # A channel that hardly varied on these few samples would be blown up by its norm, rounding included,
                # layer after layer: no trained network looks like that, and float32 could not tell right from wrong.
                norm.running_var.clamp_(min=float(norm.running_var.mean()))
