"""Products of activations of sixteen bits: no kernel takes them, so their parts are multiplied (see kernels/parts.py).

What comes out are the sums, the float32 numbers next to the whole ones, without scales.
"""

from __future__ import annotations

from typing import Any

import torch

from ...lower.emitter import Emitter, Value
from ..kernels.parts import PART, parts_fit


def is_wide(g: Emitter, *values: Value) -> bool:
    """Whether one of them has sixteen bits, which ONNX quantises from opset 21 on."""
    found = any(g.dtype(each) in (torch.uint16, torch.int16) for each in values)
    if found and g.opset < 21:
        raise g.needs_opset(21, "an activation of 16 bits")
    return found


def linear_sums(g: Emitter, x: Value, zero: int, w: Value) -> Value:
    """Of bytes, by onnxruntime's integer kernel, which is several times as fast as that for floats."""
    known = g.value_of(w)
    matrix = g.op.Transpose(w, perm=[1, 0]) if known is None else g.const_tensor(known.t().contiguous())
    sums = [g.op.MatMulInteger(q, matrix, zero_point) for q, zero_point in _bytes(g, x, zero)]
    return _joined(g, *sums, fit=known is not None and parts_fit(known))


def conv_sums(g: Emitter, x: Value, zero: int, w: Value, **how: Any) -> Value:
    """In float, whose kernels are faster than ConvInteger, where sums are small enough to be exact.

    onnxruntime 1.31 adds the result of a convolution to another one within its kernel, which rounds in between: that
    is why the second one is of the negative part, and subtracted."""
    known = g.value_of(w)
    if known is None or not parts_fit(known):
        middle = g.const(128, torch.int32)
        unsigned = g.cast(g.op.Add(g.cast(w, torch.int32), middle), torch.uint8)
        offset = g.cast(middle, torch.uint8)
        sums = [g.op.ConvInteger(q, unsigned, zero_point, offset, **how) for q, zero_point in _bytes(g, x, zero)]
        return _joined(g, *sums, fit=False)
    c = _whole(g, x, zero)
    size = g.like(c, PART)
    high = g.op.Mul(g.round(g.op.Mul(c, g.like(c, 1 / PART))), size)
    weight = g.cast(g.const_kept(known), torch.float32)
    return g.op.Sub(g.op.Conv(high, weight, **how), g.op.Conv(g.op.Sub(high, c), weight, **how))


def matmul_sums(g: Emitter, x: Value, x_zero: int, y: Value, y_zero: int) -> Value:
    """Of two activations: in float64, which has whole numbers up to 2**53."""
    wide = [g.cast(_whole(g, q, zero), torch.float64) for q, zero in ((x, x_zero), (y, y_zero))]
    return g.cast(g.op.MatMul(*wide), torch.float32)


def _whole(g: Emitter, q: Value, zero: int) -> Value:
    """The integers without their zero point, as floats."""
    return g.op.DequantizeLinear(q, g.const(1.0, torch.float32), g.const(zero, g.dtype(q)))


def _bytes(g: Emitter, q: Value, zero: int) -> list[tuple[Value, Value]]:
    """The high and the low byte, each with its zero point. A Cast keeps the low bits."""
    wide = q
    if g.dtype(q) is torch.int16:
        zero += 1 << 15
        wide = g.op.Add(g.cast(q, torch.int32), g.const(1 << 15, torch.int32))
    shifted = g.op.BitShift(g.cast(wide, torch.uint32), g.const(8, torch.uint32), direction="RIGHT")
    return [
        (g.cast(shifted, torch.uint8), g.const(zero >> 8, torch.uint8)),
        (g.cast(q, torch.uint8), g.const(zero & 255, torch.uint8)),
    ]


def _joined(g: Emitter, high: Value, low: Value, *, fit: bool) -> Value:
    """high * 256 + low, rounded once: where float32 does not have both of them, in float64."""
    dtype = torch.float32 if fit else torch.float64
    first = g.op.Mul(g.cast(high, dtype), g.const(float(PART), dtype))
    return g.cast(g.op.Add(first, g.cast(low, dtype)), torch.float32)
