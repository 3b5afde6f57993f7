"""The model itself: taken out of its wrappers, in the right mode while it is traced, and left as it was."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any

import torch

from ...errors import InputError
from ...options import TrainingMode, training_mode
from ..call.weights import owner
from ..ground.source import warn_user
from ..ground.threads import ONE_AT_A_TIME
from .front_ends import front_end_of

_TORCH = os.path.dirname(os.path.abspath(torch.__file__)) + os.sep
_WRAPPERS = (torch.nn.DataParallel, torch.nn.parallel.DistributedDataParallel)


def unwrap(model: Any) -> Any:
    """The model inside DataParallel, DistributedDataParallel and torch.compile; of `model.forward`, the
    model. An ExportedProgram becomes a module."""
    while True:
        if isinstance(model, _WRAPPERS):
            model = model.module
        elif "_orig_mod" in getattr(model, "_modules", {}):
            model = model._modules["_orig_mod"]
        elif hasattr(model, "_torchdynamo_orig_callable"):
            model = model._torchdynamo_orig_callable
        elif _is_torchs_own(model):
            model = model.__wrapped__
        elif isinstance(getattr(model, "__self__", None), torch.nn.Module) and model.__name__ == "forward":
            model = model.__self__
        else:
            return front_end_of(model).opened(model)


def _is_torchs_own(function: Any) -> bool:
    """A wrapper that torch.compile puts around forward; decorators of the user's own belong to the model."""
    code = getattr(function, "__code__", None)
    return code is not None and hasattr(function, "__wrapped__") and code.co_filename.startswith(_TORCH)


def check_model(model: Any) -> None:
    """Refuse what cannot be traced, with the reason."""
    if not callable(model):
        hint = "pass an nn.Module or a function that takes and returns tensors"
        if isinstance(model, Mapping):
            hint = "if this is a state_dict, build the model, call model.load_state_dict(...) and pass the model"
        elif isinstance(model, (str, os.PathLike)):
            hint = "if this is a checkpoint, load it first and pass the model"
            if os.fspath(model).endswith(".pt2"):
                hint = "load the program first: onward.export(torch.export.load(path), ...)"
        raise InputError(f"the model is of type {type(model).__name__}, which cannot be called", hint=hint)
    mobile = sys.modules.get("torch.jit.mobile")
    if mobile is not None and isinstance(model, mobile.LiteScriptModule):
        raise InputError(
            "the model was loaded for PyTorch's mobile interpreter, and has no graph any more to take its loops and "
            "branches from",
            hint="export the module that it was made of, or its archive: torch.jit.load(path)",
        )
    if isinstance(model, type):
        raise InputError(f"{model.__name__} is a class, not a model", hint=f"pass an instance: {model.__name__}(...)")


def kept_together(model: Any, asked: bool | Collection[type]) -> Callable[[type], bool] | None:
    """Which classes of modules become functions: all of them, those named (with a warning for one that the model does
    not have), or None for none."""
    if isinstance(asked, bool):
        return (lambda kind: True) if asked else None
    if not asked:
        return None
    knows_classes = isinstance(model, torch.nn.Module) and front_end_of(model).has_own_classes
    found = {type(module) for module in model.modules()} if knows_classes else set()
    below = {type(module) for path, module in model.named_modules() if path} if found else set()
    for kind in sorted(asked, key=lambda kind: kind.__qualname__):
        if found and kind not in below:
            near = sorted(other.__name__ for other in below if issubclass(other, kind))
            why = (
                "is the model itself, which is the graph"
                if kind in found
                else f"does not occur in the model (but {', '.join(near)} does)"
                if near
                else "does not occur in the model"
            )
            warn_user(f"export_modules_as_functions: {kind.__name__} {why}", UserWarning)
    wanted = frozenset(asked)
    return lambda kind: kind in wanted


Modes = tuple[tuple[torch.nn.Module, bool], ...]


def modes_of(model: Any) -> Modes:
    """Every module and whether it is in training; those of `model.encode` are those of the model it belongs to."""
    module = owner(model)
    modules = [] if module is None else module.modules()
    return tuple((each, each.training) for each in modules if hasattr(each, "training"))  # torch.jit.freeze removes it


@contextlib.contextmanager
def in_modes(modes: Modes) -> Iterator[None]:
    """These modules in these modes inside, and in the modes they had afterwards, whatever happens."""
    with ONE_AT_A_TIME, _modes_kept(modes):  # an export in another thread would take these modes for the model's own
        _set_modes(modes)
        yield


@contextlib.contextmanager
def _modes_kept(modes: Modes) -> Iterator[None]:
    before = [(module, module.training) for module, _ in modes]
    try:
        yield
    finally:
        _set_modes(before)


def _set_modes(modes: Iterable[tuple[torch.nn.Module, bool]]) -> None:
    for module, training in modes:
        if module.training != training:
            module.training = training


@contextlib.contextmanager
def select_model_mode_for_export(model: Any, mode: Any) -> Iterator[None]:
    """A model in the mode in which it is to be exported inside, and every module in its own afterwards.

    mode   `TrainingMode.EVAL`, `.TRAINING` or `.PRESERVE` (each module as it is), PyTorch's enum, or a boolean: True
           for training. None leaves everything as it is.
    """
    wanted = TrainingMode.PRESERVE if mode is None else training_mode(mode)
    module = owner(model)
    with _modes_kept(modes_of(model)):
        if module is not None and wanted is not TrainingMode.PRESERVE and hasattr(module, "training"):
            training = wanted is TrainingMode.TRAINING
            if "train" in vars(module):  # of `exported_program.module()`, which refuses; for its graph it is all one
                torch.nn.Module.train(module, training)
            else:
                module.train(training)
        yield


def set_training(model: Any, mode: Any) -> contextlib.AbstractContextManager[None]:
    """The same as `select_model_mode_for_export`, under the name that it had in older versions of PyTorch."""
    return select_model_mode_for_export(model, mode)
