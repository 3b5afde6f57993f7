"""Inputs as tensors: made up from a spec, or read from a file. Nothing in a file is ever run as code."""

from __future__ import annotations

import difflib
import inspect
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from onward.capture.frontends.front_ends import front_end_of
from onward.errors import InputError, first_line

from .grammar import FileSpec, InputSpec, TensorSpec, ValueSpec


@dataclass(frozen=True)
class Given:
    """The inputs of a command line: values with a name or without, and the axes that their specs name."""

    values: tuple[tuple[str | None, Any], ...]
    axes: Mapping[str | None, Mapping[int, str]]

    def names(self) -> list[str | None]:
        return [name for name, _ in self.values]


def make(specs: Sequence[InputSpec], seed: int = 0) -> Given:
    """The tensors of the specs, in their order; the same seed gives the same numbers."""
    values: list[tuple[str | None, Any]] = []
    axes: dict[str | None, Mapping[int, str]] = {}
    for number, spec in enumerate(specs):
        if isinstance(spec, TensorSpec):
            values.append((spec.name, tensor_of(spec, torch.Generator().manual_seed(seed + number))))
            if spec.axes:
                if spec.name is None:
                    raise InputError("an axis has a name, and its input has none", hint="write x:f32[batch=2,3]")
                axes[spec.name] = spec.axes
        elif isinstance(spec, FileSpec):
            values.extend(_read(spec))
        elif isinstance(spec, ValueSpec):
            values.append((spec.name, spec.value))
    names = [name for name, _ in values if name is not None]
    for name in names:
        if names.count(name) > 1:
            raise InputError(f"the input '{name}' is given twice")
    return Given(tuple(values), axes)


def tensor_of(spec: TensorSpec, generator: torch.Generator) -> torch.Tensor:
    """Random numbers are normal ones; random integers are 0 or 1, which serve as indices, masks and ids alike."""
    dtype, fill, sizes = getattr(torch, spec.dtype), spec.fill, list(spec.sizes)
    real = dtype.is_floating_point or dtype.is_complex
    try:
        if fill.kind == "zeros":
            return torch.zeros(sizes).to(dtype)
        if fill.kind == "ones":
            return torch.ones(sizes).to(dtype)
        if fill.kind == "arange":
            return torch.arange(int(np.prod(sizes, dtype=np.int64))).reshape(sizes).to(dtype)
        if fill.kind == "number":
            return torch.full(sizes, fill.low, dtype=torch.float64 if real else torch.int64).to(dtype)
        if fill.kind == "range" and real:
            return (torch.rand(sizes, generator=generator) * (fill.high - fill.low) + fill.low).to(dtype)
        if fill.kind == "range":
            return torch.randint(int(fill.low), int(fill.high) + 1, sizes, generator=generator).to(dtype)
        if real:
            drawn = torch.complex64 if dtype.is_complex else torch.float32
            return torch.randn(sizes, generator=generator, dtype=drawn).to(dtype)
        return torch.randint(0, 2, sizes, generator=generator).to(dtype)
    except (RuntimeError, OverflowError, ValueError) as error:
        raise InputError(f"the input '{spec.name or spec.dtype}' cannot be made: {first_line(error)}") from error


def _read(spec: FileSpec) -> list[tuple[str | None, Any]]:
    if not os.path.isfile(spec.path):
        raise InputError(f"there is no file '{spec.path}'")
    read = _read_torch if spec.path.lower().endswith((".pt", ".pth")) else _read_numpy
    try:
        held = read(spec.path)
    except InputError:
        raise
    except Exception as error:  # whatever a reader of numpy's or PyTorch's trips over
        raise InputError(
            f"'{spec.path}' cannot be read as tensors: {first_line(error)}",
            hint="objects other than numbers and tensors are not loaded, for they could run code",
        ) from error
    if spec.key is not None:
        if not isinstance(held, dict) or spec.key not in held:
            known = ", ".join(map(str, held)) if isinstance(held, dict) else "a single value"
            raise InputError(f"'{spec.path}' has no '{spec.key}', it holds {known}")
        return [(spec.name, held[spec.key])]
    if spec.path.lower().endswith(".npz") and spec.name is not None and isinstance(held, dict):
        if len(held) != 1:
            raise InputError(
                f"'{spec.path}' holds {', '.join(held)}", hint=f"say which: {spec.name}={spec.path}:{next(iter(held))}"
            )
        return [(spec.name, next(iter(held.values())))]
    if isinstance(held, dict) and spec.name is None:
        return [(str(name), value) for name, value in held.items()]
    if isinstance(held, (list, tuple)) and spec.name is None:
        return [(None, value) for value in held]
    return [(spec.name, held)]


def _read_torch(path: str) -> Any:
    return torch.load(path, map_location="cpu", weights_only=True)


def _read_numpy(path: str) -> Any:
    loaded = np.load(path, allow_pickle=False)
    if isinstance(loaded, np.ndarray):
        return _as_tensor(loaded)
    with loaded:
        return {name: _as_tensor(loaded[name]) for name in loaded.files}


def _as_tensor(array: np.ndarray[Any, Any]) -> torch.Tensor:
    return torch.from_numpy(np.ascontiguousarray(array.astype(array.dtype.newbyteorder("="))).reshape(array.shape))


@dataclass(frozen=True)
class ExampleCall:
    """An example call of a model, and names for its inputs where forward's parameters have others."""

    args: tuple[Any, ...] = ()
    kwargs: Mapping[str, Any] | None = None
    input_names: tuple[str, ...] | None = None


def signature_of(model: Any) -> inspect.Signature | None:
    """What a model can be called with."""
    return front_end_of(model).signature(model)


def arrange(model: Any, given: Given) -> ExampleCall:
    """How a model is called with what the command line gives.

    Names of forward's parameters are keywords. If none of the names is one, inputs go by position, and the names are
    those of the file's inputs. Some and some is a mistake: a name that is misspelt would silently be a position.
    """
    names = given.names()
    named = [name for name in names if name is not None]
    signature = signature_of(model)
    parameters = [] if signature is None else [p.name for p in signature.parameters.values() if p.kind != p.VAR_KEYWORD]
    open_ended = signature is not None and any(p.kind == p.VAR_KEYWORD for p in signature.parameters.values())
    unknown = [name for name in named if name not in parameters]
    if named and (not unknown or (open_ended and len(unknown) < len(named))):
        positional = tuple(value for name, value in given.values if name is None)
        by_name = {name: value for name, value in given.values if name is not None}
        order = [name for name in parameters if name in by_name]
        return _fitting(signature, ExampleCall(positional, {name: by_name[name] for name in [*order, *unknown]}))
    if len(unknown) < len(named):
        near = difflib.get_close_matches(unknown[0], parameters, 1)
        raise InputError(
            f"the model has no parameter '{unknown[0]}', it has {', '.join(parameters)}",
            hint=f"did you mean '{near[0]}'?" if near else "inputs are named after forward's parameters, all or none",
        )
    values = tuple(value for _, value in given.values)
    if named and len(named) < len(names):
        raise InputError("some inputs have a name and some have none", hint="name all of them, or none")
    if named and not all(isinstance(value, torch.Tensor) for value in values):
        raise InputError(
            f"the model has no parameter '{unknown[0]}', it has {', '.join(parameters)}",
            hint="values that are no tensors go by the names of forward's parameters",
        )
    return _fitting(signature, ExampleCall(values, None, tuple(named) or None))


def _fitting(signature: inspect.Signature | None, call: ExampleCall) -> ExampleCall:
    """The call, if the model can be called so."""
    if signature is None:
        return call
    try:
        signature.bind(*call.args, **(call.kwargs or {}))
    except TypeError as error:
        takes = ", ".join(str(each.replace(annotation=each.empty)) for each in signature.parameters.values())
        raise InputError(
            f"the inputs do not fit the model, which takes ({takes}): {error}",
            hint="one --input for each of them that has no default, and none for what it does not take",
        ) from error
    return call
