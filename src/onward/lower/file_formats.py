"""Other forms of a file than plain ONNX, and models whose export is more than that of plain code.

A form has a name, which `quant_format` asks for. `FORMATS` says where each is, and it is imported when it is first
asked for. A model that something has prepared for its export (`onward.init`, which quantizes it) carries an object
that says what it refuses and what is done to its graph. Nothing is registered: a model that carries no such object,
exported in the plain form, does not meet any of this.
"""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol

import onnx_ir as ir
import torch

from ..options import ExportOptions

PREPARED = "_onward_quantisation"  # the attribute of a module that holds a `Prepared`


class Prepared(Protocol):
    """What a prepared model carries."""

    def check_export(self, module: Any, model: Any, options: ExportOptions) -> None:
        """Refuse a model, of which the prepared module is a part or all, and the options of its export."""

    def finish_export(self, graph: ir.Model) -> None:
        """Change the finished graph of the prepared model, in the plain form."""


@dataclass(frozen=True)
class Format:
    """A form of a file.

    around     what holds while a program is lowered
    finish     makes the form of the finished graph; it is given the model that was exported too
    """

    around: Callable[[], AbstractContextManager[Any]] = contextlib.nullcontext
    finish: Callable[[ir.Model, Any], None] | None = None


def prepared_of(model: Any) -> Prepared | None:
    """What a model carries, if something has prepared it."""
    found: Prepared | None = getattr(model, "__dict__", {}).get(PREPARED)
    return found


def check_prepared(model: Any, options: ExportOptions) -> None:
    """Let every prepared module look at the model and the options of its export, before it is captured."""
    if not isinstance(model, torch.nn.Module):
        return
    for module in model.modules():
        prepared = prepared_of(module)
        if prepared is not None:
            prepared.check_export(module, model, options)


def _finish_prepared(graph: ir.Model, model: Any) -> None:
    prepared = prepared_of(model)
    if prepared is not None:
        prepared.finish_export(graph)


FORMATS: dict[str, Format | str] = {
    "qdq": Format(finish=_finish_prepared),
    "linger": "onward.quant.linger_format.rewrite",
}
"""Forms by name: a `Format`, or the module that has one as its `FORMAT`."""


def format_named(name: str) -> Format:
    """The form that `quant_format` asks for."""
    form = FORMATS[name]
    if isinstance(form, str):
        found: Format = importlib.import_module(form).FORMAT
        return found
    return form
