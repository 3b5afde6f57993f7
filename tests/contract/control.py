"""Models with control flow, run at inputs that take another way than the example did."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import onnx
import torch

import onward
from tests.opsets import NEWEST

OPSETS = (9, 11, 13, 17, 20, NEWEST)


def check(
    model: Callable[..., Any],
    example: tuple,
    others: Sequence[tuple],
    *,
    reference: Callable[..., Any] | None = None,
    **options: Any,
) -> onward.Program:
    """Export, let onnx's checker look, verify, and compare with eager on other inputs. Returns the program."""
    program = onward.export(model, example, **options)
    onnx.checker.check_model(program.proto(), full_check=True)
    program.verify()
    for inputs in others:
        with torch.no_grad():
            expected = (reference or model)(*inputs)
        torch.testing.assert_close(program(*inputs), expected, rtol=1e-4, atol=1e-5)
    return program


def kinds(program: onward.Program) -> list[str]:
    """The operators of the outer graph."""
    return [node.op_type for node in program.model.graph]
