"""--weights: a checkpoint into a model. Nothing in it is ever run as code."""

from __future__ import annotations

import os
import pickle
import re
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from onward.errors import InputError, MissingDependencyError, first_line

_INSIDE = ("state_dict", "model_state_dict", "model")  # where training scripts put the weights
_MOST_SHOWN = 5


def load_weights(model: Any, path: Path, strict: bool) -> list[str]:
    """Load, and say what was not taken as it is. Strict: every weight of the model is there, and no other."""
    if not isinstance(model, torch.nn.Module):
        raise InputError(f"--weights needs an nn.Module, and TARGET is of type {type(model).__name__}")
    remarks: list[str] = []
    given = _unwrapped(_read(path), path, remarks)
    own = model.state_dict()
    given = _without_prefix(given, own, remarks)
    missing = [name for name in own if name not in given]
    unexpected = [name for name in given if name not in own]
    misfits = [
        f"{name} is {list(given[name].shape)}, the model has {list(own[name].shape)}"
        for name in own
        if name in given and isinstance(own[name], torch.Tensor) and given[name].shape != own[name].shape
    ]
    complaints = [
        *_listed("of another shape", misfits),
        *(_listed("missing", missing) if strict else ()),
        *(_listed("not in the model", unexpected) if strict else ()),
    ]
    if complaints:
        raise InputError(
            f"'{path}' does not fit the model",
            details=complaints,
            hint="is it of another model or another --arg?"
            + ("" if misfits else " --no-strict loads what fits and leaves the rest"),
        )
    if not any(name in own for name in given):
        raise InputError(f"'{path}' has no weight of the model", details=_listed("it has", list(given)))
    model.load_state_dict(given, strict=strict)
    return [*remarks, *_listed("missing", missing), *_listed("not in the model", unexpected)]


def _read(path: Path) -> Any:
    if not path.is_file():
        raise InputError(f"there is no file '{path}'")
    try:
        if path.suffix == ".safetensors":
            return _safetensors(os.fspath(path))
        return torch.load(path, map_location="cpu", weights_only=True)
    except MissingDependencyError:
        raise
    except Exception as error:  # each reader has errors of its own
        raise InputError(
            f"'{path}' cannot be read as weights: {_reason(path, error)}",
            hint="save a state dict; whole pickled models are not loaded, for they could run code",
        ) from error


def _reason(path: Path, error: Exception) -> str:
    """In our words where PyTorch's advise to load the file without weights_only, which runs what is in it."""
    if not isinstance(error, pickle.UnpicklingError):
        return first_line(error)
    refused = re.search(r"GLOBAL ([\w.]+)", str(error))
    if refused:
        return f"it holds an object of {refused[1]}, not only tensors"
    return "it holds more than tensors" if zipfile.is_zipfile(path) else "it is no checkpoint of torch.save"


def _safetensors(path: str) -> Any:
    try:
        from safetensors.torch import load_file
    except ImportError as error:
        raise MissingDependencyError(
            f"a .safetensors file needs the package safetensors ({error})", hint="pip install safetensors"
        ) from error
    return load_file(path)


def _unwrapped(held: Any, path: Path, remarks: list[str]) -> dict[str, torch.Tensor]:
    for key in _INSIDE:
        if isinstance(held, Mapping) and isinstance(held.get(key), Mapping):
            remarks.append(f"the weights are what '{path.name}' has under '{key}'")
            held = held[key]
            break
    if not isinstance(held, Mapping) or not all(isinstance(each, torch.Tensor) for each in held.values()):
        raise InputError(f"'{path}' is no state dict: names and tensors", hint="save model.state_dict()")
    return dict(held)


def _without_prefix(
    given: dict[str, torch.Tensor], own: Mapping[str, Any], remarks: list[str]
) -> dict[str, torch.Tensor]:
    """DistributedDataParallel and torch.compile put a word before every name."""
    for prefix in ("module.", "_orig_mod."):
        if given and all(name.startswith(prefix) for name in given) and not any(name in own for name in given):
            remarks.append(f"'{prefix}' was taken off every name")
            return {name.removeprefix(prefix): value for name, value in given.items()}
    return given


def _listed(what: str, names: Sequence[str]) -> list[str]:
    if not names:
        return []
    more = f" and {len(names) - _MOST_SHOWN} more" if len(names) > _MOST_SHOWN else ""
    return [f"{what}: {', '.join(names[:_MOST_SHOWN])}{more}"]
