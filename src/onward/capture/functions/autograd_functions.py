"""`torch.autograd.Function` with a `symbolic`: one node of the graph, however its forward computes.

`MyFunction.apply` may have been taken aside long ago (`my_op = MyFunction.apply`), so it is of no use to replace
`apply` on the class. PyTorch's own calls the next `apply` of the class hierarchy; that is where the call is caught. A
Function without a `symbolic` is not touched: its forward is traced through.

Forward runs on copies of the example's tensors, so that what it does to them in place is seen and not suffered. Its
results' sizes at the other probes come from running it on the example's values at these sizes: it may well be compiled
code, which would read from tensors without data.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, Protocol

import torch
from torch._ops import OpOverload
from torch.autograd import function as autograd
from torch.utils._python_dispatch import _disable_current_modes

from ...errors import CaptureError, first_line
from ..call.resizing import resized
from ..decisions.decisions import Decisions
from ..decisions.journal import Comparison, Journal, JournalTrace
from ..ground.size_checks import Checked
from ..ground.source import user_source
from ..ground.threads import current
from ..memory.graph_levels import GraphTrace
from ..memory.plain_tensors import PlainTensors
from ..memory.tensor import Traced
from ..program.facts import FunctionCall, Slot
from ..sizes.layouts import LARGEST_REAL_PROBE, Layout, ProbeFailure
from ..sizes.sizes import SYMBOLIC

LEVEL: Any = autograd._SingleLevelFunction  # where PyTorch's own `Function.apply` goes next


class CallTrace(GraphTrace, JournalTrace, Protocol):
    """What a call of a Function needs of the trace."""

    @property
    def decisions(self) -> Decisions: ...

    @property
    def plain(self) -> PlainTensors: ...

    @property
    def pen(self) -> Journal | Comparison | None:
        """What runs at several sizes are written into."""

    def record(self, op: OpOverload, args: tuple, kwargs: dict[str, Any]) -> Any:
        """Run an op on the example and write it down."""

    def write(self, target: Traced, result: Any, op: str) -> None:
        """Make `result` the new content of `target`."""


class _Running(threading.local):
    inside = False  # the forward of a recorded Function: what it calls is its own affair


_RUNNING = _Running()


def interception(original: Any) -> Any:
    """The `apply` that records this thread's calls of Functions with a `symbolic` whole, while it traces."""

    def apply(function: Any, *args: Any, **kwargs: Any) -> Any:
        tracer: CallTrace | None = current()
        if tracer is None or _RUNNING.inside or kwargs or not callable(getattr(function, "symbolic", None)):
            return _pytorchs_apply(function, *args, **kwargs)
        _RUNNING.inside = True
        try:
            return _record(tracer, function, args, _pytorchs_apply)
        finally:
            _RUNNING.inside = False

    return classmethod(apply)


def _pytorchs_apply(function: Any, *args: Any, **kwargs: Any) -> Any:
    return super(LEVEL, function).apply(*args, **kwargs)


def _record(tracer: CallTrace, function: Any, args: tuple, apply: Callable[..., Any]) -> Any:
    """One call as one node."""
    if tracer.pen is not None:
        args, _ = tracer.pen.enter(tracer, function, args, {})
    values: list[Any] = []
    template = tuple(_with_slots(tracer, arg, values) for arg in args)
    written: dict[int, int] = {}  # {result: argument} for results that are arguments changed in place

    def run(call: FunctionCall, given: tuple[Any, ...]) -> Any:
        copies = [value.detach().clone() if isinstance(value, torch.Tensor) else value for value in given]
        out = apply(call.function, *call.filled(copies))
        for slot, (value, copy) in enumerate(zip(given, copies, strict=True)):
            if isinstance(value, torch.Tensor) and not _equal(value, copy):
                places = [place for place, each in enumerate(out if isinstance(out, tuple) else (out,)) if each is copy]
                if not places:
                    raise _hidden_write(tracer, function, slot)
                written[places[0]] = slot
        return out

    with _disable_current_modes():
        result = tracer.record(FunctionCall(function, template, run), tuple(values), {})  # type: ignore[arg-type]
        results = list(result) if isinstance(result, tuple) else [result]
        for place, slot in written.items():
            target = values[slot] if isinstance(values[slot], Traced) else tracer.plain.promote(values[slot])
            tracer.write(target, results[place], function)
            results[place] = target
    return tuple(results) if isinstance(result, tuple) else results[0]


def _with_slots(tracer: CallTrace, value: Any, values: list[Any]) -> Any:
    """An argument with a Slot for every tensor and varying size in it; these are appended to the values."""
    if isinstance(value, SYMBOLIC) and tracer.decisions.is_settled(value.node):
        return value.node.values[0]
    if isinstance(value, (torch.Tensor, *SYMBOLIC)):
        values.append(tracer.plain.stand_in(value))
        return Slot(len(values) - 1)
    if type(value) in (list, tuple):
        return type(value)(_with_slots(tracer, each, values) for each in value)
    if type(value) is dict:
        return {key: _with_slots(tracer, each, values) for key, each in value.items()}
    return value


def _equal(first: torch.Tensor, second: torch.Tensor) -> bool:
    if first.shape != second.shape:
        return False
    same = first == second
    if first.is_floating_point() or first.is_complex():
        same = same | (first.isnan() & second.isnan())
    return bool(same.all())


def _hidden_write(tracer: CallTrace, function: Any, slot: int) -> CaptureError:
    source = user_source()
    return CaptureError(
        f"{function.__name__} changes its tensor argument {slot} in place and does not return it",
        source=str(source) if source else None,
        module=tracer.scopes.path or None,
        hint="return the tensor and say so with ctx.mark_dirty(...), or work on a copy of it",
    )


def function_layouts(
    call: FunctionCall, values: tuple[Any, ...], sizes: list[Any], *, largest: int = LARGEST_REAL_PROBE
) -> Any:
    """What a call returns where its tensors have other sizes. Raises ProbeFailure if these are refused."""
    elements = sum(torch.Size(size.size).numel() for size in sizes if isinstance(size, Layout))
    if elements > largest:
        raise ProbeFailure(f"{elements} elements are too many to run its forward on")
    given = tuple(_at(value, size) for value, size in zip(values, sizes, strict=True))
    try:
        with Checked():
            out = call(*given)
    except CaptureError:
        raise
    except Exception as error:
        raise ProbeFailure(first_line(error)) from error
    if isinstance(out, torch.Tensor):
        return Layout.of(out)
    return [Layout.of(each) if isinstance(each, torch.Tensor) else each for each in out]


def _at(value: Any, size: Any) -> Any:
    """An argument as a probe has it: a number, or the example's values at the probe's sizes."""
    if not isinstance(size, Layout):
        return size
    example = value.example if isinstance(value, Traced) else value
    return resized(example.detach(), dict(enumerate(size.size)))
