"""One run of a model in onnxruntime, held against what PyTorch computed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import torch

from onward.capture.program.facts import Output
from onward.errors import VerifyError
from onward.verify.compare import Comparison, Tolerance, compare_output
from onward.verify.runtime import Inputs, Session

Judge = Callable[[str, torch.Tensor, torch.Tensor], bool]  # an output's name, PyTorch's indices, onnxruntime's


def verify_run(
    session: Session,
    label: str,
    inputs: Inputs,
    expected: Sequence[Output],
    *,
    tolerances: Mapping[str, Tolerance] | None = None,
    random: Mapping[str, str] | None = None,
    steps: Mapping[str, float] | None = None,
    judge: Judge | None = None,
) -> list[Comparison]:
    """Run and compare every output, a list by its elements; differences are in the result, failures to run are raised
    with the label.

    `expected` follows the order of the graph's outputs. `tolerances` replaces the table's, by output name.
    `random` has the outputs that depend on random numbers and the operators that draw them: of these only type and
    shape are compared. `steps` has those that were rounded to a grid, and how wide its steps are. `judge` is asked
    about whole numbers that differ: whether they are indices of equal values.
    """
    names = session.output_names
    if len(expected) != len(names):
        raise VerifyError(
            f"the model has {len(names)} outputs ({', '.join(names)}), and PyTorch returned {len(expected)}",
            details=[f"run: {label}"],
        )
    chosen = dict(tolerances or {})
    if unknown := sorted(set(chosen) - set(names)):
        raise VerifyError(f"a tolerance for an output that does not exist: {', '.join(unknown)}")
    try:
        actual = session.run(inputs)
    except VerifyError as error:
        raise VerifyError(error.what, details=[*error.details, f"run: {label}"], hint=error.hint) from error.__cause__
    found = []
    for name, wanted, got in zip(names, expected, actual, strict=True):
        drawn, step = (random or {}).get(name), (steps or {}).get(name)
        compared = compare_output(wanted, got, name, chosen.get(name), random=drawn, step=step)
        if judge is not None and isinstance(wanted, torch.Tensor) and isinstance(got, torch.Tensor):
            compared = [_without_ties(each, judge, wanted, got) for each in compared]
        found += compared
    return found


def _without_ties(comparison: Comparison, judge: Judge, wanted: torch.Tensor, got: torch.Tensor) -> Comparison:
    """Indices that differ and name equal values are as good as one another."""
    is_index = not wanted.is_floating_point() and not wanted.is_complex() and wanted.dtype is not torch.bool
    if comparison.ok or comparison.problem is not None or not is_index or not judge(comparison.name, wanted, got):
        return comparison
    return replace(comparison, mismatches=0, tied=comparison.mismatches, max_abs_error=0.0, max_scaled_error=0.0)
