"""`onward.quantize(model, batches)`: from a float model to an integer file, without training."""

from __future__ import annotations

import inspect
import os
from collections.abc import Iterable, Mapping
from typing import Any, BinaryIO

import torch
from torch import nn

from ..api import export
from ..errors import InputError
from ..program import Program
from .calibrate import calibration
from .config import QuantConfig
from .initialise import controller_of, initialise, is_initialised


def quantize(
    model: nn.Module,
    batches: Iterable[Any],
    f: str | os.PathLike[str] | BinaryIO | None = None,
    *,
    config: QuantConfig | None = None,
    **options: Any,
) -> Program:
    """Make a model quantisation-aware, calibrate it with batches, and export it.

    model      becomes quantisation-aware where it stands (one that is already keeps its configuration)
    batches    what the model is called with, any number of times: tensors, tuples of arguments, dicts of keyword
               arguments. The first is the example of the export.
    f          as in `onward.export`; the program is returned in any case
    options    as in `onward.export`: dynamic_axes, opset_version, ...
    """
    if isinstance(batches, (torch.Tensor, Mapping)) or not isinstance(batches, Iterable):
        raise InputError(
            f"batches is one {type(batches).__name__}", hint="a list of batches is wanted: onward.quantize(model, [x])"
        )
    if is_initialised(model):
        if config not in (None, controller_of(model, "quantize").config):  # the same again, after an error, is meant
            raise InputError(
                "the model is quantisation-aware already, with a configuration of its own", hint="leave config out"
            )
    else:
        initialise(model, config)
    first: Any = None
    with calibration(model):
        for number, batch in enumerate(batches):
            first = batch if number == 0 else first
            args, kwargs = as_call(batch)
            check_call(model, args, kwargs)
            model(*args, **kwargs)
        if first is None:
            raise InputError("batches has nothing in it", hint="a generator that was run through once is empty")
    args, kwargs = as_call(first)
    model.eval()
    if args and isinstance(args[-1], dict):  # an argument: `export` would take it for keyword arguments
        args = (*args, {})
    return export(model, args, f, kwargs=kwargs, **options)


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
