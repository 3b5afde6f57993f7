"""A plan as an `nn.Module`: its weights are parameters and buffers, under the names that the file gives them."""

from __future__ import annotations

import inspect
import keyword
import re
from collections.abc import Collection, Sequence
from typing import Any

import onnx_ir as ir
import torch
from torch import nn

from .attributes import tensor_value
from .compile import Compiler
from .limits import DEFAULT, Limits


class OnnxModule(nn.Module):
    """Call it with the graph's inputs in order, or by their names; one tensor comes back, or a tuple.

    Floating point initializers are parameters, so the model can be trained on; the others are buffers. So are those
    that only say how to compute (sizes, axes, the bounds of a Clip): the plan has them as numbers. A name like
    `features.0.weight` is kept: it lies in modules `features` and `0`. What `state_dict` does not allow in a name
    becomes an underscore.
    """

    def __init__(
        self,
        model: ir.Model,
        device: torch.device | str = "cpu",
        *,
        custom_ops: Collection[str] | None = None,
        limits: Limits = DEFAULT,
    ) -> None:
        super().__init__()
        graph = model.graph
        self._plan, names = Compiler(model.functions, device, custom_ops, limits).graph(graph, model.opset_imports)
        self._weights: list[tuple[nn.Module, str] | Any] = []
        self._defaults: dict[str, tuple[nn.Module, str] | Any] = {}
        self._input_names = [str(value.name) for value in graph.inputs]
        self.required: list[str] = []  # here already, so that no weight of that name takes the place
        for name, is_read in names.items():
            content = tensor_value(graph.initializers[name].const_value, device)
            self._weights.append(self._keep(name, content, learns=is_read))
        for name in self._input_names:
            if name in graph.initializers and graph.initializers[name].const_value is not None:
                content = tensor_value(graph.initializers[name].const_value, device)
                self._defaults[name] = self._keep(name, content)
        self.required = [name for name in self._input_names if name not in self._defaults]
        names_in_python = _parameter_names(self.required)
        kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
        self.__signature__ = inspect.Signature([inspect.Parameter(name, kind) for name in names_in_python])

    def _keep(self, name: str, content: Any, learns: bool = True) -> Any:
        """Where the weight lives: a module and a name in it, or the strings themselves."""
        if not isinstance(content, torch.Tensor):
            return content
        owner, last = _home(self, name)
        if learns and content.is_floating_point() and content.element_size() > 1:
            owner.register_parameter(last, nn.Parameter(content))
        else:
            owner.register_buffer(last, content)
        return owner, last

    def kept(self) -> list[Any]:
        """What stays from run to run: weights and constants."""
        return [*map(_content, self._weights), *(content for _, content in self._plan.constants)]

    def forward(self, *inputs: Any, **named: Any) -> Any:
        """Inputs by position, or by name: what Python does not allow in a name is an underscore."""
        if named:
            inputs = self.__signature__.bind(*inputs, **named).args
        results = self.run(inputs)
        return results[0] if len(results) == 1 else tuple(results)

    def run(self, inputs: Sequence[Any]) -> list[Any]:
        """The outputs as a list; inputs that have a value in the file may be left out, all of them or none."""
        if self._defaults and len(inputs) == len(self.required):
            given = iter(inputs)
            inputs = [
                _content(self._defaults[name]) if name in self._defaults else next(given) for name in self._input_names
            ]
        return self._plan.run([*inputs, *map(_content, self._weights)])


def _content(home: Any) -> Any:
    if isinstance(home, tuple):
        owner, name = home
        return getattr(owner, name)
    return home


def _home(root: nn.Module, name: str) -> tuple[nn.Module, str]:
    """The module that a dotted name ends in, made if need be; a flat name where modules cannot have such names."""
    parts = name.split(".")
    owner = root
    plain = nn.Module()
    if not all(part and not hasattr(plain, part) for part in parts):
        return root, _free(root, name.replace(".", "_"))
    for part in parts[:-1]:
        child = getattr(owner, part, None)
        if child is None:
            child = nn.Module()
            owner.add_module(part, child)
        if not isinstance(child, nn.Module):
            return root, _free(root, name.replace(".", "_"))
        owner = child
    return (owner, parts[-1]) if not hasattr(owner, parts[-1]) else (root, _free(root, name.replace(".", "_")))


def _parameter_names(inputs: Sequence[str]) -> list[str]:
    """The inputs' names as Python can write them, each once."""
    found: list[str] = []
    for name in inputs:
        plain = re.sub(r"\W", "_", name) or "input"
        plain = f"_{plain}" if plain[0].isdigit() or keyword.iskeyword(plain) else plain
        while plain in found:
            plain += "_"
        found.append(plain)
    return found


def _free(root: nn.Module, name: str) -> str:
    name = name or "weight"
    while hasattr(root, name):
        name += "_"
    return name
