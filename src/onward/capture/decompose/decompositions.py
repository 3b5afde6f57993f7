"""What operators are made of that PyTorch itself gives no rule for, or none that leaves sizes dynamic."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch._ops import OpOverload
from torch.nn import functional as F

from ...tables import registrar

RULES: dict[str, Callable[..., Any]] = {}  # by the name of the schema: the operator may not exist in this PyTorch
rule = registrar(RULES)


def own_rule(op: OpOverload) -> Callable[..., Any] | None:
    """The rule for an operator, if there is one."""
    return RULES.get(op._schema.name) or _onnx_rule(op)


def _onnx_rule(op: OpOverload) -> Callable[..., Any] | None:
    """What the operators of `torch.onnx.ops` are made of, if somebody uses them."""
    home = sys.modules.get("torch.onnx.ops") if op.namespace == "onnx" else None
    return home.aten_decompositions().get(op) if home is not None else None


@rule("torch_nn::_linear_cross_entropy_batch_chunked")
def linear_cross_entropy(
    x: Tensor, matrix: Tensor, target: Tensor, bias: Tensor | None, weight: Tensor | None, reduction: str,
    ignore_index: int, label_smoothing: float, *how: Any,
) -> tuple[Tensor, ...]:  # fmt: skip
    """Chunks only save memory. The gradients that come with the loss are for training, and are left empty."""
    logits = F.linear(x, matrix, bias)
    loss = F.cross_entropy(
        logits, target, weight, ignore_index=ignore_index, reduction=reduction, label_smoothing=label_smoothing
    )
    return loss, *(torch.empty(0, dtype=loss.dtype) for _ in range(3))


@rule("torch_nn::_linear_cross_entropy_batch_chunked_no_reduction")
def linear_cross_entropy_each(
    x: Tensor, matrix: Tensor, target: Tensor, bias: Tensor | None, weight: Tensor | None, ignore_index: int, *how: Any
) -> Tensor:
    """The loss of every sample."""
    return F.cross_entropy(F.linear(x, matrix, bias), target, weight, ignore_index=ignore_index, reduction="none")


@rule("aten::kron")
def kron(a: Tensor, b: Tensor) -> Tensor:
    """Every element of one tensor times all of the other. PyTorch's own rule makes plain numbers of the sizes."""
    rank = max(a.dim(), b.dim())
    a, b = (each.reshape((1,) * (rank - each.dim()) + tuple(each.shape)) for each in (a, b))
    blocks = a.reshape([part for size in a.shape for part in (size, 1)])
    inner = b.reshape([part for size in b.shape for part in (1, size)])
    return (blocks * inner).reshape([size * other for size, other in zip(a.shape, b.shape, strict=True)])
