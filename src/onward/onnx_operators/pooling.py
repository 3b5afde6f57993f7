"""Pools, and what changes the sizes of pictures."""

from __future__ import annotations

import math

from .call_sizes import CallSizes
from .record import Record, record, register
from .shared_rules import Rule, Steps


def _window(call: CallSizes) -> int:
    return math.prod(call.numbers("kernel_shape") or (1,))


register(Rule(lambda call: call.given() * _window(call)), "AveragePool", "MaxPool")
register(Rule(lambda call: 2 * call.given() * _window(call)), "LpPool")
register(Steps(1, reads=True), "Col2Im", "GlobalAveragePool", "GlobalMaxPool")
register(Steps(2, reads=True), "GlobalLpPool")


@record("Resize", "Upsample")
class Resize(Record):
    """Each element from its neighbors: two for each axis that is resized (four if cubic), each weighed and added."""

    def flops(self, call: CallSizes) -> int | None:
        mode = call.text("mode", "nearest")
        if mode == "nearest":
            return 0
        axes = sum(before != after for before, after in zip(call.x(), call.y(), strict=True))
        return 2 * call.given() * (4 if mode == "cubic" else 2) ** axes
