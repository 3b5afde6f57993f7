"""Random numbers that a run draws are not used up: PyTorch's, Python's and numpy's generators go back."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Iterator
from typing import Any

import numpy
import torch
from torch.utils._python_dispatch import _disable_current_modes


@contextlib.contextmanager
def generators_kept() -> Iterator[None]:
    """A generator that was not moved is not touched: other threads may draw from it at this moment."""
    before, python, arrays = torch.get_rng_state(), random.getstate(), numpy.random.get_state()
    try:
        yield
    finally:
        with _disable_current_modes():
            if not torch.equal(torch.get_rng_state(), before):
                torch.set_rng_state(before)
        if random.getstate() != python:
            random.setstate(python)
        if _is_moved(arrays):
            numpy.random.set_state(arrays)


def _is_moved(before: Any) -> bool:
    """Whether numpy's generator has drawn since then."""
    now = numpy.random.get_state()
    return not all(
        numpy.array_equal(one, other) if isinstance(one, numpy.ndarray) else one == other
        for one, other in zip(before, now, strict=True)
    )
