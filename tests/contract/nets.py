"""Models that several rows of the contract are tested with."""

from __future__ import annotations

import torch
from torch import nn


class Encoder(nn.Module):
    """Two inputs with the same two axes."""

    def __init__(self) -> None:
        super().__init__()
        self.project = nn.Linear(4, 6)

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        return self.project(x) * mask.unsqueeze(-1)


class Recurrent(nn.Module):
    """Several results, lists of tensors, sizes computed with."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(4, 5, 2, batch_first=True, bidirectional=True)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        y, (h, c) = self.lstm(x)
        left, right = y.split([3, 7], -1)
        return h, c, left.reshape(x.shape[0] * 3, -1), right[:, x.shape[1] // 2 :], *x.unbind(-1)
