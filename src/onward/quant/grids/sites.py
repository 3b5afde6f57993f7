"""The places of a model where a tensor is put on a grid, and the range that each has.

A site belongs to the module in whose forward it lies and is called after the function and its place in call order:
`conv_0_output` of `layer1.0.conv1`, `add_0_output` of `layer1.0`. Its range, [low, high], is a buffer of that module
(a parameter if it is learned), made when it is first seen: a checkpoint of the float model loads as it is, and a
checkpoint of the quantized one brings its ranges along.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from ...errors import QuantizationError
from ..config.settings import Activations
from .grid import Grid, grid_from_range

PREFIX = "quant_"
MASK = -1e30  # what is below is no activation: the -inf, or nearly, that attention masks are made of


@dataclass(frozen=True, eq=False)
class Site:
    """A place where a tensor is put on a grid: `owner` keeps its range, under `key`."""

    owner: nn.Module
    path: str
    name: str
    settings: Activations
    rounding: str = "half_even"

    @functools.cached_property
    def key(self) -> str:
        return f"{PREFIX}{self.name}"

    @property
    def label(self) -> str:
        return f"{self.path or 'the model itself'} ({self.name})"

    @property
    def range(self) -> Tensor | None:
        """[low, high], or None as long as nothing was seen."""
        owner, key = self.owner, self.key
        held = owner._buffers.get(key)
        if held is None:
            held = owner._parameters.get(key)
        return owner.__dict__.get(key) if held is None else held  # where DataParallel's copies have their parameters

    @property
    def follows(self) -> bool:
        """Whether the range follows the batches: a buffer, no parameter."""
        return self.key in self.owner._buffers

    def set_range(self, low: Tensor | float, high: Tensor | float, *, follows: bool = False) -> None:
        """Keep a range; `follows` makes no parameter of it even where ranges are learned."""
        values = torch.stack([torch.as_tensor(each, dtype=torch.float32).reshape(()) for each in (low, high)])
        hold_range(self.owner, self.key, values.detach(), learned=self.settings.learned and not follows)

    def grid(self) -> Grid:
        """The grid that the range stands for."""
        held = self.range
        if held is None:
            raise LookupError(self.label)
        low, high = held.detach().unbind(0)
        self.check(float(low), float(high))
        ends = low.clamp(max=0), high.clamp(min=0)  # learned ones may pass each other
        return grid_from_range(*ends, self.settings, self.rounding)

    def check(self, low: float, high: float) -> None:
        """Refuse a range that training has spoilt."""
        if not math.isfinite(high - low):
            raise QuantizationError(
                f"the range of {self.label} is from {low:g} to {high:g}",
                hint="training has diverged, or loaded what had: look for the first loss that was not finite",
            )


def hold_range(owner: nn.Module, key: str, values: Tensor, *, learned: bool) -> None:
    """Write a range into a module, where its state dict finds it. One that has seen nothing but zeros is no start to
    learn from: its gradient is that of values which are all cut off. It is a buffer, and follows the batches."""
    held = getattr(owner, key, None)
    if held is not None:
        with torch.no_grad():
            held.copy_(values)
        return
    device = next((each.device for each in owner.parameters()), values.device)
    with torch.inference_mode(False):  # one that is found in inference mode is trained outside of it
        values = values.to(device, torch.float32, copy=True)
    if learned and bool(values.any()):
        owner.register_parameter(key, nn.Parameter(values))
    else:
        owner.register_buffer(key, values)


def ranges_of(model: nn.Module) -> dict[str, Tensor]:
    """Every range of a model by the name that it has in the state dict."""
    return {
        f"{path}.{key}" if path else key: tensor
        for path, module in model.named_modules()
        for key, tensor in {**module._parameters, **module._buffers}.items()
        if key.startswith(PREFIX) and tensor is not None
    }
