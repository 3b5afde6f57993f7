"""A run of the whole file with intermediate values as outputs, held against PyTorch's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch

from onward.capture.program.execute import steps
from onward.errors import VerifyError
from onward.hunt.case import Case
from onward.verify import Comparison, Session, compare


def values_in_run(case: Case, names: Sequence[str], *, optimize: bool = False) -> dict[str, torch.Tensor]:
    """What these values, and the outputs, are in a run of the file, by name. Raises VerifyError if it does not run."""
    model = case.file.model.clone()
    opened = set(names) - {value.name for value in model.graph.outputs}
    model.graph.outputs.extend(value for node in model.graph for value in node.outputs if value.name in opened)
    session = Session(model, optimize=optimize)
    results = zip(session.output_names, session.run(case.fed), strict=True)
    return {name: each for name, each in results if isinstance(each, torch.Tensor)}


def errors_in_run(
    case: Case, names: Sequence[str], *, optimize: bool = False, grid: Mapping[str, float] | None = None
) -> dict[str, Comparison]:
    """The error of known values in a run of the file, by name; nothing if the file does not run at all.

    `grid` has the step of every value that lies on one, by name; integers are on one of step 1.
    """
    asked = list({name: None for name in names if name in case.known})
    try:
        results = values_in_run(case, asked, optimize=optimize)
    except VerifyError:
        return {}
    wanted: dict[str, list[str]] = {}
    for name in asked:
        wanted.setdefault(case.known[name].node, []).append(name)
    found = {}
    for node, value in steps(case.captured, case.inputs):
        for name in wanted.get(node.name, ()):
            expected, actual = case.known[name].pick(value), results.get(name)
            if expected is not None and actual is not None:
                step = grid.get(name) if grid is not None else None
                whole = step is not None and not actual.is_floating_point()
                found[name] = compare(expected, actual, name, step=1.0 if whole else step)
    return {name: found[name] for name in asked if name in found}
