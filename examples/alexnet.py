"""AlexNet with names of one's own for its input and its sixteen parameters, the graph printed, and the file run.

    python examples/alexnet.py [alexnet.onnx]

The classic first export of PyTorch's documentation: `input_names` runs on from the input into the weights.
"""

from __future__ import annotations

import sys

import onnx
import torch
from _torchvision import torchvision_models

import onward
import onward.backend


def main(path: str = "alexnet.onnx") -> None:
    torch.manual_seed(0)
    model = torchvision_models().alexnet(weights=None).eval()
    pictures = torch.randn(1, 3, 224, 224)

    names = ["actual_input_1"] + [f"learned_{i}" for i in range(16)]
    options = dict(input_names=names, output_names=["output1"], dynamic_axes={"actual_input_1": {0: "batch"}})
    program = onward.export(model, (pictures,), path, **options, verbose=True, verify=True)

    onnx.checker.check_model(path)
    weights = [each.name for each in onnx.load(path).graph.initializer]
    print(f"weights: {', '.join(weights)}")

    on_pytorch = onward.backend.prepare(path, device="CPU")  # the file on PyTorch, in place of onnxruntime
    (again,) = on_pytorch.run(pictures)
    print(f"onnxruntime and onward.backend differ by {(again - program(pictures)).abs().max().item():.1e}")


if __name__ == "__main__":
    main(*sys.argv[1:])
