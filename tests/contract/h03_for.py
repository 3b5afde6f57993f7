"""Contract row H3: `for` over a dynamic axis, as Python has it: ranges, rows, zip, comprehensions, writes."""

from __future__ import annotations

import torch
from torch import nn

from .h_rows import Table, bools, floats, noise, sizes

ROWS = Table()
AXES = {"x": {0: "n"}}
TIME = {"x": {1: "seq"}}


def rows(n):
    return noise(n, 3)


def two(n):
    return noise(n, 3), noise(n, 3, seed=1)


@ROWS.row(*sizes(rows, 4, 0, 1, 2, 9), axes=AXES)
class RangeOfAnAxis(nn.Module):
    def forward(self, x):
        total = torch.zeros(3)
        for t in range(x.shape[0]):
            total = total * 0.5 + x[t]
        return total


@ROWS.row(*sizes(rows, 4, 0, 1, 2, 9), axes=AXES)
class RangeOfLen(nn.Module):
    def forward(self, x):
        total = torch.zeros(3)
        for t in range(len(x)):
            total = torch.maximum(total, x[t])
        return total


@ROWS.row(*sizes(rows, 4, 1, 2, 9), axes=AXES)
class RangeFromOne(nn.Module):
    def forward(self, x):
        h = x[0]
        for t in range(1, x.size(0)):
            h = torch.tanh(h + x[t])
        return h


@ROWS.row(*sizes(rows, 4, 0, 1, 2, 9), axes=AXES)
class RangeBackwards(nn.Module):
    def forward(self, x):
        n = x.shape[0]
        h = torch.ones(3)
        for t in range(n - 1, -1, -1):
            h = h * 0.9 + x[t]
        return h


@ROWS.row(*sizes(rows, 4, 0, 1, 2, 5, 9), axes=AXES)
class RangeByTwo(nn.Module):
    def forward(self, x):
        h = torch.ones(3)
        for t in range(0, x.shape[0], 2):
            h = h * 0.9 - x[t]
        return h


@ROWS.row(*sizes(rows, 4, 0, 1, 2, 9), axes=AXES)
class ReversedRange(nn.Module):
    def forward(self, x):
        h = torch.zeros(3)
        for t in reversed(range(x.shape[0])):
            h = torch.sin(h) + x[t]
        return h


@ROWS.row(*sizes(rows, 4, 0, 1, 2, 9), axes=AXES)
class ForRowIn(nn.Module):
    def forward(self, x):
        h = torch.zeros(3)
        for row in x:
            h = torch.tanh(h + row)
        return h


@ROWS.row(*sizes(two, 4, 0, 1, 2, 9), axes={"x": {0: "n"}, "y": {0: "n"}})
class Zip(nn.Module):
    def forward(self, x, y):
        total = torch.zeros(())
        for a, b in zip(x, y, strict=True):
            total = total * 0.5 + a @ b
        return total


@ROWS.row(*sizes(rows, 4, 0, 1, 2, 9), axes=AXES)
class Enumerate(nn.Module):
    def forward(self, x):
        total = torch.zeros(3)
        for t, row in enumerate(x):
            total = total + row * (t + 1)
        return total


@ROWS.row(*sizes(rows, 4, 1, 2, 9), axes=AXES)
class ListComprehension(nn.Module):
    def forward(self, x):
        return torch.stack([row.softmax(0) * 2 for row in x])


@ROWS.row(*sizes(rows, 4, 1, 2, 9), axes=AXES)
class ComprehensionWithAnIndex(nn.Module):
    def forward(self, x):
        return torch.cat([x[i : i + 1] * i for i in range(x.shape[0])])


@ROWS.row(*sizes(rows, 4, 0, 1, 2, 9), axes=AXES)
class SumOfAGenerator(nn.Module):
    def forward(self, x):
        return sum((row.prod() for row in x), torch.zeros(()))


@ROWS.row(*sizes(lambda n: noise(2, n, 3), 4, 1, 2, 9), axes=TIME)
class Unbind(nn.Module):
    def forward(self, x):
        h = torch.zeros(2, 3)
        for step in x.unbind(1):
            h = torch.sigmoid(h - step)
        return h


@ROWS.row(*sizes(rows, 4, 1, 2, 9), axes=AXES)
class SplitByOne(nn.Module):
    def forward(self, x):
        h = torch.zeros(1, 3)
        for part in x.split(1):
            h = h * 0.5 + part
        return h


@ROWS.row(*sizes(rows, 4, 2, 1, 5, 9), axes=AXES)
class SplitByTwo(nn.Module):
    """The last part is shorter where the size is odd."""

    def forward(self, x):
        h = torch.zeros(3)
        for part in x.split(2):
            h = h * 0.5 + part.mean(0)
        return h


@ROWS.row(*sizes(rows, 4, 1, 2, 9), axes=AXES)
class ChunkPerRow(nn.Module):
    def forward(self, x):
        return torch.cat([part.cumsum(1) for part in torch.chunk(x, x.shape[0])])


@ROWS.row(*sizes(rows, 4, 1, 2, 9), axes=AXES)
class CatOfList(nn.Module):
    """As LLaVA does with its images."""

    def forward(self, x):
        return torch.cat(list(x)) * 2


@ROWS.row(*sizes(rows, 4, 1, 2, 9), axes=AXES)
class StackOfReversedList(nn.Module):
    def forward(self, x):
        return torch.stack(list(x)[::-1])


@ROWS.row(*sizes(rows, 4, 1, 2, 9), axes=AXES)
class Map(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(3, 2)

    def forward(self, x):
        return torch.stack(list(map(self.layer, x)))


@ROWS.row(*sizes(lambda n: noise(2, n, 3), 4, 1, 2, 9), axes=TIME)
class ListThenStack(nn.Module):
    def forward(self, x):
        h, out = torch.zeros(2, 3), []
        for t in range(x.shape[1]):
            h = torch.tanh(h + x[:, t])
            out.append(h)
        return torch.stack(out, dim=1), h


@ROWS.row(*sizes(lambda n: noise(2, n, 3), 4, 1, 2, 9), axes=TIME)
class ListThenCat(nn.Module):
    def forward(self, x):
        h, out = torch.zeros(2, 1, 3), []
        for t in range(x.shape[1]):
            h = h * 0.5 + x[:, t : t + 1]
            out += [h]
        return torch.cat(out, 1)


@ROWS.row(*sizes(lambda n: noise(2, n, 3), 4, 1, 2, 9), axes=TIME)
class TwoLists(nn.Module):
    def forward(self, x):
        states, means = [], []
        h = torch.zeros(2, 3)
        for t in range(x.size(1)):
            h = h + x[:, t]
            states.append(h)
            means.append((h / (t + 1)).mean(-1))
        return torch.stack(states, 1), torch.stack(means, 1)


@ROWS.row(*sizes(lambda n: noise(2, n, 3), 4, 1, 2, 9), axes=TIME)
class ListInserted(nn.Module):
    def forward(self, x):
        h, out = torch.zeros(2, 3), []
        for t in reversed(range(x.shape[1])):
            h = h * 0.7 + x[:, t]
            out.insert(0, h)
        return torch.stack(out, 1)


@ROWS.row(*sizes(lambda n: noise(2, n, 3), 4, 0, 1, 2, 9), axes=TIME)
class WriteOfTheResult(nn.Module):
    def forward(self, x):
        out = torch.zeros_like(x)
        h = torch.zeros(2, 3)
        for t in range(x.shape[1]):
            h = torch.tanh(h + x[:, t])
            out[:, t] = h
        return out


@ROWS.row(*sizes(lambda n: noise(2, n, 3), 4, 0, 1, 2, 9), axes=TIME)
class WriteIntoEmpty(nn.Module):
    def forward(self, x):
        batch, n, width = x.shape
        out = x.new_empty(batch, n, width * 2)
        for t in range(n):
            out[:, t, :width] = x[:, t].exp()
            out[:, t, width:] = x[:, t] * t
        return out


@ROWS.row(*sizes(rows, 4, 1, 2, 9), axes=AXES)
class WriteThatIsReadAgain(nn.Module):
    def forward(self, x):
        y = x.clone()
        for t in range(1, x.shape[0]):
            y[t] += y[t - 1] * 0.5
        return y


@ROWS.row(*sizes(rows, 4, 0, 1, 2, 9), axes=AXES)
class StateInPlaceOverTime(nn.Module):
    def forward(self, x):
        state = torch.zeros(3)
        for row in x:
            state.mul_(0.5).add_(row)
        return state


@ROWS.row(*sizes(rows, 4, 0, 1, 2, 9), axes=AXES)
class StateInADictOverTime(nn.Module):
    def forward(self, x):
        state = {"sum": torch.zeros(3), "max": torch.full((3,), -9.0)}
        for row in x:
            state["sum"] = state["sum"] + row
            state["max"] = torch.maximum(state["max"], state["sum"])
        return state


@ROWS.row(*sizes(rows, 4, 0, 1, 2, 9), axes=AXES)
class StateInAnAttributeOverTime(nn.Module):
    def forward(self, x):
        self.hidden = torch.zeros(3)
        for row in x:
            self.hidden = torch.tanh(self.hidden - row)
        return self.hidden


@ROWS.row(*sizes(rows, 4, 0, 1, 2, 9), axes=AXES)
class IndexAsAValue(nn.Module):
    def forward(self, x):
        total = torch.zeros(3)
        for t in range(x.shape[0]):
            total = total + x[t] * t - t**2
        return total


@ROWS.row(*sizes(rows, 4, 1, 2, 9), axes=AXES)
class IndexArithmetic(nn.Module):
    def forward(self, x):
        n = x.shape[0]
        out = []
        for t in range(n):
            out.append(x[t] + x[n - 1 - t] * 2 + x[(t + 1) % n])
        return torch.stack(out)


@ROWS.row(*sizes(rows, 4, 1, 2, 9), axes=AXES)
class IndexMeetsTheSize(nn.Module):
    def forward(self, x):
        out = []
        for t, row in enumerate(x):
            out.append(row * (t + 1) / x.shape[0])
        return torch.stack(out)


@ROWS.row(*sizes(rows, 4, 1, 2, 9), axes=AXES)
class IfOnTheIndex(nn.Module):
    def forward(self, x):
        h, out = torch.zeros(3), []
        for t in range(x.shape[0]):
            if t == 0:
                h = x[t]
            else:
                h = 0.9 * h + 0.1 * x[t]
            out.append(h)
        return torch.stack(out)


@ROWS.row(*sizes(rows, 4, 0, 1, 2, 9), axes=AXES)
class OddAndEven(nn.Module):
    def forward(self, x):
        total = torch.zeros(3)
        for t in range(x.shape[0]):
            if t % 2:
                total = total - x[t]
            else:
                total = total + x[t] * 2
        return total


@ROWS.row(*sizes(rows, 4, 0, 1, 2, 9), -rows(4).abs(), rows(4).abs(), axes=AXES)
class IfOnData(nn.Module):
    def forward(self, x):
        total = torch.zeros(3)
        for row in x:
            if row.sum() > 0:
                total = total + row
            else:
                total = total * 0.5
        return total


@ROWS.row(
    *sizes(lambda n: (rows(n), torch.arange(n) % 3 != 1), 4, 0, 1, 2, 9), (rows(3), bools(False, False, False)),
    axes={"x": {0: "n"}, "mask": {0: "n"}},
)  # fmt: skip
class IfOnAMask(nn.Module):
    def forward(self, x, mask):
        h = torch.zeros(3)
        for t in range(x.shape[0]):
            if mask[t]:
                h = torch.tanh(h + x[t])
        return h


@ROWS.row(*sizes(rows, 4, 0, 1, 2, 9), -rows(4).abs(), rows(4).abs(), axes=AXES)
class ContinueOnData(nn.Module):
    def forward(self, x):
        total = torch.zeros(3)
        for row in x:
            if row[0] < 0:
                continue
            total = total * 0.5 + row
        return total


@ROWS.row(*sizes(rows, 4, 0, 1, 2, 9), -rows(4).abs(), rows(4).abs(), rows(5).abs() * 9, axes=AXES)
class BreakOnData(nn.Module):
    def forward(self, x):
        total = torch.zeros(3)
        for row in x:
            total = total + row
            if total.norm() > 3:
                break
        return total


@ROWS.row(*sizes(rows, 4, 0, 1, 2, 9), -rows(4).abs(), rows(4).abs(), axes=AXES)
class ReturnOnData(nn.Module):
    def forward(self, x):
        for t, row in enumerate(x):
            if row[0] > 0.5:
                return row * (t + 1)
        return torch.zeros(3)


@ROWS.row(floats(1, 1, 2), floats(5), floats(3, 1, 4, 1, 5, 9), floats(2, 2), axes={"x": {0: "n"}})
class OverDifferentValues(nn.Module):
    def forward(self, x):
        total = torch.zeros_like(x)
        for value in torch.unique(x):
            total = total + (x == value) * value.exp()
        return total


@ROWS.row(
    floats(0.1), floats(*[i / 7 for i in range(60)]), floats(0.1, 0.7, 0.9), floats(*[1] * 50), axes={"x": {0: "n"}}
)
class OverDifferentValuesOnOneSide(nn.Module):
    def forward(self, x):
        kinds = (x * 3).long()
        if x[x > 0].numel() > 40:
            mask = torch.zeros_like(x, dtype=torch.bool)
            for kind in torch.unique(kinds):
                mask[torch.where(kinds == kind)[0][:1]] = True
            return torch.where(mask)[0]
        return torch.where(x > 0.5)[0]
