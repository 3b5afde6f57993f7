"""The grid that a quantised tensor lies on: which float32 number each integer stands for.

    value = (q - zero_point) * scale        (float32, one rounding)

`low` and `high` bound q inside its type. They are how a narrower range is written where the runtime has no narrower
type (4 bit activations are uint8 with 0..15), and how a ReLU costs nothing (low = zero_point).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from ..errors import InputError

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
        """The same grid with tighter bounds."""
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
