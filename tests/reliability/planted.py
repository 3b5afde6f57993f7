"""Exports and judges with a fault in them, for the tests of the fuzzer; worker processes import them by name."""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import onnx_ir as ir
import torch

import onward
from reliability.fuzz.judge import AGREES, REFUSED, Export, Verdict
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
        coarse={"x0": torch.float32, "v1": torch.float32},
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
    warnings.warn(
        "the file holds where `batch <= 2` is True, and batch = 3 is not computed", onward.CaptureWarning, stacklevel=1
    )
    return real_export(asked, AlwaysTwoRows(), example)


def wrong_at_the_example_and_said_so(asked: FuzzProgram, model: Any, example: tuple[torch.Tensor, ...]) -> Any:
    warnings.warn(
        "the file holds where `batch == 1` is True, and batch = 2 is not computed", onward.CaptureWarning, stacklevel=1
    )
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


def program_of(*lines: str, returns: str = "v1") -> FuzzProgram:
    """A program of several statements on x0."""
    body = tuple(Statement((line,), (line.split(" = ")[0],), ("x0",)) for line in lines)
    return program("v1 = x0").with_body(body, returns)


class _Given(torch.nn.Module):
    def __init__(self, function: Callable[[torch.Tensor], Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x0: torch.Tensor) -> Any:
        return self.function(x0)


def giving(function: Callable[[torch.Tensor], Any], *said: str) -> Export:
    """An export that writes another function, with these warnings."""

    def planted(asked: FuzzProgram, model: Any, example: tuple[torch.Tensor, ...]) -> Any:
        exported = real_export(asked, _Given(function), example)
        for text in said:
            warnings.warn(text, onward.CaptureWarning, stacklevel=1)
        return exported

    return planted


def leaves_it_broken(asked: FuzzProgram, model: Any, example: tuple[torch.Tensor, ...]) -> Any:
    exported = real_export(asked, model, example)

    def forward(self: Any, x0: torch.Tensor) -> Any:
        raise RuntimeError("left behind by the export")

    type(model).forward = forward
    return exported


def wrong_and_leaves_it_broken(asked: FuzzProgram, model: Any, example: tuple[torch.Tensor, ...]) -> Any:
    leaves_it_broken(asked, model, example)
    return another_model(asked, model, example)


def leaves_it_training(asked: FuzzProgram, model: Any, example: tuple[torch.Tensor, ...]) -> Any:
    exported = real_export(asked, model, example)
    model.train()
    return exported


def fails_and_leaves_it_training(asked: FuzzProgram, model: Any, example: tuple[torch.Tensor, ...]) -> Any:
    model.train()
    raise onward.errors.CaptureError("it cannot be followed")


def leaves_other_weights(asked: FuzzProgram, model: Any, example: tuple[torch.Tensor, ...]) -> Any:
    exported = real_export(asked, model, example)
    exported.proto()
    with torch.no_grad():
        model.l0.weight = torch.nn.Parameter(torch.zeros(3, 3))
    return exported


def _declaring(shape: list[int | str], at: int) -> Export:
    def planted(asked: FuzzProgram, model: Any, example: tuple[torch.Tensor, ...]) -> Any:
        exported = real_export(asked, model, example)
        exported.model.graph.outputs[at].shape = ir.Shape(shape)
        return exported

    return planted


declares_other_sizes = _declaring([2, 7], 0)
declares_another_rank = _declaring(["batch", 3, 1], 0)
declares_a_wrong_name = _declaring(["batch", 3], 1)  # it has 2 * batch rows


def refuses_behind_others(seed: int, folder: Path) -> Verdict:
    """Seeds 1 and 2 are refused in a process in which something was exported; 3 always is."""
    if seed == 3:
        return Verdict(REFUSED, "always")
    late = os.environ.get("PLANTED_AN_EXPORT") == str(os.getpid())
    if seed and late:
        return Verdict(REFUSED, "too late")
    os.environ["PLANTED_AN_EXPORT"] = str(os.getpid())
    return Verdict(AGREES)
