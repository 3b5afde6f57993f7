"""The exporters that are compared, each behind the same call.

Each prepares what a user's program would have imported before the call, and returns the call itself. All get the same
model, example, input names and dynamic axes, and otherwise their own defaults, the opset included.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.utils import _pytree as pytree

from .models import BenchModel

Export = Callable[[nn.Module, tuple[Any, ...], Path], None]
Prepare = Callable[[BenchModel, int | None], Export]


def _opset(version: int | None) -> dict[str, Any]:
    return {} if version is None else {"opset_version": version}


def _axes(spec: BenchModel) -> dict[str, dict[int, str]]:
    return {name: dict(axes) for name, axes in spec.dynamic_axes.items()}


def _onward(spec: BenchModel, opset: int | None) -> Export:
    # By name at run time, so that the peers can be measured where onward itself does not import.
    onward = importlib.import_module("onward")

    def export(model: nn.Module, args: tuple[Any, ...], path: Path) -> None:
        # Verification is ours alone: the peers do not do it, so the comparison leaves it out.
        names, axes = list(spec.input_names), _axes(spec)
        onward.export(model, args, path, input_names=names, dynamic_axes=axes, verify=False, **_opset(opset))

    return export


def _dynamo(spec: BenchModel, opset: int | None) -> Export:
    for module in ("onnx", "onnxscript", "torch.export", "torch.onnx"):
        importlib.import_module(module)

    def export(model: nn.Module, args: tuple[Any, ...], path: Path) -> None:
        torch.onnx.export(
            model,
            args,
            path,
            input_names=list(spec.input_names),
            dynamic_shapes=dynamic_shapes(spec, args),
            dynamo=True,
            verbose=False,
            **_opset(opset),
        )

    return export


def _legacy(spec: BenchModel, opset: int | None) -> Export:
    for module in ("onnx", "torch.onnx"):
        importlib.import_module(module)

    def export(model: nn.Module, args: tuple[Any, ...], path: Path) -> None:
        names, axes = list(spec.input_names), _axes(spec)
        torch.onnx.export(model, args, path, input_names=names, dynamic_axes=axes, dynamo=False, **_opset(opset))

    return export


def dynamic_shapes(spec: BenchModel, args: tuple[Any, ...]) -> Any:
    """The axes in the form `torch.export` wants: the structure of the arguments, with sizes it may infer itself."""
    _, structure = pytree.tree_flatten(args)
    leaves = [dict.fromkeys(spec.dynamic_axes.get(name, {}), torch.export.Dim.DYNAMIC) for name in spec.input_names]
    return pytree.tree_unflatten(leaves, structure)


EXPORTERS: dict[str, Prepare] = {"onward": _onward, "dynamo": _dynamo, "legacy": _legacy}
PEERS = ("dynamo", "legacy")
