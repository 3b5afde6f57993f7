"""Write src/onward/lower/ops/_special_tables.py: `python tools/special_functions.py`.

Each table is a rational function that meets a special function at Chebyshev points of an interval, computed with mpmath
in 50 digits. Its degrees are the smallest at which the error, with coefficients and arithmetic in float64, is down to
rounding. The variable is scaled to -1..1, where powers are best behaved.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy
from mpmath import mp, mpf

TARGET = Path(__file__).parents[1] / "src/onward/lower/ops/_special_tables.py"
GOAL = 4e-15

mp.dps = 50

HEADER = '''"""Special functions as rational functions. Written by tools/special_functions.py; do not edit."""
# ruff: noqa: E501
# fmt: off

from __future__ import annotations

from ._formula import Rational

'''

Function = Callable[[Any], Any]


def fit(function: Function, low: float, high: float, above: int, below: int) -> tuple[list[float], list[float]]:
    """Coefficients of a quotient of polynomials of these degrees, the second one being 1 at the centre."""
    count = above + below + 1
    points = [mp.cos(mp.pi * (2 * k + 1) / (2 * count)) for k in range(count)]
    values = [_known(function, low, high, t) for t in points]
    rows = [
        [t**k for k in range(above + 1)] + [-value * t**k for k in range(1, below + 1)]
        for t, value in zip(points, values, strict=True)
    ]
    solution = [float(c) for c in mp.lu_solve(mp.matrix(rows), mp.matrix(values))]
    return solution[above::-1], [*solution[:above:-1], 1.0]


@functools.cache
def _known(function: Function, low: float, high: float, t: Any) -> Any:
    return function(_place(t, low, high))


def _place(t: Any, low: float, high: float) -> Any:
    return (mpf(low) + mpf(high)) / 2 + t * (mpf(high) - mpf(low)) / 2


def error(function: Function, low: float, high: float, top: list[float], bottom: list[float]) -> float:
    """The largest error in float64, relative to the larger of the value and a tenth of the largest value."""
    t = numpy.cos(numpy.linspace(0.01, numpy.pi - 0.01, 101))
    wanted = numpy.array([float(_known(function, low, high, mpf(float(each)))) for each in t])
    scale = numpy.maximum(numpy.abs(wanted), numpy.abs(wanted).max() / 10) if _has_root(wanted) else numpy.abs(wanted)
    bottom_values = numpy.polyval(bottom, t)
    if bottom_values.min() <= 0:
        return numpy.inf
    return float(numpy.max(numpy.abs(numpy.polyval(top, t) / bottom_values - wanted) / scale))


def _has_root(values: Any) -> bool:
    return bool(values.min() <= 0 <= values.max())


def table(name: str, function: Function, low: float, high: float) -> str:
    worst, top, bottom = numpy.inf, [0.0], [1.0]
    degrees = sorted(itertools.product(range(2, 25), range(13)), key=lambda pair: (sum(pair), abs(pair[0] - pair[1])))
    for above, below in degrees:
        if above < below or sum((above, below)) > 24:
            continue
        tried = fit(function, low, high, above, below)
        found = error(function, low, high, *tried)
        if found < worst / 2:
            worst, (top, bottom) = found, tried
        if worst < GOAL:
            break
    print(f"{name}: degrees {len(top) - 1} and {len(bottom) - 1}, error {worst:.1e}")
    centre, radius = (low + high) / 2, (high - low) / 2
    made = f"Rational({centre!r}, {radius!r}, {tuple(top)!r}, {tuple(bottom)!r})"
    return f"# On {low} to {high}, within {worst:.0e}.\n{name} = {made}\n"


# What is tabulated. Names say of which variable: what is singular, oscillates or grows has been taken out before.


def log_gamma_centre(x: Any) -> Any:
    """log(gamma(x)) / ((x - 1) (x - 2))"""
    return (mp.loggamma(x) / ((x - 1) * (x - 2))).real


def log_gamma_rest(w: Any) -> Any:
    """What Stirling's formula leaves, times x; w = 1/x**2"""
    x = 1 / mp.sqrt(w)
    return x * (mp.loggamma(x) - (x - mpf(1) / 2) * mp.log(x) + x - mp.log(2 * mp.pi) / 2)


def digamma_rest(w: Any) -> Any:
    """(log(x) - 1/(2x) - digamma(x)) x**2; w = 1/x**2"""
    x = 1 / mp.sqrt(w)
    return (mp.log(x) - 1 / (2 * x) - mp.digamma(x)) / w


def erfcx_scaled(t: Any) -> Any:
    """(1 + 2x) exp(x**2) erfc(x); t = (x - 4) / (x + 4)"""
    x = 4 * (1 + t) / (1 - t)
    scaled = mp.exp(x * x) * mp.erfc(x) if x < 20 else mp.hyperu(0.5, 0.5, x * x) / mp.sqrt(mp.pi)
    return (1 + 2 * x) * scaled


def erf_centre(w: Any) -> Any:
    """erf(x) / x; w = x**2"""
    x = mp.sqrt(w)
    return mp.erf(x) / x


def normal_quantile(p: Any) -> Any:
    """Where the normal distribution reaches p < 0.5, by Newton's method on its logarithm."""
    log_p = mp.log(p)
    x = -mp.sqrt(-2 * log_p)
    for _ in range(60):
        lower = mp.erfc(-x / mp.sqrt(2)) / 2
        slope = mp.exp(-x * x / 2) / mp.sqrt(2 * mp.pi) / lower
        step = (mp.log(lower) - log_p) / slope
        x -= step
        if abs(step) < mpf(10) ** -40:
            break
    return x


def quantile_centre(w: Any) -> Any:
    """The normal distribution's quantile at 0.5 + y over y; w = y**2"""
    y = mp.sqrt(w)
    return -normal_quantile(mpf(1) / 2 - y) / y


def quantile_tail(r: Any) -> Any:
    """Minus the normal distribution's quantile at exp(-r**2)"""
    return -normal_quantile(mp.exp(-r * r))


def modulus(order: int, part: str) -> Function:
    """Bessel functions beyond 5 are sqrt(2/(pi x)) (P cos - Q sin)(x - order pi/2 - pi/4); P, or Q x/5; w = (5/x)**2"""

    def function(w: Any) -> Any:
        x = 5 / mp.sqrt(w)
        angle = x - order * mp.pi / 2 - mp.pi / 4
        first, second = mp.besselj(order, x), mp.bessely(order, x)
        size = mp.sqrt(mp.pi * x / 2)
        if part == "p":
            return size * (first * mp.cos(angle) + second * mp.sin(angle))
        return size * (second * mp.cos(angle) - first * mp.sin(angle)) * x / 5

    return function


def bessel_j0_centre(w: Any) -> Any:
    return mp.besselj(0, mp.sqrt(w))


def bessel_j1_centre(w: Any) -> Any:
    """J1(x) / x"""
    x = mp.sqrt(w)
    return mp.besselj(1, x) / x


def bessel_y0_centre(w: Any) -> Any:
    """Y0(x) - 2/pi log(x) J0(x)"""
    x = mp.sqrt(w)
    return mp.bessely(0, x) - 2 / mp.pi * mp.log(x) * mp.besselj(0, x)


def bessel_y1_centre(w: Any) -> Any:
    """(Y1(x) - 2/pi (log(x) J1(x) - 1/x)) / x"""
    x = mp.sqrt(w)
    return (mp.bessely(1, x) - 2 / mp.pi * (mp.log(x) * mp.besselj(1, x) - 1 / x)) / x


def bessel_i0_centre(w: Any) -> Any:
    return mp.besseli(0, mp.sqrt(w))


def bessel_i1_centre(w: Any) -> Any:
    """I1(x) / x"""
    x = mp.sqrt(w)
    return mp.besseli(1, x) / x


def bessel_i_far(order: int) -> Function:
    """exp(-x) sqrt(x) I(x) beyond 8; u = 8/x"""
    return lambda u: mp.exp(-8 / u) * mp.sqrt(8 / u) * mp.besseli(order, 8 / u)


def bessel_k0_centre(w: Any) -> Any:
    """K0(x) + log(x/2) I0(x)"""
    x = mp.sqrt(w)
    return mp.besselk(0, x) + mp.log(x / 2) * mp.besseli(0, x)


def bessel_k1_centre(w: Any) -> Any:
    """(K1(x) - log(x/2) I1(x) - 1/x) / x"""
    x = mp.sqrt(w)
    return (mp.besselk(1, x) - mp.log(x / 2) * mp.besseli(1, x) - 1 / x) / x


def bessel_k_far(order: int) -> Function:
    """exp(x) sqrt(x) K(x) beyond 2; u = 2/x"""
    return lambda u: mp.exp(2 / u) * mp.sqrt(2 / u) * mp.besselk(order, 2 / u)


def airy_right(u: Any) -> Any:
    """2 sqrt(pi) x**(1/4) exp(s) Ai(x); u = 1/s, s = 2/3 x**(3/2)"""
    s = 1 / u
    x = (3 * s / 2) ** (mpf(2) / 3)
    return 2 * mp.sqrt(mp.pi) * mp.root(x, 4) * mp.exp(s) * mp.airyai(x)


def airy_left(part: str) -> Function:
    """Ai(-x) is (P cos + Q sin)(s - pi/4) / (sqrt(pi) x**(1/4)); P, or Q s; w = 1/s**2, s = 2/3 x**(3/2)"""

    def function(w: Any) -> Any:
        s = 1 / mp.sqrt(w)
        x = (3 * s / 2) ** (mpf(2) / 3)
        size, angle = mp.sqrt(mp.pi) * mp.root(x, 4), s - mp.pi / 4
        first, second = mp.airyai(-x), mp.airybi(-x)
        if part == "p":
            return size * (first * mp.cos(angle) - second * mp.sin(angle))
        return size * (first * mp.sin(angle) + second * mp.cos(angle)) * s

    return function


def arcsine(w: Any) -> Any:
    """asin(z) / z; w = z**2"""
    z = mp.sqrt(w)
    return mp.asin(z) / z


TABLES: dict[str, tuple[Function, float, float]] = {
    "LOG_GAMMA_CENTRE": (log_gamma_centre, 0.5, 2.5),
    "LOG_GAMMA_REST": (log_gamma_rest, 0.0, 0.16),
    "DIGAMMA_REST": (digamma_rest, 0.0, 0.25),
    "ERFCX": (erfcx_scaled, -1.0, 1.0),
    "ERF_CENTRE": (erf_centre, 0.0, 1.0),
    "QUANTILE_CENTRE": (quantile_centre, 0.0, 0.180625),
    "QUANTILE_TAIL": (quantile_tail, 1.6, 5.0),
    "QUANTILE_FAR_TAIL": (quantile_tail, 5.0, 27.5),
    "BESSEL_J0_CENTRE": (bessel_j0_centre, 0.0, 25.0),
    "BESSEL_J1_CENTRE": (bessel_j1_centre, 0.0, 25.0),
    "BESSEL_Y0_CENTRE": (bessel_y0_centre, 0.0, 25.0),
    "BESSEL_Y1_CENTRE": (bessel_y1_centre, 0.0, 25.0),
    "BESSEL_P0": (modulus(0, "p"), 0.0, 1.0),
    "BESSEL_Q0": (modulus(0, "q"), 0.0, 1.0),
    "BESSEL_P1": (modulus(1, "p"), 0.0, 1.0),
    "BESSEL_Q1": (modulus(1, "q"), 0.0, 1.0),
    "BESSEL_I0_CENTRE": (bessel_i0_centre, 0.0, 64.0),
    "BESSEL_I1_CENTRE": (bessel_i1_centre, 0.0, 64.0),
    "BESSEL_I0_FAR": (bessel_i_far(0), 0.0, 1.0),
    "BESSEL_I1_FAR": (bessel_i_far(1), 0.0, 1.0),
    "BESSEL_K0_CENTRE": (bessel_k0_centre, 0.0, 4.0),
    "BESSEL_K1_CENTRE": (bessel_k1_centre, 0.0, 4.0),
    "BESSEL_K0_FAR": (bessel_k_far(0), 0.0, 1.0),
    "BESSEL_K1_FAR": (bessel_k_far(1), 0.0, 1.0),
    "AIRY_CENTRE": (mp.airyai, -3.0, 2.0),
    "AIRY_RIGHT": (airy_right, 0.0, 0.5304),
    "AIRY_LEFT_P": (airy_left("p"), 0.0, 0.08334),
    "AIRY_LEFT_Q": (airy_left("q"), 0.0, 0.08334),
    "ARCSINE": (arcsine, 0.0, 0.5),
}  # fmt: skip


def quadrature(count: int) -> str:
    """Gauss's points between 0 and 1, and their weights."""
    points, weights = numpy.polynomial.legendre.leggauss(count)
    lists = [tuple(((points + 1) / 2).tolist()), tuple((weights / 2).tolist())]
    return f"# To integrate from 0 to 1.\nPOINTS = {lists[0]!r}\nWEIGHTS = {lists[1]!r}\n"


def main() -> None:
    parts = [*(table(name, *what) for name, what in TABLES.items()), quadrature(32)]
    TARGET.write_text(HEADER + "\n".join(parts), encoding="utf-8")


if __name__ == "__main__":
    main()
