"""What is learned: scikit-learn's digits, and sequences made here. Small, so that everything is trained from scratch.

The networks have what a quantiser finds hard: residual sums, depthwise and transposed convolutions, joins, batch norms,
softmax between two products of activations, and a recurrence.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache

import torch
import torch.nn.functional as F
from torch import Tensor, nn

BATCH = 50
SYMBOLS, LENGTH = 20, 20


@dataclass(frozen=True)
class Data:
    """Inputs and labels, for training and for judging."""

    train: tuple[Tensor, Tensor]
    test: tuple[Tensor, Tensor]

    def batches(self, seed: int) -> Iterator[tuple[Tensor, Tensor]]:
        """One epoch in an order of its own."""
        inputs, labels = self.train
        order = torch.randperm(len(inputs), generator=torch.Generator().manual_seed(seed))
        for rows in order.split(BATCH):
            yield inputs[rows], labels[rows]

    def calibration(self) -> list[Tensor]:
        """What every tool calibrates with: ten batches of the training data."""
        return list(self.train[0][: 10 * BATCH].split(BATCH))


@cache
def digits() -> Data:
    """1,000 pictures of 8x8 to learn from and 797 to judge with."""
    from sklearn.datasets import load_digits

    found = load_digits()
    inputs = torch.tensor(found.images, dtype=torch.float32)[:, None] / 16
    labels = torch.tensor(found.target)
    order = torch.randperm(len(inputs), generator=torch.Generator().manual_seed(0))
    inputs, labels = inputs[order], labels[order]
    return Data((inputs[:1000], labels[:1000]), (inputs[1000:], labels[1000:]))


@cache
def sequences() -> Data:
    """Twenty symbols, five of them marked; the label is the middle one of these by size."""
    generator = torch.Generator().manual_seed(0)
    count = 4000
    symbols = torch.randint(SYMBOLS, (count, LENGTH), generator=generator)
    places = torch.rand(count, LENGTH, generator=generator).topk(5).indices
    labels = symbols.gather(1, places).median(1).values
    inputs = symbols.scatter_add(
        1, places, torch.full_like(places, SYMBOLS)
    )  # a marked symbol is one of another twenty
    return Data((inputs[:3000], labels[:3000]), (inputs[3000:], labels[3000:]))


class Residual(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.norm1 = nn.BatchNorm2d(channels)
        self.conv2 = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.norm2 = nn.BatchNorm2d(channels)

    def forward(self, x: Tensor) -> Tensor:
        y = F.relu(self.norm1(self.conv1(x)))
        return F.relu(self.norm2(self.conv2(y)) + x)


class Cnn(nn.Module):
    """Residual sums, depthwise and transposed convolutions, a join, and a pool."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(1, 32, 3, padding=1, bias=False), nn.BatchNorm2d(32), nn.ReLU())
        self.block = Residual(32)
        self.depthwise = nn.Sequential(
            nn.Conv2d(32, 32, 3, stride=2, padding=1, groups=32, bias=False), nn.BatchNorm2d(32), nn.ReLU6()
        )
        self.pointwise = nn.Sequential(nn.Conv2d(32, 64, 1, bias=False), nn.BatchNorm2d(64), nn.ReLU())
        self.up = nn.ConvTranspose2d(64, 32, 2, stride=2)
        self.join = nn.Sequential(nn.Conv2d(64, 32, 3, padding=1, bias=False), nn.BatchNorm2d(32), nn.ReLU())
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.head = nn.Linear(32, 10)

    def forward(self, x: Tensor) -> Tensor:
        skip = self.block(self.stem(x))
        y = F.relu(self.up(self.pointwise(self.depthwise(skip))))
        y = self.join(torch.cat([skip, y], 1))
        return self.head(self.pool(y).flatten(1))


class Mlp(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Flatten(),
            nn.Linear(64, 128),
            nn.BatchNorm1d(128),
            nn.ReLU(),
            nn.Linear(128, 128),
            nn.ReLU(),
            nn.Linear(128, 10),
        )

    def forward(self, x: Tensor) -> Tensor:
        return self.layers(x)


class Attention(nn.Module):
    """One layer of a transformer, and the mean over the sequence."""

    def __init__(self, width: int = 64, heads: int = 4) -> None:
        super().__init__()
        self.heads = heads
        self.symbols = nn.Embedding(2 * SYMBOLS, width)
        self.places = nn.Parameter(torch.randn(LENGTH, width) * 0.02)
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.wide, self.narrow = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)
        self.head = nn.Linear(width, SYMBOLS)

    def forward(self, x: Tensor) -> Tensor:
        y = self.symbols(x) + self.places
        y = y + self.attend(self.norm1(y))
        y = y + self.narrow(F.gelu(self.wide(self.norm2(y))))
        return self.head(y.mean(1))

    def attend(self, x: Tensor) -> Tensor:
        q, k, v = self.qkv(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        weights = torch.softmax(q @ k.transpose(-2, -1) * q.shape[-1] ** -0.5, -1)
        return self.out((weights @ v).transpose(1, 2).flatten(2))


class Recurrent(nn.Module):
    def __init__(self, width: int = 64) -> None:
        super().__init__()
        self.symbols = nn.Embedding(2 * SYMBOLS, width)
        self.lstm = nn.LSTM(width, width, batch_first=True)
        self.head = nn.Linear(width, SYMBOLS)

    def forward(self, x: Tensor) -> Tensor:
        states, _ = self.lstm(self.symbols(x))
        return self.head(states[:, -1])


@dataclass(frozen=True)
class Task:
    """A network, what it learns, and for how long."""

    name: str
    title: str
    network: Callable[[], nn.Module]
    data: Callable[[], Data]
    epochs: int
    rate: float
    exact: bool  # every output element has to be equal; otherwise within one step

    def made(self) -> nn.Module:
        torch.manual_seed(0)
        return self.network()

    def trained(self) -> nn.Module:
        """The float model that all start from."""
        model = self.made()
        learn(model, self.data(), self.epochs, self.rate)
        return model.eval()


TASKS = {
    task.name: task
    for task in (
        Task("cnn", "CNN, digits", Cnn, digits, 12, 3e-3, True),
        Task("mlp", "MLP, digits", Mlp, digits, 20, 3e-3, True),
        Task("attention", "attention, sequences", Attention, sequences, 12, 2e-3, False),
        Task("lstm", "LSTM, sequences", Recurrent, sequences, 15, 5e-3, False),
    )
}


def learn(model: nn.Module, data: Data, epochs: int, rate: float) -> None:
    """Adam, and a learning rate that falls to nothing: the same for float and for quantised models."""
    optimizer = torch.optim.Adam(model.parameters(), lr=rate)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, epochs)
    model.train()
    for epoch in range(epochs):
        for inputs, labels in data.batches(epoch):
            optimizer.zero_grad()
            F.cross_entropy(model(inputs), labels).backward()
            optimizer.step()
        schedule.step()
    model.eval()
