"""Convolutions, matrix products, attention and recurrent layers.

Products are counted as `torch.utils.flop_counter` does: two operations for each multiplication and addition, without
the bias.
"""

from __future__ import annotations

import math
from typing import Any

from .call_sizes import CallSizes
from .dimension_math import Operands
from .record import Record, record, register
from .shared_rules import Rule


def conv_flops(call: CallSizes, weight: int = 1) -> int:
    return 2 * call.given() * math.prod(call.x(weight)[1:])


def gemm_flops(call: CallSizes) -> int:
    return 2 * call.given() * call.x()[0 if call.number("transA", 0) else 1]


def matmul_flops(call: CallSizes) -> int:
    return 2 * call.given() * call.x()[-1]


register(Rule(conv_flops), "Conv", "ConvInteger")
register(Rule(lambda call: conv_flops(call, 3)), "QLinearConv")
register(Rule(lambda call: 2 * call.read() * math.prod(call.x(1)[1:])), "ConvTranspose")
register(Rule(matmul_flops), "MatMulInteger", "QLinearMatMul")


@record("MatMul")
class MatMul(Record):
    """A product of matrices, in batches that are broadcast."""

    def dimensions(self, operands: Operands) -> Any:
        left, right = operands.shapes[0], operands.shapes[1]
        if right is None or not left or not right:
            return None
        batch = operands.broadcast(left[:-2], right[:-2])
        return None if batch is None else (*batch, *left[-2:-1], *(right[-1:] if len(right) > 1 else ()))

    def flops(self, call: CallSizes) -> int | None:
        return matmul_flops(call)


@record("Gemm")
class Gemm(Record):
    """A product of two matrices, each possibly transposed, plus a bias."""

    def dimensions(self, operands: Operands) -> Any:
        left, right, attributes = operands.shapes[0], operands.shapes[1], operands.attributes
        if right is None:
            return None
        return left[1 if attributes.get("transA") else 0], right[0 if attributes.get("transB") else 1]

    def flops(self, call: CallSizes) -> int | None:
        return gemm_flops(call)


@record("Einsum")
class Einsum(Record):
    """A sum of products by indices."""

    def flops(self, call: CallSizes) -> int | None:
        """Two operands: every combination of indices once. More are contracted in an order of the runtime's choice."""
        equation = call.text("equation", "").replace(" ", "")
        left, _, right = equation.partition("->")
        operands = left.split(",")
        if "." in equation or len(operands) != len(call.node.inputs) or len(operands) > 2:
            return None
        sizes: dict[str, int] = {}
        for place, letters in enumerate(operands):
            for letter, size in zip(letters, call.x(place), strict=True):
                sizes[letter] = max(sizes.get(letter, 1), size)
        summed = any(letter not in right for letter in sizes) if "->" in equation else True
        every = math.prod(sizes.values())
        if len(operands) == 1:
            return every if summed else 0
        return 2 * every if summed else every


@record("Attention")
class Attention(Record):
    """Queries with keys, softmax, its rows with values. Tensors of 4 axes, or of 3 with the number of heads."""

    def flops(self, call: CallSizes) -> int | None:
        q, k, v = call.x(0), call.x(1), call.x(2)
        if len(q) == 4:
            batch, heads, length, width = q
            keys, depth = k[2], v[3]
        else:
            batch, length, heads = q[0], q[1], call.number("q_num_heads", 0)
            kv_heads = call.number("kv_num_heads", 0)
            if not heads or not kv_heads:
                return None
            width, keys, depth = q[2] // heads, k[1], v[2] // kv_heads
        keys += call.x(4)[2] if call.has(4) else 0
        scores = batch * heads * length * keys
        return 2 * scores * (width + depth) + 5 * scores


class Recurrent(Record):
    """Both products of every step, and so many operations on the state: sums of gates, activations, the new state."""

    def __init__(self, gates: int, others: int) -> None:
        self._gates, self._others = gates, others
        super().__init__()

    def flops(self, call: CallSizes) -> int | None:
        x, recurrent = call.x(0), call.x(2)
        directions, hidden = recurrent[0], recurrent[2]
        steps = x[0] * x[1]  # length and batch, in either order
        return directions * steps * (2 * self._gates * hidden * (x[2] + hidden) + self._others * hidden)


register(Recurrent(4, 13), "LSTM")
register(Recurrent(3, 11), "GRU")
register(Recurrent(1, 2), "RNN")
