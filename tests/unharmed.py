"""Whatever goes wrong in an export, nothing is left changed.

"Nothing" is the mode of every submodule, every function and flag of Python and PyTorch that an export replaces for a
while, the code of the model's functions, the globals of its files, which hold nothing of a trace, and the target's
folder: no partial and no temporary file, an older file untouched.
"""

from __future__ import annotations

import builtins
import contextlib
import inspect
import os
import sys
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
import torch._dynamo  # whoever imports it first lets PyTorch replace torch.manual_seed
import torch.onnx

from onward.capture import is_capturing
from onward.capture.state.containers import is_traced

OLD = b"an older file"
X = torch.randn(2, 4)


class Model(torch.nn.Module):
    """In training, but for one submodule that is frozen: what most fine-tuned models look like."""

    def __init__(self) -> None:
        super().__init__()
        self.linear, self.norm, self.dropout = torch.nn.Linear(4, 3), torch.nn.BatchNorm1d(3), torch.nn.Dropout()
        self.train()
        self.norm.eval()

    def forward(self, x: torch.Tensor, scale: float = 1.0) -> torch.Tensor:
        return self.dropout(self.norm(self.linear(x))) * scale


class Two(torch.nn.Module):
    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return x - y


NAMESPACES = (
    builtins, torch, torch.Tensor, torch.nn.Module, torch.nn.functional, torch.compiler, torch.jit, torch._C, os, sys,
    torch.backends.mha, torch.onnx, torch.nn.utils.rnn, torch._C.ScriptFunction, torch._C.ScriptMethod,
    torch.autograd.function._SingleLevelFunction,
)  # fmt: skip
FUNCTIONS = (
    torch.compiler.is_exporting, torch.onnx.is_in_onnx_export, torch.backends.mha.get_fastpath_enabled,
    torch.nn.utils.rnn.pack_padded_sequence, torch.nn.utils.rnn.pad_packed_sequence,
    torch.nn.RNNBase.check_forward_args, torch.nn.LSTM.check_forward_args,
)  # fmt: skip


def patchable() -> dict[tuple[str, str], int]:
    """Every function that could have been replaced, by identity."""
    known = {(space.__name__, name): id(value) for space in NAMESPACES for name, value in vars(space).items()}
    return known | {(each.__qualname__, "__code__"): id(each.__code__) for each in FUNCTIONS}


def own_code(model: Any) -> dict[Any, Any]:
    """The code of every function of the model's classes, or of the model itself, and the globals that they see."""
    kinds = {kind for module in model.modules() for kind in type(module).__mro__} if is_module(model) else set()
    values = [value for kind in kinds for value in vars(kind).values()] or [model]
    functions = [each for each in map(inspect.unwrap, values) if isinstance(each, types.FunctionType)]
    code = {(id(each), each.__qualname__): each.__code__ for each in functions}
    spaces = {id(each.__globals__): each.__globals__ for each in functions}
    names = {(key, name): value for key, space in spaces.items() for name, value in space.items()}
    return code | names


def is_module(model: Any) -> bool:
    return isinstance(model, torch.nn.Module)


def flags() -> tuple[Any, ...]:
    return (
        torch.compiler.is_exporting(),
        torch.backends.mha.get_fastpath_enabled(),
        torch._C._len_torch_dispatch_stack(),
        torch._C._len_torch_function_stack(),
        torch.is_grad_enabled(),
        torch.is_inference_mode_enabled(),
        (torch.ones(1, requires_grad=True) * 2).requires_grad,
        is_capturing(),
        os.getcwd(),
    )


def content(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


@contextlib.contextmanager
def unharmed(model: Any, folder: Path | None = None) -> Iterator[None]:
    """Whatever happens inside, nothing is left changed."""
    modules = list(model.modules()) if isinstance(model, torch.nn.Module) else []
    modes, before, known = [module.training for module in modules], flags(), patchable()
    code = own_code(model)
    there = content(folder) if folder else {}
    yield
    assert [module.training for module in modules] == modes
    assert flags() == before
    after = patchable()
    assert [name for name in {**known, **after} if after.get(name) != known.get(name)] == []
    now = own_code(model)
    assert [name for name in {**code, **now} if now.get(name) is not code.get(name)] == []
    assert [name for name, value in now.items() if name[1] != "__builtins__" and is_traced(value)] == []
    assert not folder or content(folder) == there
    assert not folder or [path.name for path in folder.iterdir() if path.name.startswith(".")] == []
