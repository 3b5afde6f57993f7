"""What norms that are written out (see modules.py) compute along their way, where the result has sixteen bits.

Means depend on the order of a sum, and onnxruntime's roots of floats are not always the nearest number: both are
computed in float64 and rounded once, which gives the same float32 number on either side.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ..run.handlers import INSIDE, handles
from ..run.session import Session

_IN_FLOAT64 = [
    getattr(home, name)
    for name in ("mean", "sum", "var", "std", "sqrt", "rsqrt", "pow", "reciprocal")
    for home in (torch, Tensor)
]


@handles(*_IN_FLOAT64, Tensor.__pow__, table=INSIDE)
def in_float64(session: Session, func: Any, input: Any, *args: Any, **kwargs: Any) -> Any:
    if not isinstance(input, Tensor) or input.dtype is not torch.float32 or kwargs.get("dtype") is not None:
        return NotImplemented
    return session.in_float(func, input.to(torch.float64), *args, **kwargs).to(torch.float32)
