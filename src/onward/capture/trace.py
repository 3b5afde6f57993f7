"""The default front end: run a live model once, and follow it."""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from torch._ops import OpOverload

from ..errors import FrozenAxisError
from .complaints import all_sizes_refused, frozen_axis
from .decisions import CaptureWarning
from .facts import CapturedProgram
from .inputs import AxisNames, Call, example_sizes
from .layouts import LayoutKernels
from .probes import Plan, plans
from .run import Frozen, Request, run
from .thaw import CannotThaw, thaw
from .tracer import ProbeRejected


def trace(
    model: Any,
    call: Call,
    axes: dict[str, AxisNames],
    *,
    output_names: Sequence[str] | None = None,
    output_axes: Mapping[str, AxisNames] | None = None,
    is_primitive: Callable[[OpOverload], bool],
    allow_static_axes: bool = False,
) -> CapturedProgram:
    """Capture `model` called with `call`, with the named axes dynamic."""
    request = Request(model, call, axes, is_primitive, LayoutKernels(), output_names, output_axes or {})
    fixed: set[str] = set()
    notes: list[str] = []
    while True:
        wanted = {name: {i: a for i, a in named.items() if a not in fixed} for name, named in axes.items()}
        try:
            program = _first_that_works(dataclasses.replace(request, axes=wanted))
            return dataclasses.replace(program, warnings=(*notes, *program.warnings))
        except FrozenAxisError as error:
            newly = set(error.axes) - fixed
            if not allow_static_axes or not newly:
                raise
            fixed |= newly
            notes.append("\n  ".join((f"written as fixed: {error.what}", *error.details)))
            warnings.warn(notes[-1], CaptureWarning, stacklevel=3)


def _first_that_works(request: Request) -> CapturedProgram:
    """Try one plan of probe sizes after the other; what the model refuses at one may work at the next."""
    example = example_sizes(request.call, request.axes)
    frozen: Frozen | None = None
    reason: str | None = None
    rejected: list[tuple[Plan, ProbeRejected]] = []
    for plan in plans(example) if example else [Plan("example", {}, {})]:
        if frozen and not _worth_another(frozen, plan):
            continue
        try:
            return run(request, plan)
        except ProbeRejected as error:
            rejected.append((plan, error))
        except Frozen as error:
            frozen = frozen or error
            try:
                return thaw(request, plan, error)
            except CannotThaw as cannot:
                reason = reason or str(cannot)
    if frozen:
        raise frozen_axis(frozen.freezes, example, request.axes, reason)
    raise all_sizes_refused(rejected)


def _worth_another(frozen: Frozen, plan: Plan) -> bool:
    """After a freeze, only another kind of size helps: an example larger than 1, or sizes that stay below a limit."""
    if plan.enlarged:
        return True
    return any(isinstance(freeze.value, bool) for freeze in frozen.freezes) and plan.label.startswith("smaller")
