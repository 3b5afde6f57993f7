"""Inputs for a file: what the command line gives, by name or by position, or made up from what the file declares."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import onnx_ir as ir
import torch

from onward.errors import InputError
from onward.files import load
from onward.files.inputs import made_up_inputs
from onward.files.parameters import held
from onward.verify import Session
from onward.write.type_texts import dimensions, dtype_name

from ..inputs.grammar import parse_inputs
from ..inputs.values import Given, make


@dataclass(frozen=True)
class Opened:
    """A file that is an ONNX model, and whose data files lie where they may: now others may open it too."""

    path: Path
    model: ir.Model

    @property
    def input_names(self) -> list[str]:
        return [str(value.name) for value in self.model.graph.inputs if not value.is_initializer()]

    @property
    def bytes(self) -> int:
        """Of the file and the data files that it names."""
        data = {Path(each.path) for _, each in held(self.model) if isinstance(each, ir.ExternalTensor)}
        return sum(path.stat().st_size for path in (self.path, *sorted(data)))


def open_file(path: Path) -> Opened:
    """Read a file that is not trusted."""
    return Opened(path, load(path))


def given_inputs(inputs: Sequence[str], seed: int) -> Given:
    """What --input says, for a file."""
    given = make(parse_inputs(inputs), seed)
    for name, value in given.values:
        if not isinstance(value, torch.Tensor):
            raise InputError(f"the input '{name}' is no tensor", hint=f'write it as one: "{name}:f32[]={value}"')
    return given


def feeds_of(opened: Opened, given: Given, run: Callable[[Any], list[Any]] | None = None) -> dict[str, torch.Tensor]:
    """The inputs by name. Without any, they are made up at sizes that the file runs with, in onnxruntime unless `run`
    says otherwise."""
    if not given.values:
        feeds, _ = made_up_inputs(opened.model, run or Session(opened.path).run)
        return feeds
    names = opened.input_names
    known = {*names, *(str(value.name) for value in opened.model.graph.inputs)}
    feeds = {}
    waiting = [name for name in names if name not in given.names()]
    for name, value in given.values:
        if name is None:
            if not waiting:
                raise InputError(f"the model has {len(names)} inputs ({', '.join(names)}), and more are given")
            name = waiting.pop(0)
        elif name not in known:
            near = difflib.get_close_matches(name, names, 1)
            hint = f"did you mean '{near[0]}'?" if near else f"it has {', '.join(names) or 'none'}"
            raise InputError(f"the model has no input '{name}'", hint=hint)
        feeds[name] = value
    if waiting:
        raise InputError(
            f"the model's input '{waiting[0]}' is not given",
            hint=f"it has {', '.join(names)}; without any, made-up ones do",
        )
    return feeds


def port_of(value: ir.Value) -> dict[str, Any]:
    """An input or an output for machines."""
    kind = "list of " if isinstance(value.type, ir.SequenceType) else ""
    return {"name": str(value.name), "dtype": f"{kind}{dtype_name(value.dtype)}",
            "shape": dimensions(value.shape) if value.shape is not None else None}  # fmt: skip


def port_text(port: dict[str, Any]) -> str:
    shape = "" if port["shape"] is None else f"[{', '.join(map(str, port['shape']))}]"
    return f"{port['dtype']}{shape}"
