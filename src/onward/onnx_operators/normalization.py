"""Normalizations: each element by the mean, the variance or the norm of others."""

from __future__ import annotations

from .call_sizes import CallSizes
from .record import record, register
from .shared_rules import Keeps, KeepsSize

register(KeepsSize(2), "BatchNormalization")
register(KeepsSize(3, reads=True), "LpNormalization")
register(KeepsSize(5, reads=True), "RMSNormalization")
register(KeepsSize(6, reads=True), "MeanVarianceNormalization")
register(KeepsSize(8, reads=True), "GroupNormalization", "InstanceNormalization")


@record("LayerNormalization")
class LayerNormalization(Keeps):
    """Mean and variance take 4 operations, division and root 2, scale and bias 1 each."""

    def flops(self, call: CallSizes) -> int | None:
        return call.read() * (6 + call.has(1) + call.has(2))


@record("LRN")
class LocalResponse(Keeps):
    """Each element by a power of the sum of squares of its neighbors."""

    def flops(self, call: CallSizes) -> int | None:
        return call.given() * (2 * call.number("size", 1) + 4)
