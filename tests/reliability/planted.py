"""Exports and judges with a fault in them, for the tests of the fuzzer; worker processes import them by name."""

from __future__ import annotations

import os
import time
import warnings
from pathlib import Path
from typing import Any

import torch

import onward
from reliability.fuzz.judge import AGREES, Verdict
from reliability.fuzz.judge import export as real_export
from reliability.fuzz.program import Argument, FuzzProgram, Statement


def program(line: str, *, dynamic: bool = True, front: str = "trace") -> FuzzProgram:
    """A program of one statement: x0 of [batch, 3] in, v1 out."""
    return FuzzProgram(
        seed=5,
        arguments=(Argument("x0", torch.float32, ("batch", 3)),),
        axes={"batch": 2},
        dynamic=("batch",) if dynamic else (),
        inits=(),
        body=(Statement((line,), ("v1",), ("x0",)),),
        returns="v1",
        front=front,
        coarse=torch.float32,
    )


class Tripled(torch.nn.Module):
    def forward(self, x0: torch.Tensor) -> torch.Tensor:
        return x0 * 3


class AlwaysTwoRows(torch.nn.Module):
    """Right at a batch of 2 alone."""

    def forward(self, x0: torch.Tensor) -> torch.Tensor:
        return x0 * 2 + (torch.arange(x0.shape[0]) // 2)[:, None]


def another_model(asked: FuzzProgram, model: Any, example: tuple[torch.Tensor, ...]) -> Any:
    return real_export(asked, Tripled(), example)


def wrong_at_other_sizes(asked: FuzzProgram, model: Any, example: tuple[torch.Tensor, ...]) -> Any:
    return real_export(asked, AlwaysTwoRows(), example)


def wrong_and_said_so(asked: FuzzProgram, model: Any, example: tuple[torch.Tensor, ...]) -> Any:
    warnings.warn("the file holds for batch = 2", onward.CaptureWarning, stacklevel=1)
    return real_export(asked, AlwaysTwoRows(), example)


def wrong_at_the_example_and_said_so(asked: FuzzProgram, model: Any, example: tuple[torch.Tensor, ...]) -> Any:
    warnings.warn("the file holds for batch = 1", onward.CaptureWarning, stacklevel=1)
    return real_export(asked, Tripled(), example)


def clean_error(asked: FuzzProgram, model: Any, example: tuple[torch.Tensor, ...]) -> Any:
    raise onward.errors.CaptureError("it cannot be followed")


def other_exception(asked: FuzzProgram, model: Any, example: tuple[torch.Tensor, ...]) -> Any:
    raise KeyError("surprise")


def not_a_model(asked: FuzzProgram, model: Any, example: tuple[torch.Tensor, ...]) -> Any:
    exported = real_export(asked, model, example)
    exported.model.graph.node(0).domain = "nowhere"
    exported.model.opset_imports["nowhere"] = 1
    return exported


def judge_or_die(seed: int, folder: Path) -> Verdict:
    """The process ends at seed 1 and hangs at seed 2."""
    if seed == 1:
        os._exit(7)
    if seed == 2:
        time.sleep(600)
    if seed == 3:
        raise ValueError("a mistake of the fuzzer")
    return Verdict(AGREES)
