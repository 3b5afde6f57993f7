"""What a tensor says about itself while a quantised model runs.

Tensors stay plain tensors, and carry one of these as an attribute. Python code of the model that knows nothing of
quantisation passes them along; the handlers in `functions/` read them.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from torch import Tensor

from .grid import Grid

if TYPE_CHECKING:
    from .product import BatchNorm, Product
    from .session import Call

_ATTRIBUTE = "_onward_tag"


@dataclass
class OnGrid:
    """The values lie on a grid: `integers` are known in evaluation, in training the values alone."""

    grid: Grid | None = None
    integers: Tensor | None = None
    version: int | None = None


@dataclass
class Pending:
    """A result that waits for what follows it: an activation may still become a bound of its grid.

    call         where its range is kept, if nothing follows that has a site of its own
    requantise   the integers for an output grid (evaluation only)
    product      the product that it is, for a batch norm to be folded into
    folded       the batch norm that is in it already, since it followed the last time
    settled      the same on its grid, once somebody asked for that
    """

    call: Call
    requantise: Callable[[Grid], Tensor] | None = None
    product: Product | None = None
    folded: BatchNorm | None = None
    settled: Tensor | None = None


@dataclass
class Entered:
    """A tensor from outside (an input, the result of a float operation) that was put on a grid on its way in."""

    settled: Tensor
    version: int | None = field(default=None)


Tag = OnGrid | Pending | Entered


def put(tensor: Tensor, tag: Tag | None, run: object) -> Tensor:
    """Attach a tag (or take it off) for one run of a model, and note the state of the tensor that it speaks of."""
    if isinstance(tag, (OnGrid, Entered)):
        tag.version = _version(tensor)
    setattr(tensor, _ATTRIBUTE, (weakref.ref(run), tag))
    return tensor


def tag_of(tensor: Tensor, run: object) -> Tag | None:
    """The tag that a run of a model gave to a tensor, unless the tensor was written to since."""
    owner, tag = getattr(tensor, _ATTRIBUTE, _NONE)
    if owner is None or owner() is not run:
        return None
    if isinstance(tag, (OnGrid, Entered)) and tag.version != _version(tensor):
        return None
    return tag


_NONE = (None, None)


def _version(tensor: Tensor) -> int | None:
    return None if tensor.is_inference() else tensor._version
