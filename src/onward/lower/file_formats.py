"""Other forms of a file than plain ONNX, by the name that `quant_format` asks for; the rooms above register theirs."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Any

import onnx_ir as ir

from ..options import ExportOptions


@dataclass(frozen=True)
class Format:
    """A form of a file.

    around     what holds while a program is lowered
    finish     makes the form of the finished graph; it is given the model that was exported too
    """

    around: Callable[[], AbstractContextManager[Any]] = contextlib.nullcontext
    finish: Callable[[ir.Model, Any], None] | None = None


FORMATS: dict[str, Format] = {"qdq": Format()}

CHECKS: list[Callable[[Any, ExportOptions], None]] = []
"""What else refuses a model and the options of its export, before it is captured."""


def register_format(name: str, form: Format) -> None:
    """Make a form known. A name has one."""
    if name in FORMATS:
        raise ValueError(f"there is a format {name!r} already")
    FORMATS[name] = form


def finish_format(name: str, finish: Callable[[ir.Model, Any], None]) -> None:
    """Say what makes the form of a finished graph, of a form that has nothing yet."""
    if FORMATS[name].finish is not None:
        raise ValueError(f"the format {name!r} is finished by something else already")
    FORMATS[name] = replace(FORMATS[name], finish=finish)
