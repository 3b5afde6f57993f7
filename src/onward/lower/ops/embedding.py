"""Tables looked up by number."""

from __future__ import annotations

import torch

from ..emitter import Emitter, Value
from ..registry import lowers

aten = torch.ops.aten


@lowers(aten.embedding.default)
def embedding(
    g: Emitter,
    weight: Value,
    indices: Value,
    padding_idx: int = -1,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Value:
    """embedding(Tensor weight, Tensor indices, SymInt padding_idx=-1, bool scale_grad_by_freq=False, bool sparse=False)
    -> Tensor

    The other arguments concern gradients only.
    """
    return g.op.Gather(weight, indices, axis=0)
