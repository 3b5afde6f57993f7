"""Random numbers. Without a seed of its own, each node draws anew in every run."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch

from ..bridge import as_dim
from ..emitter import Emitter, Number, Size, SizeValue, Value
from ..registry import lowers
from .creation import filled

aten = torch.ops.aten


def _draw(
    g: Emitter,
    kind: str,
    sizes: Sequence[Size],
    dtype: torch.dtype | None = None,
    like: Value | None = None,
    **settings: float,
) -> Value:
    """`RandomNormal` or `RandomUniform` of the given sizes; float64 if asked for, else drawn as float32 and cast."""
    wanted = g.out_dtype if dtype is None else dtype
    drawn = torch.float64 if wanted is torch.float64 else torch.float32
    attributes: dict[str, Any] = {"dtype": drawn, **settings}
    if settings.get("scale") == 0:  # onnxruntime 1.31 dies of an assertion
        return filled(g, sizes, settings.get("mean", 0.0), wanted)
    if g.opset >= 22:
        make = _normal_by_coins if kind == "RandomNormal" else _uniform_by_coins
        result = make(g, sizes, drawn, **settings)
    elif like is not None:
        result = g.node(f"{kind}Like", [like], attributes)
    elif sizes and all(isinstance(size, int) for size in sizes):
        result = g.node(kind, [], attributes | {"shape": list(sizes)})
    else:  # sizes that vary are taken from a tensor that has them
        result = g.node(f"{kind}Like", [filled(g, sizes, 0, torch.float32)], attributes)
    dims = [as_dim(size) for size in sizes]
    result = result if None in dims else g.annotate(result, dims, drawn)  # type: ignore[arg-type]
    if kind == "RandomUniform" and wanted in (torch.float16, torch.bfloat16):
        result = g.min(result, g.const(_below(settings.get("high", 1.0), wanted), drawn))
    return g.cast(result, wanted)


def _below(end: float, dtype: torch.dtype) -> float:
    """The largest number before the end of a range, which rounding to a short type must not reach."""
    return torch.tensor(end, dtype=dtype).nextafter(torch.tensor(-math.inf, dtype=dtype)).item()


def _draw_like(g: Emitter, kind: str, x: Value, dtype: torch.dtype | None = None, **settings: float) -> Value:
    """The same, of the sizes of x."""
    return _draw(g, kind, g.known_dims(x), dtype, x, **settings)


def uniform_like(g: Emitter, x: Value, low: float, high: float) -> Value:
    """Numbers between low and high in the shape and dtype of x."""
    return _draw_like(g, "RandomUniform", x, g.dtype(x), low=low, high=high)


# onnxruntime 1.31 has no kernels for the random operators of opset 22, but one for its Dropout: toss coins.


def _uniform_by_coins(
    g: Emitter, sizes: Sequence[Size], dtype: torch.dtype, low: float = 0.0, high: float = 1.0
) -> Value:
    """As many coins as a float has digits, each worth half of the one before; their sum is below 1."""
    digits = 24 if dtype is torch.float32 else 53
    blank = filled(g, [*sizes, digits], 0, torch.float32)
    # The mask, not the values: onnxruntime's optimizer drops a Dropout whose mask is not read.
    _, coins = g.op.Dropout(blank, g.const(0.5, torch.float32), g.const(True), outputs=2)
    worth = 0.5 ** torch.arange(1, digits + 1, dtype=torch.float64)
    result = g.op.MatMul(g.cast(g.annotate(coins, g.dims(blank)), dtype), g.const_tensor(worth.to(dtype)))
    return g.op.Add(g.op.Mul(result, g.const(high - low, dtype)), g.const(low, dtype))


def _normal_by_coins(
    g: Emitter, sizes: Sequence[Size], dtype: torch.dtype, mean: float = 0.0, scale: float = 1.0
) -> Value:
    """Box and Muller's way from two uniform numbers to a normal one."""
    rest = g.op.Sub(g.const(1, dtype), _uniform_by_coins(g, sizes, dtype))  # never zero
    radius = g.op.Sqrt(g.op.Mul(g.op.Log(rest), g.const(-2.0 * scale * scale, dtype)))
    angle = g.op.Mul(_uniform_by_coins(g, sizes, dtype), g.const(2 * math.pi, dtype))
    return g.op.Add(g.op.Mul(radius, g.op.Cos(angle)), g.const(mean, dtype))


@lowers(aten.rand.default, aten.rand.generator)
def rand(g: Emitter, size: Sequence[Size], dtype: object = None) -> Value:
    """rand(SymInt[] size, *, ScalarType? dtype=None, ...) -> Tensor"""
    return _draw(g, "RandomUniform", size)


@lowers(aten.randn.default, aten.randn.generator)
def randn(g: Emitter, size: Sequence[Size], dtype: object = None) -> Value:
    """randn(SymInt[] size, *, ScalarType? dtype=None, ...) -> Tensor"""
    return _draw(g, "RandomNormal", size)


@lowers(aten.rand_like.default)
def rand_like(g: Emitter, x: Value, dtype: object = None) -> Value:
    """rand_like(Tensor self, *, ScalarType? dtype=None, ...) -> Tensor"""
    return _draw_like(g, "RandomUniform", x)


@lowers(aten.randn_like.default)
def randn_like(g: Emitter, x: Value, dtype: object = None) -> Value:
    """randn_like(Tensor self, *, ScalarType? dtype=None, ...) -> Tensor"""
    return _draw_like(g, "RandomNormal", x)


# Integers: drawn as float64, so that every integer of a wide range has its chance and the upper end is never reached.


@lowers(aten.randint.default, aten.randint.generator)
def randint(g: Emitter, high: int | SizeValue, size: Sequence[Size], dtype: object = None) -> Value:
    """randint(SymInt high, SymInt[] size, *, ScalarType? dtype=long, ...) -> Tensor"""
    return randint_low(g, 0, high, size)


@lowers(aten.randint.low, aten.randint.low_generator)
def randint_low(
    g: Emitter, low: int | SizeValue, high: int | SizeValue, size: Sequence[Size], dtype: object = None
) -> Value:
    """randint.low(SymInt low, SymInt high, SymInt[] size, *, ScalarType? dtype=long, ...) -> Tensor"""
    return _integers(g, _draw(g, "RandomUniform", size, torch.float64), low, high)


@lowers(aten.randint_like.default)
def randint_like(g: Emitter, x: Value, high: int | SizeValue, dtype: object = None) -> Value:
    """randint_like(Tensor self, SymInt high, *, ScalarType? dtype=None, ...) -> Tensor"""
    return _integers(g, _draw_like(g, "RandomUniform", x, torch.float64), 0, high)


@lowers(aten.randint_like.low_dtype)
def randint_like_low(g: Emitter, x: Value, low: int | SizeValue, high: int | SizeValue, dtype: object = None) -> Value:
    """randint_like.low_dtype(Tensor self, SymInt low, SymInt high, *, ScalarType? dtype=None, ...) -> Tensor"""
    return _integers(g, _draw_like(g, "RandomUniform", x, torch.float64), low, high)


def _integers(g: Emitter, uniform: Value, low: int | SizeValue, high: int | SizeValue) -> Value:
    span = high - low if isinstance(high, SizeValue) or isinstance(low, int) else -(low - high)
    places = g.cast(g.op.Mul(uniform, g.as_value(span, torch.float64)), torch.int64)  # the cast cuts off the fraction
    return g.op.Add(places, g.as_value(low, torch.int64))


@lowers(aten.randperm.default, aten.randperm.generator)
def randperm(g: Emitter, n: int | SizeValue, dtype: object = None) -> Value:
    """randperm(SymInt n, *, ScalarType? dtype=long, ...) -> Tensor: the order of n random numbers"""
    return g.topk(_draw(g, "RandomUniform", [n], torch.float32), n, 0)[1]


# Distributions over the shape of a tensor


@lowers(aten.bernoulli.default)
def bernoulli(g: Emitter, x: Value) -> Value:
    """bernoulli(Tensor self, *, Generator? generator=None) -> Tensor: ones with the chances x"""
    return _happens(g, x, x)


@lowers(aten.bernoulli.p)
def bernoulli_p(g: Emitter, x: Value, p: float = 0.5) -> Value:
    """bernoulli.p(Tensor self, float p, *, Generator? generator=None) -> Tensor"""
    return _happens(g, x, g.const(p, torch.float32))


@lowers(aten.bernoulli.Tensor)
def bernoulli_tensor(g: Emitter, x: Value, p: Value) -> Value:
    """bernoulli.Tensor(Tensor self, Tensor p, *, Generator? generator=None) -> Tensor"""
    return _happens(g, x, p)


def _happens(g: Emitter, like: Value, chance: Value) -> Value:
    """onnxruntime 1.31 expands opset 15's Bernoulli to just this, with more casts."""
    kind = torch.float64 if g.dtype(chance) is torch.float64 else torch.float32
    uniform = _draw_like(g, "RandomUniform", like, kind)
    return g.cast(g.op.Less(uniform, g.cast(chance, kind)), g.out_dtype)


@lowers(aten.uniform.default)
def uniform(g: Emitter, x: Value, low: float = 0, high: float = 1) -> Value:
    """uniform(Tensor self, float from=0, float to=1, *, Generator? generator=None) -> Tensor"""
    return _draw_like(g, "RandomUniform", x, low=low, high=high)


@lowers(aten.exponential.default)
def exponential(g: Emitter, x: Value, rate: float = 1) -> Value:
    """exponential(Tensor self, float lambd=1, *, Generator? generator=None) -> Tensor"""
    return _exponential(g, x, g.out_dtype, rate)


def _exponential(g: Emitter, like: Value, dtype: torch.dtype, rate: float = 1) -> Value:
    uniform = _draw_like(g, "RandomUniform", like, dtype)
    rest = g.op.Sub(g.const(1, dtype), uniform)  # never zero
    return g.op.Div(g.op.Log(rest), g.const(-rate, dtype))


@lowers(aten.cauchy.default)
def cauchy(g: Emitter, x: Value, median: float = 0, sigma: float = 1) -> Value:
    """cauchy(Tensor self, float median=0, float sigma=1, *, Generator? generator=None) -> Tensor"""
    kind = g.out_dtype
    angle = _draw_like(g, "RandomUniform", x, low=-math.pi / 2, high=math.pi / 2)
    return g.op.Add(g.op.Mul(g.op.Tan(angle), g.const(sigma, kind)), g.const(median, kind))


@lowers(aten.log_normal.default)
def log_normal(g: Emitter, x: Value, mean: float = 1, std: float = 2) -> Value:
    """log_normal(Tensor self, float mean=1, float std=2, *, Generator? generator=None) -> Tensor"""
    return g.op.Exp(_draw_like(g, "RandomNormal", x, mean=mean, scale=std))


@lowers(aten.geometric.default)
def geometric(g: Emitter, x: Value, p: float) -> Value:
    """geometric(Tensor self, float p, *, Generator? generator=None) -> Tensor: how many trials until one succeeds"""
    kind = torch.float64 if g.out_dtype is torch.float64 else torch.float32
    if p >= 1:
        return g.cast(g.op.Add(g.op.Mul(g.cast(x, kind), g.const(0, kind)), g.const(1, kind)), g.out_dtype)
    waited = _exponential(g, x, kind, -math.log1p(-p))
    return g.cast(g.op.Add(g.op.Floor(waited), g.const(1, kind)), g.out_dtype)


@lowers(aten.normal.float_float)
def normal(g: Emitter, mean: float, std: float, size: Sequence[Size], dtype: object = None) -> Value:
    """normal.float_float(float mean, float std, SymInt[] size, *, ...) -> Tensor"""
    return _draw(g, "RandomNormal", size, mean=mean, scale=std)


@lowers(aten.normal_functional.default)
def normal_functional(g: Emitter, x: Value, mean: float = 0, std: float = 1) -> Value:
    """normal_functional(Tensor self, float mean=0, float std=1, *, Generator? generator=None) -> Tensor"""
    return _draw_like(g, "RandomNormal", x, mean=mean, scale=std)


@lowers(aten.normal.Tensor_float, aten.normal.float_Tensor, aten.normal.Tensor_Tensor)
def normal_tensor(g: Emitter, mean: Value | Number, std: Value | Number = 1) -> Value:
    """normal.Tensor_float(Tensor mean, float std=1, *, Generator? generator=None) -> Tensor"""
    middle, width = g.promote(mean, std)
    if isinstance(mean, Value) and g.dims(middle) == g.out.shape:
        drawn = _draw_like(g, "RandomNormal", middle)
    else:
        drawn = _draw(g, "RandomNormal", g.out.shape)
    return g.op.Add(g.op.Mul(drawn, width), middle)


@lowers(aten.multinomial.default)
def multinomial(g: Emitter, x: Value, samples: int | SizeValue, replacement: bool = False) -> Value:
    """multinomial(Tensor self, SymInt num_samples, bool replacement=False, *, Generator? generator=None) -> Tensor"""
    weights = x if g.dtype(x) is torch.float64 else g.cast(x, torch.float32)
    if not replacement:  # in the order of a race, as if drawn one after the other
        return g.topk(_race(g, weights), samples, -1)[1]
    if g.opset >= 22 or not isinstance(samples, int):  # a race for each sample
        *rows, classes = g.known_dims(weights)
        runners = g.expand(g.unsqueeze(weights, [-2]), [*rows, samples, classes])
        return g.op.ArgMax(_race(g, runners), axis=-1, keepdims=0)
    alone = g.rank(x) == 1
    logits = g.op.Log(g.cast(g.unsqueeze(weights, [0]) if alone else weights, torch.float32))
    drawn = g.op.Multinomial(logits, sample_size=samples, dtype=torch.int64)
    return g.squeeze(g.annotate(drawn, (1, *g.out.shape)), [0]) if alone else drawn


def _race(g: Emitter, weights: Value) -> Value:
    """Each weight over an exponential draw: the chance to be the greatest is in proportion to the weight."""
    return g.op.Div(weights, _exponential(g, weights, g.dtype(weights)))
