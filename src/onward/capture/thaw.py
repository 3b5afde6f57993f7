"""What Python froze can be thawed.

After `int(h * 0.5)` the number is plain Python. But running the model again at each probe's own sizes gives op
sequences that align one to one, in which exactly the numbers that depend on sizes differ: again fingerprints, to be
found among the sizes that Python asked for, or as a simple formula of the axes. The program is believed only after it
has given PyTorch's own results at sizes that were not used to find it. Runs that do not align (a loop over a dynamic
axis), numbers without a formula, and results that differ leave the axis frozen, and the reason goes into the error.
"""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterator, Mapping

from .assumptions import same_results
from .axes import AxisSpace
from .decisions import CaptureWarning
from .elsewhere import ProbeRejected
from .facts import CapturedProgram
from .journal import CannotThaw, Comparison, Journal, Witness
from .mutable import answers
from .probes import PROBES, Plan
from .run import Frozen, Request, run, write_journal


def thaw(request: Request, plan: Plan, frozen: Frozen) -> CapturedProgram:
    """The program with its frozen numbers as sizes again, or CannotThaw."""
    if any(isinstance(freeze.value, bool) for freeze in frozen.freezes):
        raise CannotThaw("a branch depends on the size")
    journals = [
        _journal(request, {axis: values[probe] for axis, values in plan.sizes.items()}) for probe in range(1, PROBES)
    ]
    witnesses = list(_witnesses(request, plan))
    preference, choices = 0, 1
    while preference < choices:
        pen = Comparison(journals, witnesses, preference)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", CaptureWarning)  # said by the first run already
            try:
                program = run(request, plan, pen)
            except (ProbeRejected, Frozen) as error:
                raise CannotThaw(f"the numbers do not go together: {error}") from error
        if _confirmed(request, plan, program):
            return program
        choices = min(pen.most_choices, 5)
        preference += 1
    raise CannotThaw("no formula of the axes that fits the probed sizes fits others too")


def _witnesses(request: Request, plan: Plan) -> Iterator[Witness]:
    """Sizes that are not multiples of the example, where rounding shows; the model may well refuse them."""
    for step in (1, 3):
        sizes = {axis: values[0] + step for axis, values in plan.sizes.items()}
        if not request.space.allows(sizes):
            continue
        with contextlib.suppress(CannotThaw):
            yield Witness(request.space.expand(sizes), _journal(request, sizes))


def _journal(request: Request, sizes: Mapping[str, int]) -> Journal:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", CaptureWarning)
            return write_journal(request, request.at_sizes(sizes))
    except Exception as error:
        text = ", ".join(f"{axis} = {size}" for axis, size in sizes.items())
        raise CannotThaw(f"the model fails at {text}: {str(error).strip() or type(error).__name__}") from error


def _confirmed(request: Request, plan: Plan, program: CapturedProgram) -> bool:
    """Whether the program gives the model's results at two sizes of every axis that the probes did not have."""
    for axis, values in plan.sizes.items():
        done = 0
        for size in _fresh(axis, values, request.space):
            inputs = request.at_sizes({**{name: each[0] for name, each in plan.sizes.items()}, axis: size})
            try:
                wanted = answers(request.model, request.call, program.results, inputs)
            except Exception:  # a size that the model itself refuses proves nothing: the next one may
                continue
            if not same_results(wanted, program, inputs):
                return False
            done += 1
            if done == 2:
                break
        if done == 0:
            raise CannotThaw(f"no other size of {axis!r} could be run to confirm it")
    return True


def _fresh(axis: str, values: tuple[int, ...], space: AxisSpace) -> Iterator[int]:
    """Sizes that the probes did not have; where bounds leave none, those of the probes are all there are."""
    example = values[0]
    low, high = space.limits([axis])
    near = (example + 1, example + 2, example - 1, example + 3, 8 * example, 13 * example)
    sizes = near if high is None else (*near, example - 2, (low + high) // 2, low, high)
    fresh = [size for size in dict.fromkeys(sizes) if size not in values and space.allows({axis: size})]
    yield from fresh or ([size for size in values[1:] if size != example] if high is not None else [])
