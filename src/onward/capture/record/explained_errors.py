"""What to tell the user when a model cannot be followed."""

from __future__ import annotations

import traceback
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import torch

from ...errors import CaptureError, FrozenAxisError, RefusedSizesError
from ..call.inputs import AxisNames, Call
from ..decisions.decisions import Freeze
from ..ground.axes import Formula
from ..ground.source import is_library
from ..sizes.probes import Plan
from .other_sizes import ProbeRejected


def places_of(label: str | Collection[str], axes: dict[str, AxisNames]) -> str:
    """`axis 0 of 'x', axis 0 of 'mask'`: where axes of this name, or of these, are."""
    labels = {label} if isinstance(label, str) else label
    return ", ".join(f"axis {i} of {name!r}" for name, named in axes.items() for i, a in named.items() if a in labels)


def frozen_axis(
    freezes: Sequence[Freeze],
    example: dict[str, int],
    places: dict[str, AxisNames],
    reason: str | None,
    formulas: Mapping[str, Formula],
) -> FrozenAxisError:
    seen = set()
    details: list[str] = []
    for freeze in freezes:
        key = (freeze.expression, freeze.source)
        if key not in seen and len(details) < 8:
            seen.add(key)
            place = f"{freeze.source}" if freeze.source else "an unknown line"
            details.append(f"{place}: `{freeze.expression}` became {freeze.value!r}")
    if reason:
        details.append(f"it could not be thawed: {reason}")
    first = freezes[0]
    axes = sorted(frozenset().union(*(freeze.axes for freeze in freezes)))
    named = ", ".join(f"{axis!r} (= {example.get(axis)})" for axis in axes)
    error = FrozenAxisError(
        f"dynamic axis {named} is frozen by the model: a plain Python number is made from the size of "
        + ", ".join(places_of(axis, places) or places_of(_following(axis, formulas), places) for axis in axes),
        source=str(first.source) if first.source else None,
        module=first.scope or None,
        details=details,
        hint="compute with the size itself (no int(), range() or if on it), ask for a fixed axis, "
        "or pass allow_static_axes=True to write it as fixed",
    )
    error.axes = tuple(axes)
    return error


def _following(axis: str, formulas: Mapping[str, Formula]) -> set[str]:
    """The axes with a formula of one that is on no axis itself."""
    return {name for name, formula in formulas.items() if axis in formula.names}


def all_sizes_refused(rejected: list[tuple[Plan, ProbeRejected]]) -> RefusedSizesError:
    plan, error = rejected[0]
    tried = [
        ", ".join(f"{axis} = {'/'.join(map(str, values))}" for axis, values in p.sizes.items()) for p, _ in rejected
    ]
    return RefusedSizesError(
        f"the model works on the example but not at other sizes of {', '.join(map(repr, plan.sizes))}: "
        f"{error.op}: {error.reason}",
        op=error.op,
        source=str(error.source) if error.source else None,
        module=error.scope or None,
        details=[f"tried {each}" for each in tried],
        hint="ask for a fixed axis if it cannot vary, or give axes that must be equal one name",
    )


def no_sizes_left(example: dict[str, int]) -> RefusedSizesError:
    return RefusedSizesError(
        f"the bounds leave too few sizes to tell the axes {', '.join(map(repr, example))} apart",
        hint="widen the bounds of some axes, or fix those that hardly vary",
    )


class ScriptRaised(RuntimeError):
    """A script ran into a `raise` of its own; `source` is the line, for which there is no Python frame."""

    def __init__(self, text: str, source: str | None, module: str | None) -> None:
        super().__init__(text)
        self.source, self.module = source, module


def model_raised(name: str, error: Exception, plain: Exception | None, model: Any, call: Call) -> CaptureError:
    """The model's own error, with the line of the user's code and the module that it came from.

    `plain` is what the model raises when it is called without the export; None if it raises nothing.
    """
    shown = error if plain is None else plain
    source, module = _place_of(shown, model)
    if source is None:  # of a script, which has no Python frames
        source, module = _place_of(error, model)
    raised = CaptureError(
        _raised_text(name, error if isinstance(error, ScriptRaised) else shown),
        source=source,
        module=module,
        details=call.remarks,
        hint=_OURS if plain is None else _THEIRS,
    )
    raised.__cause__ = shown
    return raised


_THEIRS = "call the model with the same arguments to see the error without the export"
_OURS = (
    "the model works when it is called without the export, so this is a limit of onward: write this line with tensor "
    "operations"
)


def _raised_text(name: str, error: Exception) -> str:
    message = (str(error).strip() or "no message").splitlines()[0]
    if isinstance(error, ScriptRaised):
        return f"the script raises an error for the example: {message}"
    return f"{name} raised {type(error).__name__} in forward: {message}"


def _place_of(error: Exception, model: Any) -> tuple[str | None, str | None]:
    """The line of the user's code and the module that an error came from."""
    if isinstance(error, ScriptRaised):
        return error.source, error.module
    steps = list(traceback.walk_tb(error.__traceback__))
    lines = [f"{frame.f_code.co_filename}:{line}" for frame, line in steps if not is_library(frame.f_code)]
    owners = [frame.f_locals.get("self") for frame, _ in steps]
    # A plain call runs a copy of the model (`twins`): the outermost of its class.
    root = next((each for each in owners if isinstance(each, torch.nn.Module) and type(each) is type(model)), model)
    paths = {id(module): path for path, module in root.named_modules()} if isinstance(root, torch.nn.Module) else {}
    modules = [paths[id(each)] for each in owners if id(each) in paths]
    return lines[-1] if lines else None, (modules[-1] or None) if modules else None
