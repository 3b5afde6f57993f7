"""A graph as a list of calls: nothing is looked up by name while it runs, and values go when nobody needs them."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ..errors import BackendError, ExportError
from .limits import Guard, active, growth

MISSING = -1  # the slot of an input that is left out, or of an output that nobody wants


@dataclass(frozen=True)
class Body:
    """A subgraph as an attribute: its own plan, and the slots outside that it reads."""

    plan: Plan
    captured: tuple[int, ...]


@dataclass(frozen=True)
class BoundBody:
    """A subgraph that can be called: what it reads from outside is in place."""

    plan: Plan
    captured: tuple[Any, ...]

    def __call__(self, *inputs: Any) -> list[Any]:
        return self.plan.run([*inputs, *self.captured])


@dataclass(frozen=True)
class Step:
    """One call. `frees` are the slots that hold nothing anybody reads later."""

    function: Callable[..., Any]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    attributes: dict[str, Any]
    bodies: dict[str, Body]
    where: str
    frees: tuple[int, ...] = ()
    op: str = ""  # the operator; unknown, its results may have any size

    @functools.cached_property
    def growth(self) -> float:
        return growth(self.attributes)


@dataclass
class Plan:
    """`inputs` and `results` are slots; `constants` are put into theirs before the first step."""

    slots: int
    inputs: tuple[int, ...]
    results: tuple[int, ...]
    steps: list[Step]
    constants: list[tuple[int, Any]] = field(default_factory=list)

    def run(self, inputs: Sequence[Any]) -> list[Any]:
        values: list[Any] = [None] * self.slots
        for slot, value in self.constants:
            values[slot] = value
        for slot, value in zip(self.inputs, inputs, strict=True):
            values[slot] = value
        guard = active()
        for step in self.steps:
            _take(step, values, guard)
        return [values[slot] for slot in self.results]


def _take(step: Step, values: list[Any], guard: Guard | None) -> None:
    arguments = [values[slot] if slot >= 0 else None for slot in step.inputs]
    attributes = step.attributes
    if step.bodies:
        bound = {
            name: BoundBody(body.plan, tuple(values[slot] for slot in body.captured))
            for name, body in step.bodies.items()
        }
        attributes = {**attributes, **bound}
    try:
        if guard is None:
            result = step.function(*arguments, **attributes)
        else:
            result = guard.call(step, arguments, attributes)
    except ExportError as error:
        if isinstance(error, BackendError) and error.module is None:
            located = BackendError(error.what, module=step.where, hint=error.hint)
            located.exceeds_limit = error.exceeds_limit
            raise located from error
        raise
    except Exception as error:  # whatever PyTorch says about sizes and types of the values
        raise BackendError(
            f"PyTorch refused: {str(error).strip() or type(error).__name__}", module=step.where
        ) from error
    if not isinstance(result, tuple):
        result = (result,)
    for slot, value in zip(step.outputs, result, strict=False):
        if slot >= 0:
            values[slot] = value
    for slot in step.frees:
        values[slot] = None


def with_frees(steps: Sequence[Step], kept: set[int]) -> list[Step]:
    """The steps, each with the slots that it is the last to use."""
    seen = set(kept)
    result = []
    for step in reversed(steps):
        used = {*step.inputs, *step.outputs, *(slot for body in step.bodies.values() for slot in body.captured)}
        last = sorted(slot for slot in used - seen if slot >= 0)
        seen |= used
        result.append(replace(step, frees=tuple(last)))
    return result[::-1]
