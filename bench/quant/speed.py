"""Two times that are no property of a trained model: convolutions in integers against float, and a step of training."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import onward
from onward.quant import QuantConfig

from .measure import graph, in_turn, interleaved
from .methods import FOUR, LEARNED, OPSET, quantised
from .tasks import BATCH, TASKS

STACKS = {32: 1.8, 64: 2.3}  # channels: how much faster than float on a machine with VNNI
SIZE = 32


def stack(channels: int) -> nn.Module:
    """Six convolutions of 3x3 with batch norm and ReLU."""
    torch.manual_seed(0)
    layers: list[nn.Module] = []
    for _ in range(6):
        layers += [nn.Conv2d(channels, channels, 3, padding=1, bias=False), nn.BatchNorm2d(channels), nn.ReLU()]
    return nn.Sequential(*layers).eval()


def measure_stack(channels: int, folder: Path, seconds: float) -> dict[str, Any]:
    """Milliseconds per run in float and in integers, one thread, in turn."""
    model = stack(channels)
    x = torch.randn(1, channels, SIZE, SIZE, generator=torch.Generator().manual_seed(0))
    paths = [folder / f"stack{channels}.onnx", folder / f"stack{channels}_int8.onnx"]
    onward.export(model, (x,), paths[0], opset_version=OPSET)
    onward.quantize(model, [x], paths[1], opset_version=OPSET)
    plain, integers = interleaved(paths, x, seconds)
    return {
        "channels": channels,
        "float_ms": plain,
        "int8_ms": integers,
        "faster": plain / integers,
        "left_in_float": graph(paths[1]).left_in_float,
    }


CONFIGS = {"W8A8": QuantConfig(), "W4A4": FOUR, "W4A4 learned": LEARNED}


def measure_step(name: str, seconds: float) -> dict[str, Any]:
    """A step of training: forward, backward, optimizer; float and quantised in turn."""
    task = TASKS[name]
    inputs, labels = (each[:BATCH] for each in task.data().train)
    models = [task.made(), *(quantised(task.made(), [inputs], config) for config in CONFIGS.values())]
    steps = [_step(model.train(), task.rate, inputs, labels) for model in models]
    for step in steps * 3:
        step()
    best = in_turn(steps, seconds)
    ratios = {name: each / best[0] for name, each in zip(CONFIGS, best[1:], strict=True)}
    return {"task": name, "float_ms": best[0], "ratio": ratios}


def _step(model: nn.Module, rate: float, inputs: Tensor, labels: Tensor) -> Callable[[], None]:
    optimizer = torch.optim.Adam(model.parameters(), lr=rate)

    def step() -> None:
        optimizer.zero_grad()
        F.cross_entropy(model(inputs), labels).backward()
        optimizer.step()

    return step
