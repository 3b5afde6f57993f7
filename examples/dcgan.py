"""DCGAN: a generator that grows pictures from noise, and the discriminator that judges them, each in a file.

python examples/dcgan.py [generator.onnx] [discriminator.onnx]
"""

from __future__ import annotations

import sys

import torch
from torch import Tensor, nn

import onward


def generator(latent: int = 100, width: int = 16) -> nn.Sequential:
    """Noise of (n, latent, 1, 1) to pictures of (n, 3, 64, 64)."""
    layers: list[nn.Module] = []
    channels, stride, padding = latent, 1, 0
    for wider in (width * 8, width * 4, width * 2, width):
        layers += [nn.ConvTranspose2d(channels, wider, 4, stride, padding, bias=False), nn.BatchNorm2d(wider)]
        layers += [nn.ReLU(inplace=True)]
        channels, stride, padding = wider, 2, 1
    return nn.Sequential(*layers, nn.ConvTranspose2d(width, 3, 4, 2, 1, bias=False), nn.Tanh())


class Discriminator(nn.Module):
    """Pictures to the probability that they are real."""

    def __init__(self, width: int = 16) -> None:
        super().__init__()
        layers: list[nn.Module] = [nn.Conv2d(3, width, 4, 2, 1, bias=False), nn.LeakyReLU(0.2, inplace=True)]
        for channels in (width, width * 2, width * 4):
            layers += [nn.Conv2d(channels, channels * 2, 4, 2, 1, bias=False), nn.BatchNorm2d(channels * 2)]
            layers += [nn.LeakyReLU(0.2, inplace=True)]
        self.main = nn.Sequential(*layers, nn.Conv2d(width * 8, 1, 4, 1, 0, bias=False), nn.Sigmoid())

    def forward(self, pictures: Tensor) -> Tensor:
        return self.main(pictures).view(-1, 1).squeeze(1)


def main(generator_path: str = "generator.onnx", discriminator_path: str = "discriminator.onnx") -> None:
    torch.manual_seed(0)
    noise = torch.randn(2, 100, 1, 1)
    names = dict(input_names=["noise"], output_names=["pictures"], dynamic_axes={"noise": {0: "n"}})
    paint = onward.export(generator().eval(), (noise,), generator_path, **names, verify=True)
    axes = {"pictures": {0: "n"}}
    judge = onward.export(
        Discriminator().eval(),
        (paint(noise),),
        discriminator_path,
        output_names=["real"],
        dynamic_axes=axes,
        verify=True,
    )
    print(repr(paint), repr(judge), sep="\n")
    pictures = paint(torch.randn(5, 100, 1, 1))  # both in onnxruntime
    print(f"pictures {tuple(pictures.shape)}, real with probability {[round(p, 3) for p in judge(pictures).tolist()]}")


if __name__ == "__main__":
    main(*sys.argv[1:])
