"""Every kind of model that can be exported. A model is of the first kind that takes it."""

from __future__ import annotations

from typing import Any

import torch

from .exportable import Exportable
from .exported import Exported
from .front_end import FrontEnd, PythonModel, Run
from .graph_modules import GraphModule
from .script.front_end import Script

FRONT_ENDS: tuple[FrontEnd, ...] = (Exported(), Exportable(), Script(), GraphModule(), PythonModel())


def front_end_of(model: Any) -> FrontEnd:
    """The kind of a model, or of a module inside of one."""
    return next(each for each in FRONT_ENDS if each.takes(model))


def run_of(module: Any) -> Run | None:
    """How a module is followed while a model is traced; None if PyTorch calls it as ever."""
    return front_end_of(module).run(module)


def is_model(value: Any) -> bool:
    """Whether a value is a model by itself. A Python function is none: it may be what makes a model."""
    return isinstance(value, torch.nn.Module) or type(front_end_of(value)) is not PythonModel
