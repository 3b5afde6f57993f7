"""Contract row H1: branches on numbers, on dtypes, on sizes that come from data, and Python's functions of numbers."""

from __future__ import annotations

import math

import torch
from torch import nn

from .h_rows import Table, bools, floats, ints, noise, number, sizes

ROWS = Table()
UP, DOWN = floats(1, 2, 3), floats(-1, -2, -3)


@ROWS.row(UP, DOWN)
class OnItem(nn.Module):
    def forward(self, x):
        if x.sum().item() > 0:
            return x * 2
        return x - 1


@ROWS.row(UP, DOWN, floats(0, 0, 0))
class OnFloat(nn.Module):
    def forward(self, x):
        mean = float(x.mean())
        if mean > 1.5:
            return x - mean
        elif mean < -1.5:
            return x * mean
        return x + 7


@ROWS.row((UP, number(0)), (UP, number(1)), (UP, number(2)), (DOWN, number(-4)))
class OnInt(nn.Module):
    def forward(self, x, kind):
        kind = int(kind)
        if kind == 0:
            return x.relu()
        if kind == 1:
            return x.tanh()
        return x * kind


@ROWS.row(UP, DOWN, floats(-1, 1, 2))
class OnAll(nn.Module):
    def forward(self, x):
        return x.sqrt() if torch.all(x > 0) else x.abs() + 1


@ROWS.row(UP, DOWN, floats(-1, 1, 2))
class OnAny(nn.Module):
    def forward(self, x):
        return x.exp() if torch.any(x > 0) else x * 5


@ROWS.row(UP, DOWN, floats(-1, 1, 2))
class OnPythonsAny(nn.Module):
    def forward(self, x):
        if any(value < 0 for value in x):
            return x.abs()
        return x + 1


@ROWS.row(UP, DOWN, floats(-1, 1, 2), floats(1, -1, 2))
class OnPythonsAll(nn.Module):
    def forward(self, x):
        if all(value > 0 for value in x):
            return x.log()
        return x * 3


@ROWS.row(UP, UP + 1, floats(1, 2, 4))
class OnEqual(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("known", UP.clone())

    def forward(self, x):
        if torch.equal(x, self.known):
            return x * 100
        return x


@ROWS.row(floats(1, 2), floats(2, 2.00000001), floats(-3, -3))
class OnAllclose(nn.Module):
    def forward(self, x):
        if torch.allclose(x[0], x[1]):
            return x.sum() * 2
        return x.prod() + 1


@ROWS.row(UP, floats(1, math.nan, 2), floats(math.inf, 0, 0))
class OnIsnan(nn.Module):
    def forward(self, x):
        if torch.isnan(x).any():
            x = torch.nan_to_num(x)
        elif torch.isinf(x).any():
            x = x.clamp(-9, 9)
        return x + 1


@ROWS.row(bools(True, False), bools(False, False), bools(True, True), bools(False, True))
class OnBools(nn.Module):
    def forward(self, flags):
        first, second = flags
        if first and second:
            return flags.int()
        if first or second:
            return flags.int() - 3
        return flags.int() + 5


@ROWS.row((UP, torch.tensor(True)), (UP, torch.tensor(False)), (DOWN, torch.tensor(True)))
class OnAFlag(nn.Module):
    def forward(self, x, flip):
        if flip:
            x = x.flip(0)
        return x.cumsum(0)


@ROWS.row(ints(1, 2, 3), ints(4, 0, 2), ints(-5, 1, 1))
class OnIntegers(nn.Module):
    def forward(self, x):
        if x.sum() % 2 == 0:
            return x // 2
        return x * 3 + 1


@ROWS.row(UP.double(), DOWN.double())
class InDouble(nn.Module):
    def forward(self, x):
        if x.sum() > 0:
            return x / 3
        return x / 7


@ROWS.row(UP, DOWN, floats(0, 9, -10))
class BoolOutputs(nn.Module):
    def forward(self, x):
        if x.sum() > 0:
            inside = x > 1
        else:
            inside = x < -1
        return inside, inside.any()


@ROWS.row(UP, DOWN)
class OutputsOfSeveralTypes(nn.Module):
    def forward(self, x):
        if x[0] > 0:
            values, places, mask = x * 2, x.argsort(), x > 2
        else:
            values, places, mask = x - 1, x.argsort(descending=True), x < -2
        return values, places, mask


@ROWS.row(UP, DOWN)
class IndexFromABranch(nn.Module):
    def forward(self, x):
        place = 0
        if x.sum() < 0:
            place = 2
        return x[place] * x


@ROWS.row((UP, number(0)), (UP, number(1)), (UP, number(2)), (DOWN, number(9)))
class Match(nn.Module):
    def forward(self, x, kind):
        match int(kind):
            case 0:
                y = x + 1
            case 1 | 2:
                y = x * 2
            case _:
                y = x.neg()
        return y.exp()


@ROWS.row((UP, number(3)), (UP, number(0)), (DOWN, number(-2)))
class MatchWithGuards(nn.Module):
    def forward(self, x, kind):
        match kind.item():
            case k if k > 0:
                return x + k
            case 0:
                return x
            case k:
                return x * k


@ROWS.row(floats(1, 2), floats(2, 1), floats(-3, -3))
class MaxOfItems(nn.Module):
    def forward(self, x):
        return x * max(x[0].item(), x[1].item())


@ROWS.row(floats(1, 2), floats(2, 1), floats(-3, -5))
class MaxOfTensors(nn.Module):
    def forward(self, x):
        return x - max(x[0], x[1]), min(x[0], x[1], torch.tensor(0.0))


@ROWS.row(floats(3, 1, 2), floats(1, 2, 3), floats(3, 2, 1), floats(2, 3, 1), floats(1, 1, 1))
class SortedItems(nn.Module):
    def forward(self, x):
        low, middle, high = sorted([x[0].item(), x[1].item(), x[2].item()])
        return torch.tensor([low, middle, high]) * x.sum()


@ROWS.row(floats(0.4, 9), floats(6.6, 9), floats(-2.5, 9), floats(2.5, 9))
class RoundedItem(nn.Module):
    def forward(self, x):
        level = round(x[0].item())
        if level % 2:
            return x * level
        return x + level


@ROWS.row(floats(1, 4), floats(-1, 4), floats(-3, 2), floats(0, 0))
class MathOfItems(nn.Module):
    def forward(self, x):
        value = x[0].item()
        scale = math.sqrt(value) if value >= 0 else abs(value)
        return x * scale


@ROWS.row(ints(5, 3), ints(0, 0), ints(-5, 2), ints(6, 6))
class AbsAndDivmodOfItems(nn.Module):
    def forward(self, x):
        quotient, rest = divmod(int(x[0]), 4)
        if rest > abs(int(x[1])):
            return x * quotient
        return x + rest


@ROWS.row(UP, DOWN)
class ConditionKeptForLater(nn.Module):
    def forward(self, x):
        positive = bool(x.sum() > 0)
        y = x + 1
        if positive:
            y = y * 2
        z = y.exp()
        if not positive:
            z = z + x
        return z


@ROWS.row(UP, DOWN)
class NumberFromABranch(nn.Module):
    def forward(self, x):
        count = 1 if x.sum() > 0 else 3
        for _ in range(count):
            x = x * 1.5 + 1
        return x


@ROWS.row(floats(1, -1, 2), floats(-1, -1, -2), floats(4, 5, 6), floats(-1, -1, 6))
class SizeFromData(nn.Module):
    def forward(self, x):
        kept = x[x > 0]
        if kept.numel() > 0:
            return kept.mean()
        return x.sum()


@ROWS.row(floats(1, -1, 2), floats(-1, -1, -2), floats(4, 5, 6), floats(-1, -1, 6))
class SizeFromDataDecidesTwice(nn.Module):
    def forward(self, x):
        kept = x[x > 0]
        if len(kept) == 0:
            return torch.zeros(1)
        if len(kept) > 2:
            kept = kept[:2]
        return kept * 2


@ROWS.row(
    *sizes(lambda n: (noise(n, 4), noise(n, seed=1)), 5, 1, 2, 8),
    *sizes(lambda n: (noise(n, 4), -noise(n).abs()), 0, 1, 3),
    axes={"boxes": {0: "n"}, "scores": {0: "n"}},
)
class BestBoxes(nn.Module):
    def forward(self, boxes, scores):
        keep = torch.where(scores > 0)[0]
        boxes, scores = boxes[keep], scores[keep]
        if scores.shape[0] == 0:
            return torch.zeros(0, 4), torch.zeros(0)
        return boxes[scores.argsort(descending=True)], scores.sort(descending=True).values


@ROWS.row(noise(2, 3, 4, 4), -noise(2, 3, 4, 4).abs(), noise(2, 3, 4, 4, seed=5))
class ModulesInEval(nn.Module):
    def __init__(self):
        super().__init__()
        self.wide = nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.Dropout(0.5))
        self.narrow = nn.Sequential(nn.Conv2d(3, 4, 1), nn.BatchNorm2d(4), nn.Dropout2d())

    def forward(self, x):
        y = self.wide(x) if x.mean() > 0 else self.narrow(x)
        return y.mean((2, 3))


@ROWS.row(UP, DOWN)
class TryAroundSomethingFine(nn.Module):
    def forward(self, x):
        try:
            y = x / 2
            if y.sum() > 0:
                y = y + 1
        except RuntimeError:  # never
            y = x  # never
        finally:
            x = x * 2
        return y - x


@ROWS.row(UP, DOWN)
class InsideNoGrad(nn.Module):
    def forward(self, x):
        with torch.no_grad():  # never
            if x.sum() > 0:
                return x * 2
            return x.exp()


@ROWS.row((noise(4, 3), number(0.1)), (noise(4, 3), number(100.0)), (noise(4, 3), number(1.0)))
class ClipByNorm(nn.Module):
    def forward(self, gradient, limit):
        norm = gradient.norm()
        scale = limit / (norm + 1e-6)
        if scale < 1:
            gradient = gradient * scale
        return gradient, norm


@ROWS.row(*[(noise(3), noise(3, seed=1), number(dot)) for dot in (0.5, 0.9999, -0.5, -0.9999)])
class Slerp(nn.Module):
    def forward(self, a, b, dot):
        if dot < 0:
            b, dot = -b, -dot
        if dot > 0.9995:
            mixed = a + 0.3 * (b - a)
        else:
            angle = torch.acos(dot)
            mixed = (torch.sin(0.7 * angle) * a + torch.sin(0.3 * angle) * b) / torch.sin(angle)
        return mixed / mixed.norm()


@ROWS.row(*[torch.tensor([float(a), b, c]) for a, b, c in [(1, 5, 4), (1, 2, 1), (1, 0, 1), (0, 2, 4), (0, 0, 1)]])
class Quadratic(nn.Module):
    def forward(self, p):
        a, b, c = p
        if a == 0:
            if b == 0:
                return torch.zeros(2)
            return torch.stack([-c / b, -c / b])
        root = b * b - 4 * a * c
        if root < 0:
            return torch.full((2,), -1.0)
        return torch.stack([-b - root.sqrt(), -b + root.sqrt()]) / (2 * a)


PICKED = {"x": {0: "rows"}}


@ROWS.row(*[noise(count, 16, seed=1) for count in (6, 1, 2, 5)], -noise(4, 16).abs(), axes=PICKED)
class OneRankInTheEnd(nn.Module):
    def forward(self, x):
        rows = x[x[:, 0] > 0]
        count = rows.shape[0]
        if count > 0:
            rows = rows.reshape(count, -1, 4)
        rows = rows[:, 1:]
        return rows.reshape(-1, 4).exp()


@ROWS.row(floats(-1, -2), floats(1, -2), floats(3), floats(-1), floats(-1, 2, 5, -3, 1), axes={"x": {0: "n"}})
class NothingInTheExample(nn.Module):
    def forward(self, x):
        found = x[x > 0]
        if found.numel() == 0:
            return torch.zeros(())
        return found.max() * 2


@ROWS.row(UP, DOWN, floats(0.1, -1), floats(0.5, 3, 3), floats(2), floats(2, -1, 0.5, 3, 4, -2), axes={"x": {0: "n"}})
class TwoCounts(nn.Module):
    def forward(self, x):
        first = x[x > 0]
        if first.numel() == 0:
            return first
        second = first[first * 2 > first.max()][:20]
        third = second[second > 1]
        if third.numel() == 0:
            return third
        return third - third.min()
