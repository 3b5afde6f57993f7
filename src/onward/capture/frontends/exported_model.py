"""The module that stands for an `ExportedProgram`."""

from __future__ import annotations

import copy
import inspect
import types
from typing import Any

import torch
from torch.export.graph_signature import InputKind, SymIntArgument
from torch.utils import _pytree as pytree

from .graph_modules import nested_like


class ExportedModel(torch.nn.Module):
    """The module of a program. Every program has a class of its own, named after the original's."""

    program: torch.export.ExportedProgram
    signature: inspect.Signature
    generated: tuple[torch.fx.GraphModule]  # in a tuple: its weights have no second name

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        bound = self.signature.bind(*args, **kwargs)
        given = list(bound.arguments.values())
        leaves, structure = pytree.tree_flatten(nested_like(self.program.call_spec.in_spec, given))
        specs = user_inputs(self.program)
        for place, spec in enumerate(specs[: len(leaves)]):
            if isinstance(spec, SymIntArgument) and isinstance(leaves[place], torch.Tensor):
                leaves[place] = leaves[place].item()
        args, kwargs = pytree.tree_unflatten(leaves, structure)
        return self.generated[0](*args, **kwargs)

    def __deepcopy__(self, memo: dict[int, Any]) -> ExportedModel:
        """Its tensors and its code are copied; the program, which is never called, is shared."""
        memo[id(self)] = twin = type(self)()
        own = {name: value for name, value in vars(self).items() if name not in ("program", "signature", "forward")}
        vars(twin).update({name: copy.deepcopy(value, memo) for name, value in own.items()})
        twin.program, twin.signature = self.program, self.signature
        twin.forward = with_signature(types.MethodType(ExportedModel.forward, twin), self.signature)  # type: ignore[method-assign]
        return twin


def user_inputs(program: torch.export.ExportedProgram) -> list[Any]:
    """What the program says of every leaf of its arguments."""
    return [spec.arg for spec in program.graph_signature.input_specs if spec.kind is InputKind.USER_INPUT]


def with_signature(forward: Any, signature: inspect.Signature) -> Any:
    """A function that calls `forward`, and says what it takes."""

    def call(*args: Any, **kwargs: Any) -> Any:
        return forward(*args, **kwargs)

    call.__signature__ = signature  # type: ignore[attr-defined]
    return call
