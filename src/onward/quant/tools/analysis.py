"""What `onward.analyse` found: as objects, as a table, and as sections of the report page."""

from __future__ import annotations

import html
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass


def decibels(signal: float, noise: float) -> float:
    """The ratio of signal to noise; infinite where there is none, NaN where there is no signal."""
    if math.isnan(noise) or (signal == 0 and noise == 0):
        return math.nan
    if noise == 0:
        return math.inf
    return -math.inf if signal == 0 else 10 * math.log10(signal / noise)


@dataclass(frozen=True)
class SiteNoise:
    """A tensor at its site.

    low, high   the range that its grid covers
    used        the share of the grid's levels between the smallest and the largest integer that came along
    outside     the share of values that the range cuts off
    alone       signal to noise, in decibels, if this tensor alone is rounded
    in_place    the same with everything before it in integers too
    """

    module: str
    name: str
    low: float
    high: float
    bits: int
    used: float
    outside: float
    alone: float
    in_place: float


@dataclass(frozen=True)
class WeightNoise:
    """A weight, as its product has it: with a batch norm folded in.

    name       which of the module's it is: the parameter, or the function that reads it
    outlier    its largest magnitude in standard deviations
    channels   the largest magnitude of a channel against that of the median channel
    alone      signal to noise in decibels
    """

    module: str
    name: str
    kind: str
    bits: int
    largest: float
    deviation: float
    outlier: float
    channels: float
    alone: float


@dataclass(frozen=True)
class LayerCost:
    """The signal to noise of the model's outputs if one operation alone is quantised, its weights and what comes out of
    it: the smaller, the dearer. What a module does besides is a row of its own.

    function   of a module that has several, which it is
    parts      the modules that are folded into it or fused with it
    """

    module: str
    function: str
    parts: tuple[str, ...]
    decibels: float

    @property
    def told(self) -> str:
        first, *others = (each or "the model itself" for each in (self.module, *self.parts))
        return " + ".join([f"{first} ({self.function})" if self.function else first, *others])


@dataclass(frozen=True)
class Analysis:
    """All of it; `costs` has the dearest module first, `total` is the signal to noise of the outputs."""

    sites: tuple[SiteNoise, ...]
    weights: tuple[WeightNoise, ...]
    costs: tuple[LayerCost, ...]
    total: float

    def __str__(self) -> str:
        parts = [f"outputs: {_db(self.total)} dB signal to noise"]
        if self.costs:
            parts.append(_table(("what it costs to quantise this alone", "outputs dB"), _cost_rows(self.costs)))
        parts.append(_table(_SITE_HEADINGS, _site_rows(self.sites)))
        if self.weights:
            parts.append(_table(_WEIGHT_HEADINGS, _weight_rows(self.weights)))
        return "\n\n".join(parts)

    def sections(self) -> list[tuple[str, str]]:
        """Titles and HTML for the report page; names from the model are escaped."""
        found = [("Quantisation", f"<p>The outputs have {_db(self.total)} dB of signal to noise.</p>")]
        if self.costs:
            bars = _bars([(each.told, each.decibels) for each in self.costs])
            found.append(("What each layer costs", f"<p>{_COSTS_EXPLAINED}</p>{bars}"))
        pairs = [(f"{each.module} {each.name}".strip(), each.in_place) for each in self.sites]
        found.append(("Signal to noise through the model", _bars(pairs)))
        found.append(("Quantised activations", _html(_SITE_HEADINGS, _site_rows(self.sites))))
        if self.weights:
            found.append(("Quantised weights", _html(_WEIGHT_HEADINGS, _weight_rows(self.weights))))
        return found


_COSTS_EXPLAINED = "Signal to noise of the outputs if this alone is quantised: the shorter the bar, the more it costs."
_SITE_HEADINGS = ("tensor", "range", "bits", "used", "cut off", "alone dB", "in place dB")
_WEIGHT_HEADINGS = ("weight of", "kind", "bits", "largest", "in deviations", "largest / median channel", "alone dB")


def _site_rows(sites: Sequence[SiteNoise]) -> list[tuple[str, ...]]:
    return [
        (
            f"{each.module} {each.name}".strip(),
            f"{each.low:.4g} .. {each.high:.4g}",
            str(each.bits),
            f"{each.used:.0%}",
            f"{each.outside:.2%}",
            _db(each.alone),
            _db(each.in_place),
        )
        for each in sites
    ]


def _weight_rows(weights: Sequence[WeightNoise]) -> list[tuple[str, ...]]:
    count = Counter(each.module for each in weights)
    return [
        (
            f"{each.module or 'the model itself'} {each.name if count[each.module] > 1 else ''}".strip(),
            each.kind,
            str(each.bits),
            f"{each.largest:.4g}",
            f"{each.outlier:.1f}",
            f"{each.channels:.1f}",
            _db(each.alone),
        )
        for each in weights
    ]


def _cost_rows(costs: Sequence[LayerCost]) -> list[tuple[str, ...]]:
    return [(each.told, _db(each.decibels)) for each in costs]


def _db(value: float) -> str:
    return "-" if math.isnan(value) else "exact" if value == math.inf else f"{value:.1f}"


def _table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    widths = [max(len(row[place]) for row in (headings, *rows)) for place in range(len(headings))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    head = "  ".join(cell.ljust(width) for cell, width in zip(headings, widths, strict=True)).rstrip()
    return "\n".join([head, "  ".join("-" * width for width in widths), *lines])


def _html(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    head = "".join(f"<th>{html.escape(each)}</th>" for each in headings)
    body = "".join(f"<tr>{''.join(f'<td class=code>{html.escape(cell)}</td>' for cell in row)}</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


_FULL = 60.0  # decibels of a bar over the whole width


def _bars(values: Sequence[tuple[str, float]]) -> str:
    """A bar for each, long for little noise."""
    rows = []
    for name, value in values:
        share = 1.0 if value == math.inf else max(0.0, min(1.0, value / _FULL)) if not math.isnan(value) else 0.0
        rows.append(
            f'<tr><td class="code">{html.escape(name or "the model itself")}</td>'
            f'<td style="width:60%"><div class="bar" style="width:{share:.1%}"></div></td>'
            f'<td class="number">{_db(value)} dB</td></tr>'
        )
    return f"<table><tbody>{''.join(rows)}</tbody></table>"
