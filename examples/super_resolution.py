"""Super-resolution (ESPCN): pictures of any size to three times that size, at the opset that a runtime asks for.

python examples/super_resolution.py [super_resolution.onnx]
"""

from __future__ import annotations

import sys

import torch
from torch import Tensor, nn

import onward


class SuperResolution(nn.Module):
    """Convolutions at low resolution, then channels rearranged into pixels."""

    def __init__(self, upscale: int = 3) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(1, 64, 5, padding=2),
            nn.ReLU(inplace=True),
            nn.Conv2d(64, 32, 3, padding=1),
            nn.ReLU(inplace=True),
            nn.Conv2d(32, upscale**2, 3, padding=1),
            nn.PixelShuffle(upscale),
        )

    def forward(self, luminance: Tensor) -> Tensor:
        return self.layers(luminance)


def main(path: str = "super_resolution.onnx") -> None:
    torch.manual_seed(0)
    model = SuperResolution().eval()
    picture = torch.rand(1, 1, 24, 32)
    options = dict(output_names=["larger"], dynamic_axes={"luminance": {0: "batch", 2: "height", 3: "width"}})
    for opset in (9, 11, 20):  # PixelShuffle has a node of its own from 11 on
        program = onward.export(model, (picture,), path, **options, opset_version=opset, verify=True)
        nodes = ", ".join(node.op_type for node in program.model.graph)
        print(f"opset {opset}: {nodes}")
    print(repr(program))
    print(f"17x40 became {'x'.join(map(str, program(torch.rand(1, 1, 17, 40)).shape[2:]))}")


if __name__ == "__main__":
    main(*sys.argv[1:])
