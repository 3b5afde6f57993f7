"""Norms over the last axes, in float: the runtime has no integer kernel for them. What they give lies on a grid; what a
layer norm reads is rounded only where something else wants it so. With sixteen bits, which show it, sums are exact."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from .. import ops
from ..run.float_values import remember, unrounded
from ..run.handlers import handles
from ..run.session import Phase, Session
from .statistics import normalised, scaled


@handles(F.layer_norm, torch.layer_norm)
def layer_norm(
    session: Session,
    func: Any,
    input: Tensor,
    normalized_shape: Sequence[int],
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
    cudnn_enable: bool = True,
) -> Any:
    if input.dtype is not torch.float32:
        return NotImplemented
    call = session.call("layer_norm")
    bits = call.settings.activations.bits
    x = unrounded(session, input) if bits <= 8 else session.settle(input)
    found = session.wide_integers(x, call.settings)
    if found is not None:
        y = scaled(normalised(*found, _last(normalized_shape), eps), weight, bias)
    else:
        is_exact = session.phase is Phase.EXACT and not session.for_a_chip
        y = (ops.layer_norm if is_exact else F.layer_norm)(x, list(normalized_shape), weight, bias, eps)
    return remember(session, session.finish(y, call.site("output")), y, bits)


@handles(F.rms_norm, torch.rms_norm)
def rms_norm(
    session: Session,
    func: Any,
    input: Tensor,
    normalized_shape: Sequence[int],
    weight: Tensor | None = None,
    eps: float | None = None,
) -> Any:
    """Several nodes below opset 23: onnxruntime makes one of them where all read the same values (`Session.apart`)."""
    if input.dtype is not torch.float32:
        return NotImplemented
    call = session.call("rms_norm")
    x = session.settle(input)
    found = session.wide_integers(x, call.settings)
    if found is None:
        y = F.rms_norm(session.apart(x), list(normalized_shape), weight, eps)
    else:
        epsilon = torch.finfo(torch.float32).eps if eps is None else eps
        y = scaled(normalised(*found, _last(normalized_shape), epsilon, centre=False), weight, None)
    return session.finish(y, call.site("output"))


def _last(shape: Sequence[int]) -> list[int]:
    return list(range(-len(shape), 0))
