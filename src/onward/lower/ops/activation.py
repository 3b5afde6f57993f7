"""Activation functions, softmax and dropout."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

from onward.capture.program.facts import SymDim

from ..emitter import Emitter, Number, Value
from ..registry import lowers
from .arithmetic import scaled
from .creation import filled
from .random import uniform_like
from .special_erf import erf

aten = torch.ops.aten

# Rectifiers


@lowers(aten.relu.default)
def relu(g: Emitter, x: Value) -> Value:
    """relu(Tensor self) -> Tensor"""
    if g.dtype(x).is_floating_point or (g.opset >= 14 and g.dtype(x) in (torch.int8, torch.int32)):
        return g.op.Relu(x)
    return g.max(x, g.like(x, 0))


@lowers(aten.relu6.default)
def relu6(g: Emitter, x: Value) -> Value:
    """relu6(Tensor self) -> Tensor"""
    return g.clip(x, 0, 6)


@lowers(aten.hardtanh.default)
def hardtanh(g: Emitter, x: Value, lo: Number = -1, hi: Number = 1) -> Value:
    """hardtanh(Tensor self, Scalar min_val=-1, Scalar max_val=1) -> Tensor"""
    return g.clip(x, lo, hi)


@lowers(aten.leaky_relu.default)
def leaky_relu(g: Emitter, x: Value, slope: float = 0.01) -> Value:
    """leaky_relu(Tensor self, Scalar negative_slope=0.01) -> Tensor"""
    if g.dtype(x) is torch.float64:  # onnxruntime 1.31 has LeakyRelu for float32 only
        return g.op.Where(g.op.Less(x, g.like(x, 0)), scaled(g, x, slope), x)
    return g.op.LeakyRelu(x, alpha=slope)


@lowers(aten.prelu.default)
def prelu(g: Emitter, x: Value, weight: Value) -> Value:
    """prelu(Tensor self, Tensor weight) -> Tensor: one slope, or one per channel (axis 1)"""
    rank = g.rank(x)
    if rank > 2 and g.known_dims(weight) not in ((), (1,)):
        weight = g.unsqueeze(weight, range(1, rank - 1))
    elif rank == 0:
        weight = g.reshape(weight, [])
    return prelu_kernel(g, x, weight)


@lowers(aten._prelu_kernel.default)
def prelu_kernel(g: Emitter, x: Value, weight: Value) -> Value:
    """_prelu_kernel(Tensor self, Tensor weight) -> Tensor"""
    if g.dtype(x) is torch.float64:  # onnxruntime 1.31 has PRelu for float32 only
        return g.op.Where(g.op.Less(x, g.like(x, 0)), g.op.Mul(x, weight), x)
    return g.op.PRelu(x, g.cast(weight, g.dtype(x)))


@lowers(aten.rrelu.default)
def rrelu(g: Emitter, x: Value, lower: float = 0.125, upper: float = 1 / 3, training: bool = False) -> Value:
    """rrelu(Tensor self, Scalar lower=0.125, Scalar upper=1/3, bool training=False, Generator? generator=None)"""
    if not training:
        return leaky_relu(g, x, (lower + upper) / 2)
    return g.op.Where(g.op.Less(x, g.like(x, 0)), g.op.Mul(x, uniform_like(g, x, lower, upper)), x)


@lowers(aten.threshold.default)
def threshold(g: Emitter, x: Value, limit: Number, value: Number) -> Value:
    """threshold(Tensor self, Scalar threshold, Scalar value) -> Tensor"""
    if limit == value:
        return relu(g, x) if limit == 0 else g.clip(x, limit, None)
    wide = _compared(g, x)
    return g.op.Where(g.less_or_equal(wide, g.like(wide, limit)), g.like(x, value), x)


def _compared(g: Emitter, x: Value) -> Value:
    """What PyTorch compares with a limit: a half-precision value in float32, so that the limit is not rounded."""
    return g.cast(x, torch.float32) if g.dtype(x) in (torch.float16, torch.bfloat16) else x


@lowers(aten.hardshrink.default)
def hardshrink(g: Emitter, x: Value, lambd: float = 0.5) -> Value:
    """hardshrink(Tensor self, Scalar lambd=0.5) -> Tensor"""
    rounded = torch.tensor(lambd, dtype=g.dtype(x)).item()  # PyTorch rounds the limit here, unlike in softshrink
    return _shrunk(g, x, rounded, 0.0)


@lowers(aten.softshrink.default)
def softshrink(g: Emitter, x: Value, lambd: float = 0.5) -> Value:
    """softshrink(Tensor self, Scalar lambd=0.5) -> Tensor"""
    return _shrunk(g, x, lambd, lambd)


def _shrunk(g: Emitter, x: Value, bound: float, bias: float) -> Value:
    """Shrink, whose attributes are float32: where a float64 has more digits, it is written out."""
    if g.dtype(x) is not torch.float64:
        return g.op.Shrink(x, lambd=bound, bias=bias)
    low, high, by = g.like(x, -bound), g.like(x, bound), g.like(x, bias)
    above = g.op.Where(g.op.Greater(x, high), g.op.Sub(x, by), g.like(x, 0))
    inner = g.op.Where(g.op.Less(x, low), g.op.Add(x, by), above)
    return g.op.Where(g.op.IsNaN(x), x, inner)


# Exponential units


@lowers(aten.elu.default)
def elu(g: Emitter, x: Value, alpha: float = 1, scale: float = 1, input_scale: float = 1) -> Value:
    """elu(Tensor self, Scalar alpha=1, Scalar scale=1, Scalar input_scale=1) -> Tensor"""
    if input_scale == 1 and g.dtype(x) is not torch.float64:
        return scaled(g, g.op.Elu(x, alpha=alpha), scale)
    grown = g.op.Sub(g.op.Exp(scaled(g, x, input_scale)), g.like(x, 1))
    return g.op.Where(g.op.Greater(x, g.like(x, 0)), scaled(g, x, scale), scaled(g, grown, alpha * scale))


@lowers(aten.selu.default)
def selu(g: Emitter, x: Value) -> Value:
    """selu(Tensor self) -> Tensor"""
    if g.dtype(x) is torch.float64:
        return elu(g, x, 1.6732632423543772848170429916717, 1.0507009873554804934193349852946)
    return g.op.Selu(x)


@lowers(aten.celu.default)
def celu(g: Emitter, x: Value, alpha: float = 1.0) -> Value:
    """celu(Tensor self, Scalar alpha=1.0) -> Tensor"""
    return scaled(g, elu(g, scaled(g, x, 1 / alpha)), alpha)


@lowers(aten.celu.default, since=12)
def celu_12(g: Emitter, x: Value, alpha: float = 1.0) -> Value:
    """celu(Tensor self, Scalar alpha=1.0) -> Tensor"""
    return celu(g, x, alpha) if g.dtype(x) is torch.float64 else g.op.Celu(x, alpha=alpha)


@lowers(aten.gelu.default)
def gelu(g: Emitter, x: Value, approximate: str = "none") -> Value:
    """gelu(Tensor self, *, str approximate='none') -> Tensor; in the forms that onnxruntime fuses into one kernel"""
    one, half = g.like(x, 1), g.like(x, 0.5)
    if approximate == "none":
        share = g.op.Div(x, g.like(x, math.sqrt(2)))
        gate = g.op.Add(erf(g, share) if g.dtype(x) is torch.float64 else g.op.Erf(share), one)
        return g.op.Mul(g.op.Mul(x, gate), half)
    if g.rank(x) == 0:  # onnxruntime 1.31 fuses it into FastGelu, which refuses a scalar
        return g.reshape(gelu(g, g.reshape(x, [1]), approximate), [])
    cube = g.op.Mul(g.op.Pow(x, g.like(x, 3)), g.like(x, 0.044715))
    gate = g.op.Add(g.op.Tanh(g.op.Mul(g.op.Add(x, cube), g.like(x, math.sqrt(2 / math.pi)))), one)
    # A model writes `x * 0.5`. The same node here would be taken away from under it by onnxruntime 1.31, in FastGelu.
    return g.op.Mul(g.op.Mul(half, x), gate)


@lowers(aten.gelu.default, since=20)
def gelu_20(g: Emitter, x: Value, approximate: str = "none") -> Value:
    """gelu(Tensor self, *, str approximate='none') -> Tensor"""
    if g.dtype(x) is torch.float64:  # onnxruntime 1.31 has Gelu for float32 only
        return gelu(g, x, approximate)
    return g.op.Gelu(x, approximate=None if approximate == "none" else approximate)


@lowers(aten.silu.default)
def silu(g: Emitter, x: Value) -> Value:
    """silu(Tensor self) -> Tensor. Opset 24's Swish is a function that runtimes expand to more than this."""
    return g.op.Mul(x, g.op.Sigmoid(x))


@lowers(aten.mish.default)
def mish(g: Emitter, x: Value) -> Value:
    """mish(Tensor self) -> Tensor"""
    return g.op.Mul(x, g.op.Tanh(_softplus(g, x)))


@lowers(aten.mish.default, since=18)
def mish_18(g: Emitter, x: Value) -> Value:
    """mish(Tensor self) -> Tensor"""
    return mish(g, x) if g.dtype(x) is torch.float64 else g.op.Mish(x)


@lowers(aten.hardsigmoid.default)
def hardsigmoid(g: Emitter, x: Value) -> Value:
    """hardsigmoid(Tensor self) -> Tensor"""
    if g.dtype(x) is torch.float64:
        return g.op.Div(g.clip(g.op.Add(x, g.like(x, 3)), 0, 6), g.like(x, 6))
    return g.op.HardSigmoid(x, alpha=1 / 6, beta=0.5)


@lowers(aten.hardswish.default)
def hardswish(g: Emitter, x: Value) -> Value:
    """hardswish(Tensor self) -> Tensor"""
    return g.op.Mul(x, hardsigmoid(g, x))


@lowers(aten.hardswish.default, since=14)
def hardswish_14(g: Emitter, x: Value) -> Value:
    """hardswish(Tensor self) -> Tensor"""
    return hardswish(g, x) if g.dtype(x) is torch.float64 else g.op.HardSwish(x)


_CLOSE_ENOUGH = 20  # beyond it, softplus(x) and x are the same float32


@lowers(aten.softplus.default)
def softplus(g: Emitter, x: Value, beta: float = 1, threshold: float = 20) -> Value:
    """softplus(Tensor self, Scalar beta=1, Scalar threshold=20) -> Tensor"""
    steep = scaled(g, x, beta)
    result = scaled(g, _softplus(g, steep), 1 / beta)
    if threshold >= _CLOSE_ENOUGH and g.dtype(x) is not torch.float64:
        return result
    wide = scaled(g, _compared(g, x), beta)
    return g.op.Where(g.op.Greater(wide, g.like(wide, threshold)), x, result)


def _softplus(g: Emitter, x: Value) -> Value:
    """log(1 + e^x). onnxruntime 1.31 has Softplus for float32 only."""
    if g.dtype(x) is not torch.float64:
        return g.op.Softplus(x)
    tail = g.op.Log(g.op.Add(g.op.Exp(g.op.Neg(g.op.Abs(x))), g.like(x, 1)))
    return g.op.Add(g.op.Relu(x), tail)


@lowers(aten.log_sigmoid.default)
def log_sigmoid(g: Emitter, x: Value) -> Value:
    """log_sigmoid(Tensor self) -> Tensor: exact also where sigmoid(x) is zero"""
    return g.op.Neg(_softplus(g, g.op.Neg(x)))


@lowers(aten.log_sigmoid_forward.default)
def log_sigmoid_forward(g: Emitter, x: Value) -> tuple[Value, Value]:
    """log_sigmoid_forward(Tensor self) -> (Tensor output, Tensor buffer); the buffer serves the backward pass only"""
    result = log_sigmoid(g, x)
    return result, g.op.Exp(g.op.Neg(g.op.Abs(x)))


@lowers(aten.glu.default)
def glu(g: Emitter, x: Value, dim: int = -1) -> Value:
    """glu(Tensor self, int dim=-1) -> Tensor"""
    axis = dim % g.rank(x)
    size = g.known_dims(x)[axis]
    if g.opset >= 18 and isinstance(size, SymDim) and g.may_be_empty(size):  # onnxruntime 1.31 parts no elements
        half = g.dim_size(x, axis) // 2
        halves: Sequence[Value] = g.split(x, [half, half], axis)
    else:
        halves = g.node("Split", [x], {"axis": axis, "num_outputs": 2 if g.opset >= 18 else None}, outputs=2)
    for each in halves:
        g.annotate(each, g.out.shape)
    return g.op.Mul(halves[0], g.op.Sigmoid(halves[1]))


# Softmax


@lowers(aten.softmax.int, aten.special_softmax.default, aten._softmax.default)
def softmax(g: Emitter, x: Value, dim: int, dtype: object = None) -> Value:
    """softmax.int(Tensor self, int dim, ScalarType? dtype=None) -> Tensor"""
    return g.softmax(g.cast(x, g.out_dtype), dim)


@lowers(aten.log_softmax.int, aten.special_log_softmax.default, aten._log_softmax.default)
def log_softmax(g: Emitter, x: Value, dim: int, dtype: object = None) -> Value:
    """log_softmax.int(Tensor self, int dim, ScalarType? dtype=None) -> Tensor"""
    return g.log_softmax(g.cast(x, g.out_dtype), dim)


# Dropout


@lowers(aten.dropout.default)
def dropout(g: Emitter, x: Value, p: float, train: bool) -> Value:
    """dropout(Tensor input, float p, bool train) -> Tensor

    Before opset 12 the operator leaves it to the runtime whether this is training.
    """
    if not train or p == 0:
        return x
    if p == 1:
        return _all_dropped(g, x)
    return _dropout(g, x, p)[0] if g.opset >= 12 else g.op.Dropout(x, ratio=p)


@lowers(aten.native_dropout.default)
def native_dropout(g: Emitter, x: Value, p: float, train: bool | None) -> tuple[Value, Value]:
    """native_dropout(Tensor input, float p, bool? train) -> (Tensor, Tensor)"""
    if train is False or p == 0:
        return x, g.expand(g.const(True), g.known_dims(x))
    if p == 1:
        return _all_dropped(g, x), g.expand(g.const(False), g.known_dims(x))
    if g.opset >= 12:
        return _dropout(g, x, p)
    kept = _kept(g, x, p, channels=False)
    return _without_dropped(g, x, kept, p), kept


def _dropout(g: Emitter, x: Value, p: float) -> tuple[Value, Value]:
    """Dropout that drops, and True where it does not."""
    found = g.node("Dropout", [x, g.const(p, torch.float32), g.const(True)], outputs=2)
    for value in found:
        g.annotate(value, g.dims(x))
    return found[0], found[1]


def _all_dropped(g: Emitter, x: Value) -> Value:
    """p = 1, which onnxruntime 1.31 refuses; nan stays nan."""
    return g.op.Mul(x, g.like(x, 0))


def _kept(g: Emitter, x: Value, p: float, *, channels: bool) -> Value:
    """True where something survives: one answer per element, or one per sample and channel."""
    shape = g.known_dims(x)
    sizes = [*shape[:2], *[1] * (len(shape) - 2)] if channels else shape
    ones = filled(g, sizes, 1, torch.float32)
    if g.opset < 12:
        return g.op.Not(g.op.Less(uniform_like(g, ones, 0.0, 1.0), g.const(p, torch.float32)))
    return _dropout(g, ones, p)[1]


def _without_dropped(g: Emitter, x: Value, kept: Value, p: float) -> Value:
    """Zero where nothing is kept; the rest scaled to make up for it."""
    return g.op.Mul(x, scaled(g, g.cast(kept, g.dtype(x)), 1 / (1 - p)))


@lowers(aten.feature_dropout.default)
def feature_dropout(g: Emitter, x: Value, p: float, train: bool) -> Value:
    """feature_dropout(Tensor input, float p, bool train) -> Tensor: whole channels at once"""
    if not train or p == 0:
        return x
    if p == 1:
        return _all_dropped(g, x)
    return _without_dropped(g, x, _kept(g, x, p, channels=True), p)


@lowers(aten.alpha_dropout.default)
def alpha_dropout(g: Emitter, x: Value, p: float, train: bool) -> Value:
    """alpha_dropout(Tensor input, float p, bool train) -> Tensor: keeps mean and variance of what selu gives"""
    return _alpha_dropout(g, x, p, channels=False) if train and p > 0 else x


@lowers(aten.feature_alpha_dropout.default)
def feature_alpha_dropout(g: Emitter, x: Value, p: float, train: bool) -> Value:
    """feature_alpha_dropout(Tensor input, float p, bool train) -> Tensor"""
    return _alpha_dropout(g, x, p, channels=True) if train and p > 0 else x


def _alpha_dropout(g: Emitter, x: Value, p: float, *, channels: bool) -> Value:
    """What is dropped becomes selu's value at minus infinity; then all is scaled and shifted back to mean 0."""
    if p == 1:
        return _all_dropped(g, x)
    lowest = -1.7580993408473766
    factor = 1 / math.sqrt((lowest**2 * p + 1) * (1 - p))
    chosen = g.op.Where(_kept(g, x, p, channels=channels), x, g.like(x, lowest))
    return g.op.Sub(scaled(g, chosen, factor), g.like(x, lowest * p * factor))
