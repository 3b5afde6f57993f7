"""What `onward.init` leaves on a model: its configuration, and the hooks that start a session."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from ...capture.attempt.session import is_capturing
from ...errors import QuantizationError
from ..config.settings import QuantConfig, Resolved
from ..grids.sites import PREFIX, Site, hold_range
from ..setup.compiled_models import check_not_traced, not_compiled, say_uncompiled, set_compiler
from .autocast import return_to_autocast
from .calls import Known
from .checkpointing import check_forward
from .whole_modules import is_one_function

if TYPE_CHECKING:
    from ..tools.study import Study
    from .session import Session

ATTRIBUTE = "_onward_quantisation"


class _Running(threading.local):
    """The sessions of a thread: one for each quantised model that runs inside of another."""

    def __init__(self) -> None:
        self.stack: list[Session] = []


running = _Running()


class Controller:
    """Lives with the model: copied and pickled along with it."""

    def __init__(self, config: QuantConfig, settings: dict[str, Resolved | None]) -> None:
        self.config = config
        self.observers: dict[str, Any] | None = None  # by the label of a site, while calibrating
        self.reached: set[str] = set()  # the modules that ran while calibrating
        self.read: set[int] = set()  # the ids of the parameters that functions got then
        self.study: Study | None = None
        self.followers: dict[str, Any] = {}  # the batch norm that was seen to follow a product, by the product's site
        self.warned: set[str] = set()  # the products whose sums may have no room
        self._settings = settings  # by the path of a module

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "observers": None, "study": None, "reached": set(), "read": set(), "followers": {}}

    def settings_for(self, path: str) -> Resolved | None:
        """What the configuration says of a module; None leaves it in float. One that came after `init` has no hook:
        what it calls belongs to the module around it."""
        return self._settings.get(path)

    @property
    def is_weight_only(self) -> bool:
        """Whether all activations stay in float, so that there is no range to find."""
        return all(each is None or each.weight_only for each in self._settings.values())

    @property
    def has_weight_only(self) -> bool:
        """Whether there are weights in integers between activations in float."""
        return any(each is not None and each.weight_only for each in self._settings.values())

    # Ranges

    def observe(self, site: Site, x: Tensor) -> None:
        """Calibration: a site looks at what passes."""
        from ..grids.ranges import make_observer

        assert self.observers is not None
        held = self.observers.get(site.label)
        if held is None:
            held = self.observers[site.label] = (site, make_observer(site.settings))
        held[1].observe(x.detach())


class Enter:
    """Before a module's forward: the outermost one starts a session."""

    first: tuple[nn.Module, str] | None = None  # that has a parameter to be quantised, and its name

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

    def _new_session(self, module: nn.Module) -> Session:
        from .session import Phase, Session

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
                "a quantised model is exported in evaluation mode: in training its numbers are no integers",
                hint="leave `training` out, or give TrainingMode.EVAL",
            )
        self._check_type(module)
        return Session(self.controller, phase, module, self.path)

    def _check_type(self, module: nn.Module) -> None:
        """`init` has looked at every parameter; a model that was cast since is known by the first that is quantised."""
        holder, key = self.first or (module, "")
        first: Tensor | None = holder._parameters.get(key)
        if first is None:
            found = next(quantised_parameters(self.controller, module, self.path), None)
            if found is None:
                return
            _, holder, key, first = found
            self.first = holder, key
        if first.dtype is not torch.float32:
            raise QuantizationError(
                f"the parameters are of {first.dtype} by now, and what is quantised is float32",
                hint="call model.float(); autocast may still compute in half precision",
            )


def quantised_parameters(
    controller: Controller, module: nn.Module, path: str
) -> Iterator[tuple[str, nn.Module, str, Tensor]]:
    """The float parameters of the modules that are quantised, each with the path of its module, that, and its name."""
    for name, each in module.named_modules(prefix=path):
        if controller.settings_for(name) is not None:
            for key, one in each._parameters.items():
                if one is not None and one.is_floating_point():
                    yield name, each, key, one


class Leave:
    """After it, also after an error."""

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


def load_ranges(module: nn.Module, learned: bool, state: dict[str, Any], prefix: str, *_: Any) -> None:
    """Before a checkpoint is loaded: make room for the ranges in it, and do not miss those that it lacks."""
    found = {key[len(prefix) :]: value for key, value in state.items() if key.startswith(f"{prefix}{PREFIX}")}
    for key, value in found.items():
        if "." not in key and getattr(module, key, None) is None:
            # A checkpoint may be in half precision; of one with another shape PyTorch says so, where there is a range.
            values = value.detach() if value.shape == (2,) else torch.zeros(2)
            hold_range(module, key, values, learned=learned)


class LoadRanges:
    """`load_ranges` as a hook that can be copied with its model."""

    def __init__(self, learned: bool) -> None:
        self.learned = learned

    def __call__(self, module: nn.Module, state: dict[str, Any], prefix: str, *rest: Any) -> None:
        load_ranges(module, self.learned, state, prefix, *rest)
        held = {**module._buffers, **module._parameters}
        for key, value in held.items():  # a float checkpoint has no ranges: those of the model stay
            if key.startswith(PREFIX) and value is not None:
                state.setdefault(f"{prefix}{key}", value.detach())
