"""The operators of linger's domain: signed integers without zero points, and scales that multiply, q = x * scale.

Products, sums and concatenations are exact. The functions that linger's chips approximate by tables (sigmoid, tanh,
softmax, gelu, averages) are computed in float and rounded, so a chip may be a step away there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from ...errors import BackendError
from ..registry import implements
from .conv import torch_pads
from .pool import average_pool

_DOMAIN = "linger"
_TYPES = ((8, torch.int8), (16, torch.int16), (32, torch.int32))
_ROUNDINGS: dict[str, Callable[[Tensor], Tensor]] = {
    "floor": torch.floor,
    "floor_add": lambda steps: torch.floor(steps + 0.5),
    "round": torch.round,
    "ceil": torch.ceil,
}


def _to_integers(steps: Tensor, bits: int, quant_mode: str = "floor_add") -> Tensor:
    """Rounded and cut off at the ends of so many bits; float64 keeps 32-bit sums and their halves apart."""
    rounding = _ROUNDINGS.get(quant_mode)
    held = next((dtype for most, dtype in _TYPES if bits <= most), None)
    if rounding is None or held is None or bits < 2:
        raise BackendError(f"linger's operators have no quant_mode {quant_mode!r} with {bits} bits")
    end = 1 << (bits - 1)
    return rounding(steps.double()).clamp(-end, end - 1).to(held)


def _requantised(sums: Tensor, scale_in: float, scale_o: float, o_bits: int, quant_mode: str) -> Tensor:
    return _to_integers(sums * (scale_o / scale_in), o_bits, quant_mode)


@implements("Quant", domain=_DOMAIN)
def quant(x: Tensor, *, scale_x: float, data_bits: int = 8, zero_point: int = 0, platform: str = "") -> Tensor:
    return _to_integers(x.double() * scale_x + zero_point, data_bits)


@implements("Dequant", domain=_DOMAIN)
def dequant(x: Tensor, *, scale_o: float) -> Tensor:
    return x.to(torch.float32) / scale_o


def _bias(bias: Tensor | None) -> Tensor | None:
    return None if bias is None else bias.double()


@implements("QConv1d", "QConv2d", "QConvBN1d", "QConvBN2d", domain=_DOMAIN)
def conv(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    *,
    strides: Sequence[int],
    pads: Sequence[int],
    dilations: Sequence[int],
    group: int,
    scale_x: float,
    scale_w: float,
    scale_o: float,
    o_bits: int,
    quant_mode: str = "floor_add",
    **_: Any,
) -> Tensor:
    rank = x.dim() - 2
    wide = F.pad(x.double(), torch_pads(pads))
    function = F.conv1d if rank == 1 else F.conv2d
    sums = function(wide, weight.double(), _bias(bias), list(strides), 0, list(dilations), group)
    return _requantised(sums, scale_x * scale_w, scale_o, o_bits, quant_mode)


@implements("QConvTranspose1d", "QConvTranspose2d", "QConvTransposeBN1d", "QConvTransposeBN2d", domain=_DOMAIN)
def conv_transpose(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    *,
    strides: Sequence[int],
    pads: Sequence[int],
    dilations: Sequence[int],
    output_padding: Sequence[int],
    group: int,
    scale_x: float,
    scale_w: float,
    scale_o: float,
    o_bits: int,
    quant_mode: str = "floor_add",
    **_: Any,
) -> Tensor:
    rank = x.dim() - 2
    function = F.conv_transpose1d if rank == 1 else F.conv_transpose2d
    begins, ends = list(pads[:rank]), list(pads[rank:])
    if begins != ends:
        raise BackendError("linger's transposed convolutions have the same padding at both ends")
    sums = function(
        x.double(), weight.double(), _bias(bias), list(strides), begins, list(output_padding), group, list(dilations)
    )
    return _requantised(sums, scale_x * scale_w, scale_o, o_bits, quant_mode)


@implements("QLinear", domain=_DOMAIN)
def linear(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    *,
    scale_x: float,
    scale_w: float,
    scale_o: float,
    o_bits: int,
    quant_mode: str = "floor_add",
    **_: Any,
) -> Tensor:
    sums = F.linear(x.double(), weight.double(), _bias(bias))
    return _requantised(sums, scale_x * scale_w, scale_o, o_bits, quant_mode)


@implements("QBatchNorm1d", "QBatchNorm2d", domain=_DOMAIN)
def batch_norm(
    x: Tensor,
    alpha: Tensor,
    beta: Tensor,
    *,
    scale_x: float,
    scale_w: float,
    scale_o: float,
    o_bits: int,
    quant_mode: str = "floor_add",
    **_: Any,
) -> Tensor:
    shape = [-1] + [1] * (x.dim() - 2)
    sums = x.double() * alpha.double().reshape(shape) + beta.double().reshape(shape)
    return _requantised(sums, scale_x * scale_w, scale_o, o_bits, quant_mode)


def _of_two(function: Callable[..., Tensor], *op_types: str) -> None:
    """An operator of two operands: what their steps, in units of the result's scale, come to."""

    @implements(*op_types, domain=_DOMAIN)
    def run(
        x: Tensor,
        y: Tensor,
        *,
        scale_x: float,
        scale_y: float,
        scale_o: float,
        o_bits: int,
        quant_mode: str = "floor_add",
        **_: Any,
    ) -> Tensor:
        steps = function(x.double(), scale_x, y.double(), scale_y, scale_o, _ROUNDINGS[quant_mode])
        return _to_integers(steps, o_bits, quant_mode)


def _sum(x: Tensor, scale_x: float, y: Tensor, scale_y: float, scale_o: float, rounding: Any) -> Tensor:
    """Each operand is brought to the scale of the result first: two roundings."""
    result: Tensor = rounding(x * (scale_o / scale_x)) + rounding(y * (scale_o / scale_y))
    return result


def _products(multiply: Callable[[Tensor, Tensor], Tensor]) -> Callable[..., Tensor]:
    def steps(x: Tensor, scale_x: float, y: Tensor, scale_y: float, scale_o: float, rounding: Any) -> Tensor:
        return multiply(x, y) * (scale_o / (scale_x * scale_y))

    return steps


_of_two(_sum, "QAdd")
_of_two(_products(torch.mul), "QMul")
_of_two(_products(torch.matmul), "QMatmul", "QBmm")


@implements("QCat", domain=_DOMAIN)
def concat(
    *parts: Tensor, axis: int, scale_o: float, o_bits: int, quant_mode: str = "floor_add", **scales: Any
) -> Tensor:
    steps = [part.double() * (scale_o / scales[f"scale_x_{place}"]) for place, part in enumerate(parts)]
    return _to_integers(torch.cat(steps, axis), o_bits, quant_mode)


def _through_float(function: Callable[..., Tensor], *op_types: str) -> None:
    """An operator of one operand, computed on the values."""

    @implements(*op_types, domain=_DOMAIN)
    def run(
        x: Tensor, *, scale_x: float, scale_o: float, o_bits: int, quant_mode: str = "floor_add", **settings: Any
    ) -> Tensor:
        return _to_integers(function(x.to(torch.float32) / scale_x, settings) * scale_o, o_bits, quant_mode)


_through_float(lambda x, _: torch.sigmoid(x), "QSigmoid")
_through_float(lambda x, _: torch.tanh(x), "QTanh")
_through_float(lambda x, _: F.gelu(x), "QGelu")
_through_float(lambda x, _: F.silu(x), "QSwish")
_through_float(lambda x, settings: torch.softmax(x, settings["axis"]), "QSoftmax")
_through_float(lambda x, settings: F.glu(x, settings.get("dim", settings.get("axis", -1))), "QGLU")
_through_float(lambda x, _: x.mean((-2, -1), keepdim=True), "QGlobalAveragePool2d", "QAdaptiveAvgPool2d")
_through_float(
    lambda x, settings: average_pool(
        x,
        kernel_shape=settings["kernel_shape"],
        pads=settings["pads"],
        strides=settings["strides"],
        ceil_mode=settings.get("ceil_mode", 0),
        count_include_pad=settings.get("count_include_pad", 1),
    ),
    "QAvgPool1d",
    "QAvgPool2d",
)


@implements("Gather", domain=_DOMAIN)
def gather(weight: Tensor, ids: Tensor, **_: Any) -> Tensor:
    return F.embedding(ids, weight)


@implements("Squeeze", domain=_DOMAIN)
def squeeze(x: Tensor, *, axes: Sequence[int]) -> Tensor:
    return x.squeeze(tuple(axes))
