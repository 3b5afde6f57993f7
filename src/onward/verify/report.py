"""What verification found: every run, every output, as an object and as a table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from onward.capture.program.facts import Output
from onward.errors import VerifyError
from onward.verify.compare import Comparison

_HEADINGS = ("run", "output", "type", "shape", "max error", "of scale", "result")


@dataclass(frozen=True)
class Check:
    """One run of the model, "example" or "batch=1, sequence=7", and its outputs. A skipped one says why."""

    label: str
    comparisons: tuple[Comparison, ...] = ()
    skipped: str | None = None
    inputs: tuple[torch.Tensor, ...] = field(default=(), repr=False, compare=False)  # of a run that disagrees
    expected: tuple[Output, ...] = field(default=(), repr=False, compare=False)  # and what PyTorch answered

    @property
    def ok(self) -> bool:
        return all(comparison.ok for comparison in self.comparisons)


@dataclass(frozen=True)
class Verification:
    """All runs of one verification."""

    checks: tuple[Check, ...] = field(default=())
    explanation: Any = field(default=None, compare=False)  # of `verify(explain=True)`, or why runs disagree
    warnings: tuple[str, ...] = ()  # what the export said that limits the file

    @property
    def ok(self) -> bool:
        """Whether every output of every run agrees. A verification in which nothing ran proves nothing."""
        ran = [check for check in self.checks if check.skipped is None]
        return bool(ran) and all(check.ok for check in ran)

    @property
    def max_scaled_error(self) -> float:
        """The largest error of all runs, relative to the scale of the output it is in."""
        errors = [comparison.max_scaled_error for check in self.checks for comparison in check.comparisons]
        return max(errors, default=0.0)

    @property
    def first_failed(self) -> Check | None:
        """The first run that disagrees."""
        return next((check for check in self.checks if not check.ok), None)

    def raise_unless_ok(self) -> None:
        """Raise VerifyError if a run disagrees, or if none took place."""
        if self.ok:
            return
        error = self._error(self.warnings)
        if self.explanation is not None:
            error.explain(self.explanation)
        raise error

    def _error(self, warned: Sequence[str]) -> VerifyError:
        details = [
            f"{check.label}: {comparison}"
            for check in self.checks
            for comparison in check.comparisons
            if not comparison.ok
        ]
        if not details:
            return VerifyError("nothing was verified", details=[f"{c.label}: {c.skipped}" for c in self.checks])
        at_sizes = any("=" in check.label for check in self.checks if not check.ok)
        bounds = ", for example with Dim(..., min=2) in dynamic_shapes" if at_sizes else ""
        if warned and all(check.ok for check in self.checks if check.label == "example"):
            return VerifyError(
                "onnxruntime and PyTorch disagree at other sizes or values than the example's",
                details=[*details, *(f"the export has warned: {text}" for text in warned)],
                hint=f"keep to what the warning allows{bounds}, or change the line that it names",
            )
        return VerifyError(
            "onnxruntime and PyTorch disagree",
            details=details,
            hint="a model that draws random numbers, or changes from call to call, cannot be verified; of any other "
            "model this is a defect of the export, worth reporting",
        )

    def __str__(self) -> str:
        rows: list[tuple[str, ...]] = [_HEADINGS]
        for check in self.checks:
            if check.skipped is not None:
                rows.append((check.label, "", "", "", "", "", f"skipped: {check.skipped}"))
            rows.extend(_row(check.label, comparison) for comparison in check.comparisons)
        explained = self.explanation.lines() if self.explanation is not None else []
        return "\n".join([*_aligned(rows), "", self.summary(), *explained])

    def summary(self) -> str:
        """The verdict in one line: how many runs agree, how well, and how many warnings limit the file."""
        verdict = self._verdict()
        if not self.warnings:
            return verdict
        many = len(self.warnings) != 1
        return f"{verdict}; {len(self.warnings)} warning{'s' * many} limit{'' if many else 's'} this file (see above)"

    def _verdict(self) -> str:
        ran = [check for check in self.checks if check.skipped is None]
        failed = [check.label for check in ran if not check.ok]
        runs, agree = (f"{len(ran)} runs", "agree") if len(ran) != 1 else ("1 run", "agrees")
        if not ran:
            return "nothing was verified"
        if failed:
            return f"{len(failed)} of {runs} disagree: {'; '.join(failed)}"
        compared = [each for check in ran for each in check.comparisons if each.random is None]
        random = sorted({each.name for check in ran for each in check.comparisons if each.random is not None})
        left_out = f"; values of {', '.join(map(repr, random))} are random and were not compared" if random else ""
        if not compared:
            return f"{runs} {agree} in type and shape{left_out}"
        return f"{runs} {agree}, largest error {self.max_scaled_error:.2g} of an output's scale{left_out}"


def _row(label: str, comparison: Comparison) -> tuple[str, ...]:
    kind = str(comparison.dtype).removeprefix("torch.")
    shape = "x".join(map(str, comparison.shape)) or "scalar"
    if comparison.problem is not None:
        return (label, comparison.name, kind, shape, "", "", comparison.problem)
    if comparison.random is not None:
        return (label, comparison.name, kind, shape, "", "", f"type and shape ok; values random ({comparison.random})")
    if comparison.tied:
        return (label, comparison.name, kind, shape, "", "", f"ok: {comparison.tied} indices name equal values")
    result = "ok" if comparison.ok else f"{comparison.mismatches} of {comparison.count} differ"
    if comparison.ok and comparison.mismatches:
        equal = comparison.count - comparison.mismatches
        result = f"ok: {equal} of {comparison.count} equal, {comparison.further} more than a step away"
    errors = (f"{comparison.max_abs_error:.2g}", f"{comparison.max_scaled_error:.2g}")
    return (label, comparison.name, kind, shape, *errors, result)


def _aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    return [lines[0], "  ".join("-" * width for width in widths), *lines[1:]]
