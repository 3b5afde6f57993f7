"""One run of a model in onnxruntime, held against what PyTorch computed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from onward.capture.facts import Output
from onward.errors import VerifyError
from onward.verify.compare import Comparison, Tolerance, compare_output
from onward.verify.runtime import Inputs, Session


def verify_run(
    session: Session,
    label: str,
    inputs: Inputs,
    expected: Sequence[Output],
    *,
    tolerances: Mapping[str, Tolerance] | None = None,
    random: Mapping[str, str] | None = None,
    steps: Mapping[str, float] | None = None,
) -> list[Comparison]:
    """Run and compare every output, a list by its elements; differences are in the result, failures to run are raised
    with the label.

    `expected` follows the order of the graph's outputs. `tolerances` replaces the table's, by output name.
    `random` has the outputs that depend on random numbers and the operators that draw them: of these only type and
    shape are compared. `steps` has those that were rounded to a grid, and how wide its steps are.
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
    return [
        comparison
        for name, wanted, got in zip(names, expected, actual, strict=True)
        for comparison in compare_output(
            wanted, got, name, chosen.get(name), random=(random or {}).get(name), step=(steps or {}).get(name)
        )
    ]
