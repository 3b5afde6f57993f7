"""A small network, batches of what it is called with, and labels for them."""

import torch
from torch import nn


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU())
        self.layer1 = nn.ModuleDict({"a": nn.ModuleDict({"conv1": nn.Conv2d(4, 4, 1)})})
        self.norm = nn.LayerNorm(4)
        self.head = nn.Linear(4, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.layer1["a"]["conv1"](self.stem(x)).mean((2, 3))
        return self.head(self.norm(x))


batches = [torch.randn(2, 3, 6, 6) for _ in range(2)]
x = batches[0]
data = [(batch, torch.tensor([0, 1])) for batch in batches]
loss = nn.CrossEntropyLoss()
model = Net().eval()
