"""What a run reads from its data: how long the results of `nonzero` and its kind are, and the numbers of `item()`.

A run with a forced answer computes with data that means nothing. Its loops over such results would turn more or less
often than those of the run that it is compared with, and the two would not meet again. So it reads what that run read:
at the same place, in the same turns of the loops around it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch

from .items import Place

Key = tuple[str, Place, tuple[int, ...]]  # which marks it as no answer, the place, and the turns of the loops around it
Reading = tuple[Key, Any]


class Readings:
    """The readings of one run, and those of another run that it is to follow."""

    def __init__(self, hints: Iterable[tuple[Any, tuple[Any, ...]]]) -> None:
        self._wanted = {key: list(values) for key, values in hints if is_reading(key)}
        self.made: list[Reading] = []

    def read(self, place: Place, turns: tuple[int, ...], natural: Any, *, astray: bool) -> Any:
        """A number, as the other run has read it; the run's own if it has left the example's way nowhere."""
        key = ("reads", place, turns)
        wanted = self._wanted.get(key)
        found = wanted.pop(0) if wanted else natural
        found = found if astray and type(found) is type(natural) else natural
        self.made.append((key, found))
        return found


def is_reading(key: Any) -> bool:
    """Whether a hint is for a reading, and not for an answer."""
    return bool(key) and key[0] == "reads"


def as_hints(readings: Iterable[Reading]) -> tuple[tuple[Key, tuple[Any, ...]], ...]:
    """The readings of a run for another one to follow."""
    found: dict[Key, list[Any]] = {}
    for key, value in readings:
        found.setdefault(key, []).append(value)
    return tuple((key, tuple(values)) for key, values in found.items())


def with_rows(tensor: torch.Tensor, count: int) -> torch.Tensor:
    """As many rows as another run has found; rows that are missing are like the last one."""
    if tensor.size(0) >= count:
        return tensor[:count]
    if not tensor.size(0):
        return tensor.new_zeros((count, *tensor.shape[1:]))
    return tensor[torch.arange(count).clamp(max=tensor.size(0) - 1)]
