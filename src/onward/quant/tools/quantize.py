"""`onward.quantize(model, batches)`: from a float model to an integer file, without training."""

from __future__ import annotations

import inspect
import os
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, BinaryIO

import torch
from torch import nn

from ...api import export
from ...errors import InputError
from ...given_parameters import resolve
from ...program import Program
from ...write.destinations import check_destination
from ..config.files import given_config
from ..config.settings import QuantConfig
from ..setup.initialize import checked, controller_of, initialise, is_initialised, switched_off
from .calibrate import calibration

_NONE = object()


def quantize(
    model: nn.Module,
    batches: Iterable[Any],
    f: str | os.PathLike[str] | BinaryIO | None = None,
    *,
    config: QuantConfig | None = None,
    config_file: str | os.PathLike[str] | None = None,
    disable_module: Any = (),
    disable_submodel: Any = (),
    **options: Any,
) -> Program:
    """Make a model quantization-aware, calibrate it with batches, and export it.

    model      becomes quantization-aware where it stands (one that is already keeps its configuration)
    batches    what the model is called with, any number of times: tensors, tuples of arguments, dicts of keyword
               arguments. The first is the example of the export.
    f          as in `onward.export`; the program is returned in any case
    config, config_file, disable_module, disable_submodel
               as in `onward.init`
    options    as in `onward.export`: dynamic_axes, opset_version, ...
    """
    if isinstance(batches, (torch.Tensor, Mapping, str)) or not isinstance(batches, Iterable):
        raise InputError(
            f"batches is one {type(batches).__name__}", hint="a list of batches is wanted: onward.quantize(model, [x])"
        )
    if isinstance(f, QuantConfig):
        raise InputError("f is a QuantConfig, where a file belongs", hint="onward.quantize(model, batches, config=...)")
    check_destination(f)  # before the batches, which may take long
    resolve((), options, f)
    _initialised(model, given_config("quantize", config, config_file), disable_module, disable_submodel)
    first: Any = _NONE
    with calibration(model):
        for batch in batches:
            first = batch if first is _NONE else first
            args, kwargs = as_call(batch)
            check_call(model, args, kwargs)
            model(*args, **kwargs)
        if first is _NONE:
            raise InputError("batches has nothing in it", hint="a generator that was run through once is empty")
    args, kwargs = as_call(first)
    model.eval()
    if args and isinstance(args[-1], dict):  # an argument: `export` would take it for keyword arguments
        args = (*args, {})
    return export(model, args, f, kwargs=kwargs, **options)


def _initialised(model: Any, config: QuantConfig | None, disable_module: Any, disable_submodel: Any) -> None:
    """Call `init` of a model, or see that it was asked for the same before: after an error all of it runs again."""
    if not is_initialised(model):
        initialise(model, config, disable_module=disable_module, disable_submodel=disable_submodel)
        return
    off = switched_off(disable_module, disable_submodel)
    asked = None if config is None and not off else checked(config)
    asked = asked and replace(asked, rules=(*asked.rules, *off))
    if asked not in (None, controller_of(model, "quantize").config):
        raise InputError(
            "the model is quantization-aware already, with a configuration of its own", hint="leave config out"
        )


def check_call(model: nn.Module, args: tuple, kwargs: dict[str, Any]) -> None:
    """Loaders give pairs of inputs and labels, and models take inputs alone."""
    try:
        signature = inspect.signature(model.forward)
    except ValueError:  # it has none, and says what it takes when it is called
        return
    try:
        signature.bind(*args, **kwargs)
    except TypeError as error:
        name, given = type(model).__name__, [*(type(each).__name__ for each in args), *(f"{each}=" for each in kwargs)]
        raise InputError(
            f"a batch of {', '.join(given) or 'nothing'} is no call of {name}.forward: {error}",
            hint="a tuple holds the arguments of a call; labels are left out: quantize(model, (x for x, _ in loader))",
        ) from error


def as_call(batch: Any) -> tuple[tuple, dict[str, Any]]:
    """A batch as arguments: a dict holds keyword arguments, a tuple or list positional ones."""
    if isinstance(batch, Mapping):
        return (), dict(batch)
    if isinstance(batch, (tuple, list)):
        return tuple(batch), {}
    return (batch,), {}
