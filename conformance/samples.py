"""An operator's samples as small models: its tensors are inputs, everything else is part of the model."""

from __future__ import annotations

import functools
import itertools
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch.utils import _pytree as pytree

from .invariants import INVARIANTS, free_axis, named

_DRAWN_PER_WANTED = 8  # many samples cannot be judged; look at so many before giving up


class OneCall(torch.nn.Module):
    """A single call of an operator."""

    def __init__(self, function: Any, leaves: list[Any], structure: Any) -> None:
        super().__init__()
        self._function, self._structure = function, structure
        self._places = [place for place, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]
        self._leaves = [None if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves]

    def forward(self, *tensors: torch.Tensor) -> Any:
        leaves = list(self._leaves)
        for place, tensor in zip(self._places, tensors, strict=True):
            leaves[place] = tensor
        args, kwargs = pytree.tree_unflatten(leaves, self._structure)
        return self._function(*args, **kwargs)


@dataclass(frozen=True)
class Sample:
    """A call that can be judged: what goes in, what eager gives, and the same for other values of the same sizes."""

    text: str
    model: OneCall
    inputs: tuple[torch.Tensor, ...]
    expected: list[torch.Tensor]
    other_inputs: tuple[torch.Tensor, ...] | None
    other_expected: list[torch.Tensor] | None
    invariants: Callable[[list[torch.Tensor]], list[torch.Tensor]] | None = None  # where answers are not unique
    axis: int | None = None  # along which the results name places, and equal elements may stand for each other
    complex: bool = False  # complex numbers go in or come out

    def invariants_of(self, inputs: tuple[torch.Tensor, ...]) -> Callable[..., list[torch.Tensor]] | None:
        """What is the same in all right answers to these inputs; None where there is one right answer."""
        return self.invariants if self.axis is None else functools.partial(named, inputs[0], self.axis)


def samples(info: Any, dtype: torch.dtype, count: int, seed: int = 0) -> tuple[list[Sample], Counter[str]]:
    """The first samples of an operator that can be judged, and why others before them cannot.

    Those with complex numbers come after the others and are counted apart: so many of them as well.
    """
    passed_over: Counter[str] = Counter()
    try:
        drawn, again = (_draw(info, dtype, seed + step, count * _DRAWN_PER_WANTED) for step in (0, 1))
    except Exception as error:  # the database's own generators fail for some dtypes
        passed_over[f"no samples: {type(error).__name__}"] += 1
        return [], passed_over
    found: dict[bool, list[Sample]] = {False: [], True: []}
    invariants = INVARIANTS.get(info.name)
    for (leaves, structure, text), other in itertools.zip_longest(drawn, again[: len(drawn)]):
        model = OneCall(info.op, leaves, structure).eval()
        inputs = _tensors(leaves)
        expected, reason = eager(model, inputs)
        if expected is None:
            passed_over[reason] += 1
            continue
        is_complex = any(tensor.dtype.is_complex for tensor in (*inputs, *expected))
        if len(found[is_complex]) == count:
            continue
        others = _tensors(other[0]) if other is not None and other[2] == text else None
        other_expected = eager(model, others)[0] if others is not None else None
        axis = free_axis(info.name, *pytree.tree_unflatten(leaves, structure))
        sample = Sample(
            text[:200], model, inputs, expected, others, other_expected, invariants, axis, complex=is_complex
        )
        found[is_complex].append(sample)
        if min(map(len, found.values())) == count:
            break
    return [*found[False], *found[True]], passed_over


def _draw(info: Any, dtype: torch.dtype, seed: int, count: int) -> list[tuple[list[Any], Any, str]]:
    """Samples as (leaves, structure, how they look apart from the values)."""
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)
    drawn = []
    for sample in itertools.islice(info.sample_inputs("cpu", dtype, requires_grad=False, set_seed=False), count):
        leaves, structure = pytree.tree_flatten(((sample.input, *sample.args), dict(sample.kwargs)))
        looks = [_look(leaf) for leaf in leaves]
        drawn.append((leaves, structure, str(pytree.tree_unflatten(looks, structure)).replace("'", "")))
    return drawn


def _look(leaf: Any) -> str:
    if isinstance(leaf, torch.Tensor):
        return f"{str(leaf.dtype).removeprefix('torch.')}{list(leaf.shape)}"
    return repr(leaf)


def _tensors(leaves: list[Any]) -> tuple[torch.Tensor, ...]:
    return tuple(leaf for leaf in leaves if isinstance(leaf, torch.Tensor))


def fresh(tensors: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, ...]:
    """Dense copies: values in ONNX have no strides, and a model may write to what it is given."""
    return tuple(tensor.detach().clone(memory_format=torch.contiguous_format) for tensor in tensors)


def eager(model: OneCall, inputs: tuple[torch.Tensor, ...]) -> tuple[list[torch.Tensor] | None, str]:
    """What eager gives, or why that cannot be compared with a file's answer."""
    if not inputs:
        return None, "no tensor goes in"
    if any(tensor.layout is not torch.strided or tensor.is_nested for tensor in inputs):
        return None, "sparse or nested"
    before = torch.get_rng_state()
    try:
        result = flat(model(*fresh(inputs)))
    except Exception as error:
        return None, f"eager fails: {type(error).__name__}"
    return (result, "") if torch.equal(before, torch.get_rng_state()) else (None, "random")


def flat(result: Any) -> list[torch.Tensor]:
    """The tensors and numbers of a result, as plain tensors."""
    leaves = [leaf for leaf in pytree.tree_leaves(result) if leaf is not None]
    return [torch.as_tensor(leaf).resolve_conj().resolve_neg().detach() for leaf in leaves]
