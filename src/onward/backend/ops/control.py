"""Operators that hold graphs."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from ...capture.bodies.control_flow import capture_branch, capture_loop
from ...capture.memory.tensor import Traced
from ...capture.record.tracer import tracer_of
from ...onnx_operators.python_numbers import number
from .. import limits
from ..plan import BoundBody
from ..registry import implements


@implements("If", scalars=("condition",))
def if_(condition: Any, *, then_branch: BoundBody, else_branch: BoundBody) -> tuple[Any, ...]:
    """Recorded with both branches where the model is compiled or exported."""
    if isinstance(condition, Traced):
        return tuple(capture_branch(tracer_of(condition), condition.reshape(()), then_branch, else_branch))
    if isinstance(condition, Tensor) and torch.compiler.is_compiling():
        branches = (lambda: tuple(then_branch()), lambda: tuple(else_branch()))
        return tuple(torch.cond(condition.reshape(()), *branches, ()))
    return tuple(then_branch() if number(condition) else else_branch())


@implements("Loop", scalars=("count", "condition"))
def loop(count: Any, condition: Any, *carried: Any, body: BoundBody) -> tuple[Any, ...]:
    """Values that go from turn to turn, then those of all turns, stacked."""
    traced = [each for each in (count, condition, *carried, *body.captured) if isinstance(each, Traced)]
    if traced and not any(isinstance(each, list) for each in carried):
        return _recorded_loop(tracer_of(traced[0]), count, condition, carried, body)
    most = None if count is None else int(number(count))
    going = True if condition is None else bool(number(condition))
    state = list(carried)
    collected: list[list[Any]] = [[] for _ in body.plan.results[1 + len(state) :]]
    turn = 0
    if going and _goes_on(body, condition is None):
        limits.turns_ahead(math.inf if most is None else most)
    while going and (most is None or turn < most):
        limits.turn()
        keep, *results = body(torch.tensor(turn), torch.tensor(True), *state)
        state = results[: len(state)]
        for items, item in zip(collected, results[len(state) :], strict=True):
            items.append(item)
        going = True if condition is None and keep is None else bool(number(keep))
        turn += 1
    return *state, *(_stacked(items) if items else torch.empty(0) for items in collected)


def _goes_on(body: BoundBody, without_condition: bool) -> bool:
    """Whether a body says that there will be another turn, always: it hands on what it was told, or a constant."""
    plan, slot = body.plan, body.plan.results[0]
    if slot < 0:
        return without_condition
    makers = {step.outputs[0]: step for step in plan.steps if step.op == "Identity" and step.outputs}
    while slot in makers:
        slot = makers[slot].inputs[0]
    return slot == plan.inputs[1] or any(slot == place and bool(number(value)) for place, value in plan.constants)


def _stacked(items: list[Any], axis: int = 0) -> Tensor:
    limits.about_to_make(len(items), items[0].numel())
    return torch.stack(items, axis)


def _recorded_loop(
    tracer: Any, count: Any, condition: Any, carried: tuple[Any, ...], body: BoundBody
) -> tuple[Any, ...]:
    """A loop that is being exported: once around, and it stays a loop."""
    always = torch.tensor(True)

    def step(turn: Any, state: Any) -> Any:
        keep, *results = body(torch.tensor(turn, dtype=torch.int64), always, *state)
        return True if keep is always else keep, tuple(results[: len(carried)]), tuple(results[len(carried) :])

    ends, stacked = capture_loop(tracer, count, True if condition is None else condition, carried, step)
    return *ends, *stacked


@implements("Scan", since=9)
def scan(
    *inputs: Any,
    body: BoundBody,
    num_scan_inputs: int,
    scan_input_axes: list[int] | None = None,
    scan_input_directions: list[int] | None = None,
    scan_output_axes: list[int] | None = None,
    scan_output_directions: list[int] | None = None,
) -> tuple[Any, ...]:
    if not 0 < num_scan_inputs <= len(inputs):
        raise ValueError(f"Scan has {len(inputs)} inputs, and num_scan_inputs={num_scan_inputs}")
    state, sequences = list(inputs[:-num_scan_inputs]), inputs[-num_scan_inputs:]
    axes = scan_input_axes or [0] * num_scan_inputs
    backward = scan_input_directions or [0] * num_scan_inputs
    limits.turn(max((x.shape[axis] for x, axis in zip(sequences, axes, strict=True)), default=0))
    rows = [list(x.unbind(axis))[:: -1 if flip else 1] for x, axis, flip in zip(sequences, axes, backward, strict=True)]
    count = len(body.plan.results) - len(state)
    collected: list[list[Any]] = [[] for _ in range(count)]
    for turn in zip(*rows, strict=True):
        results = body(*state, *turn)
        state = results[: len(state)]
        for items, item in zip(collected, results[len(state) :], strict=True):
            items.append(item)
    out_axes, out_flips = scan_output_axes or [0] * count, scan_output_directions or [0] * count
    stacked = [
        _stacked(items[:: -1 if flip else 1], axis)
        for items, axis, flip in zip(collected, out_axes, out_flips, strict=True)
    ]
    return *state, *stacked


@implements("Scan")
def scan_with_batch(
    lengths: Tensor | None, *inputs: Any, body: BoundBody, num_scan_inputs: int, directions: list[int] | None = None
) -> tuple[Any, ...]:
    """The first version: the leading axis of everything is a batch, and each element of it is scanned alone."""
    results = []
    for place in range(inputs[0].shape[0]):
        limits.turn()
        row = [x[place] for x in inputs]
        if lengths is not None:
            used = int(lengths[place])
            row[-num_scan_inputs:] = [x[:used] for x in row[-num_scan_inputs:]]
        results.append(scan(*row, body=body, num_scan_inputs=num_scan_inputs, scan_input_directions=directions))
    return tuple(torch.stack(each) for each in zip(*results, strict=True))


@implements("SequenceMap")
def sequence_map(first: list[Any], *others: Any, body: BoundBody) -> tuple[Any, ...]:
    collected: list[list[Any]] = [[] for _ in body.plan.results]
    for place, item in enumerate(first):
        limits.turn()
        turn = [other[place] if isinstance(other, list) else other for other in others]
        for items, result in zip(collected, body(item, *turn), strict=True):
            items.append(result)
    return tuple(collected)
