"""`onward.init(model)`: the model becomes quantization-aware where it stands."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import nn

from ...errors import InputError
from .. import families
from ..config.files import write_config
from ..config.settings import QuantConfig, Rule
from ..run.controller import ATTRIBUTE, Controller, check_types
from .hooks import Enter, Leave, LoadRanges, refuse_script, watch_computed_weights

__all__ = ["families", "initialise", "is_initialised"]


def initialise(
    model: nn.Module, config: QuantConfig | None = None, *, disable_module: Any = (), disable_submodel: Any = ()
) -> nn.Module:
    """Hook every module of a model. Its parameters, its state dict and its code stay as they are."""
    if not isinstance(model, nn.Module):
        raise InputError(f"init takes an nn.Module, not {type(model).__name__}", hint="onward.init(model)")
    _check_fresh(model)
    if any(getattr(hook, "constrains", False) for each in model.modules() for hook in each._forward_hooks.values()):
        raise InputError(
            "init: the model is constrained, and would be quantized with weights that are clamped while it runs",
            hint="call onward.unconstrain(model) first: it leaves the clamped weights behind",
        )
    config = checked(config)
    config = replace(config, rules=(*config.rules, *switched_off(disable_module, disable_submodel)))
    controller = Controller(config, config.for_model(model))
    _check_scripts(model)
    check_types(model, controller, "init")
    for path, module in model.named_modules():
        watch_computed_weights(module, controller, path)
        module.register_forward_pre_hook(Enter(controller, path, module), with_kwargs=True)
        module.register_forward_hook(Leave(controller), always_call=True)
        settings = controller.settings_for(path)
        learned = (settings.activations if settings else config.activations).learned
        module.register_load_state_dict_pre_hook(LoadRanges(learned))
    model.__dict__[ATTRIBUTE] = controller
    model.__dict__["__prepare_scriptable__"] = refuse_script
    return model


def checked(config: Any) -> QuantConfig:
    """A configuration as it is given; None is the default one."""
    if config is None:
        return QuantConfig()
    if not isinstance(config, QuantConfig):
        is_path = isinstance(config, (str, os.PathLike))
        raise InputError(
            f"config must be a QuantConfig, not {type(config).__name__}",
            hint="a file is given as config_file=" if is_path else "for example QuantConfig(weights=Weights(bits=4))",
        )
    return config


def _check_fresh(model: nn.Module) -> None:
    """Refuse a model that has been here before, as a whole, with a part of it, or as a part of another. Activations and
    norms may be shared: some networks have one for all their layers, and for all that are ever made."""
    for path, module in model.named_modules():
        what = f"the submodule {path}" if path else "the model"
        if ATTRIBUTE in module.__dict__:
            raise InputError(
                f"{what} is quantization-aware already",
                hint="call onward.init once; what it is to do differently belongs into its configuration",
            )
        if (inside := path_inside(module)) is not None and _has_matrices(module):
            raise InputError(
                f"{what} is part of a model that is quantization-aware already, as {inside}",
                hint=f"what it is to do differently belongs into the configuration of that: Rule({inside!r}, ...)",
            )


def _has_matrices(module: nn.Module) -> bool:
    return any(each.dim() > 1 for each in module.parameters())


def path_inside(module: nn.Module) -> str | None:
    """The path that a module has in the quantized model which it is a part of."""
    return next((hook.path for hook in module._forward_pre_hooks.values() if isinstance(hook, Enter)), None)


def _check_scripts(model: nn.Module) -> None:
    scripted = next((path for path, each in model.named_modules() if isinstance(each, torch.jit.ScriptModule)), None)
    if scripted is not None:
        raise InputError(
            f"init: {scripted or 'the model itself'} is made by torch.jit, and nothing can be seen of what it computes",
            hint="build the model without torch.jit",
        )


def is_initialised(model: Any) -> bool:
    """Whether `onward.init` was called on a model."""
    return isinstance(model, nn.Module) and ATTRIBUTE in model.__dict__


def controller_of(model: Any, what: str) -> Controller:
    """What `init` left on a model; `what` is the caller, for the error."""
    if not isinstance(model, nn.Module):
        raise InputError(f"{what} takes an nn.Module, not {type(model).__name__}")
    controller: Controller | None = model.__dict__.get(ATTRIBUTE)
    if controller is None:
        if (path := path_inside(model)) is not None:
            raise InputError(
                f"{what}: this {type(model).__name__} is part of a quantization-aware model, as {path}",
                hint=f"give the whole model to {what}",
            )
        inside = next((path for path, module in model.named_modules() if ATTRIBUTE in module.__dict__), None)
        raise InputError(
            f"{what}: {type(model).__name__} is not quantization-aware"
            + (f"; its submodule {inside} is" if inside else ""),
            hint=f"give that submodule to {what}" if inside else "call onward.init(model) first",
        )
    return controller


def switched_off(types: Any, names: Any) -> Sequence[Rule]:
    """linger's `disable_module` and `disable_submodel` as rules."""
    return [
        *(Rule(type=each, off=True) for each in _several("disable_module", types)),
        *(Rule(each, off=True) for each in _several("disable_submodel", names)),
    ]


def _several(name: str, given: Any) -> Iterable[Any]:
    """One or many, as linger takes them."""
    if given is None:
        return ()
    is_one = isinstance(given, (str, type, nn.Module)) or not isinstance(given, Iterable)
    several = (given,) if is_one else tuple(given)
    is_class = name == "disable_module"
    for each in several:
        if not (isinstance(each, str) and each) and not (is_class and isinstance(each, type)):
            what = "classes of modules, or their names" if is_class else "paths of submodules, or patterns"
            raise InputError(
                f"{name} must be one or several {what}, not {each!r}",
                hint="for example disable_module=nn.LSTM" if is_class else 'for example disable_submodel="head"',
            )
    return several


def save_config(config: QuantConfig | nn.Module, path: str | os.PathLike[str]) -> None:
    """Write a configuration, or that of a model that `onward.init` was called on. Whole or not at all."""
    write_config(controller_of(config, "save_config").config if isinstance(config, nn.Module) else config, path)
