"""A random program: the source of a module, how it is called, and how it is exported."""

from __future__ import annotations

import importlib.util
import itertools
import random
import re
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

HEAD = "import math\n\nimport torch\nimport torch.nn.functional as F\nfrom torch import nn\n\n\n"

_VERSIONS = itertools.count()  # every program is imported under a name of its own


@dataclass(frozen=True)
class Argument:
    """One input: its type, and a size or the name of an axis for every dimension.

    low, high  the range of an integer input
    """

    name: str
    dtype: torch.dtype
    shape: tuple[int | str, ...]
    low: int = 0
    high: int = 0

    def sizes(self, axes: Mapping[str, int]) -> tuple[int, ...]:
        return tuple(axes[each] if isinstance(each, str) else each for each in self.shape)

    def draw(self, axes: Mapping[str, int], generator: torch.Generator) -> torch.Tensor:
        sizes = self.sizes(axes)
        if self.dtype is torch.bool:
            return torch.rand(sizes, generator=generator) < 0.6
        if not self.dtype.is_floating_point:
            return torch.randint(self.low, self.high, sizes, generator=generator).to(self.dtype)
        return torch.randn(sizes, generator=generator, dtype=torch.float64).to(self.dtype)


@dataclass(frozen=True)
class Statement:
    """Lines of `forward` that belong together.

    targets  the names that they assign; sources  the names that they read
    """

    lines: tuple[str, ...]
    targets: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()


@dataclass(frozen=True)
class FuzzProgram:
    """Everything that a run needs; the same seed always makes the same program.

    axes     every named axis, with the example's size
    dynamic  those of them that the export declares as dynamic
    tags     what the program uses, by families of statements, to sort finds by
    coarse   by variable, the least exact float type that has a part in it
    """

    seed: int
    arguments: tuple[Argument, ...]
    axes: Mapping[str, int]
    dynamic: tuple[str, ...]
    inits: tuple[str, ...]
    body: tuple[Statement, ...]
    returns: str
    front: str = "trace"  # trace, script, exported
    opset: int | None = None
    training: bool = False
    folding: bool | None = None
    by_shapes: bool = False  # dynamic_shapes in place of dynamic_axes
    tags: frozenset[str] = field(default_factory=frozenset)
    coarse: Mapping[str, torch.dtype] = field(default_factory=dict)

    @property
    def decides(self) -> bool:
        """Whether Python asks what data says."""
        return any(tag.startswith("decisions.") for tag in self.tags)

    def coarse_of(self, outputs: int) -> list[torch.dtype | None]:
        """The least exact float type that has a part in each output, by the names that are returned."""
        names = re.findall(r"\b[a-z]+\d+\b", self.returns)
        if len(names) == outputs:
            return [self.coarse.get(name) for name in names]
        return [coarsest(self.coarse.get(name) for name in names)] * outputs

    def source(self) -> str:
        names = ", ".join(["self", *(_typed(each, self.front) for each in self.arguments)])
        lines = ["class Model(nn.Module):", "    def __init__(self):", "        super().__init__()"]
        lines += [f"        {line}" for line in self.inits]
        lines += ["", f"    def forward({names}):"]
        lines += [f"        {line}" for statement in self.body for line in statement.lines]
        lines += [f"        return {self.returns}", ""]
        return HEAD + "\n".join(lines)

    def example(
        self,
        seed: int = 0,
        axes: Mapping[str, int] | None = None,
        times: float = 1.0,
        plus: float = 0.0,
        *,
        rounded: bool = False,
        masks: bool | None = None,
    ) -> tuple[torch.Tensor, ...]:
        """Inputs at the example's sizes, or at others; another seed draws other values.

        times, plus  move floating point numbers to where a model decides otherwise
        rounded      whole numbers: many are equal, and many are zero
        masks        what all elements of boolean inputs are
        """
        generator = torch.Generator().manual_seed(self.seed * 7919 + seed)
        drawn = [each.draw(axes or self.axes, generator) for each in self.arguments]
        if masks is not None:
            drawn = [torch.full_like(each, masks) if each.dtype is torch.bool else each for each in drawn]
        moved = [each * times + plus if each.is_floating_point() else each for each in drawn]
        return tuple(each.round() if rounded and each.is_floating_point() else each for each in moved)

    def dynamic_axes(self) -> dict[str, dict[int, str]]:
        return {
            each.name: found
            for each in self.arguments
            if (found := {place: size for place, size in enumerate(each.shape) if size in self.dynamic})
        }

    def other_sizes(self, *, zero: bool = False) -> list[dict[str, int]]:
        """Sizes to compare at beside the example: 1, 2, a mix of odd and even ones, four times the example, and every
        axis 1 alone."""
        if not self.dynamic:
            return []
        rng = random.Random(f"sizes {self.seed}")
        tried: list[dict[str, int]] = [
            dict.fromkeys(self.dynamic, 1),
            dict.fromkeys(self.dynamic, 2),
            {name: rng.choice((3, 5, 7)) if at % 2 else rng.choice((4, 6, 8)) for at, name in enumerate(self.dynamic)},
            {name: self.axes[name] * rng.choice((1, 4)) for name in self.dynamic},
        ]
        grown = rng.choice(self.dynamic)
        tried[3][grown] = 4 * self.axes[grown]
        for alone in self.dynamic if len(self.dynamic) > 1 else ():
            tried.append({name: 1 if name == alone else rng.randrange(3, 6) for name in self.dynamic})
        if zero:
            tried.append({rng.choice(self.dynamic): 0})
        wanted = [{**self.axes, **each} for each in tried]
        return [each for at, each in enumerate(wanted) if each != dict(self.axes) and each not in wanted[:at]]

    def options(self) -> str:
        """How it is exported, in a line."""
        shown = [f"front={self.front}", f"opset={self.opset}", f"axes={dict(self.axes)}", f"dynamic={self.dynamic}"]
        shown += [f"{name}=True" for name in ("training", "by_shapes") if getattr(self, name)]
        return ", ".join(shown)

    def imported(self, folder: Path) -> ModuleType:
        """The source as a module of its own, from a real file: scripts and error messages read it."""
        name = f"fuzzed_{self.seed}_{next(_VERSIONS)}"
        path = folder / f"{name}.py"
        path.write_text(self.source(), encoding="utf-8")
        spec = importlib.util.spec_from_file_location(name, path)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        try:
            spec.loader.exec_module(module)
        finally:
            del sys.modules[name]
        return module

    def with_body(self, body: tuple[Statement, ...], returns: str | None = None) -> FuzzProgram:
        return replace(self, body=body, returns=self.returns if returns is None else returns)

    def build(self, module: ModuleType) -> Any:
        """A model of it, with the same weights every time."""
        torch.manual_seed(self.seed)
        return module.Model().train(self.training)


_EXACT_FIRST = (torch.float64, torch.float32, torch.float16, torch.bfloat16)


def coarsest(dtypes: Iterable[torch.dtype | None]) -> torch.dtype | None:
    """The least exact of some float types; None if there is none among them."""
    return max((each for each in dtypes if each in _EXACT_FIRST), key=_EXACT_FIRST.index, default=None)


def _typed(argument: Argument, front: str) -> str:
    return f"{argument.name}: torch.Tensor" if front == "script" else argument.name
