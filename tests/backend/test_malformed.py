"""A file is untrusted: cut short or with bytes changed, it is an error of ours or a model that runs, nothing else."""

from __future__ import annotations

import logging
import random

import pytest
import torch
from torch import nn

import onward
import onward.backend

TRIES = 5000


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3)
        self.lstm = nn.LSTM(4, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.conv(x).relu()
        return self.lstm(y.flatten(2)[0].t().unsqueeze(1))[0].softmax(-1)


def damaged(content: bytes, chance: random.Random) -> bytes:
    """Cut short, or a few bytes changed: anywhere, or among the first, which are structure and not weights."""
    kind = chance.randrange(3)
    if kind == 0:
        return content[: chance.randrange(len(content))]
    changed = bytearray(content)
    for _ in range(chance.randrange(1, 6)):
        changed[chance.randrange(len(content) if kind == 1 else min(900, len(content)))] = chance.randrange(256)
    return bytes(changed)


def test_damaged_files(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL)  # onnx_ir says much about each
    x = torch.randn(1, 3, 6, 6)
    content = onward.export(Model().eval(), x).proto().SerializeToString()
    chance = random.Random(0)
    outcomes = {"ran": 0, "refused": 0}
    for _ in range(TRIES):
        try:
            onward.backend.prepare(damaged(content, chance)).run(x)
            outcomes["ran"] += 1
        except onward.ExportError:
            outcomes["refused"] += 1
    assert outcomes["ran"] > TRIES // 100, "damage so great that nothing runs tests the parser alone"
    assert outcomes["refused"] > TRIES // 4
