"""Whatever goes wrong in an export, nothing is left changed.

"Nothing" is the mode of every submodule, every function and flag of PyTorch that an export replaces for a while, and
the target's folder: no partial and no temporary file, an older file untouched.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

from onward.capture import is_capturing

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


NAMESPACES = (torch, torch.Tensor, torch.nn.Module, torch.nn.functional, torch.compiler, torch.jit, torch._C, os, sys)


def patchable() -> dict[tuple[str, str], int]:
    """Every function that could have been replaced, by identity."""
    return {(space.__name__, name): id(value) for space in NAMESPACES for name, value in vars(space).items()}


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
    there = content(folder) if folder else {}
    yield
    assert [module.training for module in modules] == modes
    assert flags() == before
    after = patchable()
    assert [name for name in known if after.get(name) != known[name]] == []
    assert not folder or content(folder) == there
    assert not folder or [path.name for path in folder.iterdir() if path.name.startswith(".")] == []
