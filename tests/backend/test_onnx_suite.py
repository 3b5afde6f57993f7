"""onnx's own suite of the backend interface: what every operator must compute, as the standard's authors wrote it down.

What does not pass is in `exclusions.py` with its reason. Such a case must fail: one that passes is a stale row.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import onnx
import pytest
import torch
from onnx import numpy_helper
from onnx.backend.test.loader import load_model_tests
from onnx.backend.test.runner import Runner

import onward.backend

from .exclusions import EXCLUSIONS

KINDS = ("node", "simple", "pytorch-converted", "pytorch-operator")


@functools.cache
def cases() -> dict[str, Any]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # onnx computes what is expected with overflows and divisions by zero
        return {case.name: case for kind in KINDS for case in load_model_tests(kind=kind)}


def parameters() -> list[Any]:
    rows = []
    for name in cases():
        marks = [pytest.mark.xfail(reason=EXCLUSIONS[name], strict=True)] if name in EXCLUSIONS else []
        rows.append(pytest.param(name, marks=marks, id=name.removeprefix("test_")))
    return rows


def stored(path: Path, type_: onnx.TypeProto) -> Any:
    content = path.read_bytes()
    kind = type_.WhichOneof("value")
    if kind == "sequence_type":
        return numpy_helper.to_list(onnx.SequenceProto.FromString(content))
    if kind == "optional_type":
        return numpy_helper.to_optional(onnx.OptionalProto.FromString(content))
    return numpy_helper.to_array(onnx.TensorProto.FromString(content))


def data_sets(case: Any) -> Iterator[tuple[Any, list[Any], list[Any]]]:
    """The model, inputs, and what must come out."""
    if case.model is not None:
        for inputs, outputs in case.data_sets:
            yield case.model, list(map(unpacked, inputs)), list(map(unpacked, outputs))
        return
    file = Path(case.model_dir) / "model.onnx"
    graph = onnx.load(file).graph
    for folder in sorted(file.parent.glob("test_data_set*")):
        inputs = [stored(folder / f"input_{n}.pb", graph.input[n].type) for n in range(count(folder, "input"))]
        outputs = [stored(folder / f"output_{n}.pb", graph.output[n].type) for n in range(count(folder, "output"))]
        yield file, inputs, outputs


def count(folder: Path, kind: str) -> int:
    return len(list(folder.glob(f"{kind}_*.pb")))


def unpacked(value: Any) -> Any:
    return numpy_helper.to_array(value) if isinstance(value, onnx.TensorProto) else value


@pytest.mark.parametrize("name", parameters())
def test_case(name: str) -> None:
    case = cases()[name]
    torch.manual_seed(0)  # so that what draws numbers fails every time, or never
    for model, inputs, outputs in data_sets(case):
        compared(case, onward.backend.prepare(model).run(inputs), outputs)


def compared(case: Any, got: Sequence[Any], outputs: Sequence[Any]) -> None:
    """Raises unless each output is what it must be."""
    assert len(got) == len(outputs)
    for ours, theirs in zip(got, outputs, strict=True):
        # onnx's comparison does not take a sequence of 0-d tensors apart, so it is given the items.
        one = not isinstance(ours, list)
        Runner.assert_similar_outputs(
            [theirs] if one else theirs, [ours] if one else ours, rtol=case.rtol, atol=case.atol
        )


def test_the_share_that_passes(capsys: pytest.CaptureFixture[str]) -> None:
    total, excluded = len(cases()), len(EXCLUSIONS)
    assert set(EXCLUSIONS) <= set(cases()), "the table names cases that the suite does not have"
    with capsys.disabled():
        print(f"\nonnx {onnx.__version__}: {total - excluded} of {total} cases pass ({1 - excluded / total:.2%})")
    assert 1 - excluded / total >= 0.97
