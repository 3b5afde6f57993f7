"""`init` and `restore`: models become quantisation-aware, and `torch.onnx.export` becomes ours, and PyTorch's again.

Scripts of every age reach for other names of `torch.onnx` too, and today's PyTorch no longer has all of them. So `init`
also adds the missing ones (it never replaces one that is there, except for `export` itself), and `restore` takes them
away again.
"""

from __future__ import annotations

import importlib
import os
import threading
from types import TracebackType
from typing import Any, TypeVar, overload

import torch

from . import onnx as ours
from .api import export
from .capture.python import ReplacedForGood
from .errors import InputError
from .given_parameters import set_defaults
from .options import check_flag
from .quant import QuantConfig, initialise
from .quant.config.files import given_config

Model = TypeVar("Model", bound=torch.nn.Module)

# Where PyTorch keeps its export function.
_HOMES = ("torch.onnx", "torch.onnx.utils", "torch.onnx._internal.torchscript_exporter.utils")
# What scripts use besides, by the module that it belongs to.
_COMPANIONS = {
    "torch.onnx": (
        "ONNXProgram", "OperatorExportTypes", "TrainingMode", "is_in_onnx_export", "operators",
        "register_custom_op_symbolic", "select_model_mode_for_export", "set_training", "symbolic_helper",
        "unregister_custom_op_symbolic", "utils",
    ),
    "torch.onnx.utils": (
        "is_in_onnx_export", "register_custom_op_symbolic", "select_model_mode_for_export", "set_training",
        "unregister_custom_op_symbolic",
    ),
}  # fmt: skip


class Routing:
    """What `init` returns: the routing stays until `restore()`, or until the `with` block ends."""

    def __init__(self, defaults: dict[str, Any]) -> None:
        self.defaults = defaults

    def __enter__(self) -> Routing:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        _STACK.remove(self)

    def __repr__(self) -> str:
        asked = ", ".join(f"{name}={value!r}" for name, value in self.defaults.items() if value is not None)
        return f"onward.init({asked}) {'in force' if _STACK.holds(self) else 'ended'}"


@overload
def init(
    *, allow_static_axes: bool | None = None, allow_constant_outputs: bool | None = None, verify: bool | None = None
) -> Routing: ...
@overload
def init(
    model: Model,
    config: QuantConfig | None = None,
    *,
    config_file: str | os.PathLike[str] | None = None,
    disable_module: Any = (),
    disable_submodel: Any = (),
    allow_static_axes: bool | None = None,
    allow_constant_outputs: bool | None = None,
    verify: bool | None = None,
) -> Model: ...


def init(
    model: Any = None,
    config: QuantConfig | None = None,
    *,
    config_file: str | os.PathLike[str] | None = None,
    disable_module: Any = (),
    disable_submodel: Any = (),
    allow_static_axes: bool | None = None,
    allow_constant_outputs: bool | None = None,
    verify: bool | None = None,
) -> Any:
    """Make a model quantisation-aware, and `torch.onnx.export` ours.

    With a model, the model is returned, changed where it stands; docs/quantization.md says what follows. Without, only
    exports are routed, from here on or, as a context manager, inside a `with` block.

    config             an onward.QuantConfig; the default is 8 bits for weights and activations
    config_file        or the path of a YAML file that has it (onward.save_config); linger's are read too
    disable_module     classes of modules, or their names, that stay in float: nn.Linear, "LayerNorm"
    disable_submodel   paths of submodules that stay in float, or patterns: "head", "layers.*.attention"
    allow_static_axes, allow_constant_outputs, verify
                       defaults for every export meanwhile; a call that gives its own wins. An output that depends on no
                       input is a warning meanwhile, as scripts for PyTorch's exporter expect, unless this says False

    Calls of `init` may be nested and come from several threads: the last defaults count, and PyTorch's functions are
    back when every `with` block has ended or `restore()` was called. `from torch.onnx import export` made a copy that
    nothing can reach: import the module instead, or call `init` first.
    """
    given = {
        "allow_static_axes": allow_static_axes,
        "allow_constant_outputs": allow_constant_outputs,
        "verify": verify,
    }
    for name, value in given.items():
        check_flag(name, value, "True, False or None")
    config = given_config("init", config, config_file)
    if model is not None:
        initialise(model, config, disable_module=disable_module, disable_submodel=disable_submodel)
    elif config is not None or disable_module or disable_submodel:
        raise InputError("init is given how to quantise, and no model", hint="onward.init(model, config)")
    routing = Routing({name: value for name, value in given.items() if value is not None})
    if model is None:
        routing.defaults.setdefault("allow_constant_outputs", None)  # allowed, with a warning
    _STACK.push(routing)
    return routing if model is None else model


def restore() -> None:
    """Put PyTorch's own functions back, however often `init` was called."""
    _STACK.clear()


class _Stack:
    """The routings in force, and what stood in PyTorch's modules before the first of them."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._routings: list[Routing] = []
        self._replaced = ReplacedForGood()

    def push(self, routing: Routing) -> None:
        with self._lock:
            if not self._routings:
                self._install()
            self._routings.append(routing)
            self._tell_defaults()

    def remove(self, routing: Routing) -> None:
        with self._lock:
            if routing in self._routings:
                self._routings.remove(routing)
                self._tell_defaults()
                if not self._routings:
                    self._uninstall()

    def clear(self) -> None:
        with self._lock:
            self._routings.clear()
            self._tell_defaults()
            self._uninstall()

    def holds(self, routing: Routing) -> bool:
        with self._lock:
            return routing in self._routings

    def _tell_defaults(self) -> None:
        set_defaults({name: value for routing in self._routings for name, value in routing.defaults.items()})

    def _install(self) -> None:
        for home in _HOMES:
            self._replaced.put(importlib.import_module(home), "export", export)
        for home, names in _COMPANIONS.items():
            module = importlib.import_module(home)
            for name in names:
                if not hasattr(module, name):
                    self._replaced.put(module, name, getattr(ours, name))

    def _uninstall(self) -> None:
        self._replaced.put_back()


_STACK = _Stack()
