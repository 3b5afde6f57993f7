"""An old script with torch.onnx.export: two lines more, and onward writes its file.

python examples/migrating.py [model.onnx]
"""

from __future__ import annotations

import sys
from typing import Any

import torch
from torch import nn

import onward


def old_script(path: str) -> Any:
    """As it was written for PyTorch 1.x, parameters that are gone since and all."""
    model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten())
    return torch.onnx.export(
        model,
        torch.randn(1, 3, 32, 32),
        path,
        export_params=True,
        opset_version=11,
        do_constant_folding=True,
        input_names=["input"],
        output_names=["output"],
        dynamic_axes={"input": {0: "batch_size"}, "output": {0: "batch_size"}},
        example_outputs=None,
        enable_onnx_checker=True,
    )


def main(path: str = "model.onnx") -> None:
    torch.manual_seed(0)
    with onward.init():  # or onward.init() once, for the whole process
        program = old_script(path)
    print(repr(program))
    print(program.verify())
    print(f"afterwards torch.onnx.export is of {torch.onnx.export.__module__} again")


if __name__ == "__main__":
    main(*sys.argv[1:])
