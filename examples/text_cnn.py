"""A text CNN: sentences of any length, although the model pools over a length that it asks for as a number.

    python examples/text_cnn.py [text_cnn.onnx]

`F.max_pool1d(x, x.size(2))` would fix the length of the example in a plain trace. Here the size keeps its origin.
"""

from __future__ import annotations

import sys

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import onward


class TextCNN(nn.Module):
    """Convolutions of three widths over the words, each followed by its maximum over the sentence."""

    def __init__(self, words: int = 97, width: int = 16, filters: int = 12, classes: int = 4) -> None:
        super().__init__()
        self.embedding = nn.Embedding(words, width, padding_idx=0)
        self.convolutions = nn.ModuleList(nn.Conv1d(width, filters, size) for size in (3, 4, 5))
        self.classifier = nn.Linear(3 * filters, classes)

    def forward(self, words: Tensor) -> Tensor:
        x = self.embedding(words).transpose(1, 2)
        features = [F.relu(convolution(x)) for convolution in self.convolutions]
        return self.classifier(torch.cat([F.max_pool1d(each, int(each.size(2))).squeeze(2) for each in features], 1))


def main(path: str = "text_cnn.onnx") -> None:
    torch.manual_seed(0)
    model = TextCNN().eval()
    axes = {"words": {0: "batch", 1: "length"}}
    program = onward.export(
        model, (torch.randint(97, (2, 12)),), path, output_names=["scores"], dynamic_axes=axes, verify=True
    )
    print(repr(program))
    for length in (5, 80):
        words = torch.randint(97, (3, length))
        print(f"{length} words: off by {(program(words) - model(words)).abs().max().item():.1e}")


if __name__ == "__main__":
    main(*sys.argv[1:])
