"""What Python froze can be thawed.

After `int(h * 0.5)` the number is plain Python. But running the model again at each probe's own sizes gives op
sequences that align one to one, in which exactly the numbers that depend on sizes differ: again fingerprints, to be
found among the sizes that Python asked for, or as a simple formula of the axes. The program is believed only after it
has given PyTorch's own results at sizes that were not used to find it, and after it has done the same as the model at
all points (`points.py`) that can be run: without data where the steps tell, with data elsewhere. Runs that do not align
(a loop over a dynamic axis), numbers without a formula, and results that differ leave the axis frozen, and the reason
goes into the error.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import math
from collections.abc import Iterator, Mapping

from ..decisions.assumptions import same_results
from ..decisions.cannot_thaw import CannotThaw
from ..decisions.decisions import CaptureWarning
from ..decisions.journal import Comparison, Journal, Thawed
from ..ground.axes import AxisSpace
from ..ground.source import warn_user, warnings_held
from ..program.facts import CapturedProgram
from ..record.other_sizes import ProbeRejected
from ..sizes.points import points_for
from ..sizes.probes import PROBES, Plan
from ..sizes.size_expressions import written
from ..state.written_numbers import written_numbers
from .mutable_buffers import answers
from .run import Frozen, Request, Stuck, run, write_journal
from .same_steps import SameSteps

_MOST_WITNESSES = 8
_MOST_GROWN = 64  # times the example's elements
_MOST_TRIED = 1 << 15  # elements of the inputs, of runs at sizes that are written in the model's code, or at points
_MOST_WITHOUT_DATA = 1 << 22  # elements of the inputs at a point at which model and program run without data
_LARGEST_AXIS = 2049  # of such a point: the model may make tensors of its own, with data, that have it twice
_MOST_STEPS = 24_000  # nodes of the program times points
_FEWEST_POINTS = 24
_MOST_WITH_DATA = 40  # points


class SizesRefused(CannotThaw):
    """The model fails at a probe's sizes; other sizes may do."""


def thaw(request: Request, plan: Plan, frozen: Frozen) -> CapturedProgram:
    """The program with its frozen numbers as sizes again, or CannotThaw."""
    try:
        return _thaw(request, plan)
    except Stuck as error:
        return thaw_numbers(request, plan, error)
    except CannotThaw as error:
        if any(isinstance(freeze.value, bool) for freeze in frozen.freezes):
            raise type(error)(f"a branch depends on the size: {error}") from error
        raise


def thaw_numbers(request: Request, plan: Plan, stuck: Stuck) -> CapturedProgram:
    """The same for a model that fails where a size is no plain number."""
    try:
        return _thaw(request, dataclasses.replace(plan, sizes_as_numbers=True))
    except Stuck as error:
        raise CannotThaw(stuck.error.what) from error


def _thaw(request: Request, plan: Plan) -> CapturedProgram:
    journals = [
        _journal(request, plan, {axis: values[probe] for axis, values in plan.sizes.items()})
        for probe in range(1, PROBES)
    ]
    witnesses = list(_witnesses(request, plan))
    example = {axis: values[0] for axis, values in plan.sizes.items()}
    used = {axis: {*values, *(each.sizes[axis] for each in witnesses)} for axis, values in plan.sizes.items()}
    preference, choices = 0, 1
    more = _witnesses_at_points(request, plan)
    while preference < choices:
        pen = Comparison(example, journals, witnesses, preference)
        with warnings_held():  # said by the first run already
            try:
                program = run(request, plan, pen)
            except ProbeRejected as error:
                place = error.source or "an unknown line"
                raise CannotThaw(f"{place}: with sizes for the numbers, {error.op} fails: {error.reason}") from error
        if program.assumptions and pen.thawed and (further := list(more)):
            witnesses += [each for each in further if each.ops == journals[0].ops]  # others are on another side
            continue
        confirmed = _confirmed(request, plan, program, used, pen.has_branches)
        if confirmed is not None and not _agrees_at_written_numbers(request, plan, program, pen):
            raise CannotThaw("a plain number that Python made of a size decides something, and not alike at all sizes")
        if confirmed is not None and _agrees_at_points(request, plan, program, pen):
            notes = tuple(dict.fromkeys(_note(each, confirmed) for each in pen.thawed.values()))
            for text, source in pen.to_be_told:
                warn_user(text, CaptureWarning, source)
            warnings = (*program.warnings, *(text for text, _ in pen.to_be_told))
            return dataclasses.replace(program, remarks=(*program.remarks, *notes), warnings=warnings)
        choices = min(pen.most_choices, 5)
        preference += 1
    raise CannotThaw("no formula of the axes that fits the probed sizes fits others too")


def _note(thawed: Thawed, confirmed: Mapping[str, list[int]]) -> str:
    """Which line was thawed into which formula. Only collected: nothing is wrong, so nobody is warned."""
    axes = thawed.size.axes
    sizes = [f"{axis} = {' and '.join(map(str, each))}" for axis, each in confirmed.items() if axis in axes]
    return (
        f"{thawed.source or 'unknown line'}: Python computes a plain number from sizes here ({thawed.number!r} in the "
        f"example). It was recovered as `{written(thawed.size)}` and confirmed at {', '.join(sizes)}, which were not "
        "used to find it. The file computes it anew for every input: there is nothing to do."
    )


def _witnesses(request: Request, plan: Plan) -> Iterator[Journal]:
    """Runs at further sizes, which formulas have to agree with; the model may well refuse them.

    Some are not multiples of the example, so that rounding shows; some are small and some are large, so that a line
    through a few numbers is not taken for a root or a logarithm.
    """
    example = {axis: values[0] for axis, values in plan.sizes.items()}
    found = 0
    for number, step in enumerate((1, 3, -1, 4, -2, 8, 2, -4, 16, 5, 32, -8, -16, 40, 64, 100, -32)):
        sizes = {axis: own + step for axis, own in example.items()}
        grown = math.prod(size / max(example[axis], 1) for axis, size in sizes.items())
        if (
            min(sizes.values(), default=0) < 1
            or not request.space.allows(sizes)
            or (number > 1 and grown > _MOST_GROWN)
        ):
            continue
        with contextlib.suppress(CannotThaw):
            yield _journal(request, plan, sizes)
            found += 1
        if found == _MOST_WITNESSES:
            return


def _witnesses_at_points(request: Request, plan: Plan) -> Iterator[Journal]:
    """Runs at many more sizes, for a program with a branch that is one-sided: its results differ from the model's at
    some sizes in any case, so the formulas alone are held against the model there."""
    example = {axis: values[0] for axis, values in plan.sizes.items()}
    for sizes in points_for(example, request.space)[:_FEWEST_POINTS]:
        if _elements(request, example, sizes) <= _MOST_TRIED:
            with contextlib.suppress(CannotThaw):
                yield _journal(request, plan, sizes)


def _elements(request: Request, example: Mapping[str, int], sizes: Mapping[str, int]) -> float:
    """About how many elements the inputs have at these sizes."""
    grown = math.prod(size / max(example[axis], 1) for axis, size in sizes.items())
    return grown * sum(each.numel() for each in request.call.tensors)


def _journal(request: Request, plan: Plan, sizes: Mapping[str, int]) -> Journal:
    try:
        with warnings_held():
            return write_journal(request, sizes, sizes_as_numbers=plan.sizes_as_numbers)
    except Exception as error:
        text = ", ".join(f"{axis} = {size}" for axis, size in sizes.items())
        raise SizesRefused(f"the model fails at {text}: {str(error).strip() or type(error).__name__}") from error


def _confirmed(
    request: Request, plan: Plan, program: CapturedProgram, used: Mapping[str, set[int]], has_branches: bool
) -> dict[str, list[int]] | None:
    """Two sizes of every axis at which the program gives the model's results, and that were not used to find it.

    None if it does not give them. Where the model branched, its results at the probes count too, the example among
    them: some of them are on the other side.
    """
    probes = range(PROBES) if has_branches else range(0)
    if any(_agrees(request, program, {a: each[p] for a, each in plan.sizes.items()}) is False for p in probes):
        return None
    confirmed: dict[str, list[int]] = {}
    for axis, values in plan.sizes.items():
        done = confirmed[axis] = []
        for size in _fresh(axis, values[0], used[axis], request.space):
            agreed = _agrees(request, program, {**{name: each[0] for name, each in plan.sizes.items()}, axis: size})
            if agreed is None:
                continue
            if not agreed:
                return None
            done.append(size)
            if len(done) == 2:
                break
        if not done:
            raise CannotThaw(f"no other size of {axis!r} could be run to confirm it")
    return confirmed


def _agrees_at_written_numbers(request: Request, plan: Plan, program: CapturedProgram, pen: Comparison) -> bool:
    """Whether the program gives the model's results at sizes around the numbers that are written in the model's code.
    A plain number may have been compared with one of them, which nobody saw; branches that were seen are tried later.
    """
    if program.assumptions:
        return True
    example = {axis: values[0] for axis, values in plan.sizes.items()}
    numbers = written_numbers(request.model, pen.frozen_at)
    for axis, own in example.items():
        for size in dict.fromkeys(
            each for number in numbers for each in (number, number + (1 if number >= own else -1))
        ):
            sizes = {**example, axis: size}
            elements = sum(each.numel() for each in request.call.tensors) * size / max(own, 1)
            if request.space.allows(sizes) and elements <= _MOST_TRIED and _agrees(request, program, sizes) is False:
                return False
    return True


def _agrees_at_points(request: Request, plan: Plan, program: CapturedProgram, pen: Comparison) -> bool:
    """Whether the program does what the model does at every point that can be run.

    A few sizes prove nothing: a line with free constants goes through the digits of a number, or through a root, at any
    few of them. Branches that were seen are tried later, and have their own warnings.
    """
    if program.assumptions or not pen.thawed:
        return True
    example = {axis: values[0] for axis, values in plan.sizes.items()}
    model = functools.partial(answers, request.model, request.call, program.results)
    same_steps = SameSteps(program, model, request.kernels, request.empty_at_sizes(example))
    most = max(_FEWEST_POINTS, _MOST_STEPS // max(len(program.graph.nodes), 1))
    with_data = 0
    for sizes in points_for(example, request.space)[:most]:
        many = _elements(request, example, sizes)
        if max(sizes.values()) > _LARGEST_AXIS or many > _MOST_WITHOUT_DATA:
            continue
        if same_steps.at(request.empty_at_sizes(sizes)):
            continue
        if many <= _MOST_TRIED and with_data < _MOST_WITH_DATA:
            with_data += 1
            if _agrees(request, program, sizes) is False:
                return False
    return True


def _agrees(request: Request, program: CapturedProgram, sizes: Mapping[str, int]) -> bool | None:
    """Whether the program gives the model's results; None at sizes that the model refuses, which prove nothing."""
    inputs = request.at_sizes(sizes)
    try:
        wanted = answers(request.model, request.call, program.results, inputs)
    except Exception:
        return None
    return same_results(wanted, program, inputs)


def _fresh(axis: str, example: int, used: set[int], space: AxisSpace) -> Iterator[int]:
    """Sizes that were not used yet; where bounds leave none, those that were are all there are."""
    low, high = space.limits([axis])
    near = (example + 2, 6 * example + 1, example + 1, example - 1, example + 3, 4 * example, 8 * example, 13 * example)
    sizes = near if high is None else (*near, example - 2, (low + high) // 2, low, high)
    fresh = [size for size in dict.fromkeys(sizes) if size not in used and space.allows({axis: size})]
    yield from fresh or ([size for size in sorted(used) if size != example] if high is not None else [])
