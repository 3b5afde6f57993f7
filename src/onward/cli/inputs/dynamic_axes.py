"""The dynamic axes of `onward export`: those of --dynamic and --input together, held against the example.

What does not fit is said here, in the words of the command line and before the exporter says it in those of Python.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch.export import Dim

from onward.errors import UnknownNameError

from ..console.usage_errors import SpecMistake, UsageMistake
from .grammar import DYNAMIC_HINT, Axis
from .values import ExampleCall, signature_of

Axes = dict[str, dict[int, Axis]]


def join(axes: dict[int, Axis], named: Mapping[int, str], name: str) -> None:
    """The axes that --input names, with those of --dynamic, which may have bounds."""
    for number, axis in named.items():
        known = axes.setdefault(number, Axis(axis))
        if known.name != axis:
            raise UsageMistake(f"axis {number} of '{name}' is '{axis}' in --input and '{known.name}' in --dynamic")


def check(axes: Axes, call: ExampleCall, model: Any) -> None:
    """Refuse axes that the example does not have, and sizes of the example that are out of bounds."""
    tensors = dict(_tensors(call, model))
    bounded = {axis.name: axis for each in axes.values() for axis in each.values() if axis.bounded}
    for name, each in axes.items():
        if name not in tensors:  # an output, or nothing: the exporter knows
            continue
        sizes, seen = tensors[name].shape, dict[int, Axis]()
        for number, axis in each.items():
            if not -len(sizes) <= number < len(sizes):
                raise _mistake(axis, f"'{name}' has no axis {number}: it has {_in_words(len(sizes))}")
            place = number % len(sizes)
            if seen.setdefault(place, axis).name != axis.name:
                raise _mistake(
                    axis, f"axis {number} of '{name}' is axis {place}, which is '{seen[place].name}' already"
                )
            limits, size = bounded.get(axis.name, axis), sizes[place]
            if size < (limits.least or 0) or (limits.most is not None and size > limits.most):
                raise _mistake(
                    limits,
                    f"axis {number} of '{name}' is {size} in the example, and '{axis.name}' is {_range(limits)}",
                    "give an example within the bounds with --input, or widen them",
                )


def _tensors(call: ExampleCall, model: Any) -> Iterator[tuple[str, torch.Tensor]]:
    """The example's tensors by the names that the file's inputs get; those inside of lists and dicts are left out."""
    signature = signature_of(model)
    names = call.input_names or (tuple(signature.parameters) if signature is not None else ())
    for name, value in (*zip(names, call.args, strict=False), *(call.kwargs or {}).items()):
        if isinstance(value, torch.Tensor):
            yield name, value


def _in_words(rank: int) -> str:
    return f"{rank} axes, 0 to {rank - 1}" if rank > 1 else "one axis, 0" if rank else "none, being a single number"


def _range(axis: Axis) -> str:
    if axis.most is None:
        return f"at least {axis.least}"
    return f"at most {axis.most}" if axis.least is None else f"{axis.least} to {axis.most}"


def _mistake(axis: Axis, what: str, hint: str = DYNAMIC_HINT) -> UsageMistake:
    if axis.text is None:  # --input names it, and has its size beside the name
        return UsageMistake(what, hint=hint)
    return SpecMistake(f"--dynamic: {what}", axis.text, axis.at, hint)


def nobodys(axes: Axes, error: UnknownNameError) -> UsageMistake:
    """The mistake, where the exporter met a name in --dynamic that it knows nothing of."""
    what = f"--dynamic: '{error.name}' is {error.known}"
    hint = "inputs are named by --input or after forward's parameters, outputs by --outputs"
    texts = [axis.text for axis in axes.get(error.name, {}).values() if axis.text is not None]
    return SpecMistake(what, texts[0], 0, hint) if texts else UsageMistake(what, hint=hint)


def unbounded(axes: Axes) -> dict[str, dict[int, str]]:
    """The axes without bounds, in the form of `dynamic_axes`."""
    chosen = {name: {n: axis.name for n, axis in each.items() if not axis.bounded} for name, each in axes.items()}
    return {name: each for name, each in chosen.items() if each}


def bounded(axes: Axes) -> dict[str, dict[int, Any]]:
    """The axes with bounds, in the form of `dynamic_shapes`."""

    def dim(axis: Axis) -> Any:
        return Dim(axis.name, min=axis.least, max=axis.most)

    chosen = {name: {n: dim(axis) for n, axis in each.items() if axis.bounded} for name, each in axes.items()}
    return {name: each for name, each in chosen.items() if each}
