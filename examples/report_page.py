"""The report page: one HTML file about a model that was just exported, which opens without a network.

    python examples/report_page.py [folder]

From a shell it is `onward report model.onnx`, for any ONNX file.
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch
from torch import Tensor, nn

import onward


class Block(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(channels, channels, 3, padding=1), nn.BatchNorm2d(channels), nn.ReLU())

    def forward(self, x: Tensor) -> Tensor:
        return x + self.body(x)


class Net(nn.Module):
    """Named parts, which the page groups the graph by."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 3, padding=1)
        self.blocks = nn.Sequential(*(Block(8) for _ in range(3)))
        self.head = nn.Linear(8, 10)

    def forward(self, picture: Tensor) -> Tensor:
        return self.head(self.blocks(self.stem(picture)).mean((2, 3)))


def main(folder: str = "report") -> None:
    torch.manual_seed(0)
    Path(folder).mkdir(parents=True, exist_ok=True)
    axes = {"picture": {0: "batch", 2: "height", 3: "width"}}
    onward.export(
        Net().eval(), (torch.rand(1, 3, 32, 32),), Path(folder) / "net.onnx", dynamic_axes=axes,
        verify=True, report=True, artifacts_dir=folder,
    )  # fmt: skip
    for page in sorted(Path(folder).glob("*.html")):
        print(f"open {page} in a browser ({page.stat().st_size:,} bytes)")


if __name__ == "__main__":
    main(*sys.argv[1:])
