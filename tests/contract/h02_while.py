"""Contract row H2: `while` on data, in all its arrangements: breaks, conditions, state, lists, counts from data."""

from __future__ import annotations

import torch
from torch import nn

from .h_rows import Table, floats, ints, noise, number, sizes

ROWS = Table()
NUMBERS = [number(value) for value in (5.0, 200.0, 0.5, 1.5, 30.0)]  # the third makes no turn in most loops


@ROWS.row(*NUMBERS)
class HalveUntilSmall(nn.Module):
    def forward(self, x):
        while x > 1:
            x = x / 2
        return x


@ROWS.row(number(0.5), *NUMBERS)
class ExampleMakesNoTurn(nn.Module):
    def forward(self, x):
        while x > 1:
            x = x * 0.3
        return x + 1


@ROWS.row(*NUMBERS)
class Counted(nn.Module):
    def forward(self, x):
        steps = 0
        while x > 1:
            x = x / 2
            steps += 1
        return x, torch.tensor(steps)


@ROWS.row(floats(3, 4), floats(0.1, 0.2), floats(100, 1), floats(1, 1))
class WhileAny(nn.Module):
    def forward(self, x):
        while (x > 1).any():
            x = torch.where(x > 1, x / 2, x)
        return x


@ROWS.row(*NUMBERS)
class WhileOnItem(nn.Module):
    def forward(self, x):
        total = x
        while total.item() < 100:
            total = total * 2 + 1
        return total


@ROWS.row(*NUMBERS)
class WhileOnAPythonNumber(nn.Module):
    def forward(self, x):
        value = float(x)
        turns = 0
        while value > 1.2:
            value /= 2
            turns += 1
        return x * value, torch.tensor(turns)


@ROWS.row(*NUMBERS, number(1e6))
class WhileWithLimit(nn.Module):
    def forward(self, x):
        i = 0
        while i < 10 and x > 1:
            x = x / 2
            i += 1
        return x * i


@ROWS.row(*NUMBERS, number(-3.0))
class WhileWithOr(nn.Module):
    def forward(self, x):
        while x > 1 or x < -1:
            x = x * -0.5
        return x


@ROWS.row(*NUMBERS)
class WhileNot(nn.Module):
    def forward(self, x):
        done = x < 1
        while not done:
            x = x - 1
            done = x < 1
        return x, done


@ROWS.row(*NUMBERS, number(41.0))
class Break(nn.Module):
    def forward(self, x):
        while x < 100:
            x = x * 2
            if x > 80:
                break
            x = x + 1
        return x


@ROWS.row(*NUMBERS)
class WhileTrueBreak(nn.Module):
    def forward(self, x):
        turns = torch.zeros(())
        while True:
            if x < 1:
                break
            x = x / 3
            turns = turns + 1
        return x + turns


@ROWS.row(*NUMBERS)
class BreakAtTheEnd(nn.Module):
    def forward(self, x):
        while True:
            x = x.sqrt() + 0.1
            if x < 2:
                break
        return x


@ROWS.row(ints(7), ints(1), ints(0), ints(12))
class Continue(nn.Module):
    def forward(self, n):
        total = torch.zeros(1, dtype=torch.int64)
        while n.sum() > 0:
            n = n - 1
            if n.sum() % 3 == 0:
                continue
            total = total + n
        return total


@ROWS.row(*NUMBERS, number(90.0))
class BreakAndContinue(nn.Module):
    def forward(self, x):
        kept = x * 0
        while x > 1:
            x = x / 2
            if x > 20:
                continue
            kept = kept + x
            if kept > 15:
                break
        return x, kept


@ROWS.row(*NUMBERS, number(64.0))
class ReturnFromAWhile(nn.Module):
    def forward(self, x):
        steps = 0
        while x > 1:
            x = x / 2
            steps += 1
            if steps == 6:
                return x * 100
        return x + steps


@ROWS.row(*NUMBERS, number(150.0))
class WhileElse(nn.Module):
    def forward(self, x):
        while x < 140:
            x = x * 3
            if x > 130:
                break
        else:
            x = -x
        return x


@ROWS.row(floats(3, 5), floats(0, 5), floats(3, 0), floats(0, 0), floats(6, 2))
class NestedWhile(nn.Module):
    def forward(self, x):
        rows, total = x[0], torch.zeros(())
        while rows > 0:
            columns = x[1]
            while columns > 0:
                total = total + rows * columns
                columns = columns - 2
            rows = rows - 1
        return total


@ROWS.row(*NUMBERS)
class WhileAroundAFor(nn.Module):
    def forward(self, x):
        while x > 1:
            for k in range(3):
                x = x - 0.1 * k
            x = x / 2
        return x


@ROWS.row(*NUMBERS)
class WhileInAFor(nn.Module):
    def forward(self, x):
        parts = []
        for k in range(3):
            y = x + k
            while y > 2:
                y = y / 2
            parts.append(y)
        return torch.stack(parts)


@ROWS.row(*NUMBERS)
class WhilesInARow(nn.Module):
    def forward(self, x):
        while x > 10:
            x = x / 2
        y = x + 6
        while y > 3:
            y = y - 1
        while x + y > 1:
            x, y = x / 2, y / 3
        return x, y


@ROWS.row(*NUMBERS, number(9.0))
class IfInAWhile(nn.Module):
    def forward(self, x):
        while x > 1:
            if x > 8:
                x = x / 3
            else:
                x = x - 1
        return x


@ROWS.row(*NUMBERS, number(-5.0))
class WhileInAnIf(nn.Module):
    def forward(self, x):
        if x > 0:
            while x > 1:
                x = x / 2
        else:
            x = x * 2
        return x


@ROWS.row(*NUMBERS)
class TwoValuesCarried(nn.Module):
    def forward(self, x):
        a, b = torch.zeros(()), torch.ones(())
        while b < x:
            a, b = b, a + b
        return a, b


@ROWS.row(*NUMBERS)
class StateInADict(nn.Module):
    def forward(self, x):
        state = {"x": x, "sum": torch.zeros(())}
        while state["x"] > 1:
            state["sum"] = state["sum"] + state["x"]
            state["x"] = state["x"] / 2
        return state["sum"], state["x"]


@ROWS.row(*NUMBERS)
class StateInAnAttribute(nn.Module):
    def step(self):
        self.value = self.value / 2
        self.steps = self.steps + 1

    def forward(self, x):
        self.value, self.steps = x, torch.zeros(())
        while self.value > 1:
            self.step()
        return self.value + self.steps


@ROWS.row(*NUMBERS)
class StateInATuple(nn.Module):
    def forward(self, x):
        state = (x, x * 0)
        while state[0] > 1:
            state = (state[0] / 2, state[1] + state[0])
        return state


@ROWS.row(*NUMBERS)
class StateInAList(nn.Module):
    def forward(self, x):
        values = [x, x * 2]
        while values[0] > 1:
            values[1] = values[1] - values[0]
            values[0] = values[0] / 2
        return values[0], values[1]


@ROWS.row(*NUMBERS)
class StateInPlace(nn.Module):
    def forward(self, x):
        y = x.clone()
        while y > 1:
            y.div_(2).add_(0.01)
        return y


@ROWS.row(floats(4, 1, 7), floats(0, 0, 0), floats(1, 0, 0), floats(9, 9, 9))
class WriteOfElements(nn.Module):
    def forward(self, x):
        y = x.clone()
        while y.max() > 0.5:
            place = y.argmax()
            y[place] = y[place] / 4 - 1
        return y


@ROWS.row(*NUMBERS)
class ListStacked(nn.Module):
    def forward(self, x):
        trail = [x]
        while x > 1:
            x = x / 2
            trail.append(x)
        return torch.stack(trail)


@ROWS.row(floats(5, 2), floats(0, 0.5), floats(1.5, 1), floats(70, 70))
class ListCatenated(nn.Module):
    def forward(self, x):
        parts = [x * 0]
        while x.max() > 1:
            parts.append(x)
            parts.append(x + 1)
            x = x / 2
        return torch.cat(parts)


@ROWS.row(floats(5, 2), floats(0, 0.5), floats(1.5, 1), floats(70, 70))
class GrowingTensor(nn.Module):
    def forward(self, x):
        y = x[:1]
        while y.sum() < 30:
            y = torch.cat([y, y[-1:] + x[1:] + 1])
        return y


@ROWS.row((floats(1, 2), number(3)), (floats(1, 2), number(0)), (floats(5, 2), number(1)), (floats(1, 0), number(9)))
class RangeOfInt(nn.Module):
    def forward(self, x, count):
        for k in range(int(count)):
            x = x * 0.5 + k
        return x


@ROWS.row((floats(1, 2), number(3)), (floats(1, 2), number(0)), (floats(5, 2), number(1)), (floats(1, 0), number(9)))
class RangeOfItem(nn.Module):
    def forward(self, x, count):
        out = [x]
        for _ in range(count.item()):
            x = torch.tanh(x) + 1
            out.append(x)
        return torch.stack(out)


@ROWS.row(*sizes(lambda n: noise(n, 3) * 4, 4, 1, 2, 7), torch.zeros(3, 3), axes={"x": {0: "n"}})
class DynamicAxisInAWhile(nn.Module):
    def forward(self, x):
        while x.abs().max() > 1:
            x = x * 0.6
        return x + 1


@ROWS.row(floats(2, 9), floats(0.1, 0.1), floats(300, 1), floats(4, 0))
class ModuleInAWhile(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(2, 2)

    def forward(self, x):
        turns = 0
        while x.norm() > 1 and turns < 3:
            x = torch.tanh(self.layer(x)) * 0.9 * x.norm() / 2
            turns = turns + 1
        return x


@ROWS.row(*NUMBERS, number(1.05))
class EarlyStopping(nn.Module):
    def forward(self, x):
        for _ in range(5):
            if x < 1.1:
                break
            x = x * 0.7
        return x


@ROWS.row(*NUMBERS, number(8.0))
class EarlyStoppingAfterTheStep(nn.Module):
    def forward(self, x):
        last = x
        for k in range(6):
            x = (x + 2) / 2
            if (last - x).abs() < 0.2:
                break
            last = x + k
        return x, last


@ROWS.row(*[noise(4, seed=seed) * scale for seed, scale in [(1, 1), (2, 9), (3, 0.1), (4, 4), (5, 30)]])
class EarlyExit(nn.Module):
    """A deep network that answers as soon as it is sure."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(4, 4) for _ in range(4)])
        self.heads = nn.ModuleList([nn.Linear(4, 3) for _ in range(4)])

    def forward(self, x):
        for layer, head in zip(self.layers, self.heads, strict=True):
            x = torch.relu(layer(x)) + x
            scores = head(x).softmax(-1)
            if scores.max() > 0.8:
                break
        return scores


@ROWS.row(*NUMBERS)
class TurnsCountedInPlace(nn.Module):
    def forward(self, x):
        count = torch.zeros(())
        while x > 1:
            x = x / 2
            count += 1
        return x + count


@ROWS.row(*NUMBERS)
class ViewWrittenInEveryTurn(nn.Module):
    def forward(self, x):
        out = torch.zeros(2, 3)
        part = out[1]
        while x > 1:
            x = x / 2
            part.add_(1)
        return out * x
