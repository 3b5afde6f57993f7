"""Which other sizes to verify at, and inputs of those sizes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

import torch

from ..capture.axes import AxisSpace
from ..capture.facts import Output, Port, SymDim
from ..capture.resizing import resized
from ..errors import VerifyError, first_line
from .report import Check, Verification
from .run import verify_run
from .runtime import Session

Eager = Callable[[Sequence[torch.Tensor]], Sequence[Output]]
_PER_AXIS = 2


def verify_at_sizes(
    session: Session,
    inputs: Sequence[Port],
    axes: Mapping[str, tuple[int, ...]],
    example: Sequence[torch.Tensor],
    expected: Sequence[Output],
    eager: Eager,
    space: AxisSpace | None = None,
    *,
    random: Mapping[str, str] | None = None,
    steps: Mapping[str, float] | None = None,
    state: int = 0,
) -> Verification:
    """The example, then every dynamic axis at two other sizes, 1 among them where bounds and model accept it.

    The last `state` inputs and outputs are the model's state: every run is followed by another one that starts from
    what the first has left.
    """
    space = space or AxisSpace()
    start = {axis: probed[0] for axis, probed in axes.items()}

    def check(label: str, given: Sequence[torch.Tensor], wanted: Sequence[Output]) -> Check:
        try:
            found = Check(label, tuple(verify_run(session, label, given, wanted, random=random, steps=steps)))
        except VerifyError as error:
            error.inputs = tuple(given)
            raise
        return found if found.ok else replace(found, inputs=tuple(given), expected=tuple(wanted))

    def run(label: str, given: Sequence[torch.Tensor], wanted: Sequence[Output]) -> Iterator[Check]:
        yield check(label, given, wanted)
        if state:
            label = f"{label}, next step"
            left = [each for each in wanted[len(wanted) - state :] if isinstance(each, torch.Tensor)]  # all of them
            following = [*given[: len(given) - state], *left]
            try:
                wanted = eager(following)
            except Exception as error:  # a cache that is full: no next step, and said so
                yield Check(label, skipped=f"the model refuses it: {first_line(error)}")
                return
            yield check(label, following, wanted)

    checks = [*run("example", example, expected)]
    for axis, probed in axes.items():
        done = 0
        refused: list[str] = []
        for size in _candidates(probed, *space.limits([axis])):
            if done == _PER_AXIS:
                break
            label = f"{axis}={size}"
            others = resize(inputs, example, space.expand({**start, axis: size}))
            try:
                wanted = eager(others)
            except Exception as error:  # the model's own refusal of a size: no size to verify at, and said so
                refused.append(label)
                if size == 1 or not done:
                    checks.append(Check(label, skipped=f"the model refuses it: {first_line(error)}"))
                continue
            checks += run(label, others, wanted)
            done += 1
    return Verification(tuple(checks))


def _candidates(probed: tuple[int, ...], low: int, high: int | None) -> Iterator[int]:
    """The smallest size (1 unless bounds say otherwise), the next size up, then sizes that the trace has probed
    (multiples of the example), then smaller ones; all within the bounds."""
    example = probed[0]
    seen = {example}
    for size in (low, example + 1, *probed[1:], example - 1, example // 2, high or 0):
        if size >= low and (high is None or size <= high) and size not in seen:
            seen.add(size)
            yield size


def resize(inputs: Sequence[Port], example: Sequence[torch.Tensor], sizes: Mapping[str, int]) -> list[torch.Tensor]:
    """The example's inputs at other sizes of the named axes, with values drawn from its own."""
    wanted = [
        {
            axis: sizes[dim.name]
            for axis, dim in enumerate(port.fact.shape)
            if isinstance(dim, SymDim) and dim.name in sizes
        }
        for port in inputs
    ]
    return [resized(tensor, axes, seed) for seed, (tensor, axes) in enumerate(zip(example, wanted, strict=True))]
