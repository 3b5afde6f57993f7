"""Other weights into a model that has been written already."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import onnx_ir as ir
import torch
from onnx_ir.tensor_adapters import TorchTensor, from_torch_dtype

from ..errors import InputError
from ..program import Program
from .edit import Output, check_output, hand_back, has_data_file
from .load import AnyModel, load_copy

_SOME = 5


def apply_weights(model: AnyModel, state_dict: Mapping[str, torch.Tensor], output: Output | None = None) -> Any:
    """The model with the weights of a state dict, or of a part of one, in the place of its own.

    In a file, a weight is found by its name, and it has to be there as the state dict has it: one that an export has
    folded into something else is an error, and so is one of another shape or type. Weights in a data file go to one
    again. For a Program it is `program.apply_weights(state_dict)`, which works folded weights out anew.
    """
    check_output(output)
    if isinstance(model, Program):
        model.apply_weights(state_dict)
        if output is not None:
            model.save(output)
        return model
    if not isinstance(state_dict, Mapping):
        raise InputError(
            f"apply_weights takes a state dict, not {type(state_dict).__name__}", hint="pass model.state_dict()"
        )
    loaded = load_copy(model)
    external = has_data_file(loaded)
    stored = {name: value for graph in loaded.graphs() for name, value in graph.initializers.items()}
    given = {str(key): value for key, value in state_dict.items() if not str(key).endswith("_extra_state")}
    _refuse([text for key, value in given.items() if (text := _wrong(key, value, stored.get(key))) is not None])
    _check_all_there(loaded, given, stored)
    for key in given:
        if key in stored:
            stored[key].const_value = TorchTensor(given[key].detach().cpu(), name=key)
    return hand_back(loaded, model, output, external)


def _wrong(key: str, tensor: Any, value: ir.Value | None) -> str | None:
    if not isinstance(tensor, torch.Tensor):
        return f"'{key}' is of type {type(tensor).__name__}, not a tensor"
    old = value.const_value if value is not None else None
    if old is None:
        return None
    if tuple(tensor.shape) != tuple(old.shape.numpy()):
        return f"'{key}' has the shape {list(tensor.shape)}, and the file's has {list(old.shape.numpy())}"
    if from_torch_dtype(tensor.dtype) != old.dtype:
        return f"'{key}' is {from_torch_dtype(tensor.dtype).name}, and the file's is {old.dtype.name}"
    return None


def _refuse(wrong: list[str]) -> None:
    if wrong:
        raise InputError("the state dict does not fit the model", details=_some(wrong))


def _check_all_there(model: ir.Model, given: Mapping[str, torch.Tensor], stored: Mapping[str, ir.Value]) -> None:
    """Every weight that is given has a place. A second name of a tied weight needs none, nor does batch norm's count of
    batches, which no graph reads."""
    placed = [tensor for key, tensor in given.items() if key in stored]
    absent = [
        key
        for key, tensor in given.items()
        if key not in stored and not key.endswith("num_batches_tracked") and not _is_tied(tensor, placed)
    ]
    if not absent:
        return
    inputs = {value.name for value in model.graph.inputs}
    details = []
    for key in absent:
        made = [f"'{name}'" for name in stored if name.startswith(f"{key}.")]
        if key in inputs:
            details.append(f"'{key}' is an input of the model: feed it")
        elif made:
            details.append(f"'{key}' was folded into {', '.join(made)}")
        else:
            details.append(
                f"'{key}' is nowhere in it: the graph does not read it, or it was folded into something else"
            )
    raise InputError(
        f"the model has no place for {len(absent)} of {len(given)} weights",
        details=_some(details),
        hint="export with do_constant_folding=False, which keeps weights as the state dict has them, or call "
        "apply_weights on the program that export returned, which folds anew; leave out weights that are not read",
    )


def _is_tied(tensor: torch.Tensor, placed: list[torch.Tensor]) -> bool:
    return any(
        tensor.data_ptr() == other.data_ptr() and tensor.shape == other.shape and tensor.dtype == other.dtype
        for other in placed
        if other.numel()
    )


def _some(texts: list[str]) -> list[str]:
    more = len(texts) - _SOME
    return texts if more <= 0 else [*texts[:_SOME], f"and {more} more"]
