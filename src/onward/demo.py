"""`make demo`: export a bundled model, prove the file right at other sizes, and write the report page."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import torch
from torch import nn

import onward
from onward.report import write_report
from onward.verify import Verification


class Residual(nn.Module):
    """Two convolutions around a shortcut."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(channels, channels, 3, padding=1),
            nn.BatchNorm2d(channels),
            nn.ReLU(inplace=True),
            nn.Conv2d(channels, channels, 3, padding=1),
            nn.BatchNorm2d(channels),
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.body(x)


class Upscaler(nn.Module):
    """Pictures to twice their size, with a look at the whole picture through attention over its patches."""

    def __init__(self, channels: int = 32, blocks: int = 3, patch: int = 8) -> None:
        super().__init__()
        self.patch = patch
        self.head = nn.Conv2d(3, channels, 3, padding=1)
        self.blocks = nn.Sequential(*(Residual(channels) for _ in range(blocks)))
        self.patches = nn.Conv2d(channels, channels, patch, stride=patch)
        self.norm = nn.LayerNorm(channels)
        self.attention = nn.MultiheadAttention(channels, 4, batch_first=True)
        self.tail = nn.Sequential(nn.Conv2d(channels, 12, 3, padding=1), nn.PixelShuffle(2))

    def forward(self, picture: torch.Tensor) -> torch.Tensor:
        x = self.blocks(self.head(picture))
        coarse = self.patches(x)
        batch, channels, rows, columns = coarse.shape
        tokens = self.norm(coarse.flatten(2).transpose(1, 2))
        mixed, _ = self.attention(tokens, tokens, tokens, need_weights=False)
        context = mixed.transpose(1, 2).reshape(batch, channels, rows, columns)
        x = x + nn.functional.interpolate(context, scale_factor=self.patch, mode="nearest")
        return self.tail(x).clamp(0, 1)


def main(folder: str = "out") -> Verification:
    """Write demo.onnx and demo.html into the folder; how onnxruntime compares."""
    directory = Path(folder)
    directory.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(0)
    model = Upscaler().eval()
    picture = torch.rand(1, 3, 48, 64)
    axes = {"picture": {0: "batch", 2: "height", 3: "width"}}

    start = time.perf_counter()
    program = onward.export(model, (picture,), directory / "demo.onnx", dynamic_axes=axes)
    seconds = time.perf_counter() - start
    print(repr(program))
    print(f"\nexported to {directory / 'demo.onnx'} in {seconds:.2f} s; now onnxruntime against PyTorch:\n")
    verification = program.verify(directory / "demo.onnx")
    print(verification)
    write_report(program, directory / "demo.html", verification)
    print(f"\nthe report is in {directory / 'demo.html'}")
    return verification


if __name__ == "__main__":
    main(*sys.argv[1:])
