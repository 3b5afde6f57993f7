"""A product of an activation with a weight, computed in whatever way the phase asks for.

Convolutions and linear layers differ in the functions that they call and in nothing else: weights onto their grid, the
bias onto the grid of the sums, the product, and a result that waits for what follows it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from ..config.settings import Resolved, Weights
from ..exact.integers import centered, dequantize, quantize, stored
from ..exact.sums import requantize, rescale, wide_values, widened
from ..grids.fake_quantize import fake_quantize_weight
from ..grids.grid import Grid, weight_grid, with_room_for_bias
from ..grids.ranges import RangeError, weight_range
from ..run.handlers import SWITCHED_OFF, WEIGHT_ONLY, handles
from ..run.overflow import warn_of_overflow
from ..run.session import Call, Phase, QuantSession
from ..run.states import BatchNorm, Product
from ..run.study import is_rounded, show_weight

_TINY = 1e-6  # a channel that batch norm switches off


def fold(product: Product, norm: BatchNorm) -> Product:
    """The product and the batch norm after it as one product, by the running statistics."""
    factor = norm.factor().detach()
    shift = norm.shift(factor).detach()
    bias = shift if product.bias is None else product.bias.detach() * factor + shift
    return product.scaled(factor, bias)


def compute(session: QuantSession, call: Call, product: Product) -> Tensor:
    """Compute the product in this phase. It waits for its grid."""
    norm = session.controller.follower_of(call)
    rounds = session.phase is Phase.TRAIN or is_rounded(session.study, call.path)
    if session.phase is Phase.CALIBRATE and not rounds:
        y = product.in_float(product.x, product.weight, product.bias)
        return session.wait(y, call, product=product)
    if rounds:
        return session.wait(in_training(call, product, norm), call, product=product)
    if norm is not None:
        unfolded = functools.partial(compute, session, call, product)
        return compute_exactly(session, call, fold(product, norm), replace(product, folded=norm), unfolded)
    return compute_exactly(session, call, product)


def in_training(call: Call, product: Product, norm: BatchNorm | None) -> Tensor:
    """The product with rounded weights. Where a batch norm follows, the weights are rounded as they will be once it is
    folded in: multiplied by its factor, rounded, and divided by the factor again. What the batch norm sees, and takes
    its statistics of, is the result of the rounded weights. A scale for every channel that follows the weights cancels
    the factor."""
    spec, weight = call.settings.weights, product.weight
    if norm is None or (spec.per_channel and not spec.power_of_two):
        return product.in_float(product.x, fake_quantize_weight(weight, spec, axis=product.channels), product.bias)
    factor = norm.factor().detach()
    factor = torch.where(factor.abs() < _TINY, torch.ones_like(factor), factor)
    rounded = fake_quantize_weight(product.scaled(factor, None).weight, spec, axis=product.channels)
    return product.in_float(product.x, replace(product, weight=rounded).scaled(1 / factor, None).weight, product.bias)


def compute_exactly(
    session: QuantSession,
    call: Call,
    product: Product,
    before: Product | None = None,
    unfolded: Callable[[], Tensor] | None = None,
) -> Tensor:
    """Compute the product in integers where the runtime does. `before` is the product without the batch norm that was
    folded in, and `unfolded` computes it."""
    before = before or product
    found = session.integers(product.x)
    weight, w_grid = quantized_weight(product, call.settings, None if found is None else found[1])
    rounded = functools.partial(dequantize, weight, w_grid)
    show_weight(session.study, call.path, call.name, product.weight, rounded, product.channels)
    if found is None:  # weight-only, or an activation without a grid
        y = product.in_float(product.x, stored(weight, w_grid, product.x), product.bias)
        return session.wait(y, call, product=before, unfolded=unfolded)
    x, x_grid = found
    bias = None if product.bias is None else _quantized_bias(product.bias, x_grid, w_grid)
    wide = x_grid.dtype not in ("uint8", "int8")
    if product.in_integers is None or (wide and session.for_a_chip):
        # For a chip its own file says what integers stand for, and no runtime takes them for a part of the product.
        values = dequantize(x, x_grid) if session.for_a_chip else torch.mul(centered(x, x_grid), x_grid.scale)
        y = _in_values(product, x, x_grid, weight, w_grid, bias, values)
        return session.wait(y, call, product=before, unfolded=unfolded)
    warn_of_overflow(session.controller, call, x_grid, weight, bias, w_scale=w_grid.scale)
    bias = None if bias is None else product.spread(bias)
    w_grid = replace(w_grid, scale=product.spread(w_grid.scale)) if w_grid.per_channel else w_grid
    axis = None if w_grid.axis is None else product.result_axis

    def in_two_parts(q: Tensor, q_grid: Grid) -> Tensor:
        sums = product.in_integers(q, q_grid, weight, w_grid, None)  # type: ignore[misc]
        return product.woven(wide_values(sums, q_grid, w_grid, bias, product.result_axis))

    if wide:
        return session.wait(in_two_parts(x, x_grid), call, product=before, unfolded=unfolded)
    sums = product.in_integers(x, x_grid, weight, w_grid, bias)

    def onto_output(grid: Grid) -> Tensor:
        if grid.dtype in ("uint16", "int16") and not session.for_a_chip:  # no kernel gives these
            return quantize(in_two_parts(*widened(x, x_grid)), grid, call.settings.rounding)
        return product.woven(requantize(sums, x_grid, w_grid, axis, grid, call.settings.rounding))

    return session.wait(product.woven(rescale(sums, x_grid, w_grid, axis)), call, onto_output, before, unfolded)


def _in_values(
    product: Product, x: Tensor, x_grid: Grid, weight: Tensor, w_grid: Grid, bias: Tensor | None, values: Tensor
) -> Tensor:
    if product.exact is not None:
        return product.exact(x, x_grid, weight, w_grid, bias)
    added = None if bias is None else stored(bias, _bias_grid(x_grid, w_grid), x)
    return product.in_float(values, stored(weight, w_grid, x), added)


def quantized_weight(product: Product, settings: Resolved, x_grid: Grid | None = None) -> tuple[Tensor, Grid]:
    """The integers of the weight, halves to even whatever the activations do (linger's too), and their grid."""
    weight, spec = product.weight.detach(), settings.weights
    high = weight_range(weight, spec, product.channels)
    grid = weight_grid(high, spec, product.channels)
    if x_grid is not None and product.bias is not None:
        bias = product.bias.detach()
        bad = int((~bias.isfinite()).sum())
        if bad:
            raise RangeError(f"{bad} of {bias.numel()} values of the bias are NaN or infinite")
        grid = with_room_for_bias(grid, high, bias, x_grid, spec)
        _check_sums(x_grid, grid)
    return quantize(weight, grid), grid


def _check_sums(x_grid: Grid, w_grid: Grid) -> None:
    """Refuse scales whose products float32 does not have, as those of a training that has diverged."""
    sums = x_grid.scale * w_grid.scale
    if not bool(((sums > 0) & sums.isfinite()).all()):
        steps = f"{float(x_grid.scale):g} in its input and up to {float(w_grid.scale.amax()):g} in its weights"
        raise RangeError(f"steps of {steps} have no products in float32, in which its bias could be counted")


def _bias_grid(x_grid: Grid, w_grid: Grid) -> Grid:
    return Grid(x_grid.scale * w_grid.scale, 0, "int32", axis=None if w_grid.axis is None else 0)


def _quantized_bias(bias: Tensor, x_grid: Grid, w_grid: Grid) -> Tensor:
    return quantize(bias.detach(), _bias_grid(x_grid, w_grid))


def pair(value: Any, rank: int) -> list[int]:
    """One number for each of so many axes."""
    return [value] * rank if isinstance(value, int) else list(value) * (rank if len(value) == 1 else 1)


# Where activations stay in float


def with_stored_weight(
    session: QuantSession,
    func: Any,
    input: Tensor,
    weight: Tensor,
    args: Any,
    kwargs: Any,
    spec: Weights,
    turn: Callable[[Tensor], Tensor] = lambda weight: weight,
) -> Any:
    """Call a function with a weight that is stored as integers. `turn` gives the weight its output channels first, and
    turns a weight with its output channels first back into its own form."""
    if input.dtype is not torch.float32 or session.has_grid(weight):
        return NotImplemented
    x = session.apart(input)
    return func(x, turn(stored_weight(session, turn(weight), spec, x)), *args, **kwargs)


def stored_weight(session: QuantSession, weight: Tensor, spec: Weights, near: Tensor) -> Tensor:
    """The values of a weight on its grid; a bias stays as it is. `near` as in `stored`."""
    spec, frame = replace(spec, block_size=None), session.frames[-1]
    rounds = session.phase is Phase.TRAIN or is_rounded(session.study, frame.path)
    if weight.dim() < 2 or (session.phase is Phase.CALIBRATE and not rounds):
        return weight
    if rounds:
        return fake_quantize_weight(weight, spec, axis=0)
    values = weight.detach()
    grid = weight_grid(weight_range(values, spec, 0), spec, 0)
    q = quantize(values, grid)
    name = next((name for name, each in frame.parameters.items() if each is weight), "weight")
    show_weight(session.study, frame.path, name, values, functools.partial(dequantize, q, grid))
    return stored(q, grid, near)


# Where modules are switched off

_PRODUCTS = (
    F.linear, torch.addmm, F.conv1d, F.conv2d, F.conv3d,
    F.conv_transpose1d, F.conv_transpose2d, F.conv_transpose3d,
)  # fmt: skip

_DATA = getattr(Tensor, "data").__get__  # noqa: B009  (mypy takes it for a tensor)


@handles(*_PRODUCTS, table=SWITCHED_OFF)
def product_in_float(session: QuantSession, func: Any, *args: Any, **kwargs: Any) -> Any:
    """A module that is switched off stays in float. onnxruntime 1.31 makes integers, with one scale, of the float
    weights of a Conv or Gemm that it finds between DequantizeLinear and QuantizeLinear. So the multiplication by the
    scale stands apart from DequantizeLinear: the same values, and no such pattern."""
    return session.in_float(
        func, *(session.apart(each) if isinstance(each, Tensor) else each for each in args), **kwargs
    )


@handles(_DATA, table=WEIGHT_ONLY)
@handles(_DATA, table=SWITCHED_OFF)
def data(session: QuantSession, func: Any, input: Tensor) -> Any:
    """`x.data` has a version of its own, so that nobody would know of x that it was written to."""
    return NotImplemented if session.phase is Phase.TRAIN else session.in_float(Tensor.detach, input)
