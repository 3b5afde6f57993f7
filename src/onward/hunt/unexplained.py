"""What is left when every operator is right by itself: another program, an optimizer, or rounding that grows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from onward.capture.program.facts import Output
from onward.errors import VerifyError
from onward.hunt.case import Case
from onward.hunt.findings import Explanation, Spot
from onward.hunt.float64 import wide_outputs
from onward.hunt.whole_file_run import errors_in_run
from onward.verify import Comparison, Session, compare, compare_output, output_steps, random_outputs

_AT_ONCE = 200  # values of a run that are looked at together
_OF_ROUNDING = 4.0


def without_culprit(case: Case, outputs: Sequence[Any], compared: int) -> Explanation:
    """`outputs` are what the captured program gives."""
    alone = f"every operator of the file is right for PyTorch's inputs ({compared} values were compared)"
    if case.expected is not None and not all(each.ok for each in _held(case, case.expected, outputs)):
        note = (
            "the captured program does not compute what the model does when it is called outside of the export: it "
            "branches on a value that the trace kept, asks for the type of a tensor, or was not followed rightly"
        )
        return Explanation("capture", compared=compared, notes=(f"{alone}, but {note}",))
    truth = outputs if case.expected is None else case.expected
    optimized, plain = (_answers(case, truth, optimize=optimize) for optimize in (True, False))
    if optimized and all(each.ok for each in optimized):
        return Explanation("right", compared=compared, notes=(f"{alone}, and so are the outputs",))
    if optimized and plain and all(each.ok for each in plain):
        note = (
            f"{alone}, and with onnxruntime's graph optimizations off so are the outputs: an optimization is at fault"
        )
        return Explanation("optimizer", compared=compared, notes=(note,))
    return _rounding(case, truth, optimized, alone, compared)


def _held(case: Case, expected: Sequence[Any], actual: Sequence[Any]) -> list[Comparison]:
    random, steps = random_outputs(case.file.model), output_steps(case.file.model)
    return [
        each
        for port, want, have in zip(case.captured.outputs, expected, actual, strict=True)
        if isinstance(have, torch.Tensor | list)
        for each in compare_output(want, have, port.name, random=random.get(port.name), step=steps.get(port.name))
    ]


def _answers(case: Case, truth: Sequence[Output], *, optimize: bool) -> list[Comparison]:
    """The outputs of the whole file; none if it does not run."""
    try:
        return _held(case, truth, Session(case.file.model, optimize=optimize).run(case.fed))
    except VerifyError:
        return []


def _rounding(case: Case, truth: Sequence[Output], found: list[Comparison], alone: str, compared: int) -> Explanation:
    exact = wide_outputs(case.captured, case.inputs)
    wrong = {each.name: each for each in found if not each.ok}
    own = 0.0
    for port, want, wide in zip(case.captured.outputs, truth, exact or [None] * len(truth), strict=True):
        if port.name in wrong and isinstance(want, torch.Tensor) and isinstance(wide, torch.Tensor):
            own = max(own, compare(want, wide.to(want.dtype), port.name).max_scaled_error)
    error = max((each.max_scaled_error for each in wrong.values()), default=0.0)
    if not wrong or error > _OF_ROUNDING * own:
        return Explanation("unexplained", compared=compared, notes=(f"{alone}; what differs lies between them",))
    spot, grown = _first_beyond(case)
    notes = [
        f"{alone}: this is rounding that grows. The model is ill-conditioned for this input: PyTorch's own result is "
        f"{own:.2g} of its scale away from what it computes in float64, the file's {error:.2g} away from PyTorch's"
    ]
    if spot is not None and grown is not None:
        notes.append(
            f"the first value beyond the tolerance is {spot}: its error is {grown.max_abs_error:.3g} "
            f"({grown.max_scaled_error:.2g} of its scale)"
        )
    return Explanation("rounding", compared=compared, notes=tuple(notes), spot=spot)


def _first_beyond(case: Case) -> tuple[Spot | None, Comparison | None]:
    names = [name for name in case.file.makers if name in case.known]
    for start in range(0, len(names), _AT_ONCE):
        for name, compared in errors_in_run(case, names[start : start + _AT_ONCE]).items():
            if not compared.ok:
                return case.spot(case.file.piece(name, case.known)), compared
    return None, None
