"""A pillar feature extractor for lidar: three inputs that share one dynamic axis.

    python examples/pillar_features.py [pillars.onnx]

The points of a scan are grouped in columns, the pillars; how many of them hold points changes with every scan. Axes of
the same name are one axis: onnxruntime is given the three inputs with the same first size, whatever it is.
"""

from __future__ import annotations

import sys

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import onward

CELL, OFFSET = 0.16, (0.08, -39.60)


class PillarFeatures(nn.Module):
    """Each point relative to its pillar, a linear layer for all points, and the maximum over the points."""

    def __init__(self, features: int = 32) -> None:
        super().__init__()
        self.linear = nn.Linear(9, features, bias=False)
        self.norm = nn.BatchNorm1d(features, eps=1e-3)

    def forward(self, voxels: Tensor, num_points: Tensor, coords: Tensor) -> Tensor:
        position = voxels[:, :, :3]
        from_mean = position - position.sum(1, keepdim=True) / num_points.type_as(voxels).view(-1, 1, 1)
        from_centre = torch.zeros_like(voxels[:, :, :2])
        from_centre[:, :, 0] = voxels[:, :, 0] - (coords[:, 3].to(voxels)[:, None] * CELL + OFFSET[0])  # in place:
        from_centre[:, :, 1] = voxels[:, :, 1] - (coords[:, 2].to(voxels)[:, None] * CELL + OFFSET[1])  # no obstacle
        slots = torch.arange(voxels.shape[1], dtype=torch.int32)
        filled = (num_points[:, None] > slots)[..., None]  # the other slots are padding
        x = torch.cat([voxels, from_mean, from_centre], dim=-1) * filled
        x = self.norm(self.linear(x).transpose(1, 2)).transpose(1, 2)
        return F.relu(x).amax(1)


def scan(pillars: int, slots: int = 20) -> tuple[Tensor, Tensor, Tensor]:
    """What a lidar might see: points, how many of them are in each pillar, and where the pillars are."""
    num_points = torch.randint(1, slots + 1, (pillars,), dtype=torch.int32)
    voxels = torch.randn(pillars, slots, 4) * (torch.arange(slots)[:, None] < num_points.view(-1, 1, 1))
    return voxels, num_points, torch.randint(0, 400, (pillars, 4), dtype=torch.int32)


def main(path: str = "pillars.onnx") -> None:
    torch.manual_seed(0)
    model = PillarFeatures().eval()
    axes = {name: {0: "pillars"} for name in ("voxels", "num_points", "coords")}
    program = onward.export(model, scan(12), path, output_names=["features"], dynamic_axes=axes, verify=True)
    print(repr(program))
    for pillars in (1, 500):
        inputs = scan(pillars)
        with torch.no_grad():
            error = (program(*inputs) - model(*inputs)).abs().max()
        print(f"{pillars} pillars: off by {error.item():.1e}")


if __name__ == "__main__":
    main(*sys.argv[1:])
