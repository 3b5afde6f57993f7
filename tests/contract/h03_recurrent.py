"""Contract row H3: networks and algorithms that go along a dynamic axis: cells, scans, dynamic programs."""

from __future__ import annotations

import torch
from torch import nn

from .h_rows import Table, floats, ints, noise, sizes

ROWS = Table()
TIME = {"x": {1: "seq"}}
AXES = {"x": {0: "n"}}
BATCH_AND_TIME = {"x": {0: "batch", 1: "seq"}}
MANY = [noise(b, t, 3) for b, t in [(2, 4), (1, 1), (3, 2), (1, 9), (5, 3)]]


def steps(n):
    return noise(2, n, 3)


@ROWS.row(*sizes(steps, 20, 1, 2, 7, 33), axes=TIME)
class PythonRnn(nn.Module):
    """The 20-step network of issue 18, with a dynamic length."""

    def __init__(self):
        super().__init__()
        self.cell, self.head = nn.Linear(3 + 4, 4), nn.Linear(4, 2)

    def forward(self, x):
        h = torch.zeros(x.shape[0], 4)
        for t in range(x.shape[1]):
            h = torch.tanh(self.cell(torch.cat([x[:, t], h], 1)))
        return self.head(h)


@ROWS.row(*MANY, axes=BATCH_AND_TIME)
class RnnCell(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell = nn.RNNCell(3, 4)

    def forward(self, x):
        h, out = x.new_zeros(x.shape[0], 4), []
        for t in range(x.shape[1]):
            h = self.cell(x[:, t], h)
            out.append(h)
        return torch.stack(out, 1), h


@ROWS.row(*MANY, axes=BATCH_AND_TIME)
class LstmCell(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell = nn.LSTMCell(3, 4)

    def forward(self, x):
        h = torch.zeros(x.size(0), 4)
        c = torch.zeros(x.size(0), 4)
        out = []
        for step in x.unbind(1):
            h, c = self.cell(step, (h, c))
            out.append(h)
        return torch.stack(out, dim=1), (h, c)


@ROWS.row(*MANY, axes=BATCH_AND_TIME)
class GruCellFromNone(nn.Module):
    """The cell makes its first state itself, so the first turn is not like the others."""

    def __init__(self):
        super().__init__()
        self.cell = nn.GRUCell(3, 4)

    def forward(self, x):
        h = None
        for t in range(x.shape[1]):
            h = self.cell(x[:, t], h)
        return h


@ROWS.row(*MANY, axes=BATCH_AND_TIME)
class Bidirectional(nn.Module):
    def __init__(self):
        super().__init__()
        self.forth, self.back = nn.GRUCell(3, 4), nn.GRUCell(3, 4)

    def forward(self, x):
        n = x.shape[1]
        h = torch.zeros(x.shape[0], 4)
        forth = []
        for t in range(n):
            h = self.forth(x[:, t], h)
            forth.append(h)
        h = torch.zeros(x.shape[0], 4)
        back = []
        for t in range(n - 1, -1, -1):
            h = self.back(x[:, t], h)
            back.append(h)
        back.reverse()
        return torch.cat([torch.stack(forth, 1), torch.stack(back, 1)], -1)


@ROWS.row(*MANY, axes=BATCH_AND_TIME)
class StackedLstmCells(nn.Module):
    def __init__(self):
        super().__init__()
        self.cells = nn.ModuleList([nn.LSTMCell(3, 4), nn.LSTMCell(4, 4)])

    def forward(self, x):
        states = [(torch.zeros(x.shape[0], 4), torch.zeros(x.shape[0], 4)) for _ in self.cells]
        for t in range(x.shape[1]):
            value = x[:, t]
            for k, cell in enumerate(self.cells):
                states[k] = cell(value, states[k])
                value = states[k][0]
        return value


@ROWS.row(*MANY, axes=BATCH_AND_TIME)
class SelectiveScan(nn.Module):
    """The slow path of Mamba."""

    def __init__(self):
        super().__init__()
        self.delta, self.b, self.c = nn.Linear(3, 3), nn.Linear(3, 4), nn.Linear(3, 4)
        self.a = nn.Parameter(noise(3, 4))

    def forward(self, x):
        batch, length, width = x.shape
        delta = nn.functional.softplus(self.delta(x))
        decay = torch.exp(delta[..., None] * -self.a.exp())
        drive = delta[..., None] * self.b(x)[:, :, None, :] * x[..., None]
        c = self.c(x)
        state = x.new_zeros(batch, width, 4)
        outputs = []
        for i in range(length):
            state = decay[:, i] * state + drive[:, i]
            outputs.append((state @ c[:, i, :, None])[..., 0])
        return torch.stack(outputs, dim=1), state


@ROWS.row(*MANY, axes=BATCH_AND_TIME)
class LinearAttention(nn.Module):
    """The recurrence of RWKV, with its running maximum and its writes into the output."""

    def __init__(self):
        super().__init__()
        self.key, self.value = nn.Linear(3, 3), nn.Linear(3, 3)
        self.decay, self.first = nn.Parameter(-noise(3).exp()), nn.Parameter(noise(3, seed=1))

    def forward(self, x):
        key, value = self.key(x), self.value(x)
        output = torch.zeros_like(key)
        top = bottom = torch.zeros_like(key[:, 0])
        largest = torch.zeros_like(key[:, 0]) - 1e38
        for t in range(key.size(1)):
            now = torch.maximum(largest, key[:, t] + self.first)
            e1, e2 = torch.exp(largest - now), torch.exp(key[:, t] + self.first - now)
            output[:, t] = (e1 * top + e2 * value[:, t]) / (e1 * bottom + e2)
            now = torch.maximum(largest + self.decay, key[:, t])
            e1, e2 = torch.exp(largest + self.decay - now), torch.exp(key[:, t] - now)
            top, bottom, largest = e1 * top + e2 * value[:, t], e1 * bottom + e2, now
        return output


@ROWS.row(*sizes(steps, 4, 0, 1, 2, 9), axes=TIME)
class DeltaRule(nn.Module):
    """Fast weights: a matrix of state that every step corrects."""

    def forward(self, x):
        memory = torch.zeros(2, 3, 3)
        for t in range(x.shape[1]):
            key = x[:, t].softmax(-1)
            old = torch.einsum("bij,bj->bi", memory, key)
            memory = memory + torch.einsum("bi,bj->bij", x[:, t] - old, key)
        return memory


@ROWS.row(*sizes(steps, 4, 1, 2, 9), axes=TIME)
class AttentionOverPastStates(nn.Module):
    def forward(self, x):
        past = []
        for t in range(x.shape[1]):
            past.append(x[:, t])
            keys = torch.stack(past, 1)
            weights = (keys @ x[:, t, :, None]).softmax(1)
            past[-1] = past[-1] + (weights * keys).sum(1)
        return torch.stack(past, 1)


@ROWS.row(*sizes(steps, 4, 1, 2, 9), axes=TIME)
class CacheThatGrows(nn.Module):
    def forward(self, x):
        cache = x[:, :1]
        for t in range(1, x.shape[1]):
            step = x[:, t : t + 1] + cache.mean(1, keepdim=True)
            cache = torch.cat([cache, step], 1)
        return cache


@ROWS.row(*sizes(lambda n: (noise(1, 4), torch.arange(n)[None] % 5), 4, 1, 2, 9), axes={"tokens": {1: "seq"}})
class TeacherForcing(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding, self.cell, self.head = nn.Embedding(5, 4), nn.GRUCell(4, 4), nn.Linear(4, 5)

    def forward(self, h, tokens):
        logits = []
        for t in range(tokens.shape[1]):
            h = self.cell(self.embedding(tokens[:, t]), h)
            logits.append(self.head(h))
        return torch.stack(logits, 1)


@ROWS.row(
    *sizes(lambda n: (noise(n, 4), torch.arange(n) % 3 - 1.0), 4, 1, 2, 9), axes={"x": {0: "n"}, "keep": {0: "n"}}
)
class ResetByAMask(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell = nn.GRUCell(4, 4)

    def forward(self, x, keep):
        h, out = torch.zeros(1, 4), []
        for step, flag in zip(x, keep, strict=True):
            if flag < 0:
                h = torch.zeros(1, 4)
            h = self.cell(step[None], h)
            out.append(h)
        return torch.cat(out)


WORDS = [([1, 2, 3], [1, 3, 3, 4]), ([1], [2]), ([1], [1]), ([4, 1, 2, 1, 5], [1, 2]), ([3, 3], [3, 1, 3, 1, 1, 3])]


@ROWS.row(*[(ints(*a), ints(*b)) for a, b in WORDS], axes={"a": {0: "n"}, "b": {0: "m"}})
class EditDistance(nn.Module):
    def forward(self, a, b):
        n, m = a.shape[0], b.shape[0]
        table = torch.zeros(n + 1, m + 1)
        table[:, 0] = torch.arange(n + 1)
        table[0] = torch.arange(m + 1)
        for i in range(1, n + 1):
            for j in range(1, m + 1):
                same = (a[i - 1] != b[j - 1]).float()
                ways = torch.stack([table[i - 1, j] + 1, table[i, j - 1] + 1, table[i - 1, j - 1] + same])
                table[i, j] = ways.min()
        return table[n, m]


@ROWS.row(
    *[(noise(n), noise(m, seed=1)) for n, m in [(3, 4), (1, 1), (2, 5), (6, 2)]], axes={"a": {0: "n"}, "b": {0: "m"}}
)
class DynamicTimeWarping(nn.Module):
    def forward(self, a, b):
        cost = (a[:, None] - b[None]).abs()
        table = torch.full((a.shape[0] + 1, b.shape[0] + 1), 1e6)
        table[0, 0] = 0
        for i in range(a.shape[0]):
            for j in range(b.shape[0]):
                best = torch.min(torch.min(table[i, j + 1], table[i + 1, j]), table[i, j])
                table[i + 1, j + 1] = cost[i, j] + best
        return table[-1, -1]


@ROWS.row(*sizes(lambda n: (noise(n, 4).log_softmax(-1), ints(0, 1, 0, 2, 0)), 5, 1, 2, 9), axes={"x": {0: "n"}})
class CtcAlpha(nn.Module):
    def forward(self, x, labels):
        alpha = torch.full((5,), -30.0)
        alpha[:2] = x[0, labels[:2]]
        for t in range(1, x.shape[0]):
            shifted = torch.cat([torch.full((1,), -30.0), alpha[:-1]])
            alpha = torch.logaddexp(alpha, shifted) + x[t, labels]
        return torch.logaddexp(alpha[-1], alpha[-2])


@ROWS.row(*sizes(lambda n: noise(n, 3), 4, 1, 2, 9), axes=AXES)
class Viterbi(nn.Module):
    def __init__(self):
        super().__init__()
        self.moves = nn.Parameter(noise(3, 3, seed=7))

    def forward(self, x):
        score, back = x[0], []
        for t in range(1, x.shape[0]):
            best = (score[:, None] + self.moves).max(0)
            score = best.values + x[t]
            back.append(best.indices)
        last = score.argmax()
        path = [last]
        for pointers in reversed(back):
            last = pointers[last]
            path.append(last)
        path.reverse()
        return torch.stack(path), score.max()


@ROWS.row(*sizes(lambda n: noise(n, 3), 4, 0, 1, 2, 9), axes=AXES)
class KalmanFilter(nn.Module):
    def forward(self, x):
        mean, variance = torch.zeros(3), torch.ones(3)
        for measured in x:
            variance = variance + 0.1
            gain = variance / (variance + 0.5)
            mean = mean + gain * (measured - mean)
            variance = (1 - gain) * variance
        return mean, variance


@ROWS.row(*sizes(lambda n: noise(n, 3), 4, 1, 2, 9), axes=AXES)
class ExponentialSmoothing(nn.Module):
    def forward(self, x):
        level, trend = x[0], torch.zeros(3)
        for value in x[1:]:
            before = level
            level = 0.4 * value + 0.6 * (level + trend)
            trend = 0.3 * (level - before) + 0.7 * trend
        return level + trend


@ROWS.row(*sizes(lambda n: floats(*([0.5] * n)) + torch.arange(n), 4, 0, 1, 2, 9), axes=AXES)
class Horner(nn.Module):
    def forward(self, x):
        value = torch.zeros(())
        for coefficient in x.flip(0):
            value = value * 0.3 + coefficient
        return value


@ROWS.row(*sizes(lambda n: (noise(n, 2, 3), noise(2, 3, seed=2)), 4, 0, 1, 2, 9), axes={"x": {0: "n"}})
class LayersAlongTheAxis(nn.Module):
    def forward(self, x, y):
        for weights in x:
            y = y + torch.relu(y @ weights.t()) @ weights
        return y


@ROWS.row(*MANY, axes=BATCH_AND_TIME)
class LoopOverBatchAndTime(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(3, 3)

    def forward(self, x):
        out = torch.zeros(x.shape[0], 3)
        for b in range(x.shape[0]):
            h = torch.zeros(3)
            for t in range(x.shape[1]):
                h = torch.tanh(self.layer(h) + x[b, t])
            out[b] = h
        return out


@ROWS.row(*sizes(lambda n: noise(n, 2), 7, 1, 3, 4, 12, 17), axes={"x": {0: "n"}})
class ChunksByTheirBounds(nn.Module):
    """What every turn reads and writes is a slice whose bounds count chunks."""

    def forward(self, x):
        count = x.shape[0] // 4
        state = x.new_zeros(2)
        states = x.new_zeros((count + 1) * 2)
        for key in range(count):
            states[key * 2 : (key + 1) * 2] = state
            chunk = x[key * 4 : (key + 1) * 4]
            state = state + (chunk * torch.arange(4.0)[:, None]).sum(0)
        states[-2:] = state
        return states


def chunks_and_rest(x):
    """Whole chunks first, and what is left step by step: at some sizes there is none of the one or of the other."""
    length = x.shape[0]
    count, start = length // 4, 0
    state, outs = x.new_zeros(2), []
    if count > 0:
        start = count * 4
        found = []
        for key in range(count):
            chunk = x[:start].view(count, 4, 2)[key]
            state = state * 0.5 + (chunk * torch.arange(4.0)[:, None]).sum(0)
            found.append(chunk + state)
        outs.append(torch.stack(found).view(start, 2))
    if length - start > 0:
        rest, found = x[start:], []
        for step in range(length - start):
            state = state * 0.5 + rest[step]
            found.append(state)
        outs.append(torch.stack(found))
    return torch.cat(outs) + x


@ROWS.row(*sizes(lambda n: noise(n, 2), 7, 1, 2, 3, 4, 5, 8, 9, 11, 19), axes={"x": {0: "n"}})
class ChunksAndRest(nn.Module):
    """The layers ask the same questions of the same size."""

    def __init__(self):
        super().__init__()
        self.scales = nn.Parameter(torch.tensor([1.5, -0.5]))

    def forward(self, x):
        for scale in self.scales:
            x = chunks_and_rest(x * scale)
        return x
