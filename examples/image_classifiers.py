"""torchvision's classifiers, for any number of pictures of any size that the network itself takes.

    python examples/image_classifiers.py [resnet50] [model.onnx]

The name is one of densenet121, inception_v3, mobilenet_v2, resnet18, resnet50, vgg11, or any other of
`torchvision.models`. Weights are random: put your own in with `model.load_state_dict(...)`.
"""

from __future__ import annotations

import sys

import torch
from _torchvision import torchvision_models

import onward

SMALLEST = {"inception_v3": 75, "densenet121": 32}  # pixels; the others take any


def main(name: str = "resnet18", path: str | None = None) -> None:
    torch.manual_seed(0)
    options = {"init_weights": False} if name == "inception_v3" else {}  # its own way to draw them takes minutes
    model = getattr(torchvision_models(), name)(weights=None, num_classes=10, **options).eval()
    side = SMALLEST.get(name, 64) + 5

    program = onward.export(
        model,
        (torch.randn(2, 3, side, side),),
        path or f"{name}.onnx",
        input_names=["pictures"],
        output_names=["scores"],
        dynamic_axes={"pictures": {0: "batch", 2: "height", 3: "width"}},
        verify=True,
    )
    print(repr(program))
    wide = torch.randn(1, 3, side + 10, side + 32)
    with torch.no_grad():
        expected = model(wide)
    error = (program(wide) - expected).abs().max() / expected.abs().max()
    print(f"one picture of {side + 10}x{side + 32}: off by {error.item():.1e} of the largest score")


if __name__ == "__main__":
    main(*sys.argv[1:])
