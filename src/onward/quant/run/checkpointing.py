"""`torch.utils.checkpoint` inside a quantised model that is trained.

It keeps nothing of a part of the model, and runs that part again while gradients are computed, when the run that knew
which of its tensors lie on which grid is over. So everything is kept here, and nothing runs again.
"""

from __future__ import annotations

import contextlib
import warnings
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.autograd.graph import saved_tensors_hooks

from ...errors import QuantizationError
from .overflow import QuantizationWarning

if TYPE_CHECKING:
    from .controller import Controller

_SAID = "torch.utils.checkpoint"
saved_hooks = torch._C._autograd._top_saved_tensors_default_hooks


def is_checkpointed() -> bool:
    """Whether what autograd is about to keep would be thrown away, to be computed again."""
    hooks: Any = saved_hooks(True)
    return hooks is not None and hooks[0].__module__ == "torch.utils.checkpoint"


def kept(controller: Controller) -> contextlib.AbstractContextManager[None]:
    """Let autograd keep what it needs all the same."""
    if _SAID not in controller.warned:
        controller.warned.add(_SAID)
        warnings.warn(
            "torch.utils.checkpoint saves no memory in a quantised model: what it would compute again is kept",
            QuantizationWarning,
            stacklevel=4,
        )
    return saved_tensors_hooks(_as_it_is, _as_it_is)


def _as_it_is(x: Tensor) -> Tensor:
    return x


def check_forward() -> None:
    """The older kind of checkpointing, and reversible layers, call modules while gradients are computed."""
    if torch._C._current_graph_task_id() != -1:
        raise QuantizationError(
            "a part of a quantised model runs again while gradients are computed, when nobody knows any more which of "
            "its inputs lie on which grids",
            hint="give torch.utils.checkpoint use_reentrant=False, and nothing that runs behind the quantised model; "
            "reversible layers cannot be had",
        )
