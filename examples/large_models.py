"""Large models: weights in a file beside the graph, tied weights once, other weights without another export.

    python examples/large_models.py [folder]

Beyond 2 GiB, where one file cannot be, this happens by itself; `external_data=True` does it to any model.
"""

from __future__ import annotations

import sys
from pathlib import Path

import onnx
import torch
from torch import Tensor, nn

import onward


class Decoder(nn.Module):
    """A language model in small. The table of words serves twice: it is one weight, with two uses."""

    def __init__(self, words: int = 5000, width: int = 64) -> None:
        super().__init__()
        self.embed = nn.Embedding(words, width)
        layer = nn.TransformerEncoderLayer(width, 4, 128, batch_first=True, norm_first=True)
        self.layers = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(width, words, bias=False)
        self.head.weight = self.embed.weight

    def forward(self, ids: Tensor) -> Tensor:
        return self.head(self.layers(self.embed(ids)))


def main(folder: str = "large") -> None:
    Path(folder).mkdir(parents=True, exist_ok=True)
    path = Path(folder) / "model.onnx"
    torch.manual_seed(0)
    model, ids = Decoder().eval(), torch.randint(0, 5000, (1, 6))
    axes = {"ids": {0: "batch", 1: "length"}}
    program = onward.export(model, (ids,), path, dynamic_axes=axes, external_data=True, verify=True)
    print(repr(program))
    for file in sorted(Path(folder).iterdir()):
        print(f"  {file.name}: {file.stat().st_size:,} bytes")
    weights = sum(weight.numel() * 4 for weight in model.parameters())  # parameters() has the table once
    print(f"  the weights are {weights:,} bytes: they are streamed to the file, one by one, and no second copy is made")

    graph = onnx.load(path, load_external_data=False).graph  # the graph alone, which is small
    shared = [weight.name for weight in graph.initializer if weight.dims[:] == [5000, 64]]
    print(f"  the table is in the file {len(shared)} time(s): {shared}")

    torch.manual_seed(1)
    other = Decoder().eval()
    newer = program.apply_weights(other.state_dict())  # a checkpoint of the same model
    newer.save(path)
    with torch.no_grad():
        print(f"  with other weights: off by {(newer(ids) - other(ids)).abs().max().item():.1e}")


if __name__ == "__main__":
    main(*sys.argv[1:])
