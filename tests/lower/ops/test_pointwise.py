"""Functions of one tensor and arithmetic on several, at every opset and in every dtype that eager has."""

from __future__ import annotations

import math

import pytest
import torch

import onward
from tests.opsets import NEWEST

from ..harness import SOME_OPSETS, bools, case, f32, floats, ints, run

INF, NAN = math.inf, math.nan
FEW = (9, 13, 18, NEWEST)
BATCH = {0: {0: "batch"}}
PAIR = {0: {0: "batch"}, 1: {0: "batch"}}

special = torch.tensor([NAN, INF, -INF, 0.0, -0.0, 1.5, -1.5, 3.0])
steps = torch.tensor([-2.5, -1.5, -0.7, -0.5, 0.0, 0.3, 0.5, 1.5, 2.5, 3.2]).reshape(2, 5)
inside = torch.linspace(-0.95, 0.95, 12).reshape(3, 4)
positive = f32(3, 4).abs() + 0.1
low = torch.tensor([0, 1, 7, 100, 200, 255], dtype=torch.uint8)

UNARY = [
    (torch.neg, f32(3, 4)),
    (torch.abs, f32(3, 4)),
    (torch.sign, steps),
    (torch.sgn, steps),
    (torch.signbit, steps),
    (torch.reciprocal, positive),
    (torch.sqrt, positive),
    (torch.rsqrt, positive),
    (torch.square, f32(3, 4)),
    (torch.exp, f32(3, 4)),
    (torch.exp2, f32(3, 4)),
    (torch.expm1, f32(3, 4)),
    (torch.log, positive),
    (torch.log2, positive),
    (torch.log10, positive),
    (torch.log1p, positive),
    (torch.sin, f32(3, 4)),
    (torch.cos, f32(3, 4)),
    (torch.tan, inside),
    (torch.asin, inside),
    (torch.acos, inside),
    (torch.atan, f32(3, 4)),
    (torch.sinh, f32(3, 4)),
    (torch.cosh, f32(3, 4)),
    (torch.tanh, f32(3, 4)),
    (torch.asinh, f32(3, 4)),
    (torch.acosh, positive + 1),
    (torch.atanh, inside),
    (torch.erf, f32(3, 4)),
    (torch.erfc, f32(3, 4)),
    (torch.sigmoid, f32(3, 4)),
    (torch.ceil, steps),
    (torch.floor, steps),
    (torch.round, steps),
    (torch.trunc, steps),
    (torch.frac, steps),
    (torch.sinc, steps),
    (torch.deg2rad, f32(3, 4)),
    (torch.rad2deg, f32(3, 4)),
    (torch.isnan, special),
    (torch.isinf, special),
    (torch.isposinf, special),
    (torch.isneginf, special),
    (torch.isfinite, special),
    (torch.nan_to_num, special),
    (torch.positive, f32(3, 4)),
]

PLAIN = [case(function.__name__, function, [x], dynamic=BATCH) for function, x in UNARY]
WIDE = [case(f"{function.__name__} float64", function, [x.double()], opsets=FEW) for function, x in UNARY]
HALF = [case(f"{function.__name__} float16", function, [x.half()], opsets=(9, 17, NEWEST)) for function, x in UNARY]
OF_INTEGERS = [
    case(f"{name} of {dtype}", getattr(torch, name), [ints(2, 3, low=1).to(dtype)], opsets=FEW)
    for name in ("sqrt", "exp", "sigmoid", "reciprocal", "tan", "erf", "isnan", "isinf", "isfinite", "deg2rad", "log2")
    for dtype in (torch.int64, torch.int32, torch.bool)
] + [
    case(f"{name} of {dtype}", getattr(torch, name), [ints(2, 3).to(dtype)], opsets=FEW)
    for name in ("neg", "abs", "sign", "ceil", "floor", "trunc", "square", "nan_to_num", "positive")
    for dtype in (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)
]

VARIANTS = [
    case("round to decimals", lambda x: (x.round(decimals=2), x.round(decimals=-1)), [f32(3, 4) * 30]),
    case("logit", lambda x: torch.logit(x), [inside.abs()]),
    case("logit with eps", lambda x: torch.logit(x, eps=0.1), [inside.abs()], opsets=SOME_OPSETS),
    case("nan_to_num with values", lambda x: torch.nan_to_num(x, 1.0, 2.0, -3.0), [special]),
    case("nan_to_num with one value", lambda x: torch.nan_to_num(x, posinf=5.0), [special], opsets=SOME_OPSETS),
    case("near zero", lambda x: (torch.log1p(x) * 1e7, torch.expm1(x) * 1e7), [f32(3, 4) * 1e-7], opsets=SOME_OPSETS),
    case("far out", lambda x: (torch.log1p(x.abs()), torch.expm1(x)), [special], opsets=SOME_OPSETS),
    case("sign of nan is zero", torch.sign, [special]),
    case("sign of big integers", torch.sign, [torch.tensor([2**32 - 1, -(2**32), 2**31, -1, 0])], opsets=SOME_OPSETS),
    case("sign of bool is itself", lambda x: x.sign(), [bools(2, 3)], opsets=FEW),
    case("aliases", lambda x: (torch.arcsin(x), torch.arctanh(x), torch.absolute(x), torch.negative(x)), [inside],
         opsets=FEW),
    case("special", lambda x: (torch.special.expit(x), torch.special.exp2(x), torch.special.log1p(x)), [inside],
         opsets=FEW),
    case("0-d", lambda x: (x.sqrt(), x.round(), x.tan()), [torch.tensor(1.5)], opsets=FEW),
    case("bfloat16", lambda x: (x.exp(), x.floor(), x.erf(), x.neg()), [floats(3, 4, dtype=torch.bfloat16)],
         opsets=(13, 17, NEWEST)),
]  # fmt: skip

ARITHMETIC = [
    case("add", torch.add, [f32(2, 3), f32(2, 3, seed=1)], dynamic=PAIR),
    case("add with alpha", lambda x, y: torch.add(x, y, alpha=2.5), [f32(2, 3), f32(3, seed=1)], dynamic=BATCH),
    case("add a number", lambda x: (x + 2, 2.5 + x, torch.add(x, 3, alpha=2)), [f32(2, 3)]),
    case("add to integers", lambda x: (x + 2, x + 2.5, x + True), [ints(2, 3)]),
    case("add of bools", lambda x, y: (x + y, x * y, x + 1), [bools(4), bools(4, seed=3)], opsets=SOME_OPSETS),
    case("add a size", lambda x: x + x.shape[0], [f32(2, 3)], dynamic=BATCH),
    case("mul by a size", lambda x: (x * x.shape[0], x / x.shape[0], x ** x.shape[0]), [positive], dynamic=BATCH),
    case("sub", torch.sub, [f32(2, 3), f32(2, 3, seed=1)], dynamic=PAIR),
    case("sub with alpha", lambda x, y: torch.sub(x, y, alpha=2), [ints(2, 3), ints(3, seed=1)], dynamic=BATCH),
    case("rsub", lambda x: (1 - x, torch.rsub(x, 2, alpha=3)), [f32(2, 3)], dynamic=BATCH),
    case("rsub tensors", lambda x, y: torch.rsub(x, y, alpha=3), [f32(2, 3), f32(2, 3, seed=1)], opsets=FEW),
    case("mul", torch.mul, [f32(2, 3), f32(2, 3, seed=1)], dynamic=PAIR),
    case("mul of mixed dtypes", torch.mul, [ints(2, 3), f32(2, 3)], opsets=SOME_OPSETS),
    case("div", torch.div, [f32(2, 3), positive[:2, :3]], dynamic=PAIR),
    case("div of integers", lambda x, y: (x / y, x / 2), [ints(2, 3), ints(2, 3, low=1)]),
    case("uint8 wraps", lambda x: (x + 100, x * 3, x - 50, -x), [low], opsets=SOME_OPSETS),
    case("int8", lambda x: (x + 1, x * 2, x - 3), [ints(4, dtype=torch.int8)], opsets=SOME_OPSETS),
    case("0-d with tensor", lambda x, y: (x + y, x * y), [f32(2, 3), torch.tensor(2.0, dtype=torch.float64)],
         opsets=FEW),
    case("float16", lambda x, y: (x + y, x * y, x / y.abs(), torch.maximum(x, y)),
         [floats(2, 3, dtype=torch.float16), floats(2, 3, dtype=torch.float16, seed=1)], opsets=SOME_OPSETS),
    case("bfloat16", lambda x, y: (x + y, x * y, x - 1), [floats(2, 3, dtype=torch.bfloat16)] * 2,
         opsets=(13, 17, NEWEST)),
    case("aliases", lambda x, y: (torch.subtract(x, y), torch.multiply(x, y), torch.divide(x, y)),
         [f32(2, 3), positive[:2, :3]], opsets=FEW),
]  # fmt: skip

signed = ints(4, 6)
divisors = torch.tensor([1, -2, 3, -4, 5, -7])
fractions, fraction_divisors = f32(4, 6) * 5, torch.tensor([0.3, -0.3, 1.7, -2.0, 0.1, 4.0])
DIVISION = [
    case(f"{mode} division of {kind}", lambda x, y, m=mode: torch.div(x, y, rounding_mode=m), [x, y], dynamic=BATCH)
    for mode in ("floor", "trunc")
    for kind, x, y in (("integers", signed, divisors), ("floats", fractions, fraction_divisors))
] + [
    case("rounding mode None", lambda x: torch.div(x, 3, rounding_mode=None), [signed], opsets=FEW),
    case("division by a number",
         lambda x: (x // 3, x // -3, torch.div(x, 4, rounding_mode="trunc"), x // 2.5), [signed]),
    case("float division by a number", lambda x: (x // 0.1, x // -0.3, x // 2, x // 1), [fractions]),
    *(case(f"division of {dtype} by a number",
           lambda x: (x // 0.1, x // -0.3, torch.div(x, 0.1, rounding_mode="trunc"), x // 2, x % 0.1),
           [torch.tensor([1.5, 0.9, -1.2, 0.3, 7.0, 0.0], dtype=dtype)], opsets=opsets)
      for dtype, opsets in ((torch.float16, FEW), (torch.bfloat16, (13, 20)))),
    case("floor division rounds by the remainder", lambda x, y: x // y, [torch.tensor([1.0]), torch.tensor([0.1])]),
    case("floor division by zero", lambda x, y: x // y, [torch.tensor([1.0, -1, 2]), torch.tensor([0.0, 0, 2])],
         opsets=SOME_OPSETS),
    case("floor division of uint8", lambda x: (x // 7, x % 7), [low], opsets=SOME_OPSETS),
    case("floor division of int32", lambda x, y: (x // y, x % y), [signed.int(), divisors.int()], opsets=SOME_OPSETS),
    case("division of big integers", lambda x, y: (x // y, x % y, torch.fmod(x, y)),
         [torch.tensor([2**53 + 1, -(2**40) - 3, 2**62 - 1]), torch.tensor([-(2**33) + 1, 2**34 + 5, 2**61 + 3])],
         opsets=SOME_OPSETS),
    case("remainder of integers", torch.remainder, [signed, divisors], dynamic=BATCH),
    case("remainder of floats", torch.remainder, [fractions, fraction_divisors], dynamic=BATCH),
    case("remainder by a number", lambda x: (x % 3, x % -3, 7 % x.abs().clamp(min=1)), [signed]),
    case("float remainder by a number", lambda x: (x % 2.5, x % -2.5), [fractions]),
    case("fmod of integers", torch.fmod, [signed, divisors]),
    case("fmod of floats", torch.fmod, [fractions, fraction_divisors]),
    case("fmod by a number", lambda x: torch.fmod(x, 2), [signed], opsets=SOME_OPSETS),
    case("remainder float16", lambda x: x % 3, [fractions.half()], opsets=FEW),
]  # fmt: skip

POWERS = [
    case("numbers", lambda x: (x**2, x**3, x**0.5, x**-1, x**-0.5, x**-2, x**2.5, x**0, x**1), [positive]),
    case("dynamic", lambda x: x**3, [f32(2, 3)], dynamic=BATCH),
    case("tensors", torch.pow, [positive, f32(3, 4)], dynamic=PAIR),
    case("a number to tensors", lambda x: (2**x, 2.5**x), [f32(2, 3)]),
    case("integers", lambda x: (x**0, x**1, x**2, x**3, x**4, x**5), [ints(2, 3)]),
    case("integers to floats", lambda x: (x.abs() ** 0.5, x**2.0, 2**x), [ints(2, 3, low=1)]),
    case("integer tensors", torch.pow, [ints(2, 3), ints(2, 3, low=0, high=5)], opsets=SOME_OPSETS),
    case("int32 and int8", lambda x, y: (x**2, y**3), [ints(3, dtype=torch.int32), ints(3, dtype=torch.int8)],
         opsets=SOME_OPSETS),
    case("float64", lambda x: (x**2.5, x**3), [positive.double()], opsets=FEW),
    case("float_power", lambda x: torch.float_power(x, 3), [ints(2, 3)], opsets=FEW),
]  # fmt: skip

with_nan = torch.tensor([[NAN, 1.0, -2.0, 5.0], [0.5, NAN, 3.0, -4.0]])
EXTREMES = [
    case("maximum", torch.maximum, [f32(2, 3), f32(2, 3, seed=1)], dynamic=PAIR),
    case("minimum", torch.minimum, [f32(2, 3), f32(3, seed=1)], dynamic=BATCH),
    case("max and min of two", lambda x, y: (torch.max(x, y), torch.min(x, y)), [f32(2, 3), f32(2, 3, seed=1)]),
    case("keep nan", lambda x, y: (torch.maximum(x, y), torch.minimum(x, y)), [with_nan, f32(2, 4)]),
    case("fmax and fmin skip nan", lambda x, y: (torch.fmax(x, y), torch.fmin(x, y)), [with_nan, f32(2, 4)]),
    case("of big integers", lambda x, y: (torch.maximum(x, y), torch.minimum(x, y), x.clamp(-1, 1), x.clamp(min=0)),
         [torch.tensor([2**32 - 1, -(2**32), 2**31, 2**62]), torch.tensor([1, -1, 0, 2**62 + 1])], opsets=SOME_OPSETS),
    case("mixed dtypes", torch.maximum, [ints(2, 3), f32(2, 3)], opsets=FEW),
    *(case(f"of {dtype}", lambda x, y: (torch.maximum(x, y), torch.minimum(x, y)),
           [ints(6).to(dtype), ints(6, seed=1).to(dtype)], opsets=SOME_OPSETS)
      for dtype in (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool, torch.float64)),
    case("clamp", lambda x: (x.clamp(-0.5, 0.5), x.clamp(min=0), x.clamp(max=0)), [f32(2, 3)], dynamic=BATCH),
    case("clamp keeps nan", lambda x: x.clamp(-1, 2), [with_nan]),
    case("clamp keeps infinity", lambda x: (x.clamp(min=0), x.clamp(max=0), x.double().clamp(min=0)), [special]),
    case("clamp_min and clamp_max", lambda x: (x.clamp_min(0.1), x.clamp_max(0.1)), [f32(2, 3)]),
    case("clamp by tensors", torch.clamp, [f32(2, 3), -f32(2, 3, seed=1).abs(), f32(3, seed=2).abs()], dynamic=PAIR),
    case("clamp by one tensor", lambda x, y: (x.clamp(min=y), x.clamp_max(y)), [f32(2, 3), f32(3)]),
    case("clamp by a 0-d tensor", lambda x, y: x.clamp(max=y), [f32(2, 3), torch.tensor(0.2)]),
    case("clamp, the greater bound first", lambda x: x.clamp(2, -2), [f32(2, 3)]),
    case("clamp integers", lambda x: (x.clamp(-2, 3), x.clamp(min=0), x.clamp(max=2)), [ints(2, 3)]),
    case("clamp integers by floats", lambda x: x.clamp(-1.5, 2.5), [ints(2, 3)], opsets=SOME_OPSETS),
    case("clamp by a size", lambda x: x.clamp(max=x.shape[0] - 3), [f32(2, 3)], dynamic=BATCH, opsets=SOME_OPSETS),
    *(case(f"clamp {dtype}", lambda x: x.clamp(1, 5), [ints(6, low=0).to(dtype)], opsets=SOME_OPSETS)
      for dtype in (torch.int32, torch.int16, torch.int8, torch.uint8, torch.float64, torch.float16)),
]  # fmt: skip

points, others = f32(5, 4), f32(5, 4, seed=1)
axes = (
    torch.tensor([0.0, 0.0, 0.0, 1.0, -1.0, 1.0, -1.0, -1.0]),
    torch.tensor([0.0, 1.0, -1.0, 0.0, 0.0, 1.0, 1.0, -1.0]),
)
MORE = [
    case("lerp", lambda x, y: (torch.lerp(x, y, 0.3), torch.lerp(x, y, 0.9)), [points, others], dynamic=PAIR),
    case("lerp by a tensor", torch.lerp, [points, others, f32(5, 4, seed=2)]),
    case("addcmul", lambda x, y, z: torch.addcmul(x, y, z, value=0.5), [points, others, others]),
    case("addcmul of integers", lambda x, y: torch.addcmul(x, y, y, value=2), [ints(2, 3), ints(3)], opsets=FEW),
    case("addcdiv", lambda x, y, z: torch.addcdiv(x, y, z, value=0.5), [points, others, positive[:1]]),
    case("atan2", torch.atan2, [points, others], dynamic=PAIR),
    case("atan2 on the axes", torch.atan2, list(axes)),
    case("atan2 of signed zeros and infinities",
         lambda x: (torch.atan2(x[:, None], x).sign(), torch.atan2(x[:, None], x), torch.atan2(x, x)),
         [torch.tensor([0.0, -0.0, 1.0, -2.0, INF, -INF, NAN])]),
    case("angle of signed zeros", lambda x: torch.complex(x[:, None].expand(4, 4), x.expand(4, 4)).angle(),
         [torch.tensor([0.0, -0.0, 1.0, -2.0])], opsets=FEW),
    case("atan2 of integers", torch.atan2, [signed, divisors], opsets=FEW),
    case("hypot", torch.hypot, [points, others]),
    case("logaddexp", torch.logaddexp, [points * 10, others * 10], dynamic=PAIR),
    case("logaddexp of infinities", torch.logaddexp,
         [torch.tensor([-INF, -INF, INF, 1]), torch.tensor([-INF, 2, 1, 1])], opsets=SOME_OPSETS),
    case("logaddexp2", torch.logaddexp2, [points, others], opsets=SOME_OPSETS),
    case("xlogy", torch.xlogy, [torch.tensor([0.0, 0.0, 2.0, 0.0]), torch.tensor([0.0, 2.0, 3.0, NAN])]),
    case("xlogy of numbers", lambda x: (torch.xlogy(2, x), torch.xlogy(x, 2.5)), [positive], opsets=FEW),
    case("xlog1py", torch.special.xlog1py, [points, positive[:1]], opsets=FEW),
    case("heaviside", torch.heaviside, [torch.tensor([-1.5, 0.0, 2.0]), torch.tensor([0.5, 0.25, 1.0])]),
    case("copysign", torch.copysign, [points, others]),
    case("copysign of zeros", torch.copysign, [torch.ones(6), torch.tensor([0.0, -0.0, INF, -INF, 2.0, -2.0])]),
    case("atan2 keeps the sign of zero", lambda x: torch.copysign(x + 1, torch.atan2(x, torch.ones(2))),
         [torch.tensor([-0.0, 0.0])]),
    case("copysign makes signed zeros", lambda x: torch.copysign(torch.copysign(x * 0, x), x).reciprocal(),
         [torch.tensor([-2.0, 2.0, -0.0, 0.0])]),
    case("copysign of a number", lambda x: torch.copysign(x, -2), [points], opsets=FEW),
]  # fmt: skip

ALL = PLAIN + WIDE + HALF + OF_INTEGERS + VARIANTS + ARITHMETIC + DIVISION + POWERS + EXTREMES + MORE


@pytest.mark.parametrize("case", ALL, ids=str)
def test_case(case) -> None:
    run(case)


FUNCTIONS_IN_FLOAT64 = {
    **{
        name: getattr(torch, name)
        for name in ("acos", "asin", "atan", "asinh", "acosh", "atanh", "sinh", "cosh", "tan")
    },
    "atan2": lambda x: torch.atan2(x, x.flip(0) * 0.7),
    "gelu": torch.nn.functional.gelu,
    "hardshrink": lambda x: torch.nn.functional.hardshrink(x, 0.3),
    "softshrink": lambda x: torch.nn.functional.softshrink(x, 0.3),
    "interpolate": lambda x: torch.nn.functional.interpolate(x[None, None], scale_factor=2),
}


@pytest.mark.parametrize("opset", [9, 20])
@pytest.mark.parametrize("name", FUNCTIONS_IN_FLOAT64)
def test_float64_keeps_its_digits(name: str, opset: int) -> None:
    """onnxruntime has kernels and attributes of float32 alone. A few of the last digits may be lost, not half."""

    class Model(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return FUNCTIONS_IN_FLOAT64[name](x)

    size = [1e-300, 1e-12, 1e-5, 0.3, 0.4999, 0.5001, 0.7, 1 - 1e-9, 1.0, 1 + 1e-9, 2.0, 1e7, 1e9, 1e160, INF]
    x = torch.tensor([NAN, 0.0, *size, *(-each for each in size)], dtype=torch.float64)
    got = onward.export(Model(), (x,), opset_version=opset)(x)
    torch.testing.assert_close(got, Model()(x), rtol=1e-14, atol=0.0, equal_nan=True)
