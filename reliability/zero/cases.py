"""What is asked: a model, an example, and axes of one name that are 0 in the run."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch

from conformance.operators import database, takes
from conformance.samples import flat, fresh, samples
from onward.capture.ground.size_checks import Checked

from . import layers

SAMPLES = 2  # of one operator in one type
Axes = frozenset[tuple[int, int]]  # (which input, which axis)


@dataclass(frozen=True)
class Case:
    """expected  is what PyTorch gives for `inputs`, which are without elements along the axes"""

    text: str
    model: Any
    example: tuple[torch.Tensor, ...]
    axes: Axes
    inputs: tuple[torch.Tensor, ...]
    expected: tuple[torch.Tensor, ...]

    def dynamic_axes(self) -> dict[str, dict[int, str]]:
        named: dict[str, dict[int, str]] = {}
        for place, axis in sorted(self.axes):
            named.setdefault(f"in_{place}", {})[axis] = "n"
        return named


def subjects(dtype: str) -> list[str]:
    """The names of all operators that have a type, and of all layers."""
    operators = [key for key, info in database().items() if takes(info, getattr(torch, dtype))]
    return operators + ([f"nn.{name}" for name in layers.names()] if dtype == "float32" else [])


@functools.lru_cache(maxsize=2)
def cases(subject: str, dtype: str) -> list[Case]:
    """Everything that is asked about an operator or a layer; always the same, in the same order."""
    if subject.startswith("nn.") and subject[3:] in layers.names():
        model, example = layers.layer(subject[3:])
        return list(_cases(str(list(example[0].shape)), model, example))
    drawn, _ = samples(database()[subject], getattr(torch, dtype), SAMPLES)
    found: dict[str, Case] = {}
    for sample in drawn:
        if not sample.complex:
            for case in _cases(sample.text, sample.model, fresh(sample.inputs)):
                found.setdefault(case.text, case)
    return list(found.values())


def _cases(text: str, model: Any, example: tuple[torch.Tensor, ...]) -> Iterator[Case]:
    tried: set[Axes] = set()
    for place, tensor in enumerate(example):
        for axis in range(tensor.dim()):
            if tensor.shape[axis] < 2:
                continue
            for axes in _groups(example, place, axis):
                inputs = _emptied(example, axes)
                expected = _eager(model, inputs)
                if expected is None:
                    continue
                if axes not in tried:
                    tried.add(axes)
                    shown = ", ".join(f"axis {each} of input {at}" for at, each in sorted(axes))
                    yield Case(f"{text}, {shown}", model, example, axes, inputs, expected)
                break


def _groups(example: tuple[torch.Tensor, ...], place: int, axis: int) -> Iterator[Axes]:
    """An axis alone, or with those of other inputs that may have to have its size."""
    tensor = example[place]
    yield frozenset({(place, axis)})
    everywhere = [
        (at, each)
        for at, other in enumerate(example)
        for each in range(other.dim())
        if other.shape[each] == tensor.shape[axis]
    ]
    yield frozenset(
        (at, each) for at, each in everywhere if each - example[at].dim() == axis - tensor.dim()
    )  # the same axis counted from the end
    yield frozenset((at, each) for at, each in everywhere if each == axis)
    yield frozenset(everywhere)


def _emptied(example: tuple[torch.Tensor, ...], axes: Axes) -> tuple[torch.Tensor, ...]:
    emptied = list(example)
    for place, axis in axes:
        emptied[place] = emptied[place].narrow(axis, 0, 0)
    return fresh(tuple(emptied))


def _eager(model: Any, inputs: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, ...] | None:
    """What PyTorch gives; None where it refuses, and where the answer is drawn by chance."""
    before = torch.get_rng_state()
    try:
        with torch.no_grad(), Checked():  # some kernels die of sizes that do not fit
            results = tuple(flat(model(*fresh(inputs))))
    except Exception:
        return None
    return results if torch.equal(before, torch.get_rng_state()) else None
