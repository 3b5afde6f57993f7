"""A quantised model under `torch.compile` runs as it is.

What its modules compute depends on tags of tensors and on ranges that are read as numbers, of which a compiler would
make a new graph in every step. So the compiler stops at the hooks of a model, and starts again behind it.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from torch._C._dynamo import eval_frame as dynamo  # torch._dynamo itself takes seconds to import

from ...errors import QuantizationError
from ..run.overflow import QuantizationWarning

if TYPE_CHECKING:
    from ..run.controller import Controller

_SAID = "torch.compile"


def not_compiled(hook: Callable[..., Any]) -> Callable[..., Any]:
    """What `torch.compiler.disable(recursive=False)` does, without the import."""
    skip = dynamo._FrameExecStrategy(dynamo._FrameAction.SKIP, dynamo._FrameAction.DEFAULT)
    dynamo.set_code_exec_strategy(hook.__code__, skip)
    hook._torchdynamo_disable = True  # type: ignore[attr-defined]
    hook._torchdynamo_disable_msg = "a quantised model runs as it is"  # type: ignore[attr-defined]
    return hook


set_compiler = dynamo.set_eval_frame  # to None turns it off, and gives what turns it on again


def say_uncompiled(controller: Controller) -> None:
    """Once for a model."""
    if _SAID not in controller.warned:
        controller.warned.add(_SAID)
        warnings.warn("torch.compile leaves a quantised model as it is: it runs uncompiled", QuantizationWarning, 4)


def check_not_traced() -> None:
    """torch.export shows a model tensors without values, and ranges are values."""
    if torch.compiler.is_exporting():
        raise QuantizationError(
            "torch.export cannot look into a quantised model",
            hint="give the model itself to onward.export, without torch.export",
        )
