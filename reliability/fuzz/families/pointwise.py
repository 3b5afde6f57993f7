"""Functions of one element, or of two that meet by broadcasting."""

from __future__ import annotations

from typing import Any

import torch

from ..builder import Builder, Rejected

_UNARY = (
    "torch.relu({x})", "{x}.relu()", "F.relu({x})", "torch.sigmoid({x})", "{x}.tanh()", "F.gelu({x})", "F.silu({x})",
    "F.gelu({x}, approximate='tanh')", "{x}.abs()", "-{x}", "torch.sin({x})", "torch.cos({x})", "torch.erf({x})",
    "F.softplus({x})", "F.elu({x})", "F.elu({x}, 0.5)", "F.leaky_relu({x}, 0.2)", "F.hardswish({x})", "F.selu({x})",
    "F.hardsigmoid({x})", "F.mish({x})", "F.relu6({x})", "{x}.floor()", "{x}.ceil()", "torch.round({x})", "{x}.trunc()",
    "torch.sign({x})", "{x}.square()", "{x}.abs().sqrt()", "torch.log1p({x}.abs())", "torch.exp(-{x}.abs())",
    "torch.rsqrt(1 + {x} * {x})", "1 / (1 + {x}.abs())", "{x}.clamp(-1, 1)", "{x}.clamp(min=0)", "{x}.clamp(max=0.5)",
    "torch.clip({x}, 0.1, 0.9)", "F.hardtanh({x}, -0.5, 0.5)", "torch.atan({x})", "{x}.asinh()", "{x} ** 2", "2 ** {x}.clamp(max=4)",
    "torch.logit({x}.sigmoid() * 0.8 + 0.1)", "F.logsigmoid({x})", "F.softsign({x})", "F.tanhshrink({x})",
    "F.softshrink({x}, 0.3)", "F.hardshrink({x}, 0.3)", "F.threshold({x}, 0.1, 2.0)", "F.celu({x}, 1.5)", "torch.expm1({x}.clamp(max=2))",
    "torch.nan_to_num({x})", "F.dropout({x}, 0.5, False)", "{x}.frac()", "torch.sinc({x})", "torch.log({x}.abs() + 1)",
    "torch.tan({x} * 0.1)", "torch.sinh({x}.clamp(-2, 2))", "{x}.contiguous()", "{x}.detach()", "torch.positive({x})",
    "torch.erfc({x})", "torch.acos({x}.clamp(-0.9, 0.9))", "torch.lgamma({x}.abs() + 1)", "F.rrelu({x})", "{x}.clone()",
    "torch.heaviside({x}, torch.ones(1, dtype={x}.dtype))", "torch.special.expit({x})", "torch.xlogy({x}, {x}.abs() + 1)",
)  # fmt: skip

_BOTH = (
    "{x} + {y}", "{x} - {y}", "{x} * {y}", "{x} / (1 + {y}.abs())", "torch.maximum({x}, {y})", "torch.minimum({x}, {y})",
    "torch.where({x} > {y}, {x}, {y})", "torch.add({x}, {y}, alpha=2)", "torch.sub({x}, {y}, alpha=0.5)", "{x}.mul({y})",
    "torch.atan2({x}, {y}.abs() + 1)", "torch.hypot({x}, {y})", "{x} > {y}", "{x} <= {y}", "({x} == {y}) | ({x} < {y})",
    "torch.where({x} != {y}, {x}, 0.0)", "torch.lerp({x}, {y}, 0.3)", "torch.addcmul({x}, {x}, {y}, value=0.5)",
    "torch.fmod({x}, {y}.abs() + 1)", "torch.remainder({x}, {y}.abs() + 1)", "torch.copysign({x}, {y})",
    "torch.logaddexp({x}, {y})", "torch.where({y} > 0, {x}, {x} * 2)", "torch.rsub({x}, {y})", "torch.fmax({x}, {y})",
    "torch.addcdiv({x}, {y}, {x}.abs() + 1)", "torch.div({x}, {y}.abs() + 1, rounding_mode='floor')", "F.mse_loss({x}, {y})",
    "torch.div({x}, {y}.abs() + 1, rounding_mode='trunc')", "F.smooth_l1_loss({x}, {y}, reduction='none')",
    "torch.clamp({x}, min={y})", "torch.special.xlog1py({x}, {y}.abs())", "{x} * torch.sigmoid({y})", "{x}.pow(2) + {y}",
)  # fmt: skip

_INTEGERS = (
    "{x} + 1", "{x} * 2", "{x} // 2", "{x} % 3", "{x} - {y}", "{x} * {y}", "{x} & 3", "{x} | 4", "{x} ^ 1", "{x} << 1", "{x} >> 1",
    "{x}.clamp(1, 3)", "{x}.abs()", "-{x}", "{x} == {y}", "{x} > 2", "{x} / 2", "torch.div({x}, 2, rounding_mode='trunc')",
    "{x}.float()", "{x} * 0.5", "torch.bitwise_and({x}, {y})", "{x} + {y} * 2", "torch.sin({x})", "{x}.sign()", "{x} ** 2",
    "torch.where({x} > 1, {x}, {y})", "torch.floor_divide({x}, 3)", "torch.remainder({x}, 4)", "torch.maximum({x}, {y})",
    "{x} % -3", "(-{x}) // 2", "torch.fmod(-{x}, 3)", "torch.gcd({x}, {y})", "{x}.bitwise_not()", "1 / ({x}.abs() + 1)",
)  # fmt: skip

_BOOLS = (
    "~{x}", "{x} & {y}", "{x} | {y}", "{x} ^ {y}", "{x}.float()", "{x}.long()", "{x} + {y}", "{x} * 2", "{x} * 0.5", "{x} == {y}",
    "torch.logical_and({x}, {y})", "torch.logical_not({x})", "{x}.int() - 1", "torch.where({x}, 1.0, 0.0)", "torch.where({x}, 1, 2)",
    "1 - {x}.float()", "{x}.logical_xor({y})", "torch.where({x}, {y}, ~{x})", "{x} != {y}", "{x} > {y}", "1.0 * {x}",
)  # fmt: skip


def unary(b: Builder) -> str:
    return b.rng.choice(_UNARY).format(x=b.floating())


def with_number(b: Builder) -> str:
    x, value = b.pick(), b.scalar()
    form = b.rng.choice(("{x} + {s}", "{x} * {s}", "{s} - {x}", "{x} - {s}", "{x} / {s}", "{x} > {s}", "{x} <= {s}",
                         "{x} // {s}", "{x} % {s}", "torch.pow({x}.abs() + 0.5, {s})", "{s} / ({x}.abs() + 1)",
                         "torch.fmod({x}, {s})", "{x}.eq({s})", "torch.where({x} > 0, {x}, {s})"))  # fmt: skip
    return form.format(x=x, s=value)


def _partner(b: Builder, x: str, same: bool) -> str:
    """A tensor that broadcasts with another one, at the example at least."""

    def fits(other: torch.Tensor) -> bool:
        if same and other.dtype is not b[x].dtype:
            return False
        try:
            torch.broadcast_shapes(other.shape, b[x].shape)
        except RuntimeError:
            return False
        return True

    return b.pick(fits)


def both(b: Builder) -> str:
    x = b.floating()
    y = _partner(b, x, b.rng.random() < 0.7)
    if not b[y].is_floating_point() and b[y].dtype is torch.bool:
        return b.rng.choice(("{x} * {y}", "torch.where({y}, {x}, 0.5)", "{x}.masked_fill({y}, -1.0)", "{x} + {y}",
                             "torch.where({y}, {x}, torch.zeros_like({x}))")).format(x=x, y=y)  # fmt: skip
    return b.rng.choice(_BOTH).format(x=x, y=y)


def mixed(b: Builder) -> str:
    x = b.pick()
    y = _partner(b, x, False)
    return b.rng.choice(("{x} + {y}", "{x} * {y}", "torch.maximum({x}, {y})", "torch.where({x} > 0, {x}, {y})",
                         "{x} == {y}", "{x} - {y} * 2", "{x} / ({y} * {y} + 1)")).format(x=x, y=y)  # fmt: skip


def integers(b: Builder) -> str:
    x = b.integral()
    return b.rng.choice(_INTEGERS).format(x=x, y=_partner(b, x, True))


def bools(b: Builder) -> str:
    x = b.pick(lambda each: each.dtype is torch.bool)
    return b.rng.choice(_BOOLS).format(x=x, y=_partner(b, x, True))


def with_buffer(b: Builder) -> str:
    """A parameter or a constant tensor of the module meets a value."""
    x = b.floating(1)
    if not b.fixed(x, -1):
        raise Rejected
    width = b[x].shape[-1]
    kind = b.rng.choice(
        ("nn.Parameter(torch.randn({w}))", "nn.Parameter(torch.ones(1, {w}) * 0.5)", "nn.Parameter(torch.randn(()))")
    )
    name = b.layer(kind.format(w=width))
    return b.rng.choice((f"{x} * {name}", f"{x} + {name}", f"{name} - {x}", f"torch.maximum({x}, {name})"))


def along(b: Builder) -> str:
    x = b.floating(1)
    d = b.dim(x)
    return b.rng.choice(("torch.softmax({x}, {d})", "F.log_softmax({x}, dim={d})", "F.normalize({x}, dim={d})", "{x}.cumsum({d})",
                         "F.softmin({x}, dim={d})", "{x}.softmax({d})", "torch.logcumsumexp({x}, {d})", "torch.cumprod({x} * 0.5, {d})",
                         "torch.diff({x}, dim={d})", "F.normalize({x}, p=1.0, dim={d})")).format(x=x, d=d)  # fmt: skip


WRITERS: list[tuple[int, Any]] = [
    (10, unary), (6, with_number), (8, both), (3, mixed), (5, integers), (4, bools), (3, with_buffer), (4, along),
]  # fmt: skip
