"""`onward.constrain(model)`: float training in which no weight and no result goes far, so that quantization later fits.

linger calls it clamp training. No module is swapped: while a layer runs, clamped weights stand in front of its own, and
its result is clamped. Optimizer, state dict and checkpoints see the parameters as ever. Gradients are those of a clamp,
so what is outside of its bounds is not pushed further. `unconstrain` leaves the clamped weights behind.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from ...errors import InputError
from ..config.checks import QuantizationWarning
from ..config.files import given_config
from ..config.settings import Clamp, QuantConfig
from ..run.controller import ATTRIBUTE
from .initialize import checked, switched_off

LINGER = Clamp(weight_factor=7.0, activation=8.0)  # what linger clamps at, unless told otherwise
_WITH_WEIGHTS = (nn.modules.conv._ConvNd, nn.Linear, nn.Embedding, nn.RNNBase)
_NORMS = (nn.modules.batchnorm._BatchNorm, nn.LayerNorm, nn.GroupNorm)  # their results alone
_NOT_CALLED = nn.modules.linear.NonDynamicallyQuantizableLinear  # the attention around it takes its weight
_FLAT = "_flat_weights"  # where recurrent layers take their weights from


def constrain(
    model: nn.Module,
    clamp: Clamp | None = None,
    *,
    config: QuantConfig | None = None,
    config_file: str | os.PathLike[str] | None = None,
    disable_module: Any = (),
    disable_submodel: Any = (),
) -> nn.Module:
    """Clamp the weights and the results of a float model's layers while it is trained; the model is returned.

    clamp              the bounds; without, those of `config`, and without that linger's: weights within 7 times their
                       mean magnitude, results within ±8
    config             its `clamp`, and its rules: a module that one turns off is not clamped
    config_file        or the YAML file that has it; linger's `clamp_info` is read
    disable_module     classes of modules that are not clamped
    disable_submodel   paths of modules that are not clamped, or patterns
    """
    if not isinstance(model, nn.Module):
        raise InputError(f"constrain takes an nn.Module, not {type(model).__name__}")
    for path, module in model.named_modules():
        if ATTRIBUTE in module.__dict__:
            raise InputError(
                f"constrain: {path or 'the model'} is quantization-aware already",
                hint="constrain while training in float, call onward.unconstrain(model), then onward.init(model)",
            )
        if any(_hooks(module)):
            raise InputError(
                f"constrain: {path or 'the model'} is constrained already", hint="call onward.unconstrain(model) first"
            )
    config = given_config("constrain", config, config_file)
    config, bounds = checked(config), _bounds(clamp, config)
    config = replace(config, rules=(*config.rules, *switched_off(disable_module, disable_submodel)))
    on = config.for_model(model)
    layers = {
        path: module
        for path, module in model.named_modules()
        if isinstance(module, (*_WITH_WEIGHTS, *_NORMS))
        and not isinstance(module, _NOT_CALLED)
        and on[path] is not None
    }
    if not layers:
        raise InputError(
            "constrain finds no layer to clamp", hint="convolutions, linear layers, embeddings, LSTMs, norms"
        )
    _warn_of_made(layers, bounds)
    for module in layers.values():
        module.register_forward_pre_hook(_Before(bounds))
        module.register_forward_hook(_After(bounds), always_call=True)
    return model


def _warn_of_made(layers: Mapping[str, nn.Module], bounds: Clamp) -> None:
    """What is made when it is read (`nn.utils.parametrizations`, `nn.utils.prune`) has no place for a clamped one."""
    made = [path or "the model" for path, module in layers.items() if _is_made(module)]
    if made and (bounds.weight is not None or bounds.weight_factor is not None):
        told = f"a weight of {', '.join(made)} is made of other parameters, and not clamped"
        warnings.warn(f"constrain: {told}", QuantizationWarning, stacklevel=3)


def _is_made(module: nn.Module) -> bool:
    is_recurrent = isinstance(module, nn.RNNBase)
    return isinstance(module, _WITH_WEIGHTS) and not is_recurrent and "weight" not in module._parameters


def _bounds(clamp: Clamp | None, config: QuantConfig | None) -> Clamp:
    given: Any = clamp if clamp is not None else config.clamp if config is not None else LINGER
    if not isinstance(given, Clamp):
        raise InputError(f"clamp must be a Clamp, not {given!r}", hint="onward.Clamp(weight_factor=7, activation=8)")
    if given == Clamp():
        raise InputError(
            "constrain is given a clamp without any bound",
            hint="for example onward.Clamp(weight_factor=7, activation=8)",
        )
    return given


@torch.no_grad()
def unconstrain(model: nn.Module) -> nn.Module:
    """End `constrain`: parameters have the values that they were clamped to, and the model is as it was otherwise."""
    if not isinstance(model, nn.Module):
        raise InputError(f"unconstrain takes an nn.Module, not {type(model).__name__}")
    if not is_constrained(model):
        raise InputError("unconstrain: the model is not constrained", hint="onward.constrain(model) comes first")
    clamped = []  # before any is written: two layers may share a weight, whose mean magnitude is that of before
    for module in model.modules():
        for hooks, key, hook in list(_hooks(module)):
            if isinstance(hook, _Before):
                clamped += [(each, hook.clamped(name, each)) for name, each in _parameters(module)]
            del hooks[key]
            module._forward_hooks_always_called.pop(key, None)
    for parameter, values in clamped:
        parameter.copy_(values)
    return model


def _parameters(module: nn.Module) -> list[tuple[str, Tensor]]:
    """What is clamped in a layer: not what a weight is made of."""
    if not isinstance(module, _WITH_WEIGHTS):
        return []
    is_recurrent = isinstance(module, nn.RNNBase)
    given = module._parameters.items()
    return [(key, each) for key, each in given if each is not None and (is_recurrent or key in ("weight", "bias"))]


def is_constrained(model: nn.Module) -> bool:
    """Whether `constrain` is in force on any layer."""
    return any(True for module in model.modules() for _ in _hooks(module))


def _hooks(module: nn.Module) -> Iterator[tuple[dict[int, Any], int, Any]]:
    """Ours, found by their class: handles would not survive a copy of the model."""
    for hooks in (module._forward_pre_hooks, module._forward_hooks):
        for key, hook in hooks.items():
            if isinstance(hook, (_Before, _After)):
                yield hooks, key, hook


class _Before:
    """Clamped weights stand in front of a layer's own: an attribute of the instance is found before a parameter."""

    def __init__(self, bounds: Clamp) -> None:
        self.bounds = bounds

    def __call__(self, module: nn.Module, args: tuple) -> None:
        if isinstance(module, nn.RNNBase):
            flat = [self.clamped(name, getattr(module, name)) for name in module._flat_weights_names]
            module.__dict__[_FLAT] = flat
            return
        for name, parameter in _parameters(module):
            module.__dict__[name] = self.clamped(name, parameter)

    def clamped(self, name: str, parameter: Tensor) -> Tensor:
        """A parameter within the bounds that its name stands for."""
        bounds = self.bounds
        limit: Any = bounds.bias if name.startswith("bias") else bounds.weight
        if not name.startswith("bias") and bounds.weight_factor is not None:
            limit = parameter.detach().abs().mean() * bounds.weight_factor
        if limit is None:
            return parameter
        return torch.clamp(parameter, -limit, limit)


class _After:
    """The layer has its own weights again, also after an error, and its result is clamped."""

    constrains = True  # what `init` looks for

    def __init__(self, bounds: Clamp) -> None:
        self.bounds = bounds

    def __call__(self, module: nn.Module, args: tuple, result: Any) -> Any:
        if isinstance(module, nn.RNNBase):
            module.__dict__[_FLAT] = [getattr(module, name) for name in module._flat_weights_names]
        for name, _ in _parameters(module):
            module.__dict__.pop(name, None)
        limit = self.bounds.activation
        if limit is None or result is None:
            return None
        if isinstance(result, tuple):  # of a recurrent layer, whose states stay
            return (self._within(result[0], limit), *result[1:])
        return self._within(result, limit)

    def _within(self, value: Any, limit: float) -> Any:
        if isinstance(value, Tensor) and value.is_floating_point():
            return torch.clamp(value, -limit, limit)
        return value
