"""Ranges from a histogram: percentile, entropy, mean squared error.

The histogram grows with what it is shown and needs no second look at a batch. The width of its bins is a power of two
and their edges are multiples of it, so that growing merges whole bins: the counts are exact at any time, and depend on
the values alone, not on the order or the batches in which they came.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor

from ..config.settings import Activations
from .grid import scale_and_zero_point
from .observers import Observer

_FINEST = -120  # as an exponent; bins of 2**-120 tell zero from anything that a scale can tell from zero
_ELEMENTS = 1 << 20  # of a table of candidates and bins
_COARSE = 64  # candidates of the first look along an end of the range; the next ones are finer around the best


class Histogram(Observer):
    """Counts of values by bins: at least `bins` of them from the lowest to the highest value, at most twice as many.

    Bin i has the values from (start + i) * width up to the next bin's; zeros are counted apart, as any grid has them.
    """

    def __init__(self, spec: Activations) -> None:
        super().__init__(spec)
        self.exponent = _FINEST
        self.start = 0
        self.zeros = 0
        self.counts = torch.zeros(0, dtype=torch.int64)
        self.low = self.high = 0.0

    @property
    def width(self) -> float:
        return math.ldexp(1.0, self.exponent)

    def update(self, values: Tensor, low: Tensor, high: Tensor) -> None:
        first = self.values == values.numel()
        self.low = float(low) if first else min(self.low, float(low))
        self.high = float(high) if first else max(self.high, float(high))
        self._grow()
        self.counts = self.counts.to(values.device)
        places = torch.floor(values * math.ldexp(1.0, -self.exponent)).to(torch.int64) - self.start
        # A zero has a place too: bin 0 is always there, and takes no part unless a value is in it.
        found = torch.bincount(places, minlength=self.counts.numel())
        zeros = int((values == 0).sum())
        if zeros:
            found[-self.start] -= zeros
        self.zeros += zeros
        self.counts = self.counts + found

    def _grow(self) -> None:
        """Make room for the range, from which alone the width and the number of bins follow."""
        exponent, first, last = self._layout()
        if self.counts.numel():
            old = torch.arange(self.counts.numel(), device=self.counts.device) + self.start
            merged = torch.bitwise_right_shift(old, min(exponent - self.exponent, 62)) - first
            grown = torch.zeros(last - first + 1, dtype=torch.int64, device=self.counts.device)
            self.counts = grown.index_add_(0, merged, self.counts)
        else:
            self.counts = torch.zeros(last - first + 1, dtype=torch.int64)
        self.exponent, self.start = exponent, first

    def _layout(self) -> tuple[int, int, int]:
        """The exponent of the width, and the places of the first and the last bin; zero's bin is always among them."""
        low, high = min(self.low, 0.0), max(self.high, 0.0)
        # The narrowest bins that stay below twice the asked number; 2.0 ** e is in (span / (2 * bins), span / bins].
        exponent = max(_FINEST, math.frexp((high - low) / self.spec.bins)[1] - 1)
        return exponent, math.floor(math.ldexp(low, -exponent)), math.floor(math.ldexp(high, -exponent))

    def edges(self) -> Tensor:
        """Of all bins, float64: one more than there are bins."""
        places = torch.arange(self.counts.numel() + 1, dtype=torch.float64, device=self.counts.device)
        return (places + self.start) * self.width

    def _clipped(self, low: float, high: float) -> tuple[Tensor, Tensor]:
        """A range, no wider than the values."""
        ends = torch.tensor([low, high], dtype=torch.float64).clamp(self.low, self.high)
        low_high = ends.to(self.counts.device, torch.float32)
        return low_high[0], low_high[1]


class Percentile(Histogram):
    """The middle so many percent of the values; what is cut off is cut off in equal parts at both ends."""

    def found(self) -> tuple[Tensor, Tensor]:
        cut = (100.0 - self.spec.percentile) / 200.0
        return self._clipped(self.quantile(cut), self.quantile(1.0 - cut))

    def quantile(self, share: float) -> float:
        """The value that this share of the values is not above: within a bin of the true one."""
        counts = self.counts.clone()
        counts[-self.start] += self.zeros
        total = counts.cumsum(0).to(torch.float64)
        rank = share * (self.values - 1)
        if rank <= 0 or rank >= self.values - 1:  # the first and the last value are known exactly
            return self.low if rank <= 0 else self.high
        wanted = rank + 0.5  # a value stands for the middle of its step, as torch.quantile has it
        place = min(int(torch.searchsorted(total, wanted)), counts.numel() - 1)
        before = float(total[place] - counts[place])
        inside = (wanted - before) / max(float(counts[place]), 1.0)
        return (self.start + place + min(max(inside, 0.0), 1.0)) * self.width


class MeanSquaredError(Histogram):
    """The range whose grid has the least mean squared error on the values: rounding inside, clipping outside."""

    def found(self) -> tuple[Tensor, Tensor]:
        return self._clipped(*_search(self, self.errors))

    def errors(self, lows: Tensor, highs: Tensor) -> Tensor:
        """The sum of squared errors for every candidate (float64, 1-d)."""
        scale, zero, first, last = scale_and_zero_point(lows, highs, self.spec)
        scale, zero = scale.to(torch.float64)[:, None], zero[:, None]
        edges = self.edges()
        x = ((edges[:-1] + edges[1:]) / 2)[None]
        counts = self.counts.to(torch.float64)
        inside = torch.clamp(x, (first - zero) * scale, (last - zero) * scale)
        near = torch.round(inside / scale) * scale
        errors = ((near - x).square() * counts).sum(1)
        # Bins that are coarse next to a step do not tell where in it the values lie: evenly, on the average.
        evenly = ((inside - x).square() * counts).sum(1) + scale[:, 0].square() / 12 * counts.sum()
        return torch.where(scale[:, 0] < 4 * self.width, evenly, errors)


class Entropy(Histogram):
    """The range that keeps the most information: the least Kullback-Leibler divergence between the values' distribution
    (outliers moved to the ends) and what is left of it in 2**bits levels.
    """

    def found(self) -> tuple[Tensor, Tensor]:
        return self._clipped(*_search(self, self.divergences))

    def divergences(self, lows: Tensor, highs: Tensor) -> Tensor:
        return torch.stack([self._divergence(float(low), float(high)) for low, high in zip(lows, highs, strict=True)])

    def _divergence(self, low: float, high: float) -> Tensor:
        levels = 1 << self.spec.bits
        all_bins = self.counts.numel()
        first, last = (min(max(round(end / self.width) - self.start, 0), all_bins) for end in (low, high))
        if high - low < levels * self.width:  # fewer bins than levels: nothing is lost, and nothing was measured
            return torch.tensor(math.inf, dtype=torch.float64, device=self.counts.device)
        counts = self.counts.to(torch.float64)
        kept = counts[first:last]
        if not bool(kept.any()):  # everything would be clipped
            return torch.tensor(math.inf, dtype=torch.float64, device=self.counts.device)
        reference = kept.clone()
        reference[0] += counts[:first].sum()
        reference[-1] += counts[last:].sum()
        middles = (torch.arange(first, last, device=counts.device) + self.start + 0.5) * self.width
        level = torch.floor((middles - low) / (high - low) * levels).to(torch.int64).clamp(0, levels - 1)
        filled = (reference > 0).to(torch.float64)
        nothing = torch.zeros(levels, dtype=torch.float64, device=counts.device)
        mass, places = nothing.index_add(0, level, kept), nothing.index_add(0, level, filled)
        model = filled * (mass / places.clamp(min=1))[level]
        reference, model = reference / reference.sum(), model / model.sum()
        # An end where only outliers are has no mass in the model: a floor keeps the divergence finite and large.
        ratio = torch.log(reference.clamp(min=1e-12)) - torch.log(model.clamp(min=1e-12))
        return (reference * ratio).sum()


def _search(histogram: Histogram, cost: Callable[[Tensor, Tensor], Tensor]) -> tuple[float, float]:
    """The range of the least cost. Its ends lie on edges of bins.

    A symmetric grid has one end to look for, and so have values of one sign. Otherwise both ends shrink together first
    (with outliers on both sides, one alone would gain nothing), then each is looked for in turns.
    """
    low, high = min(histogram.low, 0.0), max(histogram.high, 0.0)
    if low == high or not int(histogram.counts.sum()):
        return low, high
    cost = partial(_in_parts, cost, max(_ELEMENTS // histogram.counts.numel(), 1))
    if histogram.spec.symmetric:
        end = _along(histogram, max(high, -low), max(high, -low), lambda ends: cost(-ends, ends))
        return -end, end
    widest = low, high
    if low < 0 < high:
        shares = torch.exp2(torch.arange(0, -64, -1, dtype=torch.float64, device=histogram.counts.device) / 8)
        lows, highs = (torch.round(end * shares / histogram.width) * histogram.width for end in (low, high))
        place = int(torch.argmin(cost(lows, highs)))
        low, high = float(lows[place]), float(highs[place])
    for _ in range(2 if low < 0 < high else 1):
        if high > 0:
            high = _along(histogram, widest[1], high, partial(_with_low, cost, low))
        if low < 0:
            low = _along(histogram, widest[0], low, partial(_with_high, cost, high))
    return low, high


def _in_parts(cost: Callable[[Tensor, Tensor], Tensor], size: int, lows: Tensor, highs: Tensor) -> Tensor:
    """Candidates times bins are held at once; with many bins that would be much."""
    return torch.cat([cost(*part) for part in zip(lows.split(size), highs.split(size), strict=True)])


def _with_low(cost: Callable[[Tensor, Tensor], Tensor], low: float, highs: Tensor) -> Tensor:
    return cost(torch.full_like(highs, low), highs)


def _with_high(cost: Callable[[Tensor, Tensor], Tensor], high: float, lows: Tensor) -> Tensor:
    return cost(lows, torch.full_like(lows, high))


def _along(histogram: Histogram, widest: float, current: float, cost: Callable[[Tensor], Tensor]) -> float:
    """The best end between zero and the widest: first a coarse look, then finer ones around what it found."""
    width = math.copysign(histogram.width, widest)
    bins = max(math.ceil(widest / width), 1)
    step = max(bins // _COARSE, 1)

    def best(*places: int) -> int:
        # From the widest inwards, without repeats. Of equals the widest: a flat cost says that clipping gains nothing.
        tried = torch.tensor(sorted({min(max(place, 1), bins) for place in places}, reverse=True))
        costs = cost(tried.to(histogram.counts.device, torch.float64) * width)
        return int(tried[int(torch.argmin(costs))])

    octaves = (round(2 ** (quarter / 4)) for quarter in range(4 * bins.bit_length()))
    found = best(round(current / width), *range(bins, 0, -step), *octaves)
    while step > 1:
        reach, step = step, max(step // 8, 1)
        found = best(found, *range(found - reach, found + reach + 1, step))
    return found * width
