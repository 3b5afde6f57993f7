"""Models whose weights matter, and their weights by name: shared by the rows about weights."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import onnx
import torch
from torch import nn
from torch.nn.utils import parametrizations


class Recurrent(nn.Module):
    """Tied embeddings around an LSTM, a weight norm, a buffer: weights in every form a graph can want them."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.rnn = nn.Embedding(11, 6), nn.LSTM(6, 6, 2, bidirectional=True)
        self.scaled = parametrizations.weight_norm(nn.Linear(12, 6))
        self.out = nn.Linear(6, 11)
        self.out.weight = self.embedding.weight
        self.register_buffer("shift", torch.linspace(0, 1, 6))

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        hidden, _ = self.rnn(self.embedding(tokens))
        return self.out(torch.relu(self.scaled(hidden) + self.shift))


class Convolutional(nn.Module):
    """Convolution and batch norm, which a folding export makes one, and spectral norm."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm = nn.Conv2d(3, 12, 3, bias=False), nn.BatchNorm2d(12)
        self.head = parametrizations.spectral_norm(nn.Linear(12, 5))
        with torch.no_grad():
            self.norm.running_mean.normal_()  # type: ignore[union-attr]
            self.norm.running_var.uniform_(0.5, 2)  # type: ignore[union-attr]

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        return self.head(torch.relu(self.norm(self.conv(image))).mean((2, 3)))


def models() -> dict[str, tuple[nn.Module, torch.Tensor, dict[int, str]]]:
    """A model, an example and its dynamic axes, by name; the same weights every time."""
    torch.manual_seed(0)
    return {
        "recurrent": (Recurrent().eval(), torch.randint(0, 11, (5, 2)), {0: "time", 1: "batch"}),
        "convolutional": (Convolutional().eval(), torch.randn(2, 3, 8, 8), {0: "batch"}),
    }


def other_weights(model: nn.Module) -> dict[str, torch.Tensor]:
    """Weights that another training might have found."""
    generator = torch.Generator().manual_seed(7)
    known: dict[int, torch.Tensor] = {}  # tied weights stay tied
    for tensor in model.state_dict().values():
        noise = torch.rand(tensor.shape, generator=generator) / 2
        known.setdefault(tensor.data_ptr(), tensor + noise if tensor.is_floating_point() else tensor.clone())
    return {name: known[tensor.data_ptr()] for name, tensor in model.state_dict().items()}


def answer(model: nn.Module, weights: dict[str, torch.Tensor], *args: Any) -> torch.Tensor:
    """What the model answers with these weights, the model left as it is."""
    other = copy.deepcopy(model)
    other.load_state_dict(weights)
    with torch.no_grad():
        return other(*args)


def initializers(file: Path | onnx.ModelProto) -> dict[str, torch.Tensor]:
    model = file if isinstance(file, onnx.ModelProto) else onnx.load(file)
    return {each.name: torch.from_numpy(onnx.numpy_helper.to_array(each).copy()) for each in model.graph.initializer}


def inputs(file: Path | onnx.ModelProto) -> list[str]:
    model = file if isinstance(file, onnx.ModelProto) else onnx.load(file)
    return [each.name for each in model.graph.input]
