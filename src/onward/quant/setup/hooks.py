"""The hooks that `onward.init` puts on the modules of a model.

The outermost module starts a session, every module tells it when its forward begins and ends, and checkpoints bring
ranges along. Weights that are made of other parameters whenever they are read (by `nn.utils.parametrizations`, or by
the hooks of `nn.utils.spectral_norm`) are marked: what makes them runs in float, also with buffers, such as the vectors
of a power iteration; what comes out is a weight like any other, and is rounded as one.

Under `torch.compile` a quantized model runs as it is. What its modules compute depends on labels of tensors and on
ranges that are read as numbers, of which a compiler would make a new graph in every step. So the compiler stops at the
hooks of a model, and starts again behind it.
"""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch._C._dynamo import eval_frame as dynamo  # torch._dynamo itself takes seconds to import
from torch.nn.utils.parametrize import ParametrizationList
from torch.nn.utils.spectral_norm import SpectralNorm

from ...capture.attempt.session import is_capturing
from ...errors import QuantizationError
from ..config.checks import QuantizationWarning
from ..grids.sites import PREFIX, hold_range
from ..run.calls import Frame, Known, is_one_function
from ..run.controller import Controller, quantized_parameters
from ..run.session import QuantSession
from ..run.states import mark_weight
from ..run.surroundings import check_forward, return_to_autocast
from ..run.tensors import Phase


class _Running(threading.local):
    """The sessions of a thread: one for each quantized model that runs inside of another."""

    def __init__(self) -> None:
        self.stack: list[QuantSession] = []


running = _Running()


# Compilers

_COMPILING = "torch.compile"


def not_compiled(hook: Callable[..., Any]) -> Callable[..., Any]:
    """What `torch.compiler.disable(recursive=False)` does, without the import."""
    skip = dynamo._FrameExecStrategy(dynamo._FrameAction.SKIP, dynamo._FrameAction.DEFAULT)
    dynamo.set_code_exec_strategy(hook.__code__, skip)
    hook._torchdynamo_disable = True  # type: ignore[attr-defined]
    hook._torchdynamo_disable_msg = "a quantized model runs as it is"  # type: ignore[attr-defined]
    return hook


set_compiler = dynamo.set_eval_frame  # to None turns it off, and gives what turns it on again


def say_uncompiled(controller: Controller) -> None:
    """Warn once for a model."""
    if _COMPILING not in controller.warned:
        controller.warned.add(_COMPILING)
        warnings.warn("torch.compile leaves a quantized model as it is: it runs uncompiled", QuantizationWarning, 4)


def check_not_traced() -> None:
    """torch.export shows a model tensors without values, and ranges are values."""
    if torch.compiler.is_exporting():
        raise QuantizationError(
            "torch.export cannot look into a quantized model",
            hint="give the model itself to onward.export, without torch.export",
        )


def refuse_script() -> Any:
    """What `torch.jit.script` asks every module for. It would compile the code, and see nothing of quantization."""
    raise QuantizationError(
        "torch.jit.script cannot look into a quantized model", hint="give the model itself to onward.export"
    )


# Modules


class Enter:
    """Before a module's forward: the outermost one starts a session."""

    first: tuple[nn.Module, str] | None = None  # that has a parameter to be quantized, and its name

    def __init__(self, controller: Controller, path: str, module: nn.Module) -> None:
        self.controller, self.path = controller, path
        self.settings = controller.settings_for(path)
        self.is_whole = self.settings is not None and not self.settings.weight_only and is_one_function(module)
        self.known: Known = {}

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "known": {}, "first": None}

    @not_compiled
    def __call__(self, module: nn.Module, args: tuple, kwargs: dict[str, Any]) -> Any:
        compiler = set_compiler(None)
        if compiler:
            say_uncompiled(self.controller)
        stack = running.stack
        session = stack[-1] if stack else None
        try:
            if session is not None and session.controller is self.controller:
                frame = session.enter_module(module, self.path, self.settings, self.is_whole, self.known)
            else:
                session = self._new_session(module)
                frame = session.enter_module(module, self.path, self.settings, self.is_whole, self.known)
                args, kwargs = session.begin(args, kwargs)
                stack.append(session)
        except BaseException:
            set_compiler(compiler)
            raise
        frame.compiler = compiler
        if frame.whole is not None:
            return session.arguments(args, kwargs)
        return (args, kwargs) if session.autocast and len(session.frames) == 1 else None

    def _new_session(self, module: nn.Module) -> QuantSession:
        if not is_capturing():
            check_not_traced()
        study = self.controller.study
        if study is not None:
            phase = Phase.EXACT if study.exact else Phase.CALIBRATE
        elif self.controller.observers is not None:
            phase = Phase.CALIBRATE
        else:
            phase = Phase.TRAIN if module.training else Phase.EXACT
        if phase is Phase.TRAIN:
            check_forward()
        if phase is Phase.TRAIN and is_capturing():
            raise QuantizationError(
                "a quantized model is exported in evaluation mode: in training its numbers are no integers",
                hint="leave `training` out, or give TrainingMode.EVAL",
            )
        self._check_type(module)
        return QuantSession(self.controller, phase, module, self.path)

    def _check_type(self, module: nn.Module) -> None:
        """`init` has looked at every parameter; a model that was cast since is known by the first that is quantized."""
        holder, key = self.first or (module, "")
        first: Tensor | None = holder._parameters.get(key)
        if first is None:
            found = next(quantized_parameters(self.controller, module, self.path), None)
            if found is None:
                return
            _, holder, key, first = found
            self.first = holder, key
        if first.dtype is not torch.float32:
            raise QuantizationError(
                f"the parameters are of {first.dtype} by now, and what is quantized is float32",
                hint="call model.float(); autocast may still compute in half precision",
            )


class Leave:
    """Behind a module's forward, also behind an error."""

    def __init__(self, controller: Controller) -> None:
        self.controller = controller

    @not_compiled
    def __call__(self, module: nn.Module, args: tuple, *given: Any) -> Any:
        result = given[-1]  # models that were pickled by older versions give keyword arguments before it
        stack = running.stack
        session = stack[-1] if stack else None
        if session is None or session.frames[-1].module is not module:  # the error came before the module was entered
            return None
        compiler = session.frames[-1].compiler
        try:
            try:
                result = session.leave_module(result)
            finally:
                if not session.frames:
                    stack.pop()
                    session.__exit__(None, None, None)
            if session.frames:
                return result
            result = session.outputs(result) if self.controller.config.outputs else result
            session.forget()
            return result
        except RuntimeError as error:
            session.explain(error)
            raise
        finally:
            if session.autocast and not session.frames:
                return_to_autocast(session.autocast)
            if compiler is not None:
                set_compiler(compiler)


class LoadRanges:
    """Before a checkpoint is loaded: make room for the ranges in it, and do not miss the ranges that it lacks."""

    def __init__(self, learned: bool) -> None:
        self.learned = learned

    def __call__(self, module: nn.Module, state: dict[str, Any], prefix: str, *_: Any) -> None:
        found = {key[len(prefix) :]: value for key, value in state.items() if key.startswith(f"{prefix}{PREFIX}")}
        for key, value in found.items():
            if "." not in key and getattr(module, key, None) is None:
                # It may be in half precision; if it has another shape, PyTorch says so, where there is a range.
                values = value.detach() if value.shape == (2,) else torch.zeros(2)
                hold_range(module, key, values, learned=self.learned)
        held = {**module._buffers, **module._parameters}
        for key, value in held.items():  # a float checkpoint has no ranges: those of the model stay
            if key.startswith(PREFIX) and value is not None:
                state.setdefault(f"{prefix}{key}", value.detach())


# Weights that are made of parameters


def watch_computed_weights(module: nn.Module, controller: Controller, path: str) -> None:
    """Add the hooks that tell such weights, to be called before those for a module's forward are added."""
    if isinstance(module, ParametrizationList):
        module.register_forward_hook(_gives_a_weight)
    names = [each.name for each in module._forward_pre_hooks.values() if isinstance(each, SpectralNorm)]
    if names:
        module.register_forward_pre_hook(_Begins(controller, path), prepend=True)
        module.register_forward_pre_hook(_Ends(controller, names))


def _gives_a_weight(module: nn.Module, args: tuple, result: Tensor) -> None:
    mark_weight(result)


class _Begins:
    """Before the hook of a spectral norm, which runs in the module around the layer: a frame that is switched off."""

    def __init__(self, controller: Controller, path: str) -> None:
        self.controller, self.path = controller, path

    def __call__(self, module: nn.Module, args: Any) -> None:
        session = _session(self.controller)
        if session is not None:
            session.frames.append(Frame(module, self.path, None, 0, False, {}))


class _Ends:
    """Behind the hook of a spectral norm. If that has raised, the layer's own hook takes the frame away."""

    def __init__(self, controller: Controller, names: list[str]) -> None:
        self.controller, self.names = controller, names

    def __call__(self, module: nn.Module, args: Any) -> None:
        session = _session(self.controller)
        if session is not None:
            session.frames.pop()
        for name in self.names:
            mark_weight(getattr(module, name))


def _session(controller: Controller) -> QuantSession | None:
    stack = running.stack
    return stack[-1] if stack and stack[-1].controller is controller else None
