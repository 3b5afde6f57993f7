"""What a tensor says about itself while a quantised model runs.

Tensors stay plain tensors, and carry one of these as an attribute. Python code of the model that knows nothing of
quantisation passes them along; the handlers in `functions/` read them.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from torch import Tensor

from ...capture.attempt.session import is_capturing, writes_in_trace
from ...capture.memory.tensor import Traced
from ..grids.grid import Grid

if TYPE_CHECKING:
    from ..families.product import BatchNorm, Product
    from ..grids.sites import Site
    from .session import Call

ATTRIBUTE = "_onward_tag"
_WEIGHT = "_onward_weight"
_MADE = "_onward_made"
_WRITES = "_onward_writes"
_UNMARKED = object()


class Memory:
    """What tensors that may be views of one another have in common: how often it was written to. Tensors have versions
    for that, but `x.data` has one of its own."""

    __slots__ = ("writes",)

    def __init__(self) -> None:
        self.writes = 0


class _OfARun:
    """Tags belong to one run of a model. Parameters have them too, and are copied and pickled without."""

    __slots__ = ("__weakref__", "run")
    run: object

    def __reduce__(self) -> tuple[type[None], tuple[()]]:
        return type(None), ()


@dataclass(slots=True)
class OnGrid(_OfARun):
    """The values lie on a grid: `integers` are known in evaluation, in training the values alone."""

    grid: Grid | None = None
    integers: Tensor | None = None
    version: int | None = None
    memory: Memory | None = None  # if there may be views
    writes: int = 0  # of the memory, when this was said
    moved: bool = False  # the values went the way of the integers, and are not made from these
    settled: Tensor | None = None  # for one that was moved: its values made from its integers
    before: Tensor | None = None  # the values that were rounded, where the runtime has them as floats (unrounded.py)
    forms: tuple[weakref.ref[Tensor], ...] = ()  # of the waiting result that it was: they may not be views yet

    def shared(self) -> Memory:
        """Its memory, for a view."""
        if self.memory is None:
            self.memory = Memory()
        return self.memory


@dataclass(slots=True)
class Pending(_OfARun):
    """A result that waits for what follows it: an activation may still become a bound of its grid.

    call         where its range is kept, if nothing follows that has a site of its own
    requantise   the integers for an output grid (evaluation only)
    product      the product that it is, for a batch norm to be folded into
    folded       the batch norm that is in it already, since it followed the last time
    scaled       the same times a positive number, waiting too, where that is no operation of its own
    rounded      the same of rounded operands, for those that want it on its grid; None if these have changed since
    in_float     whether an operator that runs in float has read it: then that is what is put on its grid
    view         the same as a view of the result that it is another form of, for those that write to it
    is_viewed    whether it has other forms, which have to see what is written into it
    forms        those that may not be views yet
    settled      the same on its grid, once somebody asked for that
    bounded      where its range is kept as bounded by an activation
    otherwise    the same on the grid that it has where calibration saw nothing to find a range for
    """

    call: Call
    requantise: Callable[[Grid], Tensor] | None = None
    product: Product | None = None
    folded: BatchNorm | None = None
    scaled: Callable[[Tensor, float], Tensor] | None = None
    rounded: Callable[[Call], Tensor | None] | None = None
    in_float: bool = False
    view: Callable[[], Tensor] | None = None
    is_viewed: bool = False
    forms: tuple[weakref.ref[Tensor], ...] = ()
    settled: Tensor | None = None
    bounded: Site | None = None
    otherwise: Callable[[], Tensor] | None = None

    def forget(self) -> None:
        self.requantise = self.product = self.folded = self.scaled = self.rounded = self.view = self.settled = None
        self.otherwise = None


@dataclass(slots=True)
class Entered(_OfARun):
    """A tensor from outside (an input, the result of a float operation) that was put on a grid on its way in."""

    settled: Tensor
    version: int | None = None

    def forget(self) -> None:
        if hasattr(self, "settled"):
            del self.settled


@dataclass(slots=True)
class Overwritten(_OfARun):
    """A waiting result that was changed in place before anybody looked at it: `now` is what it has become.

    Nothing is written. In training autograd may still need what was there, and there are no views of it that would
    have to see the change: taking one settles a result first."""

    now: Tensor

    def forget(self) -> None:
        if hasattr(self, "now"):
            del self.now


Tag = OnGrid | Pending | Entered | Overwritten


def version_of(tensor: Tensor) -> int:
    """How often the memory of a tensor was written to, through whatever view."""
    recorded = writes_in_trace(tensor)
    if recorded is None:
        return counted(tensor)
    return recorded if isinstance(tensor, Traced) else recorded + _own_count(tensor)


def counted(tensor: Tensor) -> int:
    """The same where no model is captured. In inference mode nobody counts but we."""
    return _own_count(tensor) if tensor.is_inference() else tensor._version


def _own_count(tensor: Tensor) -> int:
    writes: int = getattr(tensor.untyped_storage(), _WRITES, 0)
    return writes


def share_memory(one: Tensor, other: Tensor) -> bool:
    """Whether tensors are views of one another, or of a third."""
    if isinstance(one, Traced) or isinstance(other, Traced):
        return isinstance(one, Traced) and isinstance(other, Traced) and one.cell is other.cell
    return one.untyped_storage()._cdata == other.untyped_storage()._cdata


def count_write(tensor: Tensor) -> None:
    """Note a write that PyTorch does not count."""
    if not isinstance(tensor, Traced) and (tensor.is_inference() or is_capturing()):
        setattr(tensor.untyped_storage(), _WRITES, _own_count(tensor) + 1)


def mark_weight(tensor: Tensor) -> Tensor:
    """Note that a tensor was worked out from weights alone. It stays so in every run."""
    setattr(tensor, _WEIGHT, version_of(tensor))
    return tensor


def is_marked_weight(tensor: Tensor) -> bool:
    """Whether it was, and was not written to since."""
    said = getattr(tensor, _WEIGHT, _UNMARKED)
    return said is not _UNMARKED and said == version_of(tensor)


def mark_made(tensor: Tensor) -> Tensor:
    """Note that a float tensor was made of no other: of numbers, sizes, integers, truth values. So are masks."""
    if tensor.is_floating_point():
        setattr(tensor, _MADE, version_of(tensor))
    return tensor


def is_made(tensor: Tensor) -> bool:
    """Whether it was, and was not written to since."""
    said = getattr(tensor, _MADE, _UNMARKED)
    return said is not _UNMARKED and said == version_of(tensor)
