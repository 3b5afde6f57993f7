"""One sample through one exporter: exported, run in onnxruntime, compared with eager, again with other values."""

from __future__ import annotations

import re
import tempfile
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import onnx
import torch

from .samples import Sample, eager, fresh

RELATIVE, ABSOLUTE = 1e-3, 1e-4  # the yardstick's; onward's own verification is stricter
ROUNDINGS = 2  # of a type with fewer digits than that; PyTorch rounds once per operator, a graph once per node


@dataclass(frozen=True)
class Settings:
    """How samples are exported."""

    exporter: str = "onward"
    opset: int | None = None
    dynamic: bool = False  # every axis of every input, at other sizes too


@dataclass(frozen=True)
class Verdict:
    """`pass`, `baked` (right for the example's values only), `export`, `run` or `mismatch`, and the reason."""

    status: str
    reason: str = ""


Export = Callable[[Sample, Path], None]


def judge(sample: Sample, export: Export, enter: Callable[[str], None] = lambda stage: None) -> Verdict:
    """Judge one sample. `enter` hears of every stage before it begins: the process may not survive it."""
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        path = Path(folder) / "model.onnx"
        stage = "export"
        try:
            enter(stage)
            export(sample, path)
            stage = "run"
            enter(stage)
            run = _runner(path)
            difference = _difference(sample, sample.expected, run(sample.inputs), sample.inputs)
            if difference:
                return Verdict("mismatch", difference)
        except Exception as error:
            return Verdict(stage, _reason(error))
        if sample.other_inputs is None or sample.other_expected is None:
            return Verdict("pass")
        try:
            difference = _difference(sample, sample.other_expected, run(sample.other_inputs), sample.other_inputs)
        except Exception as error:
            difference = _reason(error)
        return Verdict("baked", difference) if difference else Verdict("pass")


def exporter(settings: Settings) -> Export:
    """The function that exports a sample to a path."""
    options: dict[str, Any] = {} if settings.opset is None else {"opset_version": settings.opset}

    def names(sample: Sample) -> list[str]:
        return [f"in_{place}" for place in range(len(sample.inputs))]

    def onward(sample: Sample, path: Path) -> None:
        import onward

        if settings.dynamic:
            every = tuple(dict.fromkeys(range(each.dim()), torch.export.Dim.AUTO) for each in sample.inputs)
            options["dynamic_shapes"] = (every,)  # of `*tensors`
            options["verify"] = True  # at other sizes of every axis, and stricter than `compare`
        onward.export(sample.model, fresh(sample.inputs), path, input_names=names(sample), **options)

    def torchs(sample: Sample, path: Path) -> None:
        dynamo = settings.exporter == "dynamo"
        torch.onnx.export(sample.model, fresh(sample.inputs), path, input_names=names(sample), dynamo=dynamo, **options)

    if settings.exporter not in ("onward", "dynamo", "legacy"):
        raise SystemExit(f"no exporter is called {settings.exporter!r}: onward, dynamo or legacy")
    if settings.dynamic and settings.exporter != "onward":
        raise SystemExit("--dynamic is onward's: the peers have no way to ask for every axis that can vary")
    return onward if settings.exporter == "onward" else torchs


def _runner(path: Path) -> Callable[[tuple[torch.Tensor, ...]], list[torch.Tensor]]:
    """A file as a function; inputs that the exporter dropped are left out."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    known = {each.name for each in session.get_inputs()}

    def run(inputs: tuple[torch.Tensor, ...]) -> list[torch.Tensor]:
        tensors = map(as_pair, fresh(inputs))
        named = {f"in_{place}": tensor for place, tensor in enumerate(tensors) if f"in_{place}" in known}
        given = {name: _value(tensor) for name, tensor in named.items()}
        return [_tensor(value) for value in session.run_with_ort_values(None, given)]

    return run


def as_pair(tensor: torch.Tensor) -> torch.Tensor:
    """Complex numbers have a last axis of 2 in a file; onward and dynamo agree on that."""
    return torch.view_as_real(tensor.resolve_conj()).contiguous() if tensor.is_complex() else tensor


def _value(tensor: torch.Tensor) -> Any:
    """numpy has no bfloat16: onnxruntime is told the type beside the bits."""
    import onnxruntime

    make = onnxruntime.OrtValue.ortvalue_from_numpy_with_onnx_type
    if tensor.dtype is torch.bfloat16:
        return make(tensor.view(torch.int16).numpy(), onnx.TensorProto.BFLOAT16)
    return onnxruntime.OrtValue.ortvalue_from_numpy(tensor.numpy())


def _tensor(value: Any) -> torch.Tensor:
    if "bfloat16" in value.data_type():
        return torch.from_dlpack(value)
    array = value.numpy()
    return torch.from_numpy(array.view(array.dtype.str))  # uint64 by the name that PyTorch knows


def _difference(
    sample: Sample, expected: list[torch.Tensor], got: list[torch.Tensor], inputs: tuple[torch.Tensor, ...]
) -> str:
    """How the results differ from eager's, and, of types with few digits, from what eager gives with more of them:
    what it rounds on the way, or lets overflow, need not be imitated."""
    difference = compare(expected, got, sample.invariants_of(inputs), inputs)
    if difference and any(map(_has_few_digits, expected)):
        wide = [each.double() if each.is_floating_point() else each for each in inputs]
        precise, _ = eager(sample.model, tuple(wide))
        if precise is not None and len(precise) == len(expected):
            precise = [each.to(wanted.dtype) for each, wanted in zip(precise, expected, strict=True)]
            return difference if compare(precise, got, sample.invariants_of(inputs), inputs) else ""
    return difference


def compare(
    expected: list[torch.Tensor],
    got: list[torch.Tensor],
    invariants: Callable[..., list[torch.Tensor]] | None = None,
    inputs: tuple[torch.Tensor, ...] = (),
) -> str:
    """How two lists of results differ; empty if they do not. Integers and booleans are exact.

    With `invariants`, the results have the same shapes, and what is computed from them the same values.
    """
    if len(expected) != len(got):
        return f"{len(got)} results in place of {len(expected)}"
    expected = list(map(as_pair, expected))
    if invariants is not None and all(a.shape == b.shape for a, b in zip(expected, got, strict=True)):
        expected, got = invariants(expected), invariants(got)
    for place, (wanted, found) in enumerate(zip(expected, got, strict=True)):
        if wanted.shape != found.shape:
            return f"result {place} has shape {list(found.shape)} in place of {list(wanted.shape)}"
        if wanted.is_floating_point() != found.is_floating_point() or (wanted.dtype is torch.bool) != (
            found.dtype is torch.bool
        ):
            return f"result {place} has dtype {found.dtype} in place of {wanted.dtype}"
        if wanted.is_floating_point():
            close = torch.isclose(found.double(), wanted.double(), *_tolerances(wanted, inputs), equal_nan=True)
        else:
            close = found == wanted
        if not bool(close.all()):
            return f"result {place} differs in {int((~close).sum())} of {close.numel()} values"
    return ""


def _has_few_digits(tensor: torch.Tensor) -> bool:
    return tensor.is_floating_point() and ROUNDINGS * torch.finfo(tensor.dtype).eps > RELATIVE


def _tolerances(wanted: torch.Tensor, inputs: tuple[torch.Tensor, ...]) -> tuple[float, float]:
    """Relative and absolute. Types of few digits may be off by some roundings, also of what cancels in the end."""
    if not _has_few_digits(wanted):
        return RELATIVE, ABSOLUTE
    roundings = ROUNDINGS * torch.finfo(wanted.dtype).eps
    numbers = [each for each in (wanted, *inputs) if each.dtype is wanted.dtype and each.numel()]
    largest = max((float(each.double().nan_to_num(0, 0, 0).abs().max()) for each in numbers), default=0.0)
    return roundings, roundings * largest / ROUNDINGS


def _reason(error: BaseException) -> str:
    """The error that started a chain of them, on one line, without paths of this run."""
    seen = {id(error)}
    while error.__cause__ is not None and id(error.__cause__) not in seen:
        error = error.__cause__
        seen.add(id(error))
    text = re.sub(r"\x1b\[[0-9;]*m|\S*/(?=model\.onnx)", "", str(error))
    return f"{type(error).__name__}: {' '.join(text.split())}"[:300]
