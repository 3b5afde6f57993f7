"""`with onward.calibration(model):` every site of the model watches what passes, and has a range afterwards."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterator

import torch
from torch import nn

from ..capture.model import set_training
from ..errors import QuantizationError
from .caution import QuantizationWarning
from .controller import Controller
from .initialise import controller_of
from .ranges import RangeError


@contextlib.contextmanager
def calibration(model: nn.Module) -> Iterator[nn.Module]:
    """Run any number of batches inside: ranges are taken from them, by the methods that the configuration names.

    The model computes in float meanwhile, in evaluation mode and without gradients; its own modes are restored. If the
    block raises, the ranges that the model had stay.
    """
    controller = controller_of(model, "calibration")
    if controller.observers is not None:
        raise QuantizationError(
            "this model is being calibrated already", hint="one `with onward.calibration` at a time"
        )
    controller.observers, controller.reached = {}, set()
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
    for site, observer in seen.values():
        try:
            low, high = observer.range()
        except RangeError as error:
            raise QuantizationError(f"{site.label}: {error}") from error
        if float(low) == 0 == float(high) and not observer.infinities:  # a mask has nothing else
            warnings.warn(f"{site.label} has seen nothing but zeros", QuantizationWarning, stacklevel=4)
        if observer.nans:
            raise QuantizationError(
                f"{site.label} has seen NaN: {observer.nans} values",
                hint="look for the cause in the float model; a rule with off=True leaves a module in float",
            )
        ranges.append((site, low if not observer.infinities else -torch.inf, high))
    for site, low, high in ranges:
        site.set_range(low, high)
    missed = [path for path in _with_weights(model, controller) if path not in controller.reached]
    if missed:
        warnings.warn(
            f"calibration has not reached {', '.join(missed)}: evaluation and export raise an error if they do",
            QuantizationWarning,
            stacklevel=4,
        )


def _with_weights(model: nn.Module, controller: Controller) -> list[str]:
    """The modules that are to be quantised and have a weight of their own. The last projection of an attention is not
    called: the module around it takes its weight."""
    return [
        path
        for path, module in model.named_modules()
        if controller.settings_for(path) is not None
        and isinstance(module._parameters.get("weight"), torch.Tensor)
        and not isinstance(module, nn.modules.linear.NonDynamicallyQuantizableLinear)
    ]
