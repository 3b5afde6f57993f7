"""Contract row H1: `if`, `elif`, `else`, ternaries, `and`/`or`/`not` and early returns, in all their arrangements."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional as F

from .h_rows import Table, floats, noise, sizes

ROWS = Table()
UP, DOWN = floats(1, 2, 3), floats(-1, -2, -3)


@ROWS.row(UP, DOWN)
class IfElse(nn.Module):
    def forward(self, x):
        if x.sum() > 0:
            y = x * 2
        else:
            y = x - 1
        return y + 1


@ROWS.row(UP, DOWN)
class IfElseFromTheOtherSide(nn.Module):
    def forward(self, x):
        if x.sum() < 0:
            y = x.abs().sqrt()
        else:
            y = x.exp()
        return y


@ROWS.row(UP, DOWN)
class IfWithoutElse(nn.Module):
    def forward(self, x):
        y = x * 3
        if y.max() > 5:
            y = y / y.max()
        return y


@ROWS.row(DOWN, UP, floats(0, 0, 0), floats(30, 0, 0))
class Elif(nn.Module):
    def forward(self, x):
        total = x.sum()
        if total > 10:
            y = x.clamp(max=5)
        elif total > 0:
            y = x * 2
        elif total == 0:
            y = torch.ones_like(x)
        else:
            y = -x
        return y * 3


@ROWS.row(UP, DOWN)
class Ternary(nn.Module):
    def forward(self, x):
        return x * 2 if x.sum() > 0 else x - 1


@ROWS.row(floats(1, 2), floats(-1, -2), floats(-1, 5), floats(8, 8))
class NestedTernaries(nn.Module):
    def forward(self, x):
        scale = 1.0 if x.mean() > 7 else 2.0 if x.mean() > 0 else 3.0
        shift = x[0] if x[0] > 0 else x[1] if x[1] > 0 else x[0] * x[1]
        return x * scale + shift


@ROWS.row(floats(1, 2), floats(-1, 2), floats(1, -2), floats(-1, -2))
class And(nn.Module):
    def forward(self, x):
        if x[0] > 0 and x[1] > 0:
            return x + 1
        return x * 2


@ROWS.row(floats(-1, -2), floats(-1, 2), floats(1, -2), floats(1, 2))
class Or(nn.Module):
    def forward(self, x):
        if x[0] > 0 or x[1] > 0:
            return x + 1
        return x * 2


@ROWS.row(DOWN, UP)
class Not(nn.Module):
    def forward(self, x):
        if not (x > 0).any():
            x = x.neg()
        return x.sqrt()


@ROWS.row(floats(1, 2, 3), floats(-1, 2, 3), floats(-1, -2, 3), floats(-1, -2, -3), floats(1, -2, -3), floats(1, 2, -3))
class AndOrNot(nn.Module):
    def forward(self, x):
        if (x[0] > 0 and not x[1] > 0) or (x[2] > 0 and x[0] < x[1]):
            return x.cumsum(0)
        return x * x.prod()


@ROWS.row(floats(1, 2, 3), floats(1, 1, 3), floats(1, 3, 2), floats(0, 2, 1))
class ChainedComparison(nn.Module):
    def forward(self, x):
        if 0 < x[0] < x[1] <= x[2]:
            return x * 2
        return x - 1


@ROWS.row(floats(1, 2), floats(-1, -2), floats(1, -2), floats(-1, 2))
class AndAsAValue(nn.Module):
    def forward(self, x):
        positive = (x > 0).any() and (x < 1.5).any()
        return torch.where(x > 0, x, x * 2), positive


@ROWS.row(DOWN, UP)
class EarlyReturn(nn.Module):
    def forward(self, x):
        if (x < 0).all():
            return x * 0
        y = x.sqrt()
        return y + y.sum()


@ROWS.row(floats(0, 1), floats(-1, -1), floats(2, 9), floats(2, 1))
class SeveralReturns(nn.Module):
    def forward(self, x):
        if x.sum() < 0:
            return -x
        y = x + 1
        if y[1] > 5:
            return y.log()
        z = y * y
        if z[0] > 2:
            return z - x
        return z + x


@ROWS.row(floats(1, 2), floats(1, -2), floats(-1, 2), floats(-1, -2))
class Nested(nn.Module):
    def forward(self, x):
        if x[0] > 0:
            y = x + 1
            if x[1] > 0:
                y = y * 2
            else:
                y = y / 3
        else:
            if x[1] > 0:
                y = x.exp()
            else:
                y = x.tanh()
        return y - 1


@ROWS.row(
    *[floats(a, b, c, d) for a, b, c, d in [(1, 1, 1, 1), (-1, 1, 1, 1), (1, -1, 1, 1), (1, 1, -1, 1), (1, 1, 1, -1)]]
)
class NestedFourDeep(nn.Module):
    def forward(self, x):
        y = x * 2
        if x[0] > 0:
            y = y + 1
            if x[1] > 0:
                y = y + 2
                if x[2] > 0:
                    y = y + 4
                    if x[3] > 0:
                        y = y + 8
                    y = y.sqrt()
                y = y * y
        return y


@ROWS.row(floats(1, 1), floats(1, -1), floats(-1, 1), floats(-1, -1))
class ReturnFromNestedIf(nn.Module):
    def forward(self, x):
        if x[0] > 0:
            if x[1] > 0:
                return x * 2
            x = x + 10
        return x - 1


@ROWS.row((UP, DOWN), (DOWN, UP), (UP, 5 * UP))
class SeveralInputs(nn.Module):
    def forward(self, x, y):
        if x.sum() > y.sum():
            return x - y
        if (y > 4).any():
            x, y = y, x
        return x * 2 + y


@ROWS.row(*[noise(8, seed=seed) for seed in range(8)])
class EightInARow(nn.Module):
    def forward(self, x):
        y = x
        if x[0] > 0:
            y = y + 1
        if x[1] > 0:
            y = y * 2
        if x[2] > 0:
            y = y - x
        if x[3] > 0:
            y = y.relu()
        if x[4] > 0:
            y = y + y.sum()
        if x[5] > 0:
            y = y.tanh()
        if x[6] > 0:
            y = y / 3
        if x[7] > 0:
            y = -y
        return y


@ROWS.row(UP, DOWN)
class SidesShareOperators(nn.Module):
    def forward(self, x):
        if x.sum() > 0:
            y = x.exp()
            y = y + 1
            y = y.log()
        else:
            y = x.sin()
            y = y + 1
            y = y.cos()
        return y.sigmoid()


@ROWS.row(UP, DOWN)
class SidesInAnotherOrder(nn.Module):
    def forward(self, x):
        if x.sum() > 0:
            y = (x + 1) * 2
        else:
            y = (x * 2) + 1
        return y


@ROWS.row(UP, DOWN)
class SidesDoTheSame(nn.Module):
    def forward(self, x):
        if x.sum() > 0:
            y = x.exp() + 1
        else:
            y = x.exp() + 1
        return y


@ROWS.row(UP, DOWN)
class SidesSwapTwoValues(nn.Module):
    def forward(self, x):
        a, b = x + 1, x * 2
        if x.sum() > 0:
            a, b = b, a
        return a, b


@ROWS.row(UP, DOWN)
class SidePassesAnInputThrough(nn.Module):
    def forward(self, x):
        return x if x.sum() > 0 else torch.zeros(3)


@ROWS.row(UP, DOWN)
class ConstantsDiffer(nn.Module):
    def forward(self, x):
        slope = 0.5
        if x.mean() < 0:
            slope = 0.1
        return F.leaky_relu(-x, slope) + slope


@ROWS.row(UP, DOWN)
class WeightsDiffer(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(3, 4), nn.Linear(3, 4)])

    def forward(self, x):
        layer = self.layers[0] if x.sum() > 0 else self.layers[1]
        return layer(x).relu()


@ROWS.row(
    *sizes(lambda n: noise(n, 3).abs(), 4, 2, 7), *sizes(lambda n: -noise(n, 3).abs(), 2, 4, 1, 7), axes={"x": {0: "n"}}
)
class SidesOfDifferentSizes(nn.Module):
    def forward(self, x):
        if x.sum() > 0:
            y = x[:2]
        else:
            y = torch.cat([x, x])
        return y * 2
