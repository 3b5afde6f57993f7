"""What a module that is switched off needs in order to stay in float.

onnxruntime 1.31 makes integers, with one scale, of the float weights of a Conv or Gemm that it finds between
DequantizeLinear and QuantizeLinear."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from ..session import Session
from .registry import SWITCHED_OFF, handles

_PRODUCTS = (
    F.linear, torch.addmm, F.conv1d, F.conv2d, F.conv3d,
    F.conv_transpose1d, F.conv_transpose2d, F.conv_transpose3d,
)  # fmt: skip


@handles(*_PRODUCTS, table=SWITCHED_OFF)
def product(session: Session, func: Any, *args: Any, **kwargs: Any) -> Any:
    """The multiplication by the scale stands apart from DequantizeLinear: the same values, and no such pattern."""
    return session.in_float(
        func, *(session.apart(each) if isinstance(each, Tensor) else each for each in args), **kwargs
    )
