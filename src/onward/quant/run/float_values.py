"""Values that operators without an integer kernel read before they are rounded.

onnxruntime computes norms and recurrences in float, and has most of what they read as floats already: an integer
product of matrices gives its sums as floats where nobody wants them rounded, these are added in float, and a norm gives
floats itself. A grid between them costs two nodes, some accuracy, and buys nothing. So the residual stream of a
transformer stays in float, and only what an integer kernel reads lies on a grid.

Whether somebody reads a sum as floats is not known when it is computed: until then it waits in both forms. Files for
chips (`QuantSession.for_a_chip`) have every grid, and so have sixteen bits, which are added up as integers.
"""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor

from .calls import Call
from .session import QuantSession
from .states import OnGrid, Pending

# Calls whose integer kernels give floats too. Those of convolutions do not, and sixteen bits have none.
_MATRICES = ("linear", "matmul", "attention")


def is_float(session: QuantSession, x: Tensor) -> bool:
    """Whether a tensor is a product of matrices that waits, or a sum with one: the runtime has it as floats."""
    tag = _undecided(session, x)
    return tag is not None and (tag.in_float or tag.rounded is not None or tag.call.is_one_of(_MATRICES))


def unrounded(session: QuantSession, x: Tensor) -> Tensor:
    """The values for an operator that runs in float. This decides about a result that waits: if something else wants it
    on a grid later on, these values are rounded."""
    tag = _undecided(session, x)
    if tag is None or not (is_float(session, x) or tag.call.is_one_of("add")):
        return before_rounding(session, session.settle(x))
    return session.learn(x, in_float=True, requantize=None, rounded=None)


def _undecided(session: QuantSession, x: Tensor) -> Pending | None:
    """The state of a tensor that waits, if what reads it first decides whether it is rounded."""
    tag = session.tag(x)
    if not isinstance(tag, Pending) or tag.settled is not None or tag.unfolded is not None or session.for_a_chip:
        return None
    return tag if tag.call.bits <= 8 else None


def before_rounding(session: QuantSession, x: Tensor) -> Tensor:
    """What a tensor on its grid was made from, where an operator gave it as floats."""
    tag = session.tag(x)
    return tag.before if isinstance(tag, OnGrid) and tag.before is not None else x


def remember(session: QuantSession, rounded: Tensor, values: Tensor, bits: int) -> Tensor:
    """Note what a tensor was before it was put on its grid."""
    tag = session.tag(rounded)
    if isinstance(tag, OnGrid) and rounded is not values and bits <= 8 and not session.for_a_chip:
        session.learn(rounded, before=values)
    return rounded


def was_read_in_float(session: QuantSession, x: Tensor) -> bool:
    """Whether an operator that runs in float has read a result that waits."""
    tag = session.tag(x)
    return isinstance(tag, Pending) and tag.in_float


def in_both_forms(
    session: QuantSession, y: Tensor, rounded: Callable[[Call], Tensor | None], was_read_in_float: bool
) -> Tensor:
    """Let a result wait as floats and, unless its operands were read in float, as the result of rounded operands."""
    return session.learn(y, in_float=was_read_in_float, rounded=None if was_read_in_float else rounded)
