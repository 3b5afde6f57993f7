"""Dynamic axes: which sizes may change, how they are named and bounded, and what happens if the model fixes one.

python examples/dynamic_axes.py [attention.onnx]
"""

from __future__ import annotations

import sys

import torch
from torch import Tensor, nn
from torch.export import Dim

import onward


class Attention(nn.Module):
    """Sizes go through Python here, `batch * length` among them; they stay what they are."""

    def __init__(self, width: int = 32, heads: int = 4) -> None:
        super().__init__()
        self.qkv, self.out, self.heads = nn.Linear(width, 3 * width), nn.Linear(width, width), heads

    def forward(self, x: Tensor) -> Tensor:
        batch, length, width = x.shape
        q, k, v = self.qkv(x).view(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        mixed = nn.functional.scaled_dot_product_attention(q, k, v).transpose(1, 2)
        return self.out(mixed.reshape(batch * length, width)).view(batch, length, width)


class Rows(nn.Module):
    """A Python loop over the batch: it is a Loop in the file, with as many turns as there are rows."""

    def forward(self, x: Tensor) -> Tensor:
        return torch.stack([x[i] * i for i in range(x.shape[0])])


class RowsApart(nn.Module):
    """As many outputs as there are rows, which no file can have."""

    def forward(self, x: Tensor) -> list[Tensor]:
        return [x[i] * i for i in range(x.shape[0])]


def main(path: str = "attention.onnx") -> None:
    torch.manual_seed(0)
    model, x = Attention().eval(), torch.randn(2, 5, 32)

    program = onward.export(model, (x,), path, dynamic_axes={"x": {0: "batch", 1: "length"}}, verify=True)
    print(f"{program!r}\n  tried at {', '.join(check.label for check in program.verify().checks)}")

    bounded = {"x": {0: Dim("batch", max=64), 1: Dim("length", min=2, max=512)}}  # as torch.export has it
    print(repr(onward.export(model, (x,), dynamic_shapes=bounded)))

    fixed = onward.export(model, (x,))
    print(f"{len(fixed.model.graph)} nodes with every size fixed, {len(program.model.graph)} with two that change")

    rows = onward.export(Rows(), (x,), dynamic_axes={"x": {0: "batch"}}, verify=True)
    more = torch.randn(7, 5, 32)
    print(f"7 rows, one by one: off by {(rows(more) - Rows()(more)).abs().max():.1e}")

    try:
        onward.export(RowsApart(), (x,), dynamic_axes={"x": {0: "batch"}})
    except onward.FrozenAxisError as error:  # never a file that is silently wrong at other sizes
        print(f"refused: {error}")


if __name__ == "__main__":
    main(*sys.argv[1:])
