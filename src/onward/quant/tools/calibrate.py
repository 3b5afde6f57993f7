"""`with onward.calibration(model):` every site of the model watches what passes, and has a range afterwards."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterator
from typing import Any

import torch
from torch import nn

from ...capture.frontends.model import set_training
from ...errors import QuantizationError
from ..config.checks import QuantizationWarning
from ..grids.ranges import Observer, RangeError
from ..grids.sites import Site
from ..run.controller import Controller, check_types
from ..setup.initialize import controller_of


def calibration(model: nn.Module) -> Calibration:
    """Run any number of batches inside: ranges are taken from them, by the methods that the configuration names.

    The model computes in float meanwhile, in evaluation mode and without gradients; its own modes are restored. If the
    block raises, the ranges that the model had stay.
    """
    return Calibration(model)


class Calibration(contextlib.AbstractContextManager[nn.Module], contextlib.ContextDecorator):
    """What `calibration` gives. Each block finds the ranges anew."""

    def __init__(self, model: nn.Module) -> None:
        self._model = model
        self._blocks: list[contextlib.AbstractContextManager[nn.Module]] = []

    def __enter__(self) -> nn.Module:
        block = _calibrated(self._model)
        model = block.__enter__()
        self._blocks.append(block)
        return model

    def __exit__(self, *error: Any) -> bool | None:
        return self._blocks.pop().__exit__(*error)


@contextlib.contextmanager
def _calibrated(model: nn.Module) -> Iterator[nn.Module]:
    controller = controller_of(model, "calibration")
    if controller.observers is not None:
        raise QuantizationError(
            "this model is being calibrated already", hint="one `with onward.calibration` at a time"
        )
    check_types(model, controller, "calibration")
    controller.observers, controller.reached, controller.read = {}, set(), set()
    try:
        with set_training(model, False), torch.no_grad():
            yield model
        seen = controller.observers
    finally:
        controller.observers = None
    if not seen and not controller.reached and not controller.is_weight_only:
        raise QuantizationError(
            "nothing was seen inside `with onward.calibration(model):`",
            hint="call the model there with some batches; a part of it that is called alone counts too",
        )
    ranges = []
    zeros: list[Site] = []
    cut: list[Site] = []
    for site, observer in seen.values():
        try:
            low, high = observer.range()
        except RangeError as error:
            raise QuantizationError(f"{site.label}: {error}", hint=_what_to_do(observer)) from error
        if float(low) == 0 == float(high) and not observer.infinities:  # a mask has nothing else
            (zeros if observer.only_zeros else cut).append(site)
        if observer.nans:
            raise QuantizationError(f"{site.label} has seen NaN: {observer.nans} values", hint=_LOOK)
        ranges.append((site, low if not observer.infinities else -torch.inf, high))
    for site, low, high in ranges:
        site.set_range(low, high)
    for text in _of_zeros(zeros, cut):
        _warn(text)
    missed = _told(_missed(model, controller), "", "")
    _warn(missed and f"calibration has not reached {missed}: evaluation and export raise an error if they do")


_LOOK = "look for the cause in the float model; a rule with off=True leaves a module in float"


def _what_to_do(observer: Observer) -> str:
    """Where there is no range."""
    if observer.values:
        return "its found() gives two finite numbers, the lower one first"
    return _LOOK if observer.nans or observer.infinities else "its batches were empty: give some that are not"


def _of_zeros(zeros: list[Site], cut: list[Site]) -> tuple[str, str, str]:
    """Warnings about sites that have seen nothing but zeros (inputs that were forgotten), about values so rare that a
    method has cut them off, and about what begins with zeros and is to learn (a last layer, a factor of a branch)."""
    seen = _told([each.label for each in zeros], "has seen nothing but zeros", "have seen nothing but zeros")
    methods = " and ".join(sorted({f"range={each.settings.range!r}" for each in cut}))
    left = _told([each.label for each in cut], "has", "have")
    left = left and f"{left} a range of zero, for what else was seen is rare, and cut off by {methods}: try 'minmax'"
    stay = [each.label for each in (*zeros, *cut) if not each.settings.averaging]
    told = _told(stay, "stays at zero in training, where averaging=0", "stay at zero in training, where averaging=0")
    way_out = "leaves ranges: a rule with activations={'averaging': 0.1} lets them follow the batches"
    return seen, left, told and f"{told} {way_out}"


def _told(names: list[str], one: str, several: str) -> str:
    """So many names that somebody reads them, in one sentence."""
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return f"{', '.join(names[:_SHOWN])}{more} {one if len(names) == 1 else several}".strip() if names else ""


_SHOWN = 8


def _warn(text: str) -> None:
    if text:
        warnings.warn(text, QuantizationWarning, stacklevel=5)


def _missed(model: nn.Module, controller: Controller) -> list[str]:
    """The modules whose results are to be quantized, that have a weight of their own, and neither ran nor had it read:
    the last projection of an attention is not called, and one that shares its weight with another need not be."""
    return [
        path
        for path, module in model.named_modules()
        if (settings := controller.settings_for(path)) is not None
        and not settings.weight_only
        and isinstance(weight := module._parameters.get("weight"), torch.Tensor)
        and id(weight) not in controller.read
        and path not in controller.reached
    ]
