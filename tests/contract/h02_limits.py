"""Contract row H2: loops that Python itself limits: by a counter, the length of a list, a range of plain numbers."""

from __future__ import annotations

import itertools

import torch
from torch import nn

from .h_rows import Table, floats, noise, number, sizes

ROWS = Table()
NUMBERS = [number(value) for value in (3.0, 0.5, 10.0, 60.0, 2000.0)]  # the last ones reach the limit


@ROWS.row(*NUMBERS)
class AtMostAThousandTurns(nn.Module):
    def forward(self, x):
        turns = 0
        while turns < 1000 and x > 1:
            x = x - 0.5
            turns += 1
        return x


@ROWS.row(*NUMBERS)
class TheLimitIsAskedLast(nn.Module):
    def forward(self, x):
        turns = 0
        while x > 1 and turns < 30:
            x = x - 0.5
            turns = turns + 1
        return x * turns


@ROWS.row(*NUMBERS)
class CountedAndLimited(nn.Module):
    def forward(self, x):
        turns = 0
        while turns < 100 and x > 1:
            x = x - 0.5
            turns += 1
        return x, torch.tensor(turns)


@ROWS.row(*NUMBERS)
class LimitAtTheEndOfATurn(nn.Module):
    def forward(self, x):
        turns = 0
        while True:
            x = x - 0.5
            turns += 1
            if x < 1 or turns >= 30:
                break
        return x, torch.tensor(turns)


@ROWS.row(*NUMBERS)
class LimitInAFunction(nn.Module):
    def is_done(self, x, turns):
        return turns >= 25 or bool(x < 1)

    def forward(self, x):
        turns = 0
        while not self.is_done(x, turns):
            x = x - 0.5
            turns += 1
        return x


@ROWS.row(*NUMBERS)
class TwoCountersMeet(nn.Module):
    def forward(self, x):
        low, high = 0, 10
        while x > 1 and low < high:
            x = x - 0.3 * low
            low += 2
            high += 1
        return x, torch.tensor(low), torch.tensor(high)


@ROWS.row(*NUMBERS)
class StepsThatShrink(nn.Module):
    def forward(self, x):
        step = 1.0
        while step > 1e-6 and x > 1:
            x = x - 0.5
            step = step * 0.5
        return x


@ROWS.row(*NUMBERS)
class LimitOfAList(nn.Module):
    def forward(self, x):
        seen = []
        while len(seen) < 40 and x > 1:
            x = x - 0.5
            seen.append(x)
        return x


@ROWS.row(*NUMBERS, expects="warns", reason="nobody can see how `itertools.count` counts")
class CountedByALibrary(nn.Module):
    def forward(self, x):
        for turn in itertools.count():  # never comes to an end
            if turn > 30 or x < 1:
                break
            x = x - 0.5
        return x


@ROWS.row(*NUMBERS)
class BreakOutOfAFixedRange(nn.Module):
    def forward(self, x):
        for _ in range(100):
            if x < 1:
                break
            x = x - 0.5
        return x


@ROWS.row(floats(1, 2), floats(0.1, 0), floats(40, 3), floats(300, 200))
class ConvergesInAFixedRange(nn.Module):
    def forward(self, x):
        y = x
        for turn in range(50):
            z = y * 0.5 + x / (turn + 1)
            change = (z - y).abs().max()
            y = z
            if change < 0.1:
                break
        return y


@ROWS.row(*NUMBERS)
class ReturnsOutOfAFixedRange(nn.Module):
    def forward(self, x):
        for _ in range(60):
            x = x - 0.25
            if x < 1:
                return x * 2
        return x + 100


@ROWS.row(*NUMBERS)
class ElseOfAFixedRange(nn.Module):
    def forward(self, x):
        y = x
        for _ in range(12):
            f = y * y - 2
            if f.abs() < 1e-3:
                break
            y = y - f / (2 * y + 1e-3)
        else:
            y = y * 0
        return y


@ROWS.row(*NUMBERS)
class BranchInAFixedRange(nn.Module):
    def forward(self, x):
        for turn in range(20):
            x = x - 0.5 if x > 3 else x + 0.1 * turn
        return x


@ROWS.row(floats(1, 2), floats(-3, 1), floats(40, 3), floats(9, 20))
class FixedRangeInAFixedRange(nn.Module):
    def forward(self, x):
        for i in range(10):
            for j in range(10):
                x = x - 0.1 * j if x[0] > i else x + 0.05
        return x


@ROWS.row(floats(1, 2), floats(-3, 1), floats(40, 3))
class ListOfAFixedRange(nn.Module):
    def forward(self, x):
        seen = []
        for _ in range(12):
            if x.sum() > 3:
                x = x - 0.5
            seen.append(x)
        return torch.stack(seen)


@ROWS.row(noise(3, 4), noise(3, 4) * 0.01, noise(3, 4) * 9)
class OwnWeightsInAFixedRange(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(4, 4) for _ in range(10))

    def forward(self, x):
        for i in range(10):
            x = self.layers[i](x)
            if x.abs().max() < 0.3:
                break
        return x


@ROWS.row(*NUMBERS)
class TwoFixedRanges(nn.Module):
    def forward(self, x):
        for _ in range(20):
            if x < 1:
                break
            x = x - 0.5
        for _ in range(30):
            if x > 10:
                break
            x = x + 0.25
        return x


@ROWS.row(*sizes(lambda n: noise(n, 4), 5, 1, 2, 50, 51, 52, 80), axes={"x": {0: "n"}})
class OneTurnFarAway(nn.Module):
    def forward(self, x):
        total = torch.zeros(4)
        for i in range(x.shape[0]):
            total = total + x[i]
            if i == 50:
                total = total * 2
        return total


@ROWS.row(*sizes(lambda n: noise(n, 4), 5, 1, 2, 39, 40, 41, 80), axes={"x": {0: "n"}})
class OneTurnFarFromTheEnd(nn.Module):
    def forward(self, x):
        total = torch.zeros(4)
        for i in range(x.shape[0]):
            if i == x.shape[0] - 40:
                total = total * 2
            total = total + x[i]
        return total


@ROWS.row(*sizes(lambda n: noise(n, 4), 5, 1, 2, 8), axes={"x": {0: "n"}})
class NextRowIfThereIsOne(nn.Module):
    def forward(self, x):
        total = torch.zeros(4)
        for i in range(x.shape[0]):
            if i + 1 < x.shape[0]:
                total = total + x[i] * x[i + 1]
            else:
                total = total - x[i]
        return total


@ROWS.row(floats(1, 1), floats(0.1, 0), floats(3, 2), floats(40, 60), floats(0.1, 60))
class LimitsInsideOfEachOther(nn.Module):
    def forward(self, x):
        i = 0
        while i < 15 and x.sum() > 1:
            j = 0
            while j < 12 and x[0] > 0.2:
                x = x * 0.9
                j += 1
            x = x - 0.1
            i += 1
        return x


@ROWS.row(*sizes(lambda n: noise(n, 3) * 4, 5, 1, 2, 7), noise(3, 3) + 30, axes={"x": {0: "n"}})
class BreakOutOfAFixedRangePerRow(nn.Module):
    def forward(self, x):
        total = torch.zeros(3)
        for row in x:
            for k in range(10):
                if row.sum() < k:
                    break
                row = row - 0.3
            total = total + row
        return total
