"""Quantisation after training: some batches, one call, a file of integers, and which layers cost accuracy.

    python examples/post_training_quantisation.py [int8.onnx]

quantisation_aware_training.py is the other way, for when this one costs too much.
"""

from __future__ import annotations

import copy
import sys
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import onward


def network() -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(),
        nn.Conv2d(16, 16, 3, padding=1), nn.ReLU(), nn.AvgPool2d(2), nn.Flatten(), nn.Linear(256, 4),
    )  # fmt: skip


def batch(count: int = 128) -> tuple[Tensor, Tensor]:
    """Pictures of 8x8, and which quarter is the brightest."""
    label = torch.randint(0, 4, (count,))
    picture = torch.rand(count, 1, 2, 4, 2, 4)
    picture[torch.arange(count), 0, label // 2, :, label % 2] += 0.5
    return picture.reshape(count, 1, 8, 8), label


def main(path: str = "int8.onnx") -> None:
    torch.manual_seed(0)
    model = network()
    optimizer = torch.optim.Adam(model.parameters(), 3e-3)
    for _ in range(40):  # in float, as ever
        x, label = batch()
        optimizer.zero_grad()
        F.cross_entropy(model(x), label).backward()
        optimizer.step()
    model.eval()
    batches = [batch()[0] for _ in range(4)]  # what calibration finds the ranges from

    whole = Path(path).with_suffix(".float.onnx")
    onward.export(model, (batches[0],), whole, input_names=["x"], dynamic_axes={"x": {0: "n"}})
    small = copy.deepcopy(model)  # quantisation changes the model that it is given
    program = onward.quantize(small, batches, path, input_names=["x"], dynamic_axes={"x": {0: "n"}})
    print(repr(program))
    print(f"{whole.stat().st_size} bytes in float, {Path(path).stat().st_size} in int8")

    x, label = batch(1000)
    with torch.no_grad():
        in_float, here = model(x), small(x)
    for name, y in (("float", in_float), ("int8 in PyTorch", here), ("int8 in onnxruntime", program(x))):
        print(f"{name}: {(y.argmax(1) == label).float().mean().item():.1%} right")
    print(f"equal elements, PyTorch and onnxruntime: {(here == program(x)).float().mean().item():.3%}")
    print(onward.analyse(small, batches))


if __name__ == "__main__":
    main(*sys.argv[1:])
