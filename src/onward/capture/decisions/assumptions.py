"""Branches that all probes took alike, and sizes that would take the other side.

`if sequence > 1` is true on every probe, and the graph holds that side only. Whether it matters is tried out: the model
runs once more at a size on the other side, and where the program gives the same results there is nothing to tell. So
for a check that only picks a faster kernel, or for padding that adds nothing. A model that refuses the size has no
other side.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import zip_longest
from typing import Any

import torch

from ..ground.axes import AxisSpace, Expression
from ..program.execute import execute
from ..program.facts import Assumption, CapturedProgram, OtherResults, Output, Source, SymDim
from ..sizes.dims import DimTable
from ..sizes.flips import flip_candidates
from ..sizes.sizes import Size, evaluator, question_of, written

# Both sides are computed by PyTorch's kernels, often the same ones in the same order.
_TOLERANCE = {
    torch.float32: 1e-4,
    torch.complex64: 1e-4,
    torch.float64: 1e-8,
    torch.complex128: 1e-8,
    torch.float16: 4e-3,
    torch.bfloat16: 3e-2,
}
_DRAWS = 8  # sets of values that a branch is tried with: `relu`, `clamp` or a mask may hide a difference in some
_MOST_DRAWS, _ENOUGH_SEEN = 40, 1000  # the more, the fewer elements of results there are to see
_SMALL = 400  # nodes of a program up to which it is tried as often as that
_MOST_DRAWN = 1 << 16  # elements of the inputs up to which there is more than one
_ENOUGH_DRAWN = 1 << 17  # elements of the inputs of all draws together, after which there are no more
_MOST_RUNS = 8  # sizes on other sides that are tried out
_MOST_RUNS_ON_SIDES = 120  # where one side was taken for both
_MOST_OF_TRIES = 4  # sizes that are tried for one `try`
_JOINT = 3  # points tried where no axis alone changes the answer
LARGEST_WITH_DATA = (
    1 << 22
)  # elements of the inputs: beyond, the model is not run on data to find out whether a branch matters

Sizes = Mapping[str, int]


class Branches:
    """The branches on sizes that one trace took, and points on their other sides."""

    def __init__(self, dims: DimTable, space: AxisSpace) -> None:
        self._dims, self._space = dims, space
        self._solved: set[tuple[str, Source | None]] = set()
        self._answers: list[tuple[tuple, Any]] = []  # what was asked, at the probes and points, and the answer
        self._has_tries = False
        self._example = {name: values[0] for name, values in dims.axes.items()}
        self._taken: dict[tuple[str, Source | None], tuple[Any, list[Sizes]]] = {}
        self._questions: dict[str, Expression | None] = {}  # by what is written
        # By what is written, and what it is at the probes and points: two sizes may be written alike.
        self._sides: dict[tuple[str, tuple], tuple[bool, Source | None, list[Sizes]]] = {}
        self.on_side: Callable[[], Any] = lambda: None  # called where one side is taken for both

    def note(self, size: Size, source: Source | None, flips: Sequence[int]) -> None:
        """All probes take a branch alike, or have one number, and some points do not."""
        self._taken.setdefault((written(size), source), (size.values[0], self._nearest(flips)))
        self._answers.append(
            (tuple(None if place in set(flips) else value for place, value in enumerate(size.values)), size.values[0])
        )
        self._ask(size)

    def _ask(self, size: Size) -> None:
        self._questions.setdefault(written(size), question_of(size))

    def note_if_solved(self, size: Size, source: Source | None) -> None:
        """All points take a branch alike. It may flip at a single size (`n == 384`), which is solved for."""
        key = (written(size), source)
        if key not in self._solved:
            self._solved.add(key)
            elsewhere = self.solved(size)
            if elsewhere:
                self._taken.setdefault(key, (size.values[0], elsewhere))
                self._ask(size)

    def solved(self, size: Size) -> list[Sizes]:
        """Sizes at which a number is another one, found by looking at how it is computed."""
        return [each for axis in self._example for each in self._flips_along(size, axis)]

    def _flips_along(self, size: Size, axis: str) -> list[Sizes]:
        own, at = self._example[axis], evaluator(size)
        found: list[Sizes] = []
        for other in sorted(
            flip_candidates(size, axis, self._example, self._space.expand), key=lambda each: abs(each - own)
        ):
            if other != own and self._space.allows({**self._example, axis: other}):
                value = at(self._space.expand({**self._example, axis: other}))
                if value is not None and value != size.values[0]:
                    found.append({axis: other})
                    if len(found) == 2:
                        break
        return found

    def note_try(self, source: Source, places: Sequence[int], *, works: bool) -> None:
        """What a `try` of the model's holds works in the example or does not, and other than at these places."""
        self._has_tries = True
        if places:
            key = ("what the try holds works", source)
            _, before = self._taken.get(key, (works, []))
            self._taken[key] = (works, [*before, *self._nearest(places)][:_MOST_OF_TRIES])

    def other_way(self) -> Sizes | None:
        """Sizes at which the most questions have another answer than the one that was taken for both: the example's, or
        a point's; None if there was no such question."""
        places = [0, *(place for place in range(self._dims.probes, self._dims.width) if place not in self._dims.dead)]
        if not self._sides:
            return None
        others = {
            place: sum(bool(values[place]) is not answer for (_, values), (answer, *_) in self._sides.items())
            for place in places
        }
        most = max(others.values())
        best = [place for place in places if others[place] == most] if most else []
        return self._moved(min(best, key=lambda place: self._distance(self._moved(place)))) if best else None

    def as_traced(self) -> tuple[Sizes, ...]:
        """Of the sizes on either side, those at which no question has another answer than in the trace."""
        if not self._sides or self._has_tries:
            return ()
        answers = [*((values, answer) for (_, values), (answer, *_) in self._sides.items()), *self._answers]
        alive = (place for place in range(self._dims.probes, self._dims.width) if place not in self._dims.dead)
        found = (place for place in alive if all(values[place] == answer for values, answer in answers))
        wanted = [sizes for _, _, elsewhere in self._sides.values() for sizes in elsewhere]
        return tuple(sizes for sizes in map(self._moved, found) if sizes in wanted)

    def take_side(self, size: Size, answer: bool, source: Source | None, axes: Collection[str]) -> None:
        """The probes disagree on a branch, which depends on these axes, and one side is taken for all of them."""
        alive = [place for place in range(self._dims.probes, self._dims.width) if place not in self._dims.dead]
        elsewhere: list[Sizes] = []
        for side in (True, False):
            there = [place for place in alive if bool(size.values[place]) is side]
            # Where all points of a side are dead, the probes on that side are left.
            there = there or [place for place in range(1, self._dims.probes) if bool(size.values[place]) is side]
            elsewhere += self._nearest(there, axes)
        self._sides.setdefault((written(size), size.values), (answer, source, elsewhere))
        self._ask(size)
        self.on_side()

    def sides(self) -> list[Assumption]:
        """The branches of which one side was taken for both, with sizes on either side."""
        return [
            Assumption(expression, answer, source, tuple(elsewhere), self._questions[expression])
            for (expression, _), (answer, source, elsewhere) in self._sides.items()
        ]

    def assumptions(self) -> list[Assumption]:
        """The branches that other sizes would take differently, with such sizes."""
        return [
            Assumption(expression, value, source, tuple(elsewhere), self._questions.get(expression))
            for (expression, source), (value, elsewhere) in self._taken.items()
        ]

    def _nearest(self, places: Sequence[int], axes: Collection[str] = ()) -> list[Sizes]:
        """Of each axis the nearest smaller and the nearest larger size among these points; where no axis does it alone,
        the points nearest to the example, and none with a size of 1 if there are others."""
        moved = [self._moved(place) for place in places]
        found: list[Sizes] = []
        for axis, own in self._example.items():
            if axes and axis not in axes:
                continue
            alone = sorted((each for each in moved if set(each) == {axis}), key=lambda each: abs(each[axis] - own))
            smaller, larger = ([each for each in alone if (each[axis] < own) is side] for side in (True, False))
            found += [*smaller[:1], *larger[:1]] if smaller and larger else alone[:2]
        joint = [each for each in moved if len(each) > 1 and min({**self._example, **each}.values()) > 1]
        return found or sorted(joint, key=self._distance)[:_JOINT] or moved[:_JOINT]

    def _moved(self, place: int) -> Sizes:
        """A probe or a point, by the axes whose size is not the example's."""
        return {axis: sizes[place] for axis, sizes in self._dims.axes.items() if sizes[place] != sizes[0]}

    def _distance(self, sizes: Sizes) -> float:
        return sum(abs(math.log(size / max(self._example[axis], 1))) for axis, size in sizes.items())


Run = Callable[[Sizes, int], tuple[tuple[torch.Tensor, ...], list[Output]]]


def contradicted(
    program: CapturedProgram,
    more: Sequence[Assumption],
    agrees: Callable[[Sizes], bool],
    agrees_without_data: Callable[[Sizes], bool],
    agrees_widely: Callable[[Assumption, Sizes], bool],
) -> list[tuple[Assumption, Sizes]]:
    """The assumptions that matter: at a size on the other side, model and program differ.

    `agrees(sizes)` says whether they give the same results with these axes at other sizes than the example's. Sizes
    that are too large for that are tried without data. `more` are assumptions on the way that the program does not
    take; where all questions have the answers that they had in the trace, the program is the trace. Where
    `agrees_widely` says that they do the same on that side whatever the data is, there is nothing to try out.
    """
    verdicts = {tuple(sorted(sizes.items())): True for sizes in program.as_traced}
    tried = len(verdicts)
    found = []
    most = _MOST_RUNS_ON_SIDES if program.sides else _MOST_RUNS
    for assumption in (*program.sides, *more, *program.assumptions):
        for sizes in assumption.elsewhere:
            key = tuple(sorted(sizes.items()))
            if key not in verdicts and agrees_widely(assumption, sizes):
                continue
            if key not in verdicts and len(verdicts) - tried < most:
                is_large = elements(program, sizes) > LARGEST_WITH_DATA
                verdicts[key] = (agrees_without_data if is_large else agrees)(sizes)
            if not verdicts.get(key, False):  # what was not tried is not taken to agree
                found.append((assumption, sizes))
                break
    return found


def elements(program: CapturedProgram, sizes: Sizes) -> int:
    """How many elements the inputs have at these sizes."""
    shapes = (port.fact.shape for port in program.inputs)
    return sum(
        math.prod(sizes.get(dim.name, dim.values[0]) if isinstance(dim, SymDim) else dim or 0 for dim in shape)
        for shape in shapes
    )


def agrees_at(program: CapturedProgram, run: Run, sizes: Sizes) -> bool:
    """Whether the program gives the model's results there, or the model gives none.

    `run(sizes, draw)` gives inputs with these axes at other sizes than the example's, and the model's answer. Each draw
    has other values.
    """
    seen, most = 0, _MOST_DRAWS if len(program.graph.nodes) <= _SMALL else _DRAWS
    for draw in range(most):
        try:
            inputs, wanted = run(sizes, draw)
        except OtherResults:
            return False
        except Exception:  # the model's own refusal, of the size or of these values
            if draw:
                continue
            return True
        shapes = [each.shape if isinstance(each, torch.Tensor) else None for each in wanted]
        if not program.declares(shapes) or not same_results(wanted, program, inputs):
            return False
        seen += sum(each.numel() for each in wanted if isinstance(each, torch.Tensor))
        drawn = sum(each.numel() for each in inputs)
        is_enough = seen >= _ENOUGH_SEEN or (draw + 1) * drawn >= _ENOUGH_DRAWN
        if drawn > _MOST_DRAWN or (draw + 1 >= _DRAWS and is_enough):
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
        finite = want[want.isfinite()] if tolerance else want.reshape(-1)[:0]
        scale = float(finite.abs().max()) if finite.numel() else 1.0
        if not torch.allclose(want, have, rtol=tolerance, atol=tolerance * scale, equal_nan=True):
            return False
    return True
