"""What a tensor says about itself while a quantized model runs.

Tensors stay plain tensors, and carry a `Label` as an attribute. Python code of the model that knows nothing of
quantization passes them along; the handlers in `families/` read what is said. A state is never changed: what becomes
known of a tensor later is a new state in the same label.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from torch import Tensor

from ...capture.memory.versions import version_of
from ..grids.grid import Grid
from ..grids.sites import Site
from .calls import Call

ATTRIBUTE = "_onward_tag"
_WEIGHT = "_onward_weight"
_MADE = "_onward_made"
_UNMARKED = object()

Forms = tuple[weakref.ref[Tensor], ...]


class Memory:
    """What tensors that may be views of one another have in common: how often it was written to. Tensors have versions
    for that, but `x.data` has one of its own."""

    __slots__ = ("writes",)

    def __init__(self) -> None:
        self.writes = 0


class OnGrid(NamedTuple):
    """The values lie on a grid: `integers` are known in evaluation, in training the values alone.

    moved     the values went the way of the integers, and are not made from these
    settled   of moved values: the values made from the integers
    before    the values that were rounded, where the runtime has them as floats (`float_values.py`)
    forms     other forms of the waiting result that it was: they may not be views yet
    """

    grid: Grid | None = None
    integers: Tensor | None = None
    moved: bool = False
    settled: Tensor | None = None
    before: Tensor | None = None
    forms: Forms = ()


class Pending(NamedTuple):
    """A result that waits for what follows it: an activation may still become a bound of its grid.

    call         where its range is kept, if nothing follows that has a site of its own
    requantize   the integers for an output grid (evaluation only)
    product      the product that it is, for a batch norm to be folded into
    unfolded     the product without the batch norm that was folded in, since it followed the last time
    scaled       this result times a positive number, waiting too, where that is no operation of its own
    rounded      the result computed from rounded operands, used by consumers that need it on a grid; it gives None if
                 the operands have changed since
    otherwise    the result on the grid that it has where calibration saw nothing to find a range for
    in_float     whether an operator that runs in float has read it: then its values are what is put on a grid
    view         makes a real view of the result that this is another form of, for those that write to it
    is_viewed    whether it has other forms, which have to see what is written into it
    forms        the other forms that may not be views yet
    settled      the result on its grid, once somebody asked for that
    bounded      where its range is kept as bounded by an activation
    """

    call: Call
    requantize: Callable[[Grid], Tensor] | None = None
    product: Product | None = None
    unfolded: Callable[[], Tensor] | None = None
    scaled: Callable[[Tensor, float], Tensor] | None = None
    rounded: Callable[[Call], Tensor | None] | None = None
    otherwise: Callable[[], Tensor] | None = None
    in_float: bool = False
    view: Callable[[], Tensor] | None = None
    is_viewed: bool = False
    forms: Forms = ()
    settled: Tensor | None = None
    bounded: Site | None = None


class Entered(NamedTuple):
    """A tensor from outside (an input, the result of a float operation) that was put on a grid on its way in."""

    settled: Tensor


class Overwritten(NamedTuple):
    """A waiting result that was changed in place before anybody looked at it: `now` is what it has become.

    Nothing is written. In training autograd may still need what was there, and there are no views of it that would
    have to see the change: taking one settles a result first."""

    now: Tensor


State = OnGrid | Pending | Entered | Overwritten


class Label:
    """What a tensor carries: its state in one run of a model, and how often its memory had been written to when the
    state was put there. Parameters carry labels, too, and are copied and pickled without.

    memory   what it shares with its views, if there may be views
    writes   those to the memory, when the state was put there
    """

    __slots__ = ("__weakref__", "memory", "run", "state", "version", "writes")

    def __init__(self, run: object, state: State, version: int | None, memory: Memory | None) -> None:
        self.run, self.state, self.version, self.memory = run, state, version, memory
        self.writes = 0 if memory is None else memory.writes

    def __reduce__(self) -> tuple[type[None], tuple[()]]:
        return type(None), ()

    def shared(self) -> Memory:
        """The memory, for a view."""
        if self.memory is None:
            self.memory = Memory()
        return self.memory


# Products


@dataclass(eq=False, slots=True)
class Product:
    """A product of an activation with a weight: its operands, and the functions that compute it.

    x            the activation, on its grid
    weight       as the module has it, or with a batch norm folded in
    channels     the axis of the weight that counts output channels
    result_axis  the axis of the result that counts them, from the end if negative
    in_float     f(x, weight, bias) with torch's own function
    in_integers  f(x, x_grid, weight, weight_grid, bias) -> sums, or None where the runtime has no integer kernel
    exact        f(x, x_grid, weight, weight_grid, bias) -> values, for products without a kernel
    spread       where one channel of the result is several channels of the sums: gives what the channel has (a scale, a
                 bias) to all of these
    woven        makes the result of such sums
    folded       the batch norm that is in what was computed already
    """

    x: Tensor
    weight: Tensor
    bias: Tensor | None
    channels: int
    result_axis: int
    in_float: Callable[[Tensor, Tensor, Tensor | None], Tensor]
    in_integers: Callable[[Tensor, Grid, Tensor, Grid, Tensor | None], Tensor] | None = None
    exact: Callable[[Tensor, Grid, Tensor, Grid, Tensor | None], Tensor] | None = None
    spread: Callable[[Tensor], Tensor] = lambda each: each
    woven: Callable[[Tensor], Tensor] = lambda sums: sums
    folded: BatchNorm | None = None

    def scaled(self, factor: Tensor, bias: Tensor | None) -> Product:
        """This product with every output channel multiplied, and another bias."""
        shape = [1] * self.weight.dim()
        shape[self.channels] = -1
        return replace(self, weight=self.weight * factor.reshape(shape), bias=bias, folded=None)


@dataclass(eq=False, slots=True)
class BatchNorm:
    """The tensors of a batch norm: what a product that it follows has to know."""

    mean: Tensor
    variance: Tensor
    weight: Tensor | None
    bias: Tensor | None
    epsilon: float

    def is_same(self, other: BatchNorm) -> bool:
        """Whether it is the batch norm of the same module, and nothing of that was replaced since."""
        mine, others = ((each.mean, each.variance, each.weight, each.bias) for each in (self, other))
        return self.epsilon == other.epsilon and all(one is two for one, two in zip(mine, others, strict=True))

    def factor(self) -> Tensor:
        """What every channel is multiplied with, by the running statistics."""
        factor = torch.rsqrt(self.variance + self.epsilon)
        return factor if self.weight is None else factor * self.weight

    def shift(self, factor: Tensor) -> Tensor:
        """What is added then."""
        shift = -self.mean * factor
        return shift if self.bias is None else shift + self.bias


# Where a tensor comes from, which stays true in every run


def mark_weight(tensor: Tensor) -> Tensor:
    """Note that a tensor was worked out from weights alone."""
    setattr(tensor, _WEIGHT, version_of(tensor))
    return tensor


def is_marked_weight(tensor: Tensor) -> bool:
    """Whether it was noted, and nobody has written to the tensor since."""
    said = getattr(tensor, _WEIGHT, _UNMARKED)
    return said is not _UNMARKED and said == version_of(tensor)


def mark_made(tensor: Tensor) -> Tensor:
    """Note that a float tensor was made of no other: of numbers, sizes, integers, truth values. So are masks."""
    if tensor.is_floating_point():
        setattr(tensor, _MADE, version_of(tensor))
    return tensor


def is_made(tensor: Tensor) -> bool:
    """Whether it was noted, and nobody has written to the tensor since."""
    said = getattr(tensor, _MADE, _UNMARKED)
    return said is not _UNMARKED and said == version_of(tensor)
