"""`onward.analyse(model, batches)`: what quantization does to every tensor, every weight, and to the result.

The batches go through the model in float and in integers, and every site is compared. Then every operation is rounded
alone, its weights and what comes out of it, all others in float: how much that disturbs the outputs is what it costs.
"""

from __future__ import annotations

import html
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree

from ...errors import InputError
from ..exact.integers import rounded, values_of
from ..grids.grid import Grid
from ..grids.sites import MASK, Site
from ..run.study import Study, siteless
from ..setup.initialize import controller_of
from .layers import run, trace_layers

_STEPS_AT_THE_EDGE = 0.5


@dataclass(frozen=True)
class _Group:
    """Modules that are one integer operation together, and what is rounded if it is quantized alone."""

    module: str
    function: str
    parts: tuple[str, ...]
    rounded: frozenset[str]


@dataclass
class _Seen:
    """Sums over all batches at one site."""

    site: Site
    signal: float = 0.0
    noise: float = 0.0
    own_noise: float = 0.0
    outside: int = 0
    count: int = 0
    smallest: int = 1 << 30
    largest: int = -(1 << 30)
    grid: Grid | None = None
    waiting: list[Tensor] = field(default_factory=list)  # float values that have no integers to compare with yet

    def add_integers(self, values: Tensor, q: Tensor, grid: Grid) -> None:
        if not self.waiting:
            return
        exact = self.waiting.pop(0)
        if exact.shape != values.shape:
            return
        self.grid = grid
        alone = values_of(rounded(exact, grid), grid)
        steps = exact / grid.scale + grid.zero_point
        self.signal += float(exact.double().square().sum())
        self.noise += float((values.double() - exact.double()).square().sum())
        self.own_noise += float((alone.double() - exact.double()).square().sum())
        below, above = steps < grid.low - _STEPS_AT_THE_EDGE, steps > grid.high + _STEPS_AT_THE_EDGE
        self.outside += int((below | above).sum())
        self.count += exact.numel()
        integers = q.to(torch.int32)
        self.smallest = min(self.smallest, int(integers.min()))
        self.largest = max(self.largest, int(integers.max()))


def analyse(model: nn.Module, batches: Iterable[Any], *, costs: bool = True, progress: bool = False) -> Analysis:
    """Compare a calibrated or trained model with its float self.

    model      quantization-aware, with ranges
    batches    as in `onward.quantize`; a few are enough
    costs      also quantize every operation alone, one run of all batches for each
    progress   show how far that is
    """
    controller_of(model, "analyse")
    held = list(batches) if not isinstance(batches, Tensor) else []
    if not held:
        raise InputError("analyse needs a list with at least one batch", hint="onward.analyse(model, [x])")
    seen: dict[str, _Seen] = {}
    weights: dict[tuple[str, str], WeightNoise] = {}
    for batch in held:
        _compare(model, batch, seen, weights)
    sites = [_site_noise(each) for each in seen.values() if each.count]
    found = _costs(model, held, _groups(model, held[0], seen, weights), progress) if costs else ()
    return Analysis(tuple(sites), tuple(weights.values()), tuple(found), _total(model, held))


def _groups(
    model: nn.Module, batch: Any, seen: Mapping[str, _Seen], weights: Iterable[tuple[str, str]]
) -> list[_Group]:
    """What becomes one integer operation, and whatever else a module does. A module with others inside does more than
    one thing: of its sites those are part of an operation that belong to that function."""
    groups: dict[tuple[str, ...], _Group] = {}
    taken: set[str] = set()
    sites = [each.site for each in seen.values()]
    for each in trace_layers(model, batch).layers:
        is_whole = not any(model.get_submodule(each.module).children())
        own = {site.label for site in sites if site.path == each.module} if is_whole else set()
        own |= {site.label for site in sites if site.path == each.module and site.name.startswith(f"{each.function}_")}
        own |= {*each.sites, *([siteless(each.module)] if is_whole else [])}
        parts = tuple(part for part in each.parts if part != each.module)
        key = each.module, ("" if is_whole else each.function), *parts
        known = groups[key].rounded if key in groups else frozenset()  # of a module that is called again
        groups[key] = _Group(each.module, key[1], parts, known | own)
        taken |= own
    for path in dict.fromkeys([*(site.path for site in sites), *(path for path, _ in weights)]):
        rest = {siteless(path), *(site.label for site in sites if site.path == path)} - taken
        if rest > {siteless(path)} or (rest and any(owner == path for owner, _ in weights)):
            groups[path, ""] = _Group(path, "", (), frozenset(rest))
    return list(groups.values())


def _compare(model: nn.Module, batch: Any, seen: dict[str, _Seen], weights: dict[tuple[str, str], WeightNoise]) -> None:
    """One batch in float, then in integers; what is seen at a site in the one meets what is seen in the other."""
    controller = controller_of(model, "analyse")

    def in_float(site: Site, values: Tensor, q: Tensor | None, grid: Grid | None) -> None:
        if values.numel() and float(values.min()) > MASK:
            seen.setdefault(site.label, _Seen(site)).waiting.append(values.detach().clone())

    def in_integers(site: Site, values: Tensor, q: Tensor | None, grid: Grid | None) -> None:
        if q is not None and grid is not None and site.label in seen:
            seen[site.label].add_integers(values, q, grid)

    run(model, batch, Study(exact=False, saw=in_float), "analyse")

    def weighed(path: str, name: str, weight: Tensor, rounded: Tensor, axis: int) -> None:
        settings = controller.settings_for(path)
        key = path, name.partition("_call")[0]  # of a module that is called again
        if settings is not None and not name.startswith("batch_norm"):  # whose factors are scales, and exact
            kind, bits = type(model.get_submodule(path)).__name__, settings.weights.bits
            weights[key] = _weight_noise(path, key[1], kind, bits, weight, rounded, axis)

    run(model, batch, Study(exact=True, saw=in_integers, weighed=weighed), "analyse")
    for each in seen.values():
        each.waiting.clear()


def _site_noise(seen: _Seen) -> SiteNoise:
    grid, site = seen.grid, seen.site
    assert grid is not None
    held = site.range
    low, high = (float(each) for each in held.detach()) if held is not None else (math.nan, math.nan)
    return SiteNoise(
        module=seen.site.path,
        name=seen.site.name,
        low=low,
        high=high,
        bits=site.settings.bits,
        used=(seen.largest - seen.smallest + 1) / (grid.high - grid.low + 1),
        outside=seen.outside / seen.count,
        alone=decibels(seen.signal, seen.own_noise),
        in_place=decibels(seen.signal, seen.noise),
    )


def _weight_noise(
    path: str, name: str, kind: str, bits: int, weight: Tensor, rounded: Tensor, axis: int
) -> WeightNoise:
    values = weight.double()
    peaks = values.movedim(axis, 0).flatten(1).abs().amax(1)
    deviation = float(values.std(correction=0)) or 1.0
    return WeightNoise(
        module=path,
        name=name,
        kind=kind,
        bits=bits,
        largest=float(values.abs().max()),
        deviation=deviation,
        outlier=float(values.abs().max()) / deviation,
        channels=float(peaks.max()) / max(float(peaks.median()), 1e-12),
        alone=decibels(float(values.square().sum()), float((rounded.double() - values).square().sum())),
    )


def _costs(model: nn.Module, batches: Sequence[Any], groups: Sequence[_Group], progress: bool) -> Iterable[LayerCost]:
    wanted = [_outputs(model, batch, Study(exact=False)) for batch in batches]
    costs = []
    for group in _shown(groups, progress):
        study = Study(exact=False, only=group.rounded)
        got = [_outputs(model, batch, study) for batch in batches]
        costs.append(LayerCost(group.module, group.function, group.parts, _distance(wanted, got)))
    return sorted(costs, key=lambda each: each.decibels)


def _total(model: nn.Module, batches: Sequence[Any]) -> float:
    wanted = [_outputs(model, batch, Study(exact=False)) for batch in batches]
    return _distance(wanted, [_outputs(model, batch, Study(exact=True)) for batch in batches])


def _outputs(model: nn.Module, batch: Any, study: Study) -> list[Tensor]:
    result = run(model, batch, study, "analyse")
    return [each for each in pytree.tree_leaves(result) if isinstance(each, Tensor) and each.is_floating_point()]


def _distance(wanted: Sequence[Sequence[Tensor]], got: Sequence[Sequence[Tensor]]) -> float:
    pairs = [pair for one, other in zip(wanted, got, strict=True) for pair in zip(one, other, strict=True)]
    signal = sum(float(want.double().square().sum()) for want, _ in pairs)
    noise = sum(float((have.double() - want.double()).square().sum()) for want, have in pairs)
    return decibels(signal, noise)


def _shown(groups: Sequence[_Group], progress: bool) -> Iterable[_Group]:
    if not progress:
        return groups
    from rich.progress import track

    return track(groups, description="every layer alone")


# What is found: as objects, as a table, and as sections of the report page


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
    """The signal to noise of the model's outputs if one operation alone is quantized, its weights and what comes out of
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
    """What `onward.analyse` found. `costs` begins with the module that costs most; `total` is the signal to noise of
    the outputs."""

    sites: tuple[SiteNoise, ...]
    weights: tuple[WeightNoise, ...]
    costs: tuple[LayerCost, ...]
    total: float

    def __str__(self) -> str:
        parts = [f"outputs: {_db(self.total)} dB signal to noise"]
        if self.costs:
            parts.append(_table(("what it costs to quantize this alone", "outputs dB"), _cost_rows(self.costs)))
        parts.append(_table(_SITE_HEADINGS, _site_rows(self.sites)))
        if self.weights:
            parts.append(_table(_WEIGHT_HEADINGS, _weight_rows(self.weights)))
        return "\n\n".join(parts)

    def sections(self) -> list[tuple[str, str]]:
        """Titles and HTML for the report page; names from the model are escaped."""
        found = [("Quantization", f"<p>The outputs have {_db(self.total)} dB of signal to noise.</p>")]
        if self.costs:
            bars = _bars([(each.told, each.decibels) for each in self.costs])
            found.append(("What each layer costs", f"<p>{_COSTS_EXPLAINED}</p>{bars}"))
        pairs = [(f"{each.module} {each.name}".strip(), each.in_place) for each in self.sites]
        found.append(("Signal to noise through the model", _bars(pairs)))
        found.append(("Quantized activations", _html(_SITE_HEADINGS, _site_rows(self.sites))))
        if self.weights:
            found.append(("Quantized weights", _html(_WEIGHT_HEADINGS, _weight_rows(self.weights))))
        return found


_COSTS_EXPLAINED = "Signal to noise of the outputs if this alone is quantized: the shorter the bar, the more it costs."
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
