"""Export one architecture in this process, compare the file at other sizes, and print what was found as JSON."""

from __future__ import annotations

import json
import re
import sys
import time
import traceback
import warnings
from typing import Any

import torch
from torch import Tensor

import onward

from . import packages
from .case import Case, Sizes

RTOL, ATOL = 1e-3, 1e-4


def tensors(value: Any) -> list[Tensor]:
    """The tensors of a result, in order."""
    if isinstance(value, Tensor):
        return [value]
    if isinstance(value, dict):
        value = value.values()
    elif not isinstance(value, (tuple, list)):
        return []
    return [each for part in value for each in tensors(part)]


def run(case: Case, sizes: Sizes, seed: int) -> tuple[tuple[Tensor, ...], list[Tensor]]:
    """Inputs of these sizes, and what PyTorch makes of them."""
    torch.manual_seed(seed)
    args = tuple(case.inputs(sizes).values())
    with torch.no_grad():
        return args, tensors(case.model(*(each.clone() for each in args)))


def differs(found: list[Tensor], wanted: list[Tensor]) -> str:
    """Empty where all results agree, else what does not."""
    if len(found) != len(wanted):
        return f"{len(found)} results instead of {len(wanted)}"
    for index, (got, want) in enumerate(zip(found, wanted, strict=True)):
        if got.shape != want.shape or got.dtype != want.dtype:
            return f"result {index} is {got.dtype}{list(got.shape)} instead of {want.dtype}{list(want.shape)}"
        if not torch.allclose(got, want, rtol=RTOL, atol=ATOL, equal_nan=True):
            return f"result {index} is off by {(got.double() - want.double()).abs().max():.3g}"
    return ""


def measured(case: Case) -> dict[str, Any]:
    """Export the case, and compare it wherever PyTorch takes the sizes."""
    try:
        args, _ = run(case, case.sizes, 0)
    except Exception as error:  # what a model raises is anybody's guess
        return {"status": "not in eager", "reason": _said(error)}
    started = time.process_time()
    run(case, case.sizes, 0)
    forward = time.process_time() - started
    found: dict[str, Any] = {"forward": forward}
    started = time.process_time()
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        try:
            program = onward.export(case.model, args, input_names=list(case.axes), dynamic_axes=case.axes)
        except onward.ExportError as error:
            return found | {"status": "refused", "reason": _said(error), "export": time.process_time() - started}
        except Exception as error:  # anything else is a defect, and the sweep goes on
            return found | {"status": "crashed", "reason": _said(error) + _where(error)}
    found |= {"export": time.process_time() - started, "nodes": len(program.model.graph)}
    said = [str(each.message) for each in heard if issubclass(each.category, onward.ExportWarning)]
    return found | _compared(case, program) | ({"warnings": said} if said else {})


def _compared(case: Case, program: onward.Program) -> dict[str, Any]:
    sizes = []
    for seed, other in enumerate((case.sizes, *case.others), 1):
        try:
            args, wanted = run(case, other, seed)
        except Exception:  # PyTorch refuses this size; there is nothing to compare
            continue
        label = ",".join(str(size) for size in other.values())
        try:
            why = differs(tensors(program(*args)), wanted)
        except Exception as error:  # a refusal at a size that PyTorch takes
            return {"status": "refuses a size", "reason": f"{label}: {_said(error)}"}
        if why:
            return {"status": "wrong", "reason": f"{label}: {why}"}
        sizes.append(label)
    return {"status": "ok", "sizes": sizes}


def _said(error: BaseException) -> str:
    return re.sub(r"\s+", " ", f"{type(error).__name__}: {error}")[:1500]


def _where(error: BaseException) -> str:
    return " | " + " < ".join(
        f"{frame.filename.rpartition('/')[2]}:{frame.lineno}"
        for frame in reversed(traceback.extract_tb(error.__traceback__)[-6:])
    )


if __name__ == "__main__":
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    package, name = sys.argv[1:]
    try:
        answer = measured(packages.module(package).case(name))
    except Exception as error:  # the model cannot be built in a small configuration
        answer = {"status": "not built", "reason": _said(error) + _where(error)}
    print("\n" + json.dumps(answer))
