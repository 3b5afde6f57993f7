"""A captured program with other weights: the same graph, its constants made anew."""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Mapping
from typing import Any

import torch

from ...errors import InputError
from ..call.weights import Weight, Weights
from .derived_constants import rederive
from .facts import CapturedProgram

_SOME = 5


def chosen_by(state_dict: Any, weights: Weights) -> dict[str, torch.Tensor]:
    """The tensors of a state dict, which may be a part of one, by the names that the weights have in the file."""
    if not isinstance(state_dict, Mapping):
        raise InputError(
            f"apply_weights takes a state dict, not {type(state_dict).__name__}", hint="pass model.state_dict()"
        )
    known = {key: weight for weight in weights.state for key in (weight.key, *weight.aliases)}
    given = {key: tensor for key, tensor in state_dict.items() if not str(key).endswith("_extra_state")}
    _check_names([str(key) for key in given if key not in known], list(known))
    wrong = [text for key, tensor in given.items() if (text := _wrong(str(key), tensor, known[key])) is not None]
    if wrong:
        raise InputError("the state dict does not fit the model", details=_some(wrong))
    chosen: dict[str, torch.Tensor] = {}
    for key, tensor in given.items():
        weight = known[key]
        if not torch.equal(chosen.setdefault(weight.name, tensor.detach()), tensor):
            first = next(other for other in given if known[other] is weight)
            raise InputError(
                f"{first!r} and {key!r} are one weight in the model, and differ in the state dict",
                hint="give them the same values, or export a model in which they are not tied",
            )
    return chosen


def _check_names(unknown: list[str], known: list[str]) -> None:
    if not unknown:
        return
    close = {name: difflib.get_close_matches(name, known, n=1) for name in unknown[:_SOME]}
    details = [f"{name!r}" + (f" (did you mean {close[name][0]!r}?)" if close.get(name) else "") for name in unknown]
    hint = None
    stripped = [name.removeprefix("module.").removeprefix("_orig_mod.") for name in unknown]
    if all(name in known for name in stripped):
        hint = "the names are those of a DataParallel or compiled model: take its state dict from the model inside"
    what = "weight of this name" if len(unknown) == 1 else "weights of these names"
    raise InputError(
        f"the model has no {what}",
        details=_some(details),
        hint=hint,
    )


def _wrong(key: str, tensor: Any, weight: Weight) -> str | None:
    if not isinstance(tensor, torch.Tensor):
        return f"{key!r} is of type {type(tensor).__name__}, not a tensor"
    old = weight.tensor
    if tensor.shape != old.shape:
        return f"{key!r} has the shape {list(tensor.shape)}, and the model's has {list(old.shape)}"
    if tensor.dtype != old.dtype:
        return f"{key!r} is {tensor.dtype}, and the model's is {old.dtype}"
    return None


def _some(texts: list[str]) -> list[str]:
    more = len(texts) - _SOME
    return texts if more <= 0 else [*texts[:_SOME], f"and {more} more"]


def reweighed(program: CapturedProgram, chosen: Mapping[str, torch.Tensor]) -> CapturedProgram:
    """The program as if the model had had these weights, by name; the model's own for those that are not given."""
    weights = {weight.name: weight.tensor for weight in program.weights.state} | dict(chosen)
    made = rederive(program.derived, weights)
    constants = {
        name: dataclasses.replace(constant, tensor=made[name] if name in made else chosen.get(name, constant.tensor))
        for name, constant in program.constants.items()
    }
    return dataclasses.replace(program, constants=constants)
