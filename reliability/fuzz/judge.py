"""What becomes of a program: exported, loaded by onnxruntime, and compared with plain PyTorch."""

from __future__ import annotations

import io
import re
import traceback
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch.utils._pytree import tree_flatten

import onward
from onward.errors import ExportError, VerifyError
from onward.verify import Session, compare, tolerances

from .answers import decided
from .noise import Noise
from .program import FuzzProgram

AGREES = "agrees"
ERROR = "clean ExportError"
WRONG = "wrong without a word"
WARNED = "wrong with a warning"
EXCEPTION = "other exception"
UNLOADABLE = "cannot be loaded"
DIED = "process died"
TIMEOUT = "timeout"
ILL = "ill-conditioned"
REFUSED = "refused by PyTorch"  # thrown away: the program is at fault
CLASSES = (AGREES, ERROR, WRONG, WARNED, EXCEPTION, UNLOADABLE, DIED, TIMEOUT, ILL, REFUSED)
BAD = (WRONG, EXCEPTION, UNLOADABLE, DIED, TIMEOUT)

_DRAWS = 16  # of noise, before a result is believed to be stable


@dataclass(frozen=True)
class Verdict:
    """A class, what was seen, and how many runs were compared."""

    kind: str
    detail: str = ""
    warned: tuple[str, ...] = ()
    runs: int = 0


Export = Callable[[FuzzProgram, Any, tuple[torch.Tensor, ...]], Any]


def export(program: FuzzProgram, model: Any, example: tuple[torch.Tensor, ...]) -> Any:
    """The export that is judged; tests put a broken one in its place."""
    options: dict[str, Any] = dict(verify=False, opset_version=program.opset, do_constant_folding=program.folding)
    if program.front == "exported":
        return onward.export(model, **options)
    if program.training:
        options["training"] = onward.TrainingMode.TRAINING
    axes = program.dynamic_axes()
    if axes and program.by_shapes:
        options["dynamic_shapes"] = _dynamic_shapes(program)
    elif axes:
        options["dynamic_axes"] = axes
        options["input_names"] = [each.name for each in program.arguments]
    return onward.export(model, example, **options)


def _dynamic_shapes(program: FuzzProgram) -> dict[str, Any]:
    dims = {name: torch.export.Dim(name) for name in program.dynamic}
    axes = program.dynamic_axes()
    return {
        each.name: {place: dims[name] for place, name in axes.get(each.name, {}).items()} or None
        for each in program.arguments
    }


def judge(program: FuzzProgram, folder: Path, *, zero: bool = False, export: Export = export) -> Verdict:
    """Export one program and compare it. The reference is a model of its own, called outside everything of onward."""
    example = program.example()
    try:
        module = program.imported(folder)
        reference = program.build(module)
        with warnings.catch_warnings(), torch.no_grad():
            warnings.simplefilter("ignore")
            reference(*_copies(example))
            model = _front(program, program.build(module), example)
    except Exception as error:
        return Verdict(REFUSED, _told(error))
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            exported = export(program, model, _copies(example))
            file = io.BytesIO()
            exported.save(file)
    except ExportError as error:
        return Verdict(ERROR, f"{type(error).__name__}: {error.what}")
    except Exception as error:
        return Verdict(EXCEPTION, _told(error) + "\n" + traceback.format_exc(limit=-6))
    warned = tuple(str(each.message) for each in caught if issubclass(each.category, onward.CaptureWarning))
    try:
        exported._session = Session(file.getvalue(), threads=1)
    except VerifyError as error:
        return Verdict(UNLOADABLE, str(error), warned)
    return _compared(program, reference, model, exported, warned, zero)


def _front(program: FuzzProgram, model: Any, example: tuple[torch.Tensor, ...]) -> Any:
    if program.front == "script":
        return torch.jit.script(model)
    if program.front == "exported":
        return torch.export.export(model, example, dynamic_shapes=_dynamic_shapes(program))
    return model


def _compared(
    program: FuzzProgram, reference: Any, model: Any, exported: Any, warned: tuple[str, ...], zero: bool
) -> Verdict:
    runs, ill = 0, ""
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        for label, sizes, inputs in _runs(program, zero):
            try:
                if program.front == "exported" and runs:
                    model.module()(*_copies(inputs))  # an ExportedProgram may have been made for fewer sizes
                expected = reference(*_copies(inputs))
            except Exception:
                continue
            different = _difference(program, expected, lambda taken=inputs: exported(*_copies(taken)))
            runs += 1
            if different and program.front != "trace":  # PyTorch may have made something else of the program
                given = model.module() if program.front == "exported" else model
                own = given(*_copies(inputs))
                different = _difference(program, own, lambda taken=inputs: exported(*_copies(taken)))
            if not different:
                continue
            if _unstable(program, reference, inputs, expected):
                ill = f"{label}: {different}"
                continue
            # No warning excuses a file that is wrong at its own example.
            excused = runs > 1 and excuses(program, warned, reference, sizes, inputs)
            return Verdict(WARNED if excused else WRONG, f"{label}: {different}", warned, runs)
    return Verdict(ILL, ill, warned, runs) if ill else Verdict(AGREES, "", warned, runs)


_Run = tuple[str, Mapping[str, int], tuple[torch.Tensor, ...]]
_MOVED = {"negated": (-1.0, 0.0), "large": (4.0, 0.5), "small": (0.1, 0.0), "high": (1.0, 1.0), "low": (1.0, -1.0)}


def _runs(program: FuzzProgram, zero: bool) -> list[_Run]:
    """What is compared. A program that decides on data is given data for either side, at every size."""
    axes = program.axes
    runs: list[_Run] = [("example", axes, program.example()), ("fresh values", axes, program.example(1))]
    others = program.other_sizes(zero=zero)
    runs += [(f"at {dict(sizes)}", sizes, program.example(2 + at, sizes)) for at, sizes in enumerate(others)]
    if program.decides:
        runs += [(f"{name} values", axes, program.example(20, axes, *how)) for name, how in _MOVED.items()]
        runs += [("fresh values", axes, program.example(seed)) for seed in range(21, 25)]
        for at, sizes in enumerate(others):
            for name, how in list(_MOVED.items())[at % 2 :: 2]:
                runs.append((f"at {dict(sizes)}, {name} values", sizes, program.example(30 + at, sizes, *how)))
    return runs


def excuses(
    program: FuzzProgram,
    warned: tuple[str, ...],
    reference: Any,
    sizes: Mapping[str, int],
    inputs: tuple[torch.Tensor, ...],
) -> bool:
    """Whether a warning had said that the file may be wrong here.

    A warning of sizes says so of other sizes than the example's. A warning of what data decides says so where this
    decision, at the line that it names, is another one than the example's.
    """
    taken: list[set[tuple[int, str]]] = []
    for text in warned:
        if not any(each in text for each in _OF_DATA):
            if dict(sizes) != dict(program.axes) or not any(each in text for each in _OF_SIZES):
                return True
            continue
        taken = taken or [decided(reference, _copies(program.example())), decided(reference, _copies(inputs))]
        lines = {int(line) for line in re.findall(r"fuzzed_\d+_\d+\.py:(\d+)", text)}
        if any(line in lines for line, _ in taken[0] ^ taken[1]):
            return True
    return False


_OF_DATA = ("keeps the example's", "depends on data")
_OF_SIZES = ("depends on the size", "written as fixed", "written for sizes")


def _difference(program: FuzzProgram, expected: Any, run: Callable[[], Any]) -> str:
    """What is different, in a line; nothing if nothing is."""
    try:
        actual = run()
    except Exception as error:
        return "it does not run: " + _told(error)
    return difference(program, expected, actual)


def difference(program: FuzzProgram, expected: Any, actual: Any) -> str:
    wanted, first = tree_flatten(expected)
    found, second = tree_flatten(actual)
    if len(wanted) != len(found) or first != second:
        return f"the structure is {second}, expected {first}"
    for at, (want, have) in enumerate(zip(wanted, found, strict=True)):
        if not isinstance(want, torch.Tensor):
            if not _same_number(want, have):
                return f"output {at} is the number {have}, expected {want}"
            continue
        if not isinstance(have, torch.Tensor):
            return f"output {at} is {type(have).__name__}, expected a tensor"
        tolerance = None
        if want.is_floating_point() and program.coarse is not None:
            tolerance = max((tolerances(program.coarse), tolerances(want.dtype)), key=lambda each: each.atol)
        compared = compare(want, have, str(at), tolerance)
        if not compared.ok:
            return str(compared)
    return ""


def _same_number(want: Any, have: Any) -> bool:
    if isinstance(have, torch.Tensor):
        have = have.item() if have.numel() == 1 else None
    if isinstance(want, (int, float)) and isinstance(have, (int, float)):
        return abs(want - have) <= 1e-5 * abs(want)
    return bool(want == have)


def _unstable(program: FuzzProgram, reference: Any, inputs: tuple[torch.Tensor, ...], expected: Any) -> bool:
    """Whether PyTorch itself answers otherwise when it rounds otherwise."""
    for seed in range(_DRAWS):
        try:
            with Noise(seed):
                moved = reference(*_copies(inputs))
        except Exception:
            return True  # another size, another branch: a number decided that noise can change
        if difference(program, expected, moved):
            return True
    return False


def _copies(tensors: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, ...]:
    return tuple(each.clone() for each in tensors)


def _told(error: BaseException) -> str:
    text = str(error).strip().splitlines()
    return f"{type(error).__name__}: {text[0] if text else ''}"[:300]
