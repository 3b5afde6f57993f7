"""What finds the range of an activation over any number of batches, without keeping them: the simple methods.

Every observer is made from an `Activations`, is shown tensors with `observe`, and answers with `range`. Values that are
not finite are left out and counted, so that the caller, who knows the module, can say where they were: a mask of -inf
in front of a softmax is usual, NaN is not.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ..config.settings import Activations


class RangeError(ValueError):
    """There is no range. The text is what happened ("no value was seen"); the caller knows where."""


class Observer:
    """One range. A method of one's own overrides `update` and `found`, and is registered under a name.

    nans, infinities   how many values were left out
    values             how many were looked at
    only_zeros         whether they were nothing else
    """

    nans = infinities = values = 0  # of the class, so that a method may leave out `super().__init__`
    only_zeros = True

    def __init__(self, spec: Activations) -> None:
        self.spec = spec

    @torch.no_grad()
    def observe(self, x: Tensor) -> None:
        """Take a batch into account. An empty one changes nothing."""
        if not x.is_floating_point():
            raise RangeError(f"a tensor of {x.dtype} has no range to find: only floats are quantized")
        if x.numel() == 0:
            return
        flat = x.detach().reshape(-1).to(torch.float32)
        low, high = torch.aminmax(flat)
        if not bool(torch.isfinite(high - low)):  # NaN and infinities stay what they are in a difference
            flat = self._finite(flat)
            if flat.numel() == 0:
                return
            low, high = torch.aminmax(flat)
        self.values += flat.numel()
        self.only_zeros = self.only_zeros and not bool((low != 0) | (high != 0))
        self.update(flat, low, high)

    def _finite(self, flat: Tensor) -> Tensor:
        nan, infinite = flat.isnan(), flat.isinf()
        self.nans += int(nan.sum())
        self.infinities += int(infinite.sum())
        return flat[~(nan | infinite)]

    def range(self) -> tuple[Tensor, Tensor]:
        """The lowest and the highest value worth keeping, float32, on the device of the values."""
        if not self.values:
            left_out = self.nans + self.infinities
            if not left_out:
                raise RangeError("no value was seen")
            every = "NaN" if not self.infinities else "infinite" if not self.nans else "NaN or infinite"
            raise RangeError(f"every one of the {left_out} values was {every}")
        return self._checked(self.found())

    def _checked(self, found: Any) -> tuple[Tensor, Tensor]:
        """The range as two tensors; a method of one's own may give numbers, and may be wrong."""
        name = f"the calibration method {self.spec.range!r}" if hasattr(self, "spec") else type(self).__qualname__
        try:
            low, high = (torch.as_tensor(each).detach().to(torch.float32).reshape(()) for each in found)
        except (TypeError, ValueError, RuntimeError) as error:
            raise RangeError(f"{name} has to find a low and a high number, not {found!r}") from error
        if not bool(low.isfinite() & high.isfinite() & (low <= high)):
            raise RangeError(f"{name} has found a range from {float(low):g} to {float(high):g}")
        return low, high

    def update(self, values: Tensor, low: Tensor, high: Tensor) -> None:
        """Look at a batch: finite float32 values in one dimension, at least one, and the ends of their range."""
        raise NotImplementedError

    def found(self) -> tuple[Tensor, Tensor]:
        """The range, once something was seen."""
        raise NotImplementedError


class MinMax(Observer):
    """Every value is kept."""

    low: Tensor
    high: Tensor

    def update(self, values: Tensor, low: Tensor, high: Tensor) -> None:
        first = self.values == values.numel()
        self.low = low if first else torch.minimum(self.low, low)
        self.high = high if first else torch.maximum(self.high, high)

    def found(self) -> tuple[Tensor, Tensor]:
        return self.low, self.high


class MovingAverage(Observer):
    """An exponential average of the ends of the batches' ranges.

    The first batches count alike: their plain average, until there are so many that a new one counts `averaging`.
    """

    low: Tensor
    high: Tensor

    def __init__(self, spec: Activations) -> None:
        super().__init__(spec)
        self.batches = 0

    def update(self, values: Tensor, low: Tensor, high: Tensor) -> None:
        self.batches += 1
        if self.batches == 1:
            self.low, self.high = low, high
        else:
            share = max(self.spec.averaging, 1 / self.batches)
            self.low, self.high = torch.lerp(self.low, low, share), torch.lerp(self.high, high, share)

    def found(self) -> tuple[Tensor, Tensor]:
        return self.low, self.high


class TopK(Observer):
    """The k-th largest and the k-th smallest value of all that were seen: k - 1 outliers on each side are clipped.

    With a symmetric grid it is the k-th largest magnitude, as linger's `top_10`. With no more than k values all are
    kept; for two ends with fewer than twice as many, which would pass each other.
    """

    def __init__(self, spec: Activations) -> None:
        super().__init__(spec)
        self._top = self._bottom = torch.empty(0)

    def update(self, values: Tensor, low: Tensor, high: Tensor) -> None:
        if self.spec.symmetric:
            self._top = self._largest(self._top, values.abs())
            return
        self._top = self._largest(self._top, values)
        self._bottom = self._largest(self._bottom, -values)

    def _largest(self, kept: Tensor, values: Tensor) -> Tensor:
        """The k largest so far, in falling order."""
        values = torch.topk(values, min(self.spec.top_k, values.numel())).values
        values = torch.cat([kept.to(values.device), values])
        return torch.topk(values, min(self.spec.top_k, values.numel())).values

    def found(self) -> tuple[Tensor, Tensor]:
        few = self.spec.top_k if self.spec.symmetric else 2 * self.spec.top_k - 1
        place = self.spec.top_k - 1 if self.values > few else 0
        high = self._top[place]
        return (-high if self.spec.symmetric else -self._bottom[place]), high
