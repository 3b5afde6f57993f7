"""Loops that say when a turn begins: `range(n)`, and iteration over what follows an axis."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from types import FrameType, GeneratorType
from typing import Any, Protocol

import torch

from ..ground.python_loops import is_called_for_a_loop
from ..ground.source import is_library
from ..ground.threads import current
from ..sizes.sizes import SYMBOLIC

FEW = 8  # turns of a loop over plain numbers that are written one by one


class LoopRecorder(Protocol):
    """What loops tell a run that is explored, and ask of it."""

    @property
    def is_off(self) -> bool:
        """Whether what happens is no part of the run."""

    def new_loop(self) -> int:
        """A number for a loop that begins."""

    def begin_pieces(self, pieces: Sequence[torch.Tensor]) -> int:
        """A number for a loop over pieces of a tensor."""

    def turn(self, loop: int, number: int, count: Any, *, is_end: bool = False) -> None:
        """A turn of a loop begins, or there is none any more."""

    def index(self, number: int, count: Any = None) -> Any:
        """The number of a turn, as one that is followed."""

    def turns_of(self, count: Any, natural: int) -> int:
        """How many turns a loop is to have."""

    def turns_here(self) -> int | None:
        """How many turns the loop that begins here is to have, in place of those that are written."""

    def count_of(self, pieces: Sequence[torch.Tensor]) -> Any:
        """How many pieces an operator gave, as a number that follows the size."""


def counting(plain: Any, *args: Any) -> Any:
    """Python's `range`, which says when a turn begins where a run is written down."""
    tracer = current()
    recorder: LoopRecorder | None = None if tracer is None else tracer.recorder
    if recorder is None or recorder.is_off:
        return plain(*args)
    args = tuple(map(_bound, args))
    if not all(isinstance(each, (int, *SYMBOLIC)) for each in args):
        return plain(*args)
    if not any(isinstance(each, SYMBOLIC) for each in args):
        found = plain(*args)
        return Fixed(found, recorder) if len(found) > FEW and _is_looped_over() else found
    return Counting(plain, recorder, *args)


def _is_looped_over() -> bool:
    """Whether the code that calls a function goes through the result at once, and does nothing else with it."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and is_library(frame.f_code):
        frame = frame.f_back
    return frame is not None and is_called_for_a_loop(frame.f_code, frame.f_lasti)


def _bound(value: Any) -> Any:
    """What a bound is to Python: of a tensor, the number that it holds."""
    if not isinstance(value, torch.Tensor) or value.numel() != 1 or value.dtype is torch.bool:
        return value
    return value if value.is_floating_point() or value.is_complex() else value.item()


def numbered(plain: Any, items: Any, *args: Any) -> Any:
    """Python's `enumerate`, which counts the turns of such a loop with numbers that are followed."""
    tracer = current()
    recorder: LoopRecorder | None = None if tracer is None else tracer.recorder
    if recorder is None or recorder.is_off or args:
        return plain(items, *args)
    turns = iter(items)
    is_loop = isinstance(items, (Counting, Pieces)) or isinstance(turns, GeneratorType)
    count = items.count if isinstance(items, Pieces) else None
    return _numbered(recorder, turns, count) if is_loop else plain(turns)


def _numbered(recorder: LoopRecorder, turns: Iterator[Any], count: Any) -> Iterator[tuple[Any, Any]]:
    for number, each in enumerate(turns):
        yield recorder.index(number, count), each


class Counting:
    """A range whose bounds follow sizes or data: it has as many turns as in the example."""

    def __init__(self, plain: Any, recorder: LoopRecorder, *args: Any) -> None:
        self._recorder = recorder
        self._start, self._stop, self._step = (0, args[0], 1) if len(args) == 1 else (*args, 1)[:3]
        self._plain = plain(*(each.node.values[0] if isinstance(each, SYMBOLIC) else each for each in args))

    @property
    def _count(self) -> Any:
        if isinstance(self._step, SYMBOLIC):
            return len(self._plain)
        distance = self._stop - self._start if self._step > 0 else self._start - self._stop
        step = abs(self._step)
        return distance if step == 1 else (distance + (step - 1)) // step

    def __iter__(self) -> Iterator[Any]:
        return self._turns(self._start, self._step)

    def __reversed__(self) -> Iterator[Any]:
        last = self._start + (self._count - 1) * self._step
        return self._turns(last, -self._step)

    def _turns(self, start: Any, step: Any) -> Iterator[Any]:
        count, loop = self._count, self._recorder.new_loop()
        turns = self._recorder.turns_of(count, len(self._plain))
        for number in range(turns):
            self._recorder.turn(loop, number, count)
            index = self._recorder.index(number, count)
            index = index if type(step) is int and step == 1 else index * step
            yield index if type(start) is int and start == 0 else start + index
        self._recorder.turn(loop, turns, count, is_end=True)

    def __len__(self) -> int:
        return len(self._plain)

    def __getitem__(self, index: Any) -> Any:
        return self._plain[index]

    def __contains__(self, value: Any) -> bool:
        return value in self._plain


class Fixed:
    """A range of plain numbers in a `for`, which may have fewer turns in a run that is explored."""

    def __init__(self, plain: range, recorder: LoopRecorder) -> None:
        self._plain, self._recorder = plain, recorder

    def __iter__(self) -> Iterator[Any]:
        recorder, loop, count = self._recorder, self._recorder.new_loop(), len(self._plain)
        wanted = recorder.turns_here()
        for number in range(count if wanted is None else wanted):
            recorder.turn(loop, number, count)
            index = self._plain.start + self._plain.step * number
            yield index if wanted is None else recorder.index(index)
        recorder.turn(loop, count if wanted is None else wanted, count, is_end=True)


class Pieces(tuple):
    """The tensors along an axis: going through them is a loop."""

    recorder: LoopRecorder
    count: Any

    def __iter__(self) -> Iterator[Any]:
        if self.recorder.is_off:
            yield from tuple.__iter__(self)
            return
        loop = self.recorder.begin_pieces(self)
        turns = self.recorder.turns_of(self.count, len(self))
        for number, piece in zip(range(turns), tuple.__iter__(self), strict=False):
            self.recorder.turn(loop, number, self.count)
            yield piece
        self.recorder.turn(loop, turns, self.count, is_end=True)


class Numbers(list):
    """`x.tolist()` along an axis: a list of the tensors in x, each of which is read when it is taken out of it."""

    source: Pieces

    def __iter__(self) -> Iterator[Any]:
        for each in self.source:
            yield each.item()

    def __getitem__(self, index: Any) -> Any:
        found = list.__getitem__(self, index)
        return [each.item() for each in found] if isinstance(index, slice) else found.item()

    def __reversed__(self) -> Iterator[Any]:
        for each in list.__reversed__(self):
            yield each.item()


def numbers_along(recorder: LoopRecorder, tensor: Any) -> Numbers | None:
    """The numbers in a tensor whose only axis varies; None if it has none, or others."""
    if recorder.is_off or tensor.dim() != 1:
        return None
    pieces = tensor.unbind(0)
    count = recorder.count_of(pieces)
    if count is None:
        return None
    made = Numbers(pieces)
    made.source = announced(recorder, pieces, count)
    return made


def announced(recorder: LoopRecorder, pieces: Any, count: Any) -> Any:
    """The pieces as such a loop."""
    made = Pieces(pieces)
    made.recorder, made.count = recorder, count
    return made
