"""The shortest way: a model, an example, a file that was run in onnxruntime and agrees with PyTorch.

python examples/quick_start.py [model.onnx]
"""

from __future__ import annotations

import sys

import torch
from torch import nn

import onward


def main(path: str = "model.onnx") -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4)).eval()
    x = torch.randn(2, 16)

    names = dict(input_names=["x"], output_names=["y"], dynamic_axes={"x": {0: "batch"}})
    program = onward.export(model, (x,), path, **names, verify=True)  # an error if onnxruntime and PyTorch disagree

    print(repr(program))
    print(program)  # the graph: every node with its module and the line of your code
    many = torch.randn(7, 16)  # a size that was never traced
    print(f"7 rows: off by {(program(many) - model(many)).abs().max().item():.1e}")


if __name__ == "__main__":
    main(*sys.argv[1:])
