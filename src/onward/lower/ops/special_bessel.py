"""Bessel functions and Airy's: tables near the origin, tables of amplitude and phase or of decay far from it."""

from __future__ import annotations

import math

import torch

from . import _special_tables as tables
from ._formula import Rational, Real, cos, exp, formula, log, rational, sin, sqrt, where

aten, prims = torch.ops.aten, torch.ops.prims

# J and Y: beyond 5 they are a wave of amplitude sqrt(2 / (pi x)), shifted by P and Q.


@formula(aten.special_bessel_j0.default, prims.bessel_j0.default)
def bessel_j0(x: Real) -> Real:
    """special_bessel_j0(Tensor self) -> Tensor"""
    size = abs(x)
    cosine, sine, p, q = _wave(size, 0)
    return where(size < 5, _j0_centre(size), p * cosine - q * sine)


@formula(aten.special_bessel_j1.default, prims.bessel_j1.default)
def bessel_j1(x: Real) -> Real:
    """special_bessel_j1(Tensor self) -> Tensor"""
    size = abs(x)
    cosine, sine, p, q = _wave(size, 1)
    far = p * cosine - q * sine
    return where(size < 5, _j1_centre(x), where(x < 0, -far, far))


@formula(aten.special_bessel_y0.default)
def bessel_y0(x: Real) -> Real:
    """special_bessel_y0(Tensor self) -> Tensor"""
    cosine, sine, p, q = _wave(x, 0)
    small = x.clip(0, 5)
    centre = rational(small * small, tables.BESSEL_Y0_CENTRE) + 2 / math.pi * log(small) * _j0_centre(small)
    return _of_positive(x, where(x < 5, centre, p * sine + q * cosine), -math.inf)


@formula(aten.special_bessel_y1.default)
def bessel_y1(x: Real) -> Real:
    """special_bessel_y1(Tensor self) -> Tensor"""
    cosine, sine, p, q = _wave(x, 1)
    small = x.clip(0, 5)
    logarithmic = _j1_centre(small) * log(small) - 1 / small
    centre = small * rational(small * small, tables.BESSEL_Y1_CENTRE) + 2 / math.pi * logarithmic
    return _of_positive(x, where(x < 5, centre, p * sine + q * cosine), -math.inf)


def _j0_centre(x: Real) -> Real:
    return rational(x * x, tables.BESSEL_J0_CENTRE)


def _j1_centre(x: Real) -> Real:
    return x * rational(x * x, tables.BESSEL_J1_CENTRE)


def _wave(x: Real, order: int) -> tuple[Real, Real, Real, Real]:
    """Cosine and sine of the phase, and what they are multiplied with."""
    far = x.clip(5)
    inverse = 5 / far
    square = inverse * inverse
    of_p, of_q = ((tables.BESSEL_P0, tables.BESSEL_Q0), (tables.BESSEL_P1, tables.BESSEL_Q1))[order]
    phase = far - (2 * order + 1) * math.pi / 4
    amplitude = sqrt(2 / (math.pi * far))
    return cos(phase), sin(phase), amplitude * rational(square, of_p), amplitude * inverse * rational(square, of_q)


def _of_positive(x: Real, result: Real, at_zero: float) -> Real:
    """A function that has a pole at 0 and no real values below."""
    return where(x > 0, result, where(x.equals(0), at_zero, math.nan))


# I: they grow like exp(x) / sqrt(x).


@formula(aten.i0.default, aten.special_i0.default, aten.special_modified_bessel_i0.default, prims.bessel_i0.default)
def i0(x: Real) -> Real:
    """i0(Tensor self) -> Tensor"""
    size = abs(x)
    return where(size < 8, _i0_centre(size), exp(size) * _decay(size, 8, tables.BESSEL_I0_FAR))


@formula(aten.special_i0e.default, prims.bessel_i0e.default)
def i0e(x: Real) -> Real:
    """special_i0e(Tensor self) -> Tensor"""
    size = abs(x)
    return where(size < 8, exp(-size) * _i0_centre(size), _decay(size, 8, tables.BESSEL_I0_FAR))


@formula(aten.special_i1.default, aten.special_modified_bessel_i1.default, prims.bessel_i1.default)
def i1(x: Real) -> Real:
    """special_i1(Tensor self) -> Tensor"""
    size = abs(x)
    far = exp(size) * _decay(size, 8, tables.BESSEL_I1_FAR)
    return where(size < 8, _i1_centre(x), where(x < 0, -far, far))


@formula(aten.special_i1e.default, prims.bessel_i1e.default)
def i1e(x: Real) -> Real:
    """special_i1e(Tensor self) -> Tensor"""
    size = abs(x)
    far = _decay(size, 8, tables.BESSEL_I1_FAR)
    return where(size < 8, exp(-size) * _i1_centre(x), where(x < 0, -far, far))


def _i0_centre(x: Real) -> Real:
    return rational(x * x, tables.BESSEL_I0_CENTRE)


def _i1_centre(x: Real) -> Real:
    return x * rational(x * x, tables.BESSEL_I1_CENTRE)


def _decay(x: Real, start: float, table: Rational) -> Real:
    """1 / sqrt(x) times a function of start / x, from the start on"""
    far = x.clip(start)
    return rational(start / far, table) / sqrt(far)


# K: they decay like exp(-x) / sqrt(x).


@formula(aten.special_modified_bessel_k0.default)
def modified_bessel_k0(x: Real) -> Real:
    """special_modified_bessel_k0(Tensor self) -> Tensor"""
    return _of_positive(x, where(x < 2, _k0_centre(x), exp(-x) * _decay(x, 2, tables.BESSEL_K0_FAR)), math.inf)


@formula(aten.special_scaled_modified_bessel_k0.default)
def scaled_modified_bessel_k0(x: Real) -> Real:
    """special_scaled_modified_bessel_k0(Tensor x) -> Tensor"""
    return _of_positive(x, where(x < 2, exp(x) * _k0_centre(x), _decay(x, 2, tables.BESSEL_K0_FAR)), math.inf)


@formula(aten.special_modified_bessel_k1.default)
def modified_bessel_k1(x: Real) -> Real:
    """special_modified_bessel_k1(Tensor self) -> Tensor"""
    return _of_positive(x, where(x < 2, _k1_centre(x), exp(-x) * _decay(x, 2, tables.BESSEL_K1_FAR)), math.inf)


@formula(aten.special_scaled_modified_bessel_k1.default)
def scaled_modified_bessel_k1(x: Real) -> Real:
    """special_scaled_modified_bessel_k1(Tensor x) -> Tensor"""
    return _of_positive(x, where(x < 2, exp(x) * _k1_centre(x), _decay(x, 2, tables.BESSEL_K1_FAR)), math.inf)


def _k0_centre(x: Real) -> Real:
    small = x.clip(0, 2)
    return rational(small * small, tables.BESSEL_K0_CENTRE) - log(small * 0.5) * _i0_centre(small)


def _k1_centre(x: Real) -> Real:
    small = x.clip(0, 2)
    smooth = small * rational(small * small, tables.BESSEL_K1_CENTRE)
    return 1 / small + log(small * 0.5) * _i1_centre(small) + smooth


@formula(aten.special_spherical_bessel_j0.default, prims.spherical_bessel_j0.default)
def spherical_bessel_j0(x: Real) -> Real:
    """special_spherical_bessel_j0(Tensor x) -> Tensor: sin(x) / x"""
    apart = where(x.equals(0), 1, x)
    return where(x.is_infinite(), 0, where(x.equals(0), 1, sin(apart) / apart))


@formula(aten.special_airy_ai.default)
def airy_ai(x: Real) -> Real:
    """special_airy_ai(Tensor x) -> Tensor"""
    size = abs(x).clip(2)
    root = sqrt(size)
    s = 2 / 3 * size * root
    inverse = 1 / s
    amplitude = 1 / (math.sqrt(math.pi) * sqrt(root))
    right = 0.5 * amplitude * exp(-s) * rational(inverse, tables.AIRY_RIGHT)
    square, phase = inverse * inverse, s - math.pi / 4
    p, q = rational(square, tables.AIRY_LEFT_P), inverse * rational(square, tables.AIRY_LEFT_Q)
    left = amplitude * (p * cos(phase) + q * sin(phase))
    centre = rational(x, tables.AIRY_CENTRE)
    return where(x.is_infinite(), math.nan, where(x > 2, right, where(x < -3, left, centre)))
