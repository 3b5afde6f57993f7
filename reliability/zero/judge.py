"""One file at a size of 0, in a process that may die of it."""

from __future__ import annotations

import io
import os
import traceback
import warnings
from pathlib import Path

import torch

import onward
from conformance.samples import flat, fresh
from onward.errors import ExportError, VerifyError
from onward.verify import Session, compare
from reliability.fuzz.judge import AGREES, ERROR, EXCEPTION, REFUSED, UNLOADABLE, WRONG, Verdict

from .cases import Case, cases

MOST_CASES = 12  # of one operator


def judge_place(place: int, folder: Path, *, names: tuple[str, ...], dtype: str, opset: int | None) -> Verdict:
    """The verdict on a case by its number: that of its name, and its own among those of that name."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # native code writes there before it dies
    known = cases(names[place // MOST_CASES], dtype)
    number = place % MOST_CASES
    if number >= len(known):
        return Verdict(REFUSED, "there is no such case")
    return judge(known[number], opset)


def judge(case: Case, opset: int | None = None) -> Verdict:
    names = [f"in_{place}" for place in range(len(case.example))]
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            program = onward.export(
                case.model, fresh(case.example), input_names=names, dynamic_axes=case.dynamic_axes(),
                opset_version=opset, verify=False, allow_constant_outputs=True,
            )  # fmt: skip
            file = io.BytesIO()
            program.save(file)
    except ExportError as error:
        return Verdict(ERROR, f"{case.text}: {type(error).__name__}: {error.what}")
    except Exception as error:
        return Verdict(EXCEPTION, f"{case.text}: {type(error).__name__}: {error}\n{traceback.format_exc(limit=-6)}")
    warned = tuple(str(each.message) for each in caught if issubclass(each.category, onward.CaptureWarning))
    try:
        program._session = Session(file.getvalue(), threads=1)
    except VerifyError as error:
        return Verdict(UNLOADABLE, f"{case.text}: {error}", warned)
    different = _difference(case, program)
    if not different:
        return Verdict(AGREES, case.text, warned, 1)
    return Verdict(WRONG, f"{case.text}: {different}", warned, 1)


def _difference(case: Case, program: onward.Program) -> str:
    try:
        with torch.no_grad():
            actual = flat(program(*fresh(case.inputs)))
    except Exception as error:
        return f"it does not run: {type(error).__name__}: {' '.join(str(error).split())[:300]}"
    if len(actual) != len(case.expected):
        return f"{len(actual)} results, expected {len(case.expected)}"
    for place, (want, have) in enumerate(zip(case.expected, actual, strict=True)):
        compared = compare(want, have, f"output {place}")
        if not compared.ok:
            return str(compared)
    return ""
