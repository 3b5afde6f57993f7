"""The methods by which ranges are found, by name, and the ranges of weights.

observer = make_observer(Activations(range="percentile"))
for batch in batches:
    observer.observe(batch)
low, high = observer.range()
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from ...capture.memory.tensor import Traced
from ...errors import InputError
from ..config.checks import nearest
from ..config.settings import REGISTERED_METHODS, Activations, Weights, calibrate_methods
from .grid import weight_scale, weight_steps
from .histogram import Entropy, MeanSquaredError, Percentile
from .observers import MinMax, MovingAverage, Observer, RangeError, TopK

__all__ = [
    "Observer",
    "RangeError",
    "calibrate_methods",
    "make_observer",
    "register_calibrate_method",
    "unregister_calibrate_method",
    "weight_range",
]

_BUILT_IN: dict[str, type[Observer]] = {
    "minmax": MinMax,
    "moving_average": MovingAverage,
    "percentile": Percentile,
    "topk": TopK,
    "entropy": Entropy,
    "mse": MeanSquaredError,
}


def register_calibrate_method(name: str, cls: type[Observer]) -> None:
    """Add a method of your own, a subclass of `onward.quant.Observer`. A name that is taken is refused.

    class Half(onward.quant.Observer):
        def update(self, values, low, high): self.low, self.high = low / 2, high / 2
        def found(self): return self.low, self.high

    onward.register_calibrate_method("half", Half)
    config = onward.QuantConfig(activations=onward.Activations(range="half"))
    """
    word: Any = name
    if not (isinstance(word, str) and word.isidentifier()):
        raise InputError(f"a calibration method's name must be a plain word, not {name!r}")
    given: Any = cls
    if not (isinstance(given, type) and issubclass(given, Observer)):
        raise InputError(
            f"the calibration method {name!r} must be a subclass of onward.quant.Observer, not {cls!r}",
            hint="it overrides update(values, low, high) and found()",
        )
    missing = [each for each in ("update", "found") if getattr(given, each) is getattr(Observer, each)]
    if missing:
        raise InputError(
            f"the calibration method {name!r} does not override {' and '.join(missing)}",
            hint="update(values, low, high) looks at a batch, and found() gives the low and the high end",
        )
    if name in _BUILT_IN:
        raise InputError(f"the calibration method {name!r} is one of onward's own", hint="choose another name")
    if REGISTERED_METHODS.get(name, cls) is not cls:
        raise InputError(
            f"there is a calibration method {name!r} already: {REGISTERED_METHODS[name].__qualname__}",
            hint=f"choose another name, or call onward.unregister_calibrate_method({name!r}) first",
        )
    REGISTERED_METHODS[name] = cls


def unregister_calibrate_method(name: str) -> None:
    """Take a registered method away; onward's own stay."""
    if name not in REGISTERED_METHODS:
        known = nearest(name, REGISTERED_METHODS)
        raise InputError(
            f"there is no registered calibration method {name!r}", hint=f"did you mean {known!r}?" if known else None
        )
    del REGISTERED_METHODS[name]


def make_observer(spec: Activations) -> Observer:
    """A new observer for one activation."""
    cls = _BUILT_IN.get(spec.range) or REGISTERED_METHODS.get(spec.range)
    if cls is None:  # the configuration was made while it was registered
        raise InputError(
            f"the calibration method {spec.range!r} is not registered any more",
            hint=f"call onward.register_calibrate_method({spec.range!r}, cls) again",
        )
    return cls(spec)


@torch.no_grad()
def weight_range(weight: Tensor, spec: Weights, axis: int = 0) -> Tensor:
    """The largest magnitudes worth keeping, float32: one for each index along `axis`, 0-d for the whole tensor, or,
    block-wise, [channels, blocks] (the last block may be short). The range is from minus these to these.
    """
    if not weight.is_floating_point() or weight.numel() == 0:
        raise RangeError(f"a weight of {weight.dtype} and the shape {tuple(weight.shape)} has no range to find")
    # One whose size varies is computed in the file, where nobody looks into it.
    if not isinstance(weight, Traced) and not bool(weight.isfinite().all()):
        bad = int((~weight.isfinite()).sum())
        raise RangeError(f"{bad} of {weight.numel()} values of the weight are NaN or infinite")
    rows = weight.detach().to(torch.float32).movedim(axis, 0)
    rows = rows.flatten(1) if rows.dim() > 1 else rows[:, None]
    if spec.block_size is not None:
        rows = functional.pad(rows, (0, -rows.shape[1] % spec.block_size)).unflatten(1, (-1, spec.block_size))
    elif not spec.per_channel:
        rows = rows.flatten()
    high = rows.abs().amax(-1)
    return high if spec.range == "minmax" else _least_error(rows, high, spec)


def _least_error(rows: Tensor, high: Tensor, spec: Weights) -> Tensor:
    """The share of each row's largest magnitude that clips it to the least squared error: in steps of a 20th down to a
    fifth, then of a 200th around the best.
    """
    shares = torch.full_like(high, 1.0)
    best = _squared_errors(rows, high, spec)
    for step, reach in ((0.05, 16), (0.005, 9)):
        around = shares.clone()
        for place in range(-reach, reach + 1):
            share = (around + place * step).clamp(0.2, 1.0)
            errors = _squared_errors(rows, high * share, spec)
            better = errors < best
            best, shares = torch.where(better, errors, best), torch.where(better, share, shares)
    return high * shares


def _squared_errors(rows: Tensor, high: Tensor, spec: Weights) -> Tensor:
    steps = weight_steps(spec)
    scale = weight_scale(high, spec)[..., None]
    near = torch.clamp(torch.round(rows / scale), -steps - int(spec.power_of_two), steps) * scale
    return (near - rows).square().sum(-1)
