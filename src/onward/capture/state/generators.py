"""Random numbers that a run draws are not used up: PyTorch's, Python's and numpy's generators go back.

A model may have generators of its own, as attributes or in its file. Those of Python and numpy are known here too: what
they draw is a plain number, which a file keeps.
"""

from __future__ import annotations

import contextlib
import pickle
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy
import torch
from torch.utils._python_dispatch import _disable_current_modes

from ..call.weights import owner
from .own_code import namespaces, reach_of


@dataclass(frozen=True)
class Generator:
    """A generator of plain numbers; its state is bytes, so that two can be compared."""

    name: str
    _get: Callable[[], Any]
    _set: Callable[[Any], Any]

    def state(self) -> bytes:
        return pickle.dumps(self._get())

    def set(self, state: bytes) -> None:
        self._set(pickle.loads(state))


def generators(model: Any) -> list[Generator]:
    """Those of the process, and those that the model's modules and files have."""
    found = [
        Generator("random", random.getstate, random.setstate),
        Generator("numpy.random", numpy.random.get_state, numpy.random.set_state),
    ]
    module = owner(model)
    spaces = [*(vars(each) for each in module.modules())] if module is not None else []
    memo = reach_of(model).memo
    if "generators" not in memo:
        memo["generators"] = _among(namespaces(model))
    own = {id(each): each for each in (*_among(spaces), *memo["generators"])}
    return [*found, *map(_own, own.values())]


_KINDS = (random.Random, numpy.random.Generator, numpy.random.RandomState)


def _among(spaces: list[dict[str, Any]]) -> list[Any]:
    return [value for names in spaces for value in list(names.values()) if isinstance(value, _KINDS)]


def _own(value: Any) -> Generator:
    if isinstance(value, numpy.random.Generator):
        bits = value.bit_generator
        return Generator(type(value).__name__, lambda: bits.state, lambda state: setattr(bits, "state", state))
    if isinstance(value, numpy.random.RandomState):
        return Generator("RandomState", value.get_state, value.set_state)
    if isinstance(value, random.SystemRandom):  # it has no state
        return Generator("SystemRandom", lambda: None, lambda state: None)
    return Generator("Random", value.getstate, value.setstate)


@contextlib.contextmanager
def generators_kept(model: Any, moved: Callable[[str], Any]) -> Iterator[None]:
    """A generator that was not moved is not touched: other threads may draw from it at this moment. `moved` is told the
    names of the others."""
    before, plain = torch.get_rng_state(), [(each, each.state()) for each in generators(model)]
    try:
        yield
    finally:
        with _disable_current_modes():
            if not torch.equal(torch.get_rng_state(), before):
                torch.set_rng_state(before)
        for generator, state in plain:
            if generator.state() != state:
                moved(generator.name)
                generator.set(state)
