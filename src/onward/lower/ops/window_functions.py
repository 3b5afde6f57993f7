"""Windows of a length that varies. One of a fixed length is computed while tracing, and is a constant."""

from __future__ import annotations

import math

import torch

from ..emitter import Emitter, SizeValue, Value
from ..registry import lowers
from ._formula import Real, cos, number, sqrt, where
from .special_bessel import i0

aten = torch.ops.aten

Length = int | SizeValue


@lowers(aten.hann_window.default, aten.hann_window.periodic)
def hann_window(g: Emitter, length: Length, periodic: bool = True, dtype: object = None) -> Value:
    """hann_window.periodic(int window_length, bool periodic, *, ScalarType? dtype=None, ...) -> Tensor"""
    return hamming_window(g, length, periodic, 0.5, 0.5)


@lowers(
    aten.hamming_window.default,
    aten.hamming_window.periodic,
    aten.hamming_window.periodic_alpha,
    aten.hamming_window.periodic_alpha_beta,
)
def hamming_window(
    g: Emitter, length: Length, periodic: bool = True, alpha: float = 0.54, beta: float = 0.46, dtype: object = None
) -> Value:
    """hamming_window.periodic_alpha_beta(int window_length, bool periodic, float alpha, float beta, ...) -> Tensor"""
    return _one_if_alone(g, length, alpha - beta * cos(_turns(g, length, periodic) * (2 * math.pi)))


@lowers(aten.blackman_window.default, aten.blackman_window.periodic)
def blackman_window(g: Emitter, length: Length, periodic: bool = True, dtype: object = None) -> Value:
    """blackman_window.periodic(int window_length, bool periodic, *, ScalarType? dtype=None, ...) -> Tensor"""
    angle = _turns(g, length, periodic) * (2 * math.pi)
    return _one_if_alone(g, length, 0.42 - 0.5 * cos(angle) + 0.08 * cos(2 * angle))


@lowers(aten.bartlett_window.default, aten.bartlett_window.periodic)
def bartlett_window(g: Emitter, length: Length, periodic: bool = True, dtype: object = None) -> Value:
    """bartlett_window.periodic(int window_length, bool periodic, *, ScalarType? dtype=None, ...) -> Tensor"""
    return _one_if_alone(g, length, 1 - abs(2 * _turns(g, length, periodic) - 1))


@lowers(aten.kaiser_window.default, aten.kaiser_window.periodic, aten.kaiser_window.beta)
def kaiser_window(g: Emitter, length: Length, periodic: bool = True, beta: float = 12.0, dtype: object = None) -> Value:
    """kaiser_window.beta(int window_length, bool periodic, float beta, *, ScalarType? dtype=None, ...) -> Tensor"""
    offset = 2 * _turns(g, length, periodic) - 1
    arch = sqrt((1 - offset * offset).clip(0))
    return _one_if_alone(g, length, i0(beta * arch) / i0(number(g, beta)))


def _turns(g: Emitter, length: Length, periodic: bool) -> Real:
    """From 0 to 1, where the next period begins or, if the window is symmetric, where it ends."""
    places = Real(g, g.cast(g.arange(0, length), torch.float64))
    span = Real(g, g.as_value(length if periodic else length - 1, torch.float64))
    return places / span.clip(1)


def _one_if_alone(g: Emitter, length: Length, window: Real) -> Value:
    """A window of one point is 1, whatever the formula says."""
    alone = Real(g, g.as_value(length, torch.float64)).equals(1)
    return where(alone, 1, window).value
