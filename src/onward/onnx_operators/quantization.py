"""Numbers as integers with a scale, and operators of onnxruntime's own domain."""

from __future__ import annotations

from .call_sizes import CallSizes
from .products import conv_flops, gemm_flops, matmul_flops
from .record import register
from .shared_rules import KeepsSize, Rule, Steps

MICROSOFT = "com.microsoft"

register(KeepsSize(4), "QuantizeLinear")  # division, rounding, zero point, clipping
register(KeepsSize(2), "DequantizeLinear")
register(Steps(6, reads=True), "DynamicQuantizeLinear")  # and the two extremes


def _fused_matmul(call: CallSizes) -> int:
    return 2 * call.given() * call.x()[-2 if call.number("transA", 0) else -1]


def _matmul_nbits(call: CallSizes) -> int:
    return 2 * call.given() * call.number("K", 0)


register(Rule(_matmul_nbits), "MatMulBnb4", "MatMulNBits", domain=MICROSOFT)
register(Rule(_fused_matmul), "FusedMatMul", domain=MICROSOFT)
register(Rule(matmul_flops), "DynamicQuantizeMatMul", "MatMulIntegerToFloat", domain=MICROSOFT)
register(Rule(gemm_flops), "FusedGemm", "QGemm", domain=MICROSOFT)
register(Rule(conv_flops), "FusedConv", domain=MICROSOFT)
register(Steps(1), "QLinearAdd", "QLinearMul", domain=MICROSOFT)
register(Steps(2), "DequantizeLinear", domain=MICROSOFT)
register(Steps(3), "QuickGelu", domain=MICROSOFT)
register(Steps(4), "QuantizeLinear", domain=MICROSOFT)
register(Steps(5), "Gelu", domain=MICROSOFT)
