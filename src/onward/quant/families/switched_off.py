"""What a module that is switched off needs in order to stay in float, and to be seen when it writes.

onnxruntime 1.31 makes integers, with one scale, of the float weights of a Conv or Gemm that it finds between
DequantizeLinear and QuantizeLinear."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from ..run.handlers import SWITCHED_OFF, WEIGHT_ONLY, handles
from ..run.session import Phase, Session

_PRODUCTS = (
    F.linear, torch.addmm, F.conv1d, F.conv2d, F.conv3d,
    F.conv_transpose1d, F.conv_transpose2d, F.conv_transpose3d,
)  # fmt: skip

_DATA = getattr(Tensor, "data").__get__  # noqa: B009  (mypy takes it for a tensor)


@handles(*_PRODUCTS, table=SWITCHED_OFF)
def product(session: Session, func: Any, *args: Any, **kwargs: Any) -> Any:
    """The multiplication by the scale stands apart from DequantizeLinear: the same values, and no such pattern."""
    return session.in_float(
        func, *(session.apart(each) if isinstance(each, Tensor) else each for each in args), **kwargs
    )


@handles(_DATA, table=WEIGHT_ONLY)
@handles(_DATA, table=SWITCHED_OFF)
def data(session: Session, func: Any, input: Tensor) -> Any:
    """`x.data` has a version of its own, so that nobody would know of x that it was written to."""
    return NotImplemented if session.phase is Phase.TRAIN else session.in_float(Tensor.detach, input)
