"""Norms over the last axes, in float from grid to grid: the runtime has no integer kernel for them."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from ..session import Session
from .registry import handles


@handles(F.layer_norm, torch.layer_norm)
def layer_norm(session: Session, func: Any, input: Tensor, *args: Any, **kwargs: Any) -> Any:
    return _norm(session, "layer_norm", func, input, args, kwargs)


@handles(F.rms_norm, torch.rms_norm)
def rms_norm(session: Session, func: Any, input: Tensor, *args: Any, **kwargs: Any) -> Any:
    """Several nodes below opset 23: onnxruntime makes one of them where all read the same values (`Session.apart`)."""
    return _norm(session, "rms_norm", func, session.apart(input), args, kwargs)


def _norm(session: Session, name: str, func: Any, input: Tensor, args: Any, kwargs: Any) -> Any:
    if input.dtype is not torch.float32:
        return NotImplemented
    call = session.call(name)
    return session.finish(func(session.settle(input), *args, **kwargs), call.site("output"))
