"""What PyTorch raises in the middle of a quantised model, where something is known of the reason.

Looked for when it has happened: a check beforehand would be one in every step of a training.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from ...errors import ExportError, QuantizationError
from .controller import Controller, quantised_parameters


def trouble_of(controller: Controller, model: nn.Module, path: str, error: RuntimeError) -> QuantizationError | None:
    """The error to raise instead; `path` is that of the model inside of the one that was initialised."""
    if isinstance(error, ExportError):
        return None
    for where, _, _, each in quantised_parameters(controller, model, path):
        if each.dtype is not torch.float32:
            place = where or "the model itself"
            return QuantizationError(
                f"{place} has parameters of {each.dtype} by now, and what is quantised is float32",
                hint="call model.float(); autocast may still compute in half precision",
            )
    if torch._C._functorch.peek_interpreter_stack() is not None:
        return QuantizationError(
            "torch.func cannot look into a quantised model: its ranges are read as numbers, and follow the batches",
            hint="take gradients by backward() or torch.autograd.grad",
        )
    return None


def refuse_script() -> Any:
    """What `torch.jit.script` asks every module for. It would compile the code, and see nothing of quantisation."""
    raise QuantizationError(
        "torch.jit.script cannot look into a quantised model",
        hint="give the model itself to onward.export",
    )
