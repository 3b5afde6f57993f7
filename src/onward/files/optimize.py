"""`onward.optimize`: the passes of an export, on files that others wrote."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import onnx_ir as ir
import torch

from ..capture.program.facts import Output as Answer
from ..errors import InputError, VerifyError
from ..options import check_flag
from ..passes import tidy_file
from ..program import Program
from ..verify import Session, compare_output
from .edit import Output, check_output, hand_back, has_data_file
from .inputs import made_up_inputs
from .load import AnyModel, load, load_copy
from .shapes import forget_shapes, infer_from_inputs

_ROUNDS = 8  # a fold may give a shape, and a shape the next fold; files are done after two or three
_OLDEST_FORMAT = 4  # before, every constant had to be an input as well


def optimize(
    model: AnyModel,
    output: Output | None = None,
    *,
    verify: bool = False,
    inputs: Mapping[str, torch.Tensor] | None = None,
) -> Any:
    """The same model with less in it: what an export of ours goes through, for a file that others wrote.

    output   where to write the result; weights that were in a data file go to one again
    verify   run both in onnxruntime and compare; a difference raises VerifyError, and nothing is written
    inputs   what to run them with, by name; made up from the model's own declarations if they are not given

    Inputs, outputs, their names and their order stay as they are.
    """
    check_flag("verify", verify, "True or False")
    check_output(output)
    if inputs is not None and not verify:
        raise InputError("inputs are given, and verify=True is not", hint="inputs are what to verify with")
    changed = load_copy(model)
    external = has_data_file(changed)
    _optimize(changed)
    if verify:
        _compare(model, changed, inputs)
    return hand_back(changed, model, output, external)


def _optimize(model: ir.Model) -> None:
    declared = {value: value.shape for value in model.graph.outputs}
    told = forget_shapes(model)
    model.ir_version = max(model.ir_version, _OLDEST_FORMAT)
    for _ in range(_ROUNDS):
        infer_from_inputs(model)
        if not tidy_file(model):
            break
    # Written as they were: a runtime that is told more checks more, and refuses what it would have let pass.
    for value, shape in told.items():
        value.shape = shape
    for value, shape in zip(model.graph.outputs, declared.values(), strict=True):
        value.shape = shape


def _compare(before: AnyModel, after: ir.Model, inputs: Mapping[str, torch.Tensor] | None) -> None:
    original = Session(before.model if isinstance(before, Program) else before)
    if inputs is not None:
        feeds, expected = dict(inputs), original.run(inputs)
    else:
        feeds, expected = made_up_inputs(load(before, weights=False), original.run)
    actual = Session(after).run(feeds)
    for name, wanted, got in zip(original.output_names, expected, actual, strict=True):
        for result in compare_output(wanted, got, name):
            if not result.ok:
                _blame(original, feeds, name, wanted, str(result))


def _blame(original: Session, feeds: Mapping[str, torch.Tensor], name: str, wanted: Answer, text: str) -> None:
    again = dict(zip(original.output_names, original.run(feeds), strict=True))[name]
    if not all(each.ok for each in compare_output(wanted, again, name)):
        raise VerifyError(
            f"the model gives another '{name}' each time it runs, so there is nothing to compare",
            hint="it draws random numbers; leave verify out",
        )
    raise VerifyError(
        f"the optimised model answers otherwise: {text}",
        hint="this is a fault of onward's: please report it with the model",
    )
