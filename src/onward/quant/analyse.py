"""`onward.analyse(model, batches)`: what quantisation does to every tensor, every weight, and to the result.

The batches go through the model in float and in integers, and every site is compared. Then every module is quantised
alone, all others in float: how much that disturbs the outputs is what the module costs.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree

from ..errors import InputError
from . import kernels
from .analysis import Analysis, LayerCost, SiteNoise, WeightNoise, decibels
from .config import Weights
from .grid import Grid, weight_grid
from .initialise import controller_of
from .layers import trace_layers
from .ranges import weight_range
from .sites import MASK, Site
from .study import Study, run

_STEPS_AT_THE_EDGE = 0.5


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
        alone = kernels.dequantize(kernels.quantize(exact, grid), grid)
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
    costs      also quantise every module alone, one run of all batches for each
    progress   show how far that is
    """
    controller = controller_of(model, "analyse")
    held = list(batches) if not isinstance(batches, Tensor) else []
    if not held:
        raise InputError("analyse needs a list with at least one batch", hint="onward.analyse(model, [x])")
    seen: dict[str, _Seen] = {}
    for batch in held:
        _compare(model, batch, seen)
    sites = [_site_noise(each) for each in seen.values() if each.count]
    settings = {path: controller.settings_for(path) for path, _ in model.named_modules()}
    weights = [
        _weight_noise(path, module, tensor, resolved.weights)
        for path, module in model.named_modules()
        if (resolved := settings.get(path)) is not None
        and isinstance(tensor := module._parameters.get("weight"), Tensor)
        and tensor.dim() > 1
    ]
    groups = _groups(model, held[0], [*(each.module for each in sites), *(each.module for each in weights)])
    return Analysis(
        tuple(sites), tuple(weights), tuple(_costs(model, held, groups, progress)) if costs else (), _total(model, held)
    )


def _groups(model: nn.Module, batch: Any, owners: Sequence[str]) -> list[tuple[str, ...]]:
    """The modules that are one integer operation together, and the others one by one."""
    joined = [(each.module, *each.parts) for each in trace_layers(model, batch).layers]
    inside = {path for group in joined for path in group}
    return [*joined, *((path,) for path in dict.fromkeys(owners) if path not in inside)]


def _compare(model: nn.Module, batch: Any, seen: dict[str, _Seen]) -> None:
    """One batch in float, then in integers; what is seen at a site in the one meets what is seen in the other."""

    def in_float(site: Site, values: Tensor, q: Tensor | None, grid: Grid | None) -> None:
        if values.numel() and float(values.min()) > MASK:
            seen.setdefault(site.label, _Seen(site)).waiting.append(values.detach().clone())

    def in_integers(site: Site, values: Tensor, q: Tensor | None, grid: Grid | None) -> None:
        if q is not None and grid is not None and site.label in seen:
            seen[site.label].add_integers(values, q, grid)

    run(model, batch, Study(exact=False, saw=in_float), "analyse")
    run(model, batch, Study(exact=True, saw=in_integers), "analyse")
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


def _weight_noise(path: str, module: nn.Module, weight: Tensor, spec: Weights) -> WeightNoise:
    values = weight.detach().float()
    axis = 1 if isinstance(module, nn.modules.conv._ConvTransposeNd) else 0
    if spec.block_size is None:
        grid = weight_grid(weight_range(values, spec, axis), spec, axis)
        rounded = kernels.dequantize(kernels.quantize(values, grid), grid)
        noise = float((rounded.double() - values.double()).square().sum())
    else:
        noise = math.nan
    peaks = values.movedim(axis, 0).flatten(1).abs().amax(1)
    deviation = float(values.std(correction=0)) or 1.0
    return WeightNoise(
        module=path,
        kind=type(module).__name__,
        bits=spec.bits,
        largest=float(values.abs().max()),
        deviation=deviation,
        outlier=float(values.abs().max()) / deviation,
        channels=float(peaks.max()) / max(float(peaks.median()), 1e-12),
        alone=decibels(float(values.double().square().sum()), noise),
    )


def _costs(
    model: nn.Module, batches: Sequence[Any], groups: Sequence[tuple[str, ...]], progress: bool
) -> Iterable[LayerCost]:
    wanted = [_outputs(model, batch, Study(exact=False)) for batch in batches]
    costs = []
    for group in _shown(groups, progress):
        study = Study(exact=True, only=frozenset(group))
        got = [_outputs(model, batch, study) for batch in batches]
        costs.append(LayerCost(group[0], group[1:], _distance(wanted, got)))
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


def _shown(groups: Sequence[tuple[str, ...]], progress: bool) -> Iterable[tuple[str, ...]]:
    if not progress:
        return groups
    from rich.progress import track

    return track(groups, description="every layer alone")
