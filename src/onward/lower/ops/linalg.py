"""Matrix products."""

from __future__ import annotations

import torch

from onward.capture.program.regions import determinant

from ..emitter import Emitter, Number, SizeValue, Value
from ..registry import lowers
from .arithmetic import scaled

aten = torch.ops.aten
Scalar = Number | SizeValue


@lowers(aten.linear.default)
def linear(g: Emitter, x: Value, weight: Value, bias: Value | None = None) -> Value:
    """linear(Tensor input, Tensor weight, Tensor? bias=None) -> Tensor"""
    if g.rank(x) == 2 and g.rank(weight) == 2 and _gemm_serves(g, x, bias):
        return g.op.Gemm(x, weight, bias, transB=1)
    if g.rank(weight) == 2:
        weight = g.op.Transpose(weight, perm=[1, 0])
    product = g.matmul(x, weight)
    return product if bias is None else g.op.Add(product, bias)


def _gemm_serves(g: Emitter, x: Value, bias: Value | None) -> bool:
    """Before opset 11 Gemm needs a bias. onnxruntime 1.31 has it for floats only; MatMul takes integers as they are."""
    return g.dtype(x).is_floating_point and (bias is not None or g.opset >= 11)


@lowers(aten.matmul.default, aten.linalg_matmul.default, aten.mm.default, aten.bmm.default, aten.mv.default)
@lowers(aten.dot.default, aten.vdot.default)
def matmul(g: Emitter, x: Value, y: Value) -> Value:
    """matmul(Tensor self, Tensor other) -> Tensor"""
    return g.matmul(x, y)


@lowers(aten.mm.dtype, aten.bmm.dtype)
def matmul_dtype(g: Emitter, x: Value, y: Value, out_dtype: torch.dtype) -> Value:
    """mm.dtype(Tensor self, Tensor mat2, ScalarType out_dtype) -> Tensor"""
    return g.matmul(g.cast(x, out_dtype), g.cast(y, out_dtype))


@lowers(aten.outer.default, aten.ger.default)
def outer(g: Emitter, x: Value, y: Value) -> Value:
    """outer(Tensor self, Tensor vec2) -> Tensor"""
    x, y = g.promote(x, y)
    return g.op.Mul(g.unsqueeze(x, [1]), y)


@lowers(aten.addmm.default)
def addmm(g: Emitter, bias: Value, x: Value, y: Value, *, beta: Scalar = 1, alpha: Scalar = 1) -> Value:
    """addmm(Tensor self, Tensor mat1, Tensor mat2, *, Scalar beta=1, Scalar alpha=1) -> Tensor"""
    counted = None if beta == 0 else bias
    known = isinstance(beta, (int, float)) and isinstance(alpha, (int, float))  # Gemm's factors are attributes
    if not known or not _gemm_serves(g, x, counted):
        return _scaled_sum(g, bias, g.op.MatMul(x, y), beta, alpha)
    x, flip_x = _untransposed(x)
    y, flip_y = _untransposed(y)
    factors = {"alpha": None if alpha == 1 else _plain(alpha), "beta": None if beta in (0, 1) else _plain(beta)}
    return g.op.Gemm(x, y, counted, transA=flip_x, transB=flip_y, **factors)


def _plain(factor: Scalar) -> float:
    assert isinstance(factor, (int, float))
    return float(factor)


def _untransposed(x: Value) -> tuple[Value, int | None]:
    """A matrix, and 1 if Gemm has to turn it: a transpose before a Gemm needs no node."""
    node = x.producer()
    if node is not None and node.op_type == "Transpose" and list(node.attributes["perm"].as_ints()) == [1, 0]:
        source = node.inputs[0]
        if source is not None:
            return source, 1
    return x, None


def _scaled_sum(g: Emitter, x: Value, product: Value, beta: Scalar, alpha: Scalar) -> Value:
    """beta * x + alpha * product; beta 0 means that x does not count, even where it is not a number."""
    product = scaled(g, product, alpha)
    if isinstance(beta, (int, float)):
        return product if beta == 0 else g.op.Add(scaled(g, x, beta), product)
    factor = g.as_value(beta, g.dtype(x))
    counted = g.where(g.equal(factor, g.like(x, 0)), g.like(x, 0), g.op.Mul(x, factor))
    return g.op.Add(counted, product)


@lowers(aten.baddbmm.default, aten.addmv.default)
def baddbmm(g: Emitter, x: Value, batch1: Value, batch2: Value, *, beta: Scalar = 1, alpha: Scalar = 1) -> Value:
    """baddbmm(Tensor self, Tensor batch1, Tensor batch2, *, Scalar beta=1, Scalar alpha=1) -> Tensor"""
    return _scaled_sum(g, x, g.matmul(batch1, batch2), beta, alpha)


@lowers(aten.addbmm.default)
def addbmm(g: Emitter, x: Value, batch1: Value, batch2: Value, *, beta: Scalar = 1, alpha: Scalar = 1) -> Value:
    """addbmm(Tensor self, Tensor batch1, Tensor batch2, *, Scalar beta=1, Scalar alpha=1) -> Tensor"""
    product = g.reduce("ReduceSum", g.op.MatMul(batch1, batch2), [0])
    return _scaled_sum(g, x, product, beta, alpha)


@lowers(aten.addr.default)
def addr(g: Emitter, x: Value, vec1: Value, vec2: Value, *, beta: Scalar = 1, alpha: Scalar = 1) -> Value:
    """addr(Tensor self, Tensor vec1, Tensor vec2, *, Scalar beta=1, Scalar alpha=1) -> Tensor"""
    x, vec1, vec2 = g.promote(x, vec1, vec2)
    return _scaled_sum(g, x, g.op.Mul(g.unsqueeze(vec1, [1]), vec2), beta, alpha)


@lowers(determinant, since=11)
def det(g: Emitter, x: Value) -> Value:
    """determinant(Tensor matrices) -> Tensor"""
    return g.op.Det(x)
