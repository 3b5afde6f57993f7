"""`onward.analyse(model, batches)`: what quantisation does to every tensor, every weight, and to the result.

The batches go through the model in float and in integers, and every site is compared. Then every operation is rounded
alone, its weights and what comes out of it, all others in float: how much that disturbs the outputs is what it costs.
"""

from __future__ import annotations

import math
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
from ..run.study_requests import siteless
from ..setup.initialize import controller_of
from .analysis import Analysis, LayerCost, SiteNoise, WeightNoise, decibels
from .layers import trace_layers
from .study import Study, run

_STEPS_AT_THE_EDGE = 0.5


@dataclass(frozen=True)
class _Group:
    """Modules that are one integer operation together, and what is rounded if it is quantised alone."""

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

    model      quantisation-aware, with ranges
    batches    as in `onward.quantize`; a few are enough
    costs      also quantise every operation alone, one run of all batches for each
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
    grid = seen.grid
    assert grid is not None
    held = seen.site.range
    low, high = (float(each) for each in held.detach()) if held is not None else (math.nan, math.nan)
    return SiteNoise(
        module=seen.site.path,
        name=seen.site.name,
        low=low,
        high=high,
        bits=seen.site.settings.bits,
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
