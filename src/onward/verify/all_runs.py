"""All runs of a verification: the example, fresh values, other sizes, and data that gives other counts.

The reference is `eager`, the model called by plain PyTorch. Nothing that the tracer computed is compared with: a
mistake of the tracer would be on both sides.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from ..capture.call.values import fresh, jittered, varied
from ..capture.ground.axes import AxisSpace
from ..capture.program.facts import Limit, OtherResults, Output, Port
from ..errors import VerifyError, first_line
from .compare import EXACT, Comparison, compare_output
from .one_run import Judge, verify_run
from .other_sizes import more_sizes, resize, sizes_to_try, too_large
from .report import Check, Verification
from .runtime import Session
from .tied_choices import OtherChoices

Eager = Callable[[Sequence[torch.Tensor]], Sequence[Output]]
_UNSTABLE = (
    "PyTorch's own answer changes as much when the inputs, or values that it chooses between, change in their last "
    "bits: it depends on a choice among equal or nearly equal values, or rounding errors grow in it"
)
_JITTERS = 3  # inputs with other last bits, for a run that disagrees
_MAGNITUDE = 10  # what is further off than this many times PyTorch's own moves is not excused by them
_AT_LEAST = 2  # sizes of every axis that the model should have taken
_MOST_DECIDED = 12  # runs at sizes where a decision changes
_MOST_VARIED = 4  # runs with data that gives other counts


@dataclass(frozen=True)
class Subject:
    """What is verified.

    eager    the model's own answer to inputs; it raises whatever the model raises
    random   outputs that depend on random numbers, and the operator that draws them
    steps    outputs that were rounded to a grid, and how wide its steps are
    judge    for the inputs of a run, what decides over indices that differ: they may name equal values
    state    how many of the last inputs and outputs are the model's state
    limits   what holds at the sizes that the file is for
    """

    session: Session
    inputs: Sequence[Port]
    example: Sequence[torch.Tensor]
    eager: Eager
    random: Mapping[str, str] = field(default_factory=dict)
    steps: Mapping[str, float] = field(default_factory=dict)
    judge: Callable[[Sequence[torch.Tensor]], Judge] | None = None
    state: int = 0
    limits: Sequence[Limit] = ()

    def refusal(self, given: Sequence[torch.Tensor], sizes: Mapping[str, int]) -> str | None:
        """Why the file is not for these sizes, if it does refuse them; None where it has to give the right answer."""
        limit = next((each for each in self.limits if not each.allows(sizes)), None)
        if limit is None:
            return None
        try:
            self.session.run(given)
        except VerifyError:
            return f"the file refuses it: it is only for sizes where {limit}"
        return None

    def check(self, label: str, given: Sequence[torch.Tensor], wanted: Sequence[Output]) -> Check:
        """One run of the file, held against the model's answer."""
        judge = self.judge(given) if self.judge is not None else None
        try:
            compared = verify_run(self.session, label, given, wanted, random=self.random, steps=self.steps, judge=judge)
        except VerifyError as error:
            error.inputs = tuple(given)
            raise
        found = Check(label, tuple(compared))
        if found.ok:
            return found
        if self._is_unstable(found, given, wanted):
            return Check(label, skipped=_UNSTABLE)
        return replace(found, inputs=tuple(given), expected=tuple(wanted))

    def _is_unstable(self, found: Check, given: Sequence[torch.Tensor], wanted: Sequence[Output]) -> bool:
        """Whether PyTorch's own answers move as much when the inputs, or the values that `topk` and others choose
        between, change in their last bits.

        Then the model chooses among equal or nearly equal values, and no comparison of answers can tell who is right.
        """
        failed = [each for each in found.comparisons if not each.ok]
        try:
            again = self._moved(given, wanted)
        except Exception:  # the model takes these inputs only once
            return False
        if any(not each.ok and _same_output(each, other) for each in again for other in failed):
            return False  # the model changes from call to call, and that its answers move says nothing
        as_far: set[str] = set()
        for seed in range(_JITTERS):
            for moved in self._moves(given, wanted, seed):
                as_far |= {other.name for each in moved for other in failed if _is_as_far(each, other)}
        return all(each.name in as_far for each in failed)

    def _moves(
        self, given: Sequence[torch.Tensor], wanted: Sequence[Output], seed: int
    ) -> Iterator[Sequence[Comparison]]:
        """How far the model's answer moves, with other last bits of the inputs and with other choices."""
        nearby = [jittered(each, seed) for each in given]
        for inputs, mode in ((nearby, nullcontext()), (given, OtherChoices(seed))):
            if inputs is nearby and all(map(_same, nearby, given)):
                continue
            try:
                moved = self._moved(inputs, wanted, mode)
            except Exception:  # a model that refuses inputs so near is not stable, and this proves nothing
                continue
            yield moved

    def _moved(
        self, given: Sequence[torch.Tensor], wanted: Sequence[Output], mode: AbstractContextManager[Any] | None = None
    ) -> list[Comparison]:
        """How far the model's answer to these inputs is from another answer of its own."""
        with mode or nullcontext():
            answers = self.eager(given)
        named = zip(self.session.output_names, wanted, answers, strict=True)
        return [each for name, want, got in named for each in compare_output(want, got, name)]

    def run(self, label: str, given: Sequence[torch.Tensor]) -> Iterator[Check]:
        """A run with these inputs, and one more that starts from the state that it leaves.

        A model that refuses the inputs gives one skipped check.
        """
        try:
            wanted = self.eager(given)
        except OtherResults as other:
            problem = Comparison("results", torch.float32, (), EXACT, 0, problem=str(other))
            yield Check(label, (problem,), inputs=tuple(given))
            return
        except Exception as error:  # whatever the model raises is its own refusal, and is told
            yield Check(label, skipped=f"the model refuses it: {first_line(error)}")
            return
        yield self.check(label, given, wanted)
        if self.state:
            left = [
                each for each in wanted[len(wanted) - self.state :] if isinstance(each, torch.Tensor)
            ]  # all of them
            following = [*given[: len(given) - self.state], *left]
            yield from replace(self, state=0).run(f"{label}, next step", following)

    @property
    def arguments(self) -> int:
        """How many of the inputs are no state."""
        return len(self.example) - self.state


def _same_output(first: Comparison, second: Comparison) -> bool:
    """Whether both are of one output; if it is a list, of one element of it, or one of them of its length."""
    return first.name == second.name or second.name.startswith(f"{first.name}[")


def _is_as_far(moved: Comparison, failed: Comparison) -> bool:
    """Whether an answer of PyTorch is as far from another of its own as the file's is, in order of magnitude."""
    if not _same_output(moved, failed):
        return False
    if moved.ok or moved.problem is not None or failed.problem is not None:
        return moved.problem is not None
    if moved.mismatches * _MAGNITUDE < failed.mismatches:
        return False
    return moved.max_abs_error * _MAGNITUDE >= failed.max_abs_error


def verify_runs(
    subject: Subject,
    axes: Mapping[str, tuple[int, ...]],
    space: AxisSpace | None = None,
    *,
    decided: Sequence[Mapping[str, int]] = (),
    counts_data: bool = False,
) -> Verification:
    """Verify a program.

    axes         every dynamic axis with the sizes that it was traced at, the example's first
    decided      sizes at which a decision of the model's Python code changes
    counts_data  whether sizes depend on data, which is then varied
    """
    space = space or AxisSpace()
    example = list(subject.example)
    if any(each.is_meta for each in example):
        raise _about_the_example(_NO_DATA)
    checks = list(subject.run("example", example))
    if checks[0].skipped is not None:
        raise _about_the_example(checks[0].skipped)
    checks += _with_fresh_values(subject)
    for axis, probed in axes.items():
        checks += _along(subject, axis, probed, {name: each[0] for name, each in axes.items()}, space)
    checks += _where_decided(subject, decided, {name: each[0] for name, each in axes.items()}, space, checks)
    if counts_data:
        checks += _with_varied_data(subject)
    return Verification(tuple(checks))


_NO_DATA = "tensors on the device meta have a shape and a type, and no numbers"


def _about_the_example(reason: str) -> VerifyError:
    """The error for an example with which nothing can be verified."""
    if reason == _UNSTABLE:
        error = VerifyError(
            "PyTorch's answer to the example is not the only right one, so nothing can be verified",
            details=[reason],
            hint="give an example in which no two values that the model chooses between are equal, such as torch.rand",
        )
    elif reason == _NO_DATA:
        error = VerifyError(
            "the example has no data, so nothing can be verified",
            details=[reason],
            hint="give an example on another device, or leave out verify=True",
        )
    else:
        error = VerifyError(
            "the model itself cannot be called with the example, so nothing can be verified",
            details=[reason],
            hint="call the model with the same arguments, outside of export, to see the error",
        )
    error.says_why = True
    return error


def _with_fresh_values(subject: Subject) -> Iterator[Check]:
    """The example's sizes with other values. The state stays as it is: a position in a cache is no value to draw."""
    arguments, state = subject.example[: subject.arguments], subject.example[subject.arguments :]
    drawn = [fresh(each, seed) for seed, each in enumerate(arguments, 1)]
    if not any(not _same(new, old) for new, old in zip(drawn, arguments, strict=True)):
        return
    yield from subject.run("fresh values", [*drawn, *state])


def _same(first: torch.Tensor, second: torch.Tensor) -> bool:
    if first.is_complex():  # PyTorch does not compare complex32
        first, second = torch.view_as_real(first), torch.view_as_real(second)
    return torch.equal(first, second)


def _along(
    subject: Subject, axis: str, probed: tuple[int, ...], start: Mapping[str, int], space: AxisSpace
) -> Iterator[Check]:
    """Other sizes of one axis. Where the model refuses most of the usual ones, others are looked for."""
    low, high = space.limits([axis])
    usual = sizes_to_try(probed[0], low, high)
    done = 0
    for size in usual:
        for check in _at(subject, {axis: size}, start, space):
            yield check
            done += check.skipped is None
    for size in more_sizes(probed[0], probed[1:], low, high):
        if done >= _AT_LEAST:
            return
        if size in usual:
            continue
        for check in _at(subject, {axis: size}, start, space):
            if check.skipped is None:  # refusals of sizes that nobody asked for would fill the table
                yield check
                done += 1


def _at(subject: Subject, sizes: Mapping[str, int], start: Mapping[str, int], space: AxisSpace) -> Iterator[Check]:
    label = ", ".join(f"{axis}={size}" for axis, size in sizes.items())
    wanted = space.expand({**start, **sizes})
    given = resize(subject.inputs, subject.example, wanted)
    reason = too_large(given, subject.example) or subject.refusal(given, wanted)
    if reason is not None:
        yield Check(label, skipped=reason)
    else:
        yield from subject.run(label, given)


def _where_decided(
    subject: Subject,
    decided: Sequence[Mapping[str, int]],
    start: Mapping[str, int],
    space: AxisSpace,
    done: Sequence[Check],
) -> Iterator[Check]:
    """The sizes at which a recorded decision changes, as far as they were not tried yet."""
    seen = {each.label for each in done}
    tried = 0
    for sizes in decided:
        label = ", ".join(f"{axis}={size}" for axis, size in sizes.items())
        if label in seen or not space.allows({**start, **sizes}) or tried == _MOST_DECIDED:
            continue
        seen.add(label)
        tried += 1
        yield from _at(subject, sizes, start, space)


def _with_varied_data(subject: Subject) -> Iterator[Check]:
    """Data that gives other counts than the example: nothing at all, everything, and in between.

    Of inputs that lead to the same sizes as others before them, only the first are run.
    """
    arguments, state = subject.example[: subject.arguments], subject.example[subject.arguments :]
    shapes: set[tuple[tuple[int, ...], ...]] = set()
    for label, given in varied(arguments):
        try:
            wanted = subject.eager([*given, *state])
        except OtherResults:
            shape = None
        except Exception as error:  # the model's own refusal
            yield Check(f"data: {label}", skipped=f"the model refuses it: {first_line(error)}")
            continue
        else:
            shape = tuple(tuple(each.shape) for each in wanted if isinstance(each, torch.Tensor))
            if shape in shapes or len(shapes) == _MOST_VARIED:
                continue
            shapes.add(shape)
        yield from subject.run(f"data: {label}", [*given, *state])
