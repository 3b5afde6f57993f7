"""Norms in float."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from ...lower import lowers
from ...lower.emitter import Emitter, Value

onward = torch.ops.onward


@lowers(onward.layer_norm.default)
def layer_norm(
    g: Emitter, x: Value, shape: Sequence[Any], weight: Value | None, bias: Value | None, epsilon: float
) -> Value:
    """layer_norm(Tensor x, SymInt[] shape, Tensor? weight, Tensor? bias, float epsilon) -> Tensor"""
    return g.layer_norm(x, len(shape), weight, bias, epsilon)


@lowers(onward.instance_norm.default)
def instance_norm(g: Emitter, x: Value, weight: Value, bias: Value, epsilon: float) -> Value:
    """instance_norm(Tensor x, Tensor weight, Tensor bias, float epsilon) -> Tensor"""
    return g.op.InstanceNormalization(x, weight, bias, epsilon=epsilon)
