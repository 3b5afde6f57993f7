"""Inputs for a model that comes without any: made from what it declares, at sizes that it accepts."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import onnx_ir as ir
import torch
from onnx_ir.tensor_adapters import to_torch_dtype

from ..capture.program.facts import Output
from ..errors import BackendError, InputError, VerifyError, first_line

_SIZES = (2, 1, 3, 4, 5, 6, 7, 8, 10, 16, 32, 64, 128, 224)
_HINT = "give them: inputs={name: tensor, ...}"
_BOUNDS = re.compile(r"onward\.axis\.(.+)"), re.compile(r"(\d{1,5})\.\.(\d{0,18})")  # a lower end that fits in memory
_MOST_TURNS = 1_000_000_000
_WHOLE = (ir.DataType.INT64, ir.DataType.BOOL)
Feeds = dict[str, torch.Tensor]


def axis_bounds(model: ir.Model) -> dict[str, tuple[int, int | None]]:
    """The smallest and the largest size of each axis that was exported with bounds; other writers' entries are none."""
    found = {}
    for key, text in model.metadata_props.items():
        axis, ends = _BOUNDS[0].fullmatch(key), _BOUNDS[1].fullmatch(text)
        if axis and ends:
            found[axis[1]] = int(ends[1]), int(ends[2]) if ends[2] else None
    return found


def within(size: int, bounds: tuple[int, int | None] | None) -> int:
    """The nearest size that the bounds allow."""
    if bounds is None:
        return size
    low, high = bounds
    return max(low, size if high is None else min(size, high))


def made_up_inputs(model: ir.Model, run: Callable[[Feeds], list[Output]]) -> tuple[Feeds, list[Output]]:
    """Inputs that the model runs with, as `run` runs it, and what it answers. Axes with a name have one size wherever
    they appear, within the bounds that they were exported with."""
    refused: VerifyError | BackendError | None = None
    endless = next(_endless_loops(model), None)
    if endless is not None:
        raise VerifyError(
            f"the model is not run: its Loop '{endless}' takes more than {_MOST_TURNS:,} turns", hint=_HINT
        )
    for size in _SIZES:
        feeds = dict(_feeds(model, size))
        try:
            return feeds, run(feeds)
        except (VerifyError, BackendError) as error:
            if isinstance(error, BackendError) and error.exceeds_limit:
                raise
            refused = refused or error
        if all(_is_static(value) for value in model.graph.inputs):
            break
    raise VerifyError(f"the model runs on none of the inputs that were made up for it: {refused}", hint=_HINT)


def _endless_loops(model: ir.Model) -> Iterator[str]:
    """Loops that are known to go on and on: nobody can stop a runtime that is in one."""
    for node in model.graph.all_nodes():
        if node.op_type != "Loop" or node.domain or "body" not in node.attributes or len(node.inputs) < 2:
            continue
        body, count = node.attributes["body"].as_graph(), node.inputs[0]
        if len(body.inputs) < 2 or not body.outputs:
            continue
        turns = _number(count) if count is not None else _MOST_TURNS + 1
        if turns is None or turns <= _MOST_TURNS:
            continue
        goes_on: ir.Value | None = body.outputs[0]
        while goes_on is not None and (made := goes_on.producer()) is not None and made.op_type == "Identity":
            goes_on = made.inputs[0]
        started = node.inputs[1]
        if goes_on is body.inputs[1]:  # what it is told at the start
            goes_on = started
        if goes_on is None or _number(goes_on):
            yield node.name or str(node.outputs[0].name if node.outputs else "")


def _number(value: ir.Value) -> int | None:
    """The number that a constant of the file holds."""
    held = value.const_value
    if held is None or held.size != 1 or value.is_graph_input() or held.dtype not in _WHOLE:
        return None
    return int(held.numpy().reshape(()))


def _is_static(value: ir.Value) -> bool:
    return value.shape is not None and value.shape.is_static()


def _feeds(model: ir.Model, size: int) -> Iterator[tuple[str, torch.Tensor]]:
    generator = torch.Generator().manual_seed(0)
    bounds = axis_bounds(model)
    for value in model.graph.inputs:
        if value.is_initializer():
            continue
        if not isinstance(value.type, ir.TensorType) or value.dtype is None or value.dtype == ir.DataType.STRING:
            raise InputError(f"no input can be made up for '{value.name}', which is no tensor of numbers", hint=_HINT)
        sizes = [
            each if isinstance(each, int) else within(size, bounds.get(str(each.value))) for each in value.shape or ()
        ]
        try:
            yield str(value.name), _tensor(sizes, to_torch_dtype(value.dtype), generator)
        except (RuntimeError, TypeError) as error:  # of a size that no memory has, or a type that PyTorch has not
            raise InputError(f"no input can be made up for '{value.name}': {first_line(error)}", hint=_HINT) from error


def _tensor(sizes: list[int], dtype: torch.dtype, generator: torch.Generator) -> torch.Tensor:
    """Numbers around zero; integers are 0 or 1, which serve as indices, masks and token ids alike."""
    if dtype.is_floating_point or dtype.is_complex:
        return torch.randn(sizes, generator=generator).to(dtype)
    return torch.randint(0, 2, sizes, generator=generator).to(dtype)
