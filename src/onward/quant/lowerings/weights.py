"""Weights stored as integers."""

from __future__ import annotations

import onnx_ir as ir
import torch
from torch.nn import functional

from ...lower import lowers
from ...lower.emitter import Emitter, Value
from .core import check_type, dequantized

onward = torch.ops.onward


@lowers(onward.stored.default)
def stored(g: Emitter, q: Value, scale: Value, zero: int, dtype: str, axis: int | None, near: Value) -> Value:
    """stored(Tensor q, Tensor scale, int zero_point, str dtype, int? axis, Tensor near) -> Tensor

    Cast and Mul, which onnxruntime works out when it loads the file: a DequantizeLinear would run every time, and an
    LSTM whose weights are no constants is not packed beforehand."""
    values = g.value_of(q)
    if values is None or zero:
        check_type(g, dtype)
        return dequantized(g, q, scale, zero, axis)
    if axis is not None:
        scale = g.unsqueeze(scale, [each for each in range(g.rank(q)) if each != axis])
    return g.op.Mul(g.cast(g.const_kept(values), torch.float32), scale)


@lowers(onward.linear_blocks.default)
def linear_blocks(g: Emitter, x: Value, q: Value, scale: Value, bits: int, block: int) -> Value:
    """linear_blocks(Tensor x, Tensor q, Tensor scale, int bits, int block) -> Tensor

    onnxruntime's own operator: DequantizeLinear knows of blocks from opset 21 on."""
    values, scales = _known(g, q), _known(g, scale)
    outputs, inputs = values.shape
    short = functional.pad(values, (0, -inputs % block)).unflatten(1, (-1, block))
    stored = (short.to(torch.int16) + (1 << (bits - 1))).to(torch.uint8)
    if bits == 4:
        stored = stored[..., 0::2] | (stored[..., 1::2] << 4)
    settings = {"K": inputs, "N": outputs, "bits": bits, "block_size": block, "accuracy_level": 4}
    weights = g.const_tensor(stored.contiguous()), g.const_tensor(scales.flatten())
    y: Value = g.node("MatMulNBits", [x, *weights], settings, domain="com.microsoft")
    g.annotate(y, (*g.known_dims(x)[:-1], outputs), torch.float32)
    return y


@lowers(onward.linear_blocks.default, since=21)
def linear_blocks_21(g: Emitter, x: Value, q: Value, scale: Value, bits: int, block: int) -> Value:
    """linear_blocks(Tensor x, Tensor q, Tensor scale, int bits, int block) -> Tensor

    onnxruntime makes a MatMulNBits of it if the weight is [inputs, outputs] with blocks along the first axis, behind a
    MatMul; of a Gemm, or with a Transpose between, it does not (1.31)."""
    turned = _known(g, q).T.contiguous()
    weight = g.const_packed(turned, ir.DataType.INT4) if bits == 4 else g.const_tensor(turned)
    scales = g.const_tensor(_known(g, scale).T.contiguous())
    return g.op.MatMul(x, g.op.DequantizeLinear(weight, scales, axis=0, block_size=block))


def _known(g: Emitter, x: Value) -> torch.Tensor:
    tensor = g.value_of(x)
    if tensor is None:
        raise g.unsupported("a weight in blocks that is worked out from inputs")
    return tensor
