"""How far two tensors may differ, and how far they do.

An element passes if

    |actual - expected|  <=  rtol * |expected|  +  atol * scale

where `scale` is the typical magnitude of the expected tensor. Rounding errors come in both sizes: a result is off by a
share of its own value (the last operation rounded), and by a share of the numbers that went into it (a sum of large
terms that nearly cancel). An absolute tolerance would be blind for an output of the order of 1e-6 and unfair to one of
the order of 1e6; one relative to each element would fail every value near zero.

The scale is the root mean square of the finite, nonzero elements, but never more than 10 times their median: a mask
value of -1e9 among ordinary numbers must not excuse them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch

from onward.errors import VerifyError

__all__ = ["Comparison", "Tolerance", "as_pytorch", "check", "compare", "compare_output", "tolerances"]


@dataclass(frozen=True)
class Tolerance:
    """rtol is relative to each element, atol to the scale of the whole tensor."""

    rtol: float
    atol: float

    def __str__(self) -> str:
        if not self.rtol and not self.atol:
            return "exact"
        return f"rtol {self.rtol:g}, atol {self.atol:g} x scale"


EXACT = Tolerance(0.0, 0.0)

_TOLERANCES = {
    # Attributes of ONNX operators are float32 (epsilon, alpha, ...), so a float64 model that uses one is right to about
    # 6e-8 and no better.
    torch.float64: Tolerance(1e-7, 1e-7),
    # Rounding is 6e-8. Networks of a hundred layers, computed in another order, stay within 1e-5 or so; a wrong one
    # (tanh instead of erf in GELU, an epsilon of 1e-3 instead of 1e-5, half-pixel centers) is off by 5e-4 and more.
    torch.float32: Tolerance(1e-4, 5e-5),
    # Rounding is 5e-4, and the two sides round in different places: PyTorch accumulates some kernels in float32,
    # onnxruntime computes most of a float16 graph in float32 and rounds at its own seams.
    torch.float16: Tolerance(1e-2, 1e-2),
    # Rounding is 4e-3; the same holds.
    torch.bfloat16: Tolerance(5e-2, 5e-2),
    # One step of the format: 3 bits of mantissa, or 2.
    torch.float8_e4m3fn: Tolerance(0.125, 0.125),
    torch.float8_e4m3fnuz: Tolerance(0.125, 0.125),
    torch.float8_e5m2: Tolerance(0.25, 0.25),
    torch.float8_e5m2fnuz: Tolerance(0.25, 0.25),
    # A complex number has the precision of its parts; its error is the modulus of the difference.
    torch.complex128: Tolerance(1e-7, 1e-7),
    torch.complex64: Tolerance(1e-4, 5e-5),
    torch.complex32: Tolerance(1e-2, 1e-2),
}
_MEDIANS = 10.0
MOST_FURTHER = 1e-3  # of a quantised output: the share of elements that may be more than a step away


def tolerances(dtype: torch.dtype) -> Tolerance:
    """The tolerance for a type; integers and booleans must agree exactly."""
    if dtype in _TOLERANCES:
        return _TOLERANCES[dtype]
    if dtype.is_floating_point or dtype.is_complex:
        raise VerifyError(f"there is no tolerance for {dtype}", hint="pass one: Tolerance(rtol=..., atol=...)")
    return EXACT


@dataclass(frozen=True)
class Comparison:
    """One output, expected (PyTorch) against actual (onnxruntime).

    problem           why they cannot be compared number by number (type, shape), or None
    max_abs_error     the largest difference; infinite where only one side is NaN, or an infinity is not matched
    max_scaled_error  the same relative to `scale`
    random            the operator that draws random numbers for it: only type and shape were compared
    mismatches        how many of `count` elements are beyond the tolerance
    step              of the grid that a quantised output lies on, or None
    further           how many elements are more than such a step away
    tied              how many indices differ and name equal values, as `topk` may choose among
    worst_index       the element furthest beyond (or closest to) its tolerance, with both values
    """

    name: str
    dtype: torch.dtype
    shape: tuple[int, ...]
    tolerance: Tolerance
    count: int
    problem: str | None = None
    random: str | None = None
    scale: float = 0.0
    max_abs_error: float = 0.0
    max_scaled_error: float = 0.0
    mismatches: int = 0
    worst_index: tuple[int, ...] | None = None
    expected: bool | int | float | complex | None = None
    actual: bool | int | float | complex | None = None
    step: float | None = None
    further: int = 0
    tied: int = 0

    @property
    def ok(self) -> bool:
        if self.problem is not None or self.mismatches == 0 or self.step is None:
            return self.problem is None and self.mismatches == 0
        return self.further <= MOST_FURTHER * self.count

    def __str__(self) -> str:
        if self.problem is not None:
            return f"output '{self.name}': {self.problem}"
        if self.random is not None:
            return f"output '{self.name}' has its type and shape; its values are random ({self.random}), not compared"
        error = f"max error {self.max_abs_error:.3g} ({self.max_scaled_error:.3g} of its scale {self.scale:.3g})"
        if self.step is not None and self.mismatches:
            steps = f"in steps of {self.step:.3g} {self.further} further than one"
            error = f"{error}, {self.count - self.mismatches} of {self.count} elements equal, {steps}"
        if self.tied:
            return f"output '{self.name}' agrees: {self.tied} of {self.count} indices differ and name equal values"
        if self.ok:
            return f"output '{self.name}' agrees: {error}"
        return (
            f"output '{self.name}' differs in {self.mismatches} of {self.count} elements: {error}, "
            f"tolerance {self.tolerance}; worst at {list(self.worst_index or ())}: "
            f"expected {_number(self.expected)}, got {_number(self.actual)}"
        )


def compare(
    expected: torch.Tensor,
    actual: torch.Tensor,
    name: str,
    tolerance: Tolerance | None = None,
    *,
    random: str | None = None,
    step: float | None = None,
) -> Comparison:
    """Compare one output. Types and shapes must agree, and so must the positions of NaN and of each infinity.

    `random` is the operator that draws random numbers for it, if there is one: then only type and shape are compared.
    `step` is that of the grid that it was rounded to (0 for the 255th part of its range): an element may be one off.
    """
    expected, actual = expected.detach().cpu(), as_pytorch(actual.detach().cpu(), expected.dtype)
    allowed = tolerances(expected.dtype) if tolerance is None else tolerance
    shape = tuple(expected.shape)

    def different(what: str, ours: object, theirs: object) -> Comparison:
        problem = f"the {what} is {theirs}, expected {ours}"
        return Comparison(name, expected.dtype, shape, allowed, expected.numel(), problem=problem)

    if expected.dtype != actual.dtype:
        return different("type", expected.dtype, actual.dtype)
    if expected.shape != actual.shape:
        return different("shape", list(expected.shape), list(actual.shape))
    if not expected.numel() or random is not None:
        return Comparison(name, expected.dtype, shape, allowed, 0, random=random)
    compared = _compare_values(expected, actual, name, allowed)
    return compared if step is None or compared.ok else _in_steps(compared, expected, actual, step)


def _in_steps(compared: Comparison, expected: torch.Tensor, actual: torch.Tensor, step: float) -> Comparison:
    """The same where values were rounded to a grid and the last bit of a float decided in which direction."""
    error = _errors(expected, actual)
    if step == 0:
        finite = expected[torch.isfinite(expected)].double()
        step = float(finite.max() - finite.min()) / 255 if finite.numel() else 0.0
    return replace(compared, step=step, further=int((error > step * 1.001).sum()))


def compare_output(
    expected: torch.Tensor | Sequence[torch.Tensor],
    actual: torch.Tensor | Sequence[torch.Tensor],
    name: str,
    tolerance: Tolerance | None = None,
    *,
    random: str | None = None,
    step: float | None = None,
) -> list[Comparison]:
    """Compare one output: a tensor, or a list of tensors, whose length must agree too, element by element."""
    if isinstance(expected, torch.Tensor) and isinstance(actual, torch.Tensor):
        return [compare(expected, actual, name, tolerance, random=random, step=step)]
    if isinstance(expected, torch.Tensor) or isinstance(actual, torch.Tensor) or len(expected) != len(actual):
        problem = f"it is {_kind(actual)}, expected {_kind(expected)}"
        return [Comparison(name, torch.float32, (), tolerance or EXACT, 0, problem=problem)]
    if not expected:
        return [Comparison(name, torch.float32, (), tolerance or EXACT, 0)]
    pairs = enumerate(zip(expected, actual, strict=True))
    return [
        compare(want, have, f"{name}[{place}]", tolerance, random=random, step=step) for place, (want, have) in pairs
    ]


def _kind(value: torch.Tensor | Sequence[torch.Tensor]) -> str:
    return "a tensor" if isinstance(value, torch.Tensor) else f"a list of {len(value)} tensor{'s' * (len(value) != 1)}"


def as_pytorch(tensor: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """A file's result as PyTorch gives it: complex numbers are a last axis of 2 in a file."""
    is_pair = dtype.is_complex and tensor.dim() and tensor.size(-1) == 2 and tensor.dtype is dtype.to_real()
    return torch.view_as_complex(tensor.contiguous()) if is_pair else tensor


def _compare_values(expected: torch.Tensor, actual: torch.Tensor, name: str, tolerance: Tolerance) -> Comparison:
    scale = _scale(expected)
    error = _errors(expected, actual)
    allowed = torch.zeros_like(error)
    if tolerance != EXACT:
        wide = _widen(expected)
        size = torch.where(torch.isfinite(wide), wide.abs(), 0).double()
        # Below the smallest normal number one side may round to zero and the other not.
        allowed = tolerance.rtol * size + tolerance.atol * scale + torch.finfo(expected.dtype).tiny
    over = error > allowed
    # Where nothing is allowed, any error is the worst.
    ratio = torch.where(allowed > 0, error / allowed, torch.where(error > 0, torch.inf, 0.0))
    worst = int(torch.where(over, error, -1.0).argmax()) if tolerance == EXACT else int(ratio.argmax())
    largest = float(error.max())
    return Comparison(
        name=name,
        dtype=expected.dtype,
        shape=tuple(expected.shape),
        tolerance=tolerance,
        count=expected.numel(),
        scale=scale,
        max_abs_error=largest,
        max_scaled_error=largest / scale,
        mismatches=int(over.sum()),
        worst_index=tuple(int(i) for i in torch.unravel_index(torch.tensor(worst), expected.shape)),
        expected=expected.reshape(-1)[worst].item(),
        actual=actual.reshape(-1)[worst].item(),
    )


def _widen(tensor: torch.Tensor) -> torch.Tensor:
    if tensor.is_complex():
        return tensor.to(torch.complex128)
    return tensor.double()


def _errors(expected: torch.Tensor, actual: torch.Tensor) -> torch.Tensor:
    """|actual - expected| in float64; infinite wherever NaN or infinity is not matched by the same."""
    if not (expected.dtype.is_floating_point or expected.dtype.is_complex):
        # float64 cannot tell neighbouring large int64 apart, so equality is decided before, and counts at least 1.
        unequal = expected != actual
        return torch.where(unequal, (actual.double() - expected.double()).abs().clamp(min=1), 0.0)
    left, right = _widen(expected), _widen(actual)
    error = (right - left).abs()
    finite = torch.isfinite(left) & torch.isfinite(right)
    same = (left == right) | (torch.isnan(left) & torch.isnan(right))
    return torch.where(finite, error, torch.where(same, 0.0, torch.inf))


def _scale(expected: torch.Tensor) -> float:
    """The typical magnitude of what is not zero; 1 if everything is. Fillers at the end of the range do not count."""
    sizes = _widen(expected).abs().reshape(-1)
    limit = torch.finfo(expected.dtype).max / 4 if _TOLERANCES.get(expected.dtype) else torch.inf
    sizes = sizes[torch.isfinite(sizes) & (sizes > 0) & (sizes < limit)]
    if not sizes.numel():
        return 1.0
    largest = float(sizes.max())  # divided out, so that squares of very large or small numbers stay in range
    mean_square = largest * float((sizes / largest).square().mean().sqrt())
    return min(mean_square, _MEDIANS * float(sizes.median()))


def _number(value: bool | int | float | complex | None) -> str:
    return f"{value:.9g}" if isinstance(value, (float, complex)) else str(value)


def check(
    expected: torch.Tensor, actual: torch.Tensor, name: str, tolerance: Tolerance | None = None, *, label: str = ""
) -> Comparison:
    """Compare one output and raise unless it agrees."""
    comparison = compare(expected, actual, name, tolerance)
    raise_unless_ok([comparison], label)
    return comparison


def raise_unless_ok(comparisons: Sequence[Comparison], label: str = "") -> None:
    """One error for all outputs that differ."""
    failed = [str(comparison) for comparison in comparisons if not comparison.ok]
    if failed:
        where = f" ({label})" if label else ""
        raise VerifyError(f"onnxruntime and PyTorch disagree{where}", details=failed)
