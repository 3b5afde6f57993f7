"""Quantisation-aware training: one line, the training loop as it was, and a file of integers that does the same.

    python examples/quantisation_aware_training.py [out.onnx]

A small network learns to find the brightest quarter of a picture, in float and then on with every tensor rounded to
8 bits. What evaluation says is what onnxruntime's integer kernels compute, to the last bit.
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import onward


class Net(nn.Module):
    """Convolutions with batch norms, a shortcut, and a linear layer."""

    def __init__(self, channels: int = 16) -> None:
        super().__init__()
        self.stem = nn.Conv2d(1, channels, 3, padding=1, bias=False)
        self.norm1 = nn.BatchNorm2d(channels)
        self.body = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.norm2 = nn.BatchNorm2d(channels)
        self.head = nn.Linear(channels * 16, 4)

    def forward(self, x: Tensor) -> Tensor:
        x = F.relu(self.norm1(self.stem(x)))
        x = F.relu(x + self.norm2(self.body(x)))
        x = F.max_pool2d(x, 2)
        result: Tensor = self.head(x.flatten(1))
        return result


def batch(count: int = 128) -> tuple[Tensor, Tensor]:
    label = torch.randint(0, 4, (count,))
    picture = torch.rand(count, 1, 2, 4, 2, 4)
    picture[torch.arange(count), 0, label // 2, :, label % 2] += 0.5
    return picture.reshape(count, 1, 8, 8), label


def train(model: nn.Module, steps: int) -> None:
    optimizer = torch.optim.Adam(model.parameters(), 3e-3)
    model.train()
    for _ in range(steps):
        x, y = batch()
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        optimizer.step()


def main(path: str | Path = "quantised.onnx") -> tuple[float, float]:
    """Train, export, and say how many pictures of a fresh batch are right, in PyTorch and in onnxruntime."""
    torch.manual_seed(0)
    model = Net()
    train(model, 30)

    onward.init(model)  # the one line
    train(model, 30)

    program = onward.export(model, (batch()[0],), path, input_names=["x"], dynamic_axes={"x": {0: "n"}})
    print(repr(program))
    x, y = batch(1000)
    model.eval()
    with torch.no_grad():
        here = model(x)
    there = program(x)
    print(f"equal elements: {float((here == there).float().mean()):.3%}")
    right = tuple(float((each.argmax(1) == y).float().mean()) for each in (here, there))
    print(f"right: {right[0]:.1%} in PyTorch, {right[1]:.1%} in onnxruntime")
    return right[0], right[1]


if __name__ == "__main__":
    main(*sys.argv[1:])
