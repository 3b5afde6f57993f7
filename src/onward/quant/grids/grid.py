"""The grid that a quantized tensor lies on: which float32 number each integer stands for.

    value = (q - zero_point) * scale        (float32, one rounding)

`low` and `high` bound q inside its type. They are how a narrower range is written where the runtime has no narrower
type (4 bit activations are uint8 with 0..15), and how a ReLU costs nothing (low = zero_point).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from ...errors import InputError
from ..config.settings import Activations, Weights
from .observers import RangeError

# dtype of ONNX -> (smallest, largest, the torch type that holds it)
_TYPES: dict[str, tuple[int, int, torch.dtype]] = {
    "uint8": (0, 255, torch.uint8),
    "int8": (-128, 127, torch.int8),
    "uint16": (0, 65535, torch.uint16),
    "int16": (-32768, 32767, torch.int16),
    "uint4": (0, 15, torch.uint8),
    "int4": (-8, 7, torch.int8),
    "int32": (-(2**31), 2**31 - 1, torch.int32),
}


def dtype_bounds(dtype: str) -> tuple[int, int]:
    """The smallest and the largest integer of an ONNX type."""
    return _type(dtype)[:2]


def torch_dtype(dtype: str) -> torch.dtype:
    """The torch type that holds an ONNX type; 4 bit integers are held in 8."""
    return _type(dtype)[2]


def _type(dtype: str) -> tuple[int, int, torch.dtype]:
    if dtype not in _TYPES:
        raise InputError(f"a grid cannot have the dtype {dtype!r}", hint=f"one of {', '.join(_TYPES)}")
    return _TYPES[dtype]


@dataclass(frozen=True, eq=False)  # the scale is a tensor, so two grids are compared with `same_as`
class Grid:
    """What the integers of a tensor mean.

    scale        float32, 0-d, or 1-d with one entry for each index along `axis`
    zero_point   the integer that stands for 0.0, the same for all channels
    dtype        the ONNX type of the integers
    low, high    the bounds of the integers, by default those of the type
    axis         of a 1-d scale, counted from the front
    """

    scale: Tensor
    zero_point: int = 0
    dtype: str = "uint8"
    low: int = field(default=None)  # type: ignore[assignment]  # never None once made
    high: int = field(default=None)  # type: ignore[assignment]
    axis: int | None = None

    def __post_init__(self) -> None:
        smallest, largest = dtype_bounds(self.dtype)
        if self.low is None:
            object.__setattr__(self, "low", smallest)
        if self.high is None:
            object.__setattr__(self, "high", largest)
        if not smallest <= self.low <= self.high <= largest:
            raise InputError(f"the bounds {self.low}..{self.high} of a grid are not inside {self.dtype}")
        if not smallest <= self.zero_point <= largest:
            raise InputError(f"the zero point {self.zero_point} of a grid is not inside {self.dtype}")
        self._check_scale()

    def _check_scale(self) -> None:
        scale = self.scale
        if scale.dtype != torch.float32:
            raise InputError(f"the scale of a grid is float32, not {scale.dtype}")
        if scale.dim() != (0 if self.axis is None else 1):
            raise InputError(
                f"the scale of a grid has the shape {tuple(scale.shape)} and its axis is {self.axis}",
                hint="one scale is 0-d and has no axis; a scale for each channel is 1-d and has one",
            )
        if self.axis is not None and self.axis < 0:
            raise InputError(f"the axis {self.axis} of a grid is counted from the front")
        if not bool(((scale > 0) & scale.isfinite()).all()):
            raise InputError("the scale of a grid has to be above zero and finite")

    @property
    def torch_dtype(self) -> torch.dtype:
        return torch_dtype(self.dtype)

    @property
    def per_channel(self) -> bool:
        return self.axis is not None

    def scale_for(self, rank: int) -> Tensor:
        """The scale in a shape that goes with a tensor of this rank."""
        if self.axis is None:
            return self.scale
        return self.scale.reshape([-1 if each == self.axis else 1 for each in range(rank)])

    def bounded(self, low: int | None = None, high: int | None = None) -> Grid:
        """This grid with tighter bounds."""
        return replace(
            self,
            low=self.low if low is None else max(self.low, low),
            high=self.high if high is None else min(self.high, high),
        )

    def same_as(self, other: Grid) -> bool:
        """Whether an integer means the same number on both; their bounds may differ."""
        return (
            (self.zero_point, self.dtype, self.axis) == (other.zero_point, other.dtype, other.axis)
            and self.scale.shape == other.scale.shape
            and torch.equal(self.scale, other.scale)
        )


def is_power_of_two(number: float) -> bool:
    """Whether a scale times this is a power of two if it was one before."""
    return number > 0 and math.frexp(number)[0] == 0.5


def scale_and_zero_point(low: Tensor, high: Tensor, spec: Activations) -> tuple[Tensor, Tensor, int, int]:
    """Scales (float32), zero points (float64, whole) and the bounds of the integers, for any number of ranges.

    The range is widened to have zero in it, because zero (padding, ReLU, masks) must be exact:
     - asymmetric: `low` and `high` are the ends, and a range from 0 has the zero point 0;
     - symmetric: the zero point is the middle, and the larger magnitude is the end;
     - a power-of-two scale is the smallest that covers the range up to one step at its end (1.0 in 8 symmetric bits has
       the scale 2**-7 and is clipped to 127 / 128, as on linger's chips);
     - a range of zero alone, or one too narrow for a float32 scale, has the scale 1.
    """
    low, high = low.to(torch.float64).clamp(max=0), high.to(torch.float64).clamp(min=0)
    signed = spec.symmetric and spec.bits > 8
    first = -(1 << (spec.bits - 1)) if signed else 0
    last = first + (1 << spec.bits) - 1
    if spec.symmetric:
        span, steps = torch.maximum(high, -low), (1 << (spec.bits - 1)) - 1
    else:
        span, steps = high - low, (1 << spec.bits) - 1
    if spec.power_of_two:
        scale = _power_of_two(span / (steps + 1))
    else:
        scale = span / steps
    scale = _or_one(scale)
    if spec.symmetric:
        zero = torch.full_like(low, 0 if signed else 1 << (spec.bits - 1))
    else:
        zero = torch.clamp(torch.round(first - low / scale), first, last)
    return scale, zero, first, last


def _power_of_two(x: Tensor) -> Tensor:
    """The smallest power of two that is not below; exact, which a logarithm is not. Zero stays zero."""
    mantissa, exponent = torch.frexp(x)
    return torch.where(x > 0, torch.ldexp(torch.ones_like(x), exponent - (mantissa == 0.5).to(exponent.dtype)), x)


def _or_one(scale: Tensor) -> Tensor:
    """Scales as float32; 1 for zero and for what is too small to be one."""
    return torch.where(scale < torch.finfo(torch.float32).tiny, 1.0, scale).to(torch.float32)


def grid_from_range(low: Tensor | float, high: Tensor | float, spec: Activations, rounding: str = "half_even") -> Grid:
    """The grid of an activation with this range: uint8 of as many levels as `spec.bits` asks for, or 16 bits.

    `scale_and_zero_point` says what the scale and the zero point are. 16 symmetric bits are int16, because there the
    runtime has no faster unsigned kernel. Fewer than eight symmetric bits begin at 0, so that no sum of two products
    saturates; where halves are rounded up they lie around 128, because the integers of linger's chips are these around
    0.
    """
    low, high = (torch.as_tensor(end, dtype=torch.float32).detach() for end in (low, high))
    if low.dim() or high.dim():
        raise InputError(f"an activation has one range, not ends of the shapes {(*low.shape,)} and {(*high.shape,)}")
    if not bool(torch.isfinite(low) & torch.isfinite(high)) or bool(low > high):
        raise InputError(f"there is no grid for the range from {float(low):g} to {float(high):g}")
    scale, zero, first, last = scale_and_zero_point(low, high, spec)
    if spec.symmetric and spec.bits < 8 and rounding == "half_up":
        first, last = (128 + end - int(zero) for end in (first, last))
        zero = torch.full_like(zero, 128)
    dtype = "uint8" if spec.bits <= 8 else "int16" if spec.symmetric else "uint16"
    return Grid(scale, int(zero), dtype, first, last)


def weight_steps(spec: Weights) -> int:
    """The largest integer of a weight."""
    return (1 << (spec.bits - (2 if spec.reduce_range else 1))) - 1


def weight_scale(high: Tensor, spec: Weights) -> Tensor:
    """The scales for weights of these largest magnitudes; a power of two covers up to one step at the end."""
    steps = weight_steps(spec)
    high = high.to(torch.float64)
    scale = _power_of_two(high / (steps + 1)) if spec.power_of_two else high / steps
    return _or_one(scale)


def with_room_for_bias(grid: Grid, high: Tensor, bias: Tensor, x: Grid, spec: Weights) -> Grid:
    """A weight's grid (of the largest magnitudes `high`) on which the bias, counted in the steps of the sums, has half
    of int32 at most. Those of a channel whose weights are next to nothing, pruned or switched off by a batch norm, are
    too small for that. Weights of zero have any scale, and take one that is fine enough for the bias."""
    least = bias.double().abs() / x.scale.double() / torch.where(high == 0, 2.0**23, 2.0**30)
    least = least if grid.per_channel else least.amax()
    least = _power_of_two(least) if spec.power_of_two else least
    scale = torch.maximum(torch.where(high == 0, 0.0, grid.scale.double()), least)
    if float(scale.amax()) > torch.finfo(torch.float32).max:
        raise RangeError(
            f"its bias, up to {float(bias.abs().amax()):g}, cannot be counted next to an input in steps of "
            f"{float(x.scale):g}"
        )
    return replace(grid, scale=_or_one(scale))


def weight_grid(high: Tensor, spec: Weights, axis: int | None = 0) -> Grid:
    """The grid of a weight with the largest magnitude `high`, 0-d, or 1-d along `axis`. A channel of zeros has scale 1.

    The integers are symmetric, -127..127 of 8 bits; with power-of-two scales -128 counts too, as on linger's chips.
    """
    steps = weight_steps(spec)
    scale = weight_scale(high.detach(), spec)
    return Grid(scale, 0, "int8", -steps - int(spec.power_of_two), steps, axis if scale.dim() else None)
