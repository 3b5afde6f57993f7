"""Contract row H3: several loops over dynamic axes: nested, in a row, over pairs, over counts and lengths from data."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional as F

from .h_rows import Table, floats, ints, noise, sizes

ROWS = Table()
AXES = {"x": {0: "n"}}
BOTH = {"x": {0: "n", 1: "m"}}


def rows(n):
    return noise(n, 3)


GRIDS = [noise(n, m) for n, m in [(3, 4), (1, 1), (2, 5), (5, 1), (6, 3)]]


@ROWS.row(*GRIDS, torch.zeros(0, 2), torch.zeros(2, 0), axes=BOTH)
class NestedFors(nn.Module):
    def forward(self, x):
        total = torch.zeros(())
        for i in range(x.shape[0]):
            for j in range(x.shape[1]):
                total = total * 0.9 + x[i, j] * (i + 1)
        return total


@ROWS.row(*GRIDS, axes=BOTH)
class NestedRows(nn.Module):
    def forward(self, x):
        out = []
        for row in x:
            h = torch.zeros(())
            for value in row:
                h = torch.tanh(h + value)
            out.append(h)
        return torch.stack(out)


@ROWS.row(*GRIDS, axes=BOTH)
class NestedComprehensions(nn.Module):
    def forward(self, x):
        return torch.stack([torch.stack([value * 2 + i for value in row]) for i, row in enumerate(x)])


@ROWS.row(*sizes(rows, 4, 0, 1, 2, 7), axes=AXES)
class TwoLoopsInARow(nn.Module):
    def forward(self, x):
        total, weighted = torch.zeros(3), torch.zeros(3)
        for row in x:
            total = total + row
        for t in range(x.shape[0]):
            weighted = weighted * 0.5 + x[t] * total
        return weighted


@ROWS.row(*sizes(rows, 4, 1, 2, 7), axes=AXES)
class LoopOverAListOfResults(nn.Module):
    def forward(self, x):
        states = []
        for row in x:
            states.append(row.exp())
        total = torch.zeros(3)
        for state in states:
            total = torch.log1p(total + state)
        return total


@ROWS.row(*sizes(rows, 4, 0, 1, 2, 7), axes=AXES)
class SumOverPairs(nn.Module):
    def forward(self, x):
        n = x.shape[0]
        energy = torch.zeros(())
        for i in range(n):
            for j in range(i + 1, n):
                energy = energy + 1 / (1 + (x[i] - x[j]).norm())
        return energy


@ROWS.row(*sizes(rows, 4, 1, 2, 7), axes=AXES)
class PairsInAList(nn.Module):
    def forward(self, x):
        return torch.stack([(x[i] - y).norm() for i in range(len(x)) for y in x])


@ROWS.row(*sizes(rows, 4, 1, 2, 7), axes=AXES)
class FixedLoopAroundADynamicOne(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(3, 3) for _ in range(3)])

    def forward(self, x):
        for layer in self.layers:
            h, out = torch.zeros(3), []
            for row in x:
                h = torch.tanh(layer(row) + h)
                out.append(h)
            x = torch.stack(out)
        return x


@ROWS.row(*sizes(rows, 4, 0, 1, 2, 7), axes=AXES)
class DynamicLoopAroundAFixedOne(nn.Module):
    def forward(self, x):
        h = torch.ones(3)
        for row in x:
            for k in range(3):
                h = torch.tanh(h * row + k)
        return h


@ROWS.row(*sizes(lambda n: noise(n, 3) * 6, 4, 0, 1, 2, 7), axes=AXES)
class WhileInADynamicFor(nn.Module):
    def forward(self, x):
        total = torch.zeros(3)
        for row in x:
            while row.abs().max() > 1:
                row = row / 2
            total = total + row
        return total


@ROWS.row(*sizes(rows, 4, 1, 2, 7), axes=AXES)
class CumulativeSum(nn.Module):
    def forward(self, x):
        out = [x[0]]
        for t in range(1, x.shape[0]):
            out.append(out[-1] + x[t])
        return torch.stack(out)


@ROWS.row(*sizes(rows, 4, 1, 2, 3, 9), axes=AXES)
class MovingAverage(nn.Module):
    def forward(self, x):
        out = []
        for t in range(x.shape[0]):
            out.append(x[max(0, t - 2) : t + 1].mean(0))
        return torch.stack(out)


@ROWS.row(*sizes(rows, 5, 3, 4, 1, 9), axes=AXES)
class SlidingWindows(nn.Module):
    def forward(self, x):
        x = F.pad(x, (0, 0, 0, 2))
        return torch.stack([x[t : t + 3].flatten() for t in range(x.shape[0] - 2)])


@ROWS.row(
    *[(noise(3, 6, 2), ints(*lengths)) for lengths in [(2, 6, 1), (6, 6, 6), (1, 1, 1)]],
    *sizes(lambda n: (noise(n, 6, 2), torch.arange(n) % 6 + 1), 1, 2, 8),
    axes={"x": {0: "batch"}, "lengths": {0: "batch"}},
)  # fmt: skip
class MeanOfEachLength(nn.Module):
    def forward(self, x, lengths):
        out = []
        for i in range(x.shape[0]):
            out.append(x[i, : lengths[i]].mean(0))
        return torch.stack(out)


@ROWS.row(
    *[(noise(3, 6, 2), ints(*lengths)) for lengths in [(2, 6, 1), (6, 6, 6), (0, 0, 0), (0, 3, 6)]],
    *sizes(lambda n: (noise(n, 6, 2), torch.arange(n) % 6 + 1), 1, 2, 8),
    axes={"x": {0: "batch"}, "lengths": {0: "batch"}},
)  # fmt: skip
class MaskOfEachLength(nn.Module):
    def forward(self, x, lengths):
        mask = torch.zeros(x.shape[0], 6)
        for i, length in enumerate(lengths):
            mask[i, :length] = 1
        return x * mask.unsqueeze(-1)


@ROWS.row(
    *[(noise(3, 6, 2), ints(*lengths)) for lengths in [(2, 6, 1), (6, 6, 6), (0, 0, 0), (0, 3, 6)]],
    *sizes(lambda n: (noise(n, 6, 2), torch.arange(n) % 6 + 1), 1, 2, 8),
    axes={"x": {0: "batch"}, "lengths": {0: "batch"}},
)  # fmt: skip
class PaddingLoop(nn.Module):
    def forward(self, x, lengths):
        out = []
        for row, length in zip(x, lengths.tolist(), strict=True):
            out.append(F.pad(row[:length].cumsum(0), (0, 0, 0, 6 - length), value=-1.0))
        return torch.stack(out)


@ROWS.row(
    *[(noise(6, 2), ints(*counts)) for counts in [(2, 3, 1), (6, 0, 0), (0, 0, 6), (1, 4, 1)]],
    *sizes(lambda n: (noise(n, 2), ints(n - n // 2, 0, n // 2)), 0, 1, 2, 9),
    axes={"x": {0: "n"}},
)  # fmt: skip
class SplitByCountsFromData(nn.Module):
    def forward(self, x, counts):
        parts = x.split(counts.tolist())
        return torch.stack([part.sum(0) * (k + 1) for k, part in enumerate(parts)])


@ROWS.row(
    *[(floats([1, 2], [3, 4], [5, 6]), ints(*counts)) for counts in [(2, 1, 3), (0, 0, 1), (1, 1, 1), (0, 5, 0)]],
    *sizes(lambda n: (noise(n, 2), torch.arange(n) % 3 + 1), 1, 2, 6), axes={"x": {0: "n"}, "counts": {0: "n"}},
)  # fmt: skip
class RepeatByCounts(nn.Module):
    """The length regulator of a text-to-speech model."""

    def forward(self, x, counts):
        out = []
        for row, count in zip(x, counts.tolist(), strict=True):
            out.append(row.expand(count, 2))
        return torch.cat(out)


@ROWS.row(*[(noise(7, 2), ints(*ends)) for ends in [(2, 3, 7), (7, 7, 7), (1, 2, 3), (0, 0, 7)]])
class SlicesBetweenEnds(nn.Module):
    """Packed sequences with cumulative lengths, as attention of vision models has them."""

    def forward(self, x, ends):
        start, out = 0, []
        for end in ends.tolist():
            part = x[start:end]
            out.append(part * 2 + part.sum(0))
            start = end
        return torch.cat(out)


@ROWS.row(noise(5, 4), noise(5, 4, seed=1), noise(5, 4, seed=2), noise(1, 4).repeat(5, 1), torch.zeros(5, 4))
class HitExperts(nn.Module):
    """A mixture of experts as Mixtral has it: the loop runs over the experts that any token chose."""

    def __init__(self):
        super().__init__()
        self.router = nn.Linear(4, 6)
        self.up, self.down = nn.Parameter(noise(6, 4, 8)), nn.Parameter(noise(6, 8, 4))

    def forward(self, x):
        weights, chosen = self.router(x).softmax(-1).topk(2)
        mask = F.one_hot(chosen, 6).permute(2, 1, 0)
        out = torch.zeros_like(x)
        for expert in mask.sum((-1, -2)).nonzero():
            expert = expert[0]
            place, token = torch.where(mask[expert])
            result = torch.relu(x[token] @ self.up[expert]) @ self.down[expert]
            out.index_add_(0, token, result * weights[token, place, None])
        return out


@ROWS.row(*sizes(lambda n: noise(n, 4), 5, 1, 2, 9), torch.zeros(5, 4), axes=AXES)
class ExpertsWithADynamicBatch(nn.Module):
    def __init__(self):
        super().__init__()
        self.router = nn.Linear(4, 3)
        self.experts = nn.ModuleList([nn.Linear(4, 2) for _ in range(3)])

    def forward(self, x):
        scores = self.router(x).softmax(-1)
        best = scores.argmax(-1)
        out = x.new_zeros(x.shape[0], 2)
        for index, expert in enumerate(self.experts):
            where = torch.nonzero(best == index).flatten()
            if where.numel() == 0:
                continue
            out[where] = expert(x[where]) * scores[where, index : index + 1]
        return out


@ROWS.row(ints(3, 1, 3, 2), ints(5, 5, 5, 5), ints(0, 1, 2, 3), ints(2, 9, 2, 9))
class LoopOverUnique(nn.Module):
    def forward(self, x):
        out = torch.zeros(4)
        for value in x.unique():
            members = x == value
            out = out + members * members.sum() * value
        return out


@ROWS.row(noise(4, 4), -noise(4, 4).abs(), noise(4, 4).abs(), torch.eye(4), floats(*[[0.0] * 4] * 3, [0, 0, 0, 1.0]))
class LoopOverNonzero(nn.Module):
    def forward(self, x):
        total = torch.ones(())
        for i, j in (x > 0).nonzero():
            total = total * 0.5 + x[i, j] * (i + j)
        return total
