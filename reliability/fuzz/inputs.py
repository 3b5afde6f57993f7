"""The runs in which a file is compared: which sizes, and which values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch

from .program import FuzzProgram


@dataclass(frozen=True)
class Run:
    """One call."""

    label: str
    sizes: Mapping[str, int]
    inputs: tuple[torch.Tensor, ...]


# For every program: other signs, larger numbers, and numbers among which many are equal or zero.
_MOVED: dict[str, dict[str, Any]] = {
    "negated": dict(times=-1.0),
    "large": dict(times=4.0, plus=0.5),
    "rounded": dict(rounded=True),
}
_MASKS: dict[str, dict[str, Any]] = {"all True": dict(masks=True), "all False": dict(masks=False)}
# For programs that decide on data, so that both sides are taken.
_DECIDING: dict[str, dict[str, Any]] = {"small": dict(times=0.1), "high": dict(plus=1.0), "low": dict(plus=-1.0)}


def runs(program: FuzzProgram, zero: bool = False) -> list[Run]:
    """The example first; then fresh values, other sizes, and other values. A program that decides on data is given
    data for either side, at every size."""
    axes = program.axes
    found = [Run("example", axes, program.example()), Run("fresh values", axes, program.example(1))]
    others = program.other_sizes(zero=zero)
    found += [Run(f"at {dict(sizes)}", sizes, program.example(2 + at, sizes)) for at, sizes in enumerate(others)]
    moved = {**_MOVED, **_DECIDING} if program.decides else _MOVED
    found += [Run(f"{name} values", axes, program.example(20, axes, **how)) for name, how in moved.items()]
    if any(each.dtype is torch.bool for each in program.arguments):
        found += [Run(f"masks {name}", axes, program.example(20, axes, **how)) for name, how in _MASKS.items()]
    if program.decides:
        found += [Run("fresh values", axes, program.example(seed)) for seed in range(21, 25)]
        for at, sizes in enumerate(others):
            for name, how in list(moved.items())[at % 2 :: 2]:
                inputs = program.example(30 + at, sizes, **how)
                found.append(Run(f"at {dict(sizes)}, {name} values", sizes, inputs))
    return found
