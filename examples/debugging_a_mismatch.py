"""A file that disagrees with its model: which operator is wrong, in which module, at which line.

    python examples/debugging_a_mismatch.py [model.onnx]

The fault is planted here: one weight of one layer is changed behind onward's back, as a faulty tool might do it.
"""

from __future__ import annotations

import sys

import numpy as np
import onnx
import torch
from torch import Tensor, nn

import onward


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(16, 16) for _ in range(6))
        self.norm = nn.LayerNorm(16)

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = x + layer(x).relu()
        return self.norm(x)


def tamper(path: str) -> None:
    model = onnx.load(path)
    (weight,) = [each for each in model.graph.initializer if each.name == "layers.3.bias"]
    changed = np.array(onnx.numpy_helper.to_array(weight))
    changed[5] += 0.5
    weight.CopyFrom(onnx.numpy_helper.from_array(changed, weight.name))
    onnx.save(model, path)


def main(path: str = "model.onnx") -> None:
    torch.manual_seed(0)
    model, x = Net().eval(), torch.randn(4, 16)
    program = onward.export(model, (x,), path, verify=True)
    tamper(path)

    try:
        program.verify(path)
    except onward.VerifyError as error:
        print(error)

    explanation = onward.find_mismatch(path, model, (x,))  # the same from the file and the model alone
    print(f"\n{explanation.verdict}: {explanation.culprit.spot.node} in {explanation.culprit.spot.module}")


if __name__ == "__main__":
    main(*sys.argv[1:])
