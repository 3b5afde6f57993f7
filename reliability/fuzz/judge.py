"""What becomes of a program: exported, loaded by onnxruntime, and compared with plain PyTorch."""

from __future__ import annotations

import io
import traceback
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import onnx
import torch

import onward
from onward.errors import ExportError, VerifyError

from .declared import ListeningSession, checked, misdeclared
from .differences import Difference, Raised, differences, unexplained
from .excuses import Case, excuses
from .inputs import Run, runs
from .internal import internal
from .noise import Noise, NoiseFault
from .program import FuzzProgram
from .undefined import Undefined

AGREES = "agrees"
ERROR = "clean ExportError"
WRONG = "wrong without a word"
WARNED = "wrong with a warning"
EXCEPTION = "other exception"
INTERNAL = "internal error"
CHANGED = "model changed by the export"
INVALID = "not a valid file"
UNLOADABLE = "cannot be loaded"
DIED = "process died"
TIMEOUT = "timeout"
ILL = "ill-conditioned"
REFUSED = "refused by PyTorch"  # thrown away: the program is at fault
BAD = (WRONG, EXCEPTION, INTERNAL, CHANGED, INVALID, UNLOADABLE, DIED, TIMEOUT)
CLASSES = (AGREES, ERROR, WARNED, *BAD, ILL, REFUSED)

_DRAWS = 32  # of noise, before a result is believed to be stable
_UNDEFINED = 8  # of what PyTorch leaves undefined, where there is such a thing


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


@dataclass(frozen=True)
class _Expected:
    """A run, and what it has to give.

    result  of plain PyTorch
    own     of what is exported, where PyTorch has made something else of the program: a script, an ExportedProgram
    """

    run: Run
    result: Any
    own: Any = None


def judge(program: FuzzProgram, folder: Path, *, zero: bool = False, export: Export = export) -> Verdict:
    """Export one program and compare it. The reference is a model of its own, called outside everything of onward, and
    has given all its results before the export begins."""
    example = program.example()
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        try:
            module = program.imported(folder)
            reference = program.build(module)
            model = _front(program, program.build(module), example)
            expected = _expected(program, reference, model, zero)
        except Exception as error:
            return Verdict(REFUSED, _told(error))
        before = _state(model)
    verdict = _exported(program, reference, model, expected, export)
    if verdict.kind in BAD:
        return verdict
    changed = _changed(program, model, before, expected[0])
    return replace(verdict, kind=CHANGED, detail=changed) if changed else verdict


def _front(program: FuzzProgram, model: Any, example: tuple[torch.Tensor, ...]) -> Any:
    if program.front == "script":
        return torch.jit.script(model)
    if program.front == "exported":
        return torch.export.export(model, example, dynamic_shapes=_dynamic_shapes(program))
    return model


def _expected(program: FuzzProgram, reference: Any, model: Any, zero: bool) -> list[_Expected]:
    """The runs that PyTorch takes, the example among them."""
    found: list[_Expected] = []
    given = _callable(program, model)
    for run in runs(program, zero):
        try:
            result = reference(*_copies(run.inputs))
            # An ExportedProgram may have been made for fewer sizes.
            own = None if program.front == "trace" else given(*_copies(run.inputs))
        except Exception:
            if not found:
                raise
            continue
        found.append(_Expected(run, result, own))
    return found


def _callable(program: FuzzProgram, model: Any) -> Any:
    return model.module() if program.front == "exported" else model


def _exported(program: FuzzProgram, reference: Any, model: Any, expected: list[_Expected], export: Export) -> Verdict:
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            exported = export(program, model, _copies(expected[0].run.inputs))
            file = io.BytesIO()
            exported.save(file)
    except ExportError as error:
        crashed = internal(error)
        told = f"{type(error).__name__}: {error.what}"
        return Verdict(INTERNAL, f"{crashed}\n{told}") if crashed else Verdict(ERROR, told)
    except Exception as error:
        return Verdict(EXCEPTION, _told(error) + "\n" + traceback.format_exc(limit=-6))
    warned = tuple(str(each.message) for each in caught if issubclass(each.category, onward.CaptureWarning))
    try:
        exported._session = ListeningSession(file.getvalue(), threads=1)
    except VerifyError as error:
        return Verdict(UNLOADABLE, str(error), warned)
    proto, complaint = checked(file.getvalue())
    if complaint:
        return Verdict(INVALID, complaint, warned)
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        return _compared(program, reference, exported, proto, expected, warned)


def _compared(
    program: FuzzProgram,
    reference: Any,
    exported: Any,
    proto: onnx.ModelProto,
    expected: list[_Expected],
    warned: tuple[str, ...],
) -> Verdict:
    """Every run is judged. One that is wrong without a word outweighs all that a warning or rounding explains."""
    shaky = excused = ""
    for at, each in enumerate(expected):
        actual = _ran(exported, each.run)
        found = _against(program, each, proto, exported, actual)
        if not found:
            continue
        case = Case(program, reference, each.run.sizes, each.run.inputs, program.source())
        if excused and excuses(warned, case):  # whether rounding explains it as well changes nothing any more
            continue
        told = f"{each.run.label}: {found[0].text}"
        found = unexplained(found, each.result, actual, _draws(reference, each.run))
        if not found:
            shaky = shaky or told
            continue
        told = f"{each.run.label}: {found[0].text}"
        if at == 0 or not excuses(warned, case):  # no warning excuses a file that is wrong at its own example
            return Verdict(WRONG, told, warned, at + 1)
        excused = excused or told
    kind = WARNED if excused else ILL if shaky else AGREES
    return Verdict(kind, excused or shaky, warned, len(expected))


def _ran(exported: Any, run: Run) -> Any:
    try:
        return exported(*_copies(run.inputs))
    except Exception as error:
        return Raised(_told(error))


def _against(
    program: FuzzProgram, expected: _Expected, proto: onnx.ModelProto, exported: Any, actual: Any
) -> list[Difference]:
    """What differs from plain PyTorch, and from what PyTorch has made of the program; and from what the file says."""
    found = differences(program, expected.result, actual)
    if found and program.front != "trace":
        found = differences(program, expected.own, actual)
    if not found:
        said = misdeclared(proto, exported._session.last, expected.run.sizes)
        found = [Difference(said)] if said else []
    return found


def _draws(reference: Any, run: Run) -> Iterator[Any]:
    """PyTorch's own results where every operation rounds a little differently, and what is undefined is random."""
    for seed in range(_DRAWS):
        try:
            with Noise(seed):
                drawn = reference(*_copies(run.inputs))
        except NoiseFault:
            raise
        except Exception as error:  # another size, another branch: a number decided that noise can change
            drawn = Raised(_told(error))
        yield drawn
    for seed in range(_UNDEFINED):
        with Undefined(seed) as mode:
            try:
                drawn = reference(*_copies(run.inputs))
            except Exception as error:
                drawn = Raised(_told(error))
        if not mode.seen:
            return
        yield drawn


_State = tuple[dict[str, bool], dict[str, torch.Tensor]]


def _state(model: Any) -> _State:
    modes = {name: each.training for name, each in model.named_modules()} if hasattr(model, "named_modules") else {}
    state = model.state_dict() if callable(model.state_dict) else model.state_dict  # of an ExportedProgram
    return modes, {name: each.detach().clone() for name, each in state.items()}


def _changed(program: FuzzProgram, model: Any, before: _State, example: _Expected) -> str:
    """What the export has left behind in the model; nothing if it is as it was."""
    modes, tensors = _state(model)
    if modes != before[0]:
        return f"the mode of {sorted(name for name, mode in modes.items() if before[0].get(name) is not mode)}"
    if tensors.keys() != before[1].keys():
        return f"the names of its tensors: {sorted(tensors.keys() ^ before[1].keys())}"
    for name, tensor in tensors.items():
        if not torch.equal(tensor.nan_to_num(), before[1][name].nan_to_num()):
            return f"the tensor {name}"
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        try:
            result = _callable(program, model)(*_copies(example.run.inputs))
        except Exception as error:
            return f"it no longer runs: {_told(error)}"
    found = differences(program, example.result if program.front == "trace" else example.own, result)
    return f"its results: {found[0].text}" if found else ""


def _copies(tensors: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, ...]:
    return tuple(each.clone() for each in tensors)


def _told(error: BaseException) -> str:
    text = str(error).strip().splitlines()
    return f"{type(error).__name__}: {text[0] if text else ''}"[:300]
