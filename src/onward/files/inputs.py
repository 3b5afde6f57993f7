"""Inputs for a model that comes without any: made from what it declares, at sizes that it accepts."""

from __future__ import annotations

from collections.abc import Iterator

import onnx_ir as ir
import torch
from onnx_ir.tensor_adapters import to_torch_dtype

from ..capture.facts import Output
from ..errors import InputError, VerifyError
from ..verify import Session

_SIZES = (2, 1, 3, 4, 5, 6, 7, 8, 10, 16, 32, 64, 128, 224)
_HINT = "give them: inputs={name: tensor, ...}"
Feeds = dict[str, torch.Tensor]


def made_up_inputs(model: ir.Model, session: Session) -> tuple[Feeds, list[Output]]:
    """Inputs that the model runs with, and what it answers. Axes with a name have one size wherever they appear."""
    refused: VerifyError | None = None
    for size in _SIZES:
        feeds = dict(_feeds(model, size))
        try:
            return feeds, session.run(feeds)
        except VerifyError as error:
            refused = refused or error
        if all(_is_static(value) for value in model.graph.inputs):
            break
    raise VerifyError(f"the model runs on none of the inputs that were made up for it: {refused}", hint=_HINT)


def _is_static(value: ir.Value) -> bool:
    return value.shape is not None and value.shape.is_static()


def _feeds(model: ir.Model, size: int) -> Iterator[tuple[str, torch.Tensor]]:
    generator = torch.Generator().manual_seed(0)
    for value in model.graph.inputs:
        if value.is_initializer():
            continue
        if not isinstance(value.type, ir.TensorType) or value.dtype is None or value.dtype == ir.DataType.STRING:
            raise InputError(f"no input can be made up for '{value.name}', which is no tensor of numbers", hint=_HINT)
        sizes = [each if isinstance(each, int) else size for each in value.shape or ()]
        yield str(value.name), _tensor(sizes, to_torch_dtype(value.dtype), generator)


def _tensor(sizes: list[int], dtype: torch.dtype, generator: torch.Generator) -> torch.Tensor:
    """Numbers around zero; integers are 0 or 1, which serve as indices, masks and token ids alike."""
    if dtype.is_floating_point or dtype.is_complex:
        return torch.randn(sizes, generator=generator).to(dtype)
    return torch.randint(0, 2, sizes, generator=generator).to(dtype)
