"""TorchScript as a kind of model: scripted and traced modules and functions."""

from __future__ import annotations

import inspect
from typing import Any

import torch

from ...ground.module_kinds import is_interpreted
from ..front_end import PythonModel, Run
from .calls import call_script


class Script(PythonModel):
    """Its graph runs in an interpreter of our own while a model is traced."""

    is_slow_to_copy = True

    def takes(self, model: Any) -> bool:
        return isinstance(model, (torch.jit.ScriptModule, torch.jit.ScriptFunction))

    def signature(self, model: Any) -> inspect.Signature:
        schema = model._c._get_method("forward").schema if is_interpreted(model) else model.schema
        kinds = inspect.Parameter
        return inspect.Signature(
            [
                kinds(
                    each.name,
                    kinds.POSITIONAL_OR_KEYWORD,
                    default=each.default_value if each.has_default_value() else kinds.empty,
                )
                for each in schema.arguments[1 if is_interpreted(model) else 0 :]
            ]
        )

    def run(self, module: Any) -> Run:
        return call_script
