"""Branches that all probes took alike, and sizes that would take the other side.

`if sequence > 1` is true on every probe, and the graph holds that side only. Whether it matters is tried out: the model
runs once more at a size on the other side, and where the program gives the same results there is nothing to tell. So
for a check that only picks a faster kernel, or for padding that adds nothing. A model that refuses the size has no
other side.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import zip_longest
from typing import Any

import torch
from torch import fx
from torch.utils._python_dispatch import _disable_current_modes

from .axes import AxisSpace
from .execute import execute
from .facts import Assumption, CapturedProgram, OtherResults, Output, Source
from .sizes import AxisOf, Computed, Size, written

# Both sides are computed by PyTorch's kernels, often the same ones in the same order.
_TOLERANCE = {torch.float32: 1e-4, torch.float64: 1e-8, torch.float16: 4e-3, torch.bfloat16: 3e-2}
_DRAWS = (
    6  # sets of values that a branch is tried with: `relu`, `clamp` or a mask may hide a difference in some of them
)
_MOST_DRAWN = 1 << 16  # elements of the inputs up to which there is more than one
_MOST_RUNS = 8  # sizes on other sides that are tried out
_MOST_RUNS_ON_SIDES = 40  # where one side was taken for both
_EACH_SIDE = 2
_LARGEST_HELD = 128  # a number in a formula around which sizes are tried
_STEPS = (1, 4, 2, -1, 8, -4, 16, 32, -2, 64)  # to other sizes; many models only take multiples of some number

Sizes = Mapping[str, int]


class Branches:
    """The branches on sizes that one trace took, each on the side that all probes agree on."""

    def __init__(self, example: Sizes, constants: Callable[[str], torch.Tensor], space: AxisSpace) -> None:
        self._taken: dict[tuple[str, Source | None], Size] = {}
        self._sides: dict[str, tuple[Size, bool, Source | None]] = {}
        self._elsewhere: dict[str, tuple[Sizes, ...]] = {}
        self._at_sizes = _AtSizes(example, constants, space)

    def note(self, size: Size, source: Source | None) -> None:
        self._taken.setdefault((written(size), source), size)

    def take_side(self, size: Size, answer: bool, source: Source | None) -> None:
        """The probes disagree on a branch, and one side is taken for all of them."""
        self._sides.setdefault(written(size), (size, answer, source))

    def sides(self) -> list[Assumption]:
        """The branches of which one side was taken for both, with sizes on either side. To be asked as above."""
        return [
            Assumption(expression, answer, source, tuple(self._at_sizes.on_both_sides(size)))
            for expression, (size, answer, source) in self._sides.items()
        ]

    def varies(self, size: Size) -> bool:
        """Whether some size nearby gives another number than all the probes."""
        return bool(self._others(size))

    def assumptions(self) -> list[Assumption]:
        """Those that some size nearby would take differently. To be asked while the graph still has all its nodes."""
        return [
            Assumption(expression, size.values[0], source, others)
            for (expression, source), size in self._taken.items()
            if (others := self._others(size))
        ]

    def _others(self, size: Size) -> tuple[Sizes, ...]:
        expression = written(size)
        if expression not in self._elsewhere:
            self._elsewhere[expression] = tuple(self._at_sizes.differing(size))
        return self._elsewhere[expression]


class _AtSizes:
    """What sizes are elsewhere: by their formulas, and by the kernels where a tensor's size is asked for."""

    def __init__(self, example: Sizes, constants: Callable[[str], torch.Tensor], space: AxisSpace) -> None:
        self._example, self._constants, self._space = example, constants, space
        self._ghosts: dict[tuple[tuple[str, int], ...], dict[fx.Node, Any]] = {}

    def differing(self, size: Size) -> Iterator[Sizes]:
        """Sizes at which a number is another one; where formulas tell, those next to the example's on every axis.

        Two of each axis, because a single row or column hides much: its cumulative sum is itself.
        """
        if _needs_kernels(size):
            candidates = filter(self._allowed, self._together())
            yield from itertools.islice((other for other in candidates if self._differs(size, other)), 1)
            return
        for axis in self._example:
            yield from self._nearest(size, axis)

    def _nearest(self, size: Size, axis: str) -> Iterator[Sizes]:
        """The nearest smaller and the nearest larger size of an axis at which a number is another one; the two nearest
        where they are all on one side."""
        own = self._example[axis]
        candidates = [{axis: each} for each in self._alone(axis, _constants_of(size))]
        found = [each for each in candidates if self._allowed(each) and self._differs(size, each)]
        found.sort(key=lambda each: abs(each[axis] - own))
        smaller, larger = ([each for each in found if (each[axis] < own) is side] for side in (True, False))
        yield from [*smaller[:1], *larger[:1]] if smaller and larger else found[:2]

    def _differs(self, size: Size, other: Sizes) -> bool:
        value = self._value(size, other)
        return value is not None and value != size.values[0]

    def on_both_sides(self, size: Size) -> Iterator[Sizes]:
        """Sizes at which a branch is taken and some at which it is not: of all axes, then of each alone.

        Several of each, because the model may refuse some.
        """
        yield self._at_probe(size)
        axes: list[tuple[str, ...]] = [tuple(self._example), *((axis,) for axis in self._example)]
        for moved in dict.fromkeys(axes):
            seen: list[bool] = []
            for step in _STEPS:
                other = {axis: self._example[axis] + step for axis in moved}
                value = self._value(size, other) if min(other.values()) > 0 and self._allowed(other) else None
                if value is not None and seen.count(bool(value)) < _EACH_SIDE:
                    seen.append(bool(value))
                    yield other

    def _at_probe(self, size: Size) -> Sizes:
        """The sizes of the smallest probe that is not on the example's side."""
        axes = {name: values for name, values in size.tracer.dims.axes.items() if name in self._example}
        others = [p for p, value in enumerate(size.values) if bool(value) is not bool(size.values[0])]
        probe = min(others, key=lambda p: math.prod(values[p] for values in axes.values()))
        return {name: values[probe] for name, values in axes.items()}

    def _allowed(self, sizes: Sizes) -> bool:
        """Sizes beyond the bounds that the user gave are nobody's business."""
        return self._space.allows({**self._example, **sizes})

    def _alone(self, axis: str, constants: set[int]) -> set[int]:
        """Small sizes of one axis, those around the example's and its multiples, around numbers that the formula holds,
        and those of other axes (`height == width`). Larger ones would take long to run."""
        own = self._example[axis]
        near = {own + step for step in range(-4, 9)}
        multiples = {factor * own + step for factor in (2, 3, 4) for step in (-1, 0, 1)}
        held = {each + step for each in constants for step in (-1, 0, 1) if each <= max(_LARGEST_HELD, 8 * own)}
        sizes = {*range(1, 18), 31, 32, 33, 63, 64, 65, *near, *multiples, *held, *self._example.values()}
        return {each for each in sizes if each > 0 and each != own}

    def _together(self) -> list[Sizes]:
        """All axes at once: kernels take their time."""
        steps = (1, 2, -1, -2)
        near = [{a: n + step for a, n in self._example.items() if n + step > 0} for step in steps]
        less = [{a: max(1, n // part) for a, n in self._example.items()} for part in (2, 4)]
        return [dict.fromkeys(self._example, 1), *near, *less]

    def _value(self, size: Size, other: Sizes) -> Any:
        """The number at other sizes; None where it cannot be told."""
        try:
            with _disable_current_modes():  # the model may be running: its journal has nothing of this
                return self._evaluate(
                    size,
                    self._space.expand({**self._example, **other}),
                    self._ghosts.setdefault(tuple(sorted(other.items())), {}),
                )
        except Exception:  # kernels refuse sizes in all ways: nothing can be said of such a size
            return None

    def _evaluate(self, size: Size, sizes: Sizes, ghosts: dict[fx.Node, Any]) -> Any:
        if isinstance(size.origin, Computed):
            return size.origin.function(*(self._evaluate(each, sizes, ghosts) for each in size.origin.operands))
        if size.is_uniform:
            return size.values[0]
        name = size.tracer.dims.name_of(size.values)
        if name is not None:
            return sizes[name]
        if not isinstance(size.origin, AxisOf):
            raise ValueError("a number without an origin")
        return self._ghost(size.origin.node, sizes, ghosts).size(size.origin.axis)

    def _ghost(self, wanted: fx.Node, sizes: Sizes, ghosts: dict[fx.Node, Any]) -> Any:
        """The tensor of a node at these sizes, without data."""
        stack = [wanted]
        while stack:
            node = stack[-1]
            missing = [each for each in node.all_input_nodes if each not in ghosts]
            if node in ghosts or missing:
                if node in ghosts:
                    stack.pop()
                stack.extend(missing)
                continue
            ghosts[stack.pop()] = self._one(node, sizes, ghosts)
        return ghosts[wanted]

    def _one(self, node: fx.Node, sizes: Sizes, ghosts: dict[fx.Node, Any]) -> Any:
        if node.op == "placeholder":
            fact = node.meta["val"]
            shape = [dim if isinstance(dim, int) else sizes[dim.name] for dim in fact.shape]
            return torch.empty(shape, dtype=fact.dtype, device="meta")
        if node.op == "get_attr":
            return self._constants(str(node.target)).to("meta")
        args, kwargs = fx.map_arg((node.args, node.kwargs), ghosts.__getitem__)
        if "device" in kwargs:
            kwargs = {**kwargs, "device": torch.device("meta")}
        return node.target(*args, **kwargs)  # type: ignore[operator]


def _constants_of(size: Size) -> set[int]:
    """The whole numbers that a formula holds."""
    if isinstance(size.origin, Computed):
        return set[int]().union(*map(_constants_of, size.origin.operands))
    return {size.values[0]} if size.is_uniform and size.is_int() else set()


def _needs_kernels(size: Size) -> bool:
    """Whether a number is made of sizes that only a kernel can tell."""
    if isinstance(size.origin, Computed):
        return any(map(_needs_kernels, size.origin.operands))
    return not size.is_uniform and size.tracer.dims.name_of(size.values) is None


Run = Callable[[Sizes, int], tuple[tuple[torch.Tensor, ...], list[Output]]]


def contradicted(program: CapturedProgram, run: Run) -> list[tuple[Assumption, Sizes]]:
    """The assumptions that matter: at a size on the other side, model and program differ.

    `run(sizes, draw)` gives inputs with these axes at other sizes than the example's, and the model's answer. Each draw
    has other values.
    """
    verdicts: dict[tuple[tuple[str, int], ...], bool] = {}
    found = []
    most = _MOST_RUNS_ON_SIDES if program.sides else _MOST_RUNS
    for assumption in (*program.sides, *program.assumptions):
        for sizes in assumption.elsewhere:
            key = tuple(sorted(sizes.items()))
            if key not in verdicts and len(verdicts) < most:
                verdicts[key] = agrees_at(program, run, sizes)
            if not verdicts.get(key, False):  # what was not tried is not taken to agree
                found.append((assumption, sizes))
                break
    return found


def agrees_at(program: CapturedProgram, run: Run, sizes: Sizes) -> bool:
    """Whether the program gives the model's results there, or the model gives none."""
    for draw in range(_DRAWS):
        try:
            inputs, wanted = run(sizes, draw)
        except OtherResults:
            return False
        except Exception:  # the model's own refusal, of the size or of these values
            if draw:
                continue
            return True
        if not same_results(wanted, program, inputs):
            return False
        if sum(each.numel() for each in inputs) > _MOST_DRAWN:
            break
    return True


def _tensors(want: Output, have: Output) -> Iterable[tuple[torch.Tensor | None, torch.Tensor | None]]:
    """One output as pairs of tensors; None is what one of two lists has no more."""
    return zip_longest(want, have) if isinstance(want, list) else [(want, have)]  # type: ignore[list-item]


def same_results(wanted: Iterable[Output], program: CapturedProgram, inputs: tuple[torch.Tensor, ...]) -> bool:
    """Whether the program, run in PyTorch, gives these results."""
    try:
        with torch.random.fork_rng(devices=[]):  # the model ran so: both draw the same numbers
            got = execute(program, inputs)
    except Exception:  # sizes that do not fit together
        return False
    return alike(wanted, got)


def alike(wanted: Iterable[Output], got: Iterable[Output]) -> bool:
    """Whether results are the same but for rounding."""
    pairs = [pair for both in zip(wanted, got, strict=True) for pair in _tensors(*both)]
    for want, have in pairs:
        if want is None or have is None or want.shape != have.shape or want.dtype != have.dtype:
            return False
        tolerance = _TOLERANCE.get(want.dtype, 0.0)
        finite = want[want.isfinite()] if want.is_floating_point() else want.reshape(-1)[:0]
        scale = float(finite.abs().max()) if finite.numel() else 1.0
        if not torch.allclose(want, have, rtol=tolerance, atol=tolerance * scale, equal_nan=True):
            return False
    return True
