"""Contract row H1: branches in functions, submodules, recursion and loops of fixed length, and checks that raise."""

from __future__ import annotations

import torch
from torch import nn

from .h_rows import Table, floats, noise, number, sizes

ROWS = Table()
UP, DOWN = floats(1, 2, 3), floats(-1, -2, -3)
NOT_CHECKED = "the file is right where the model answers; it does not refuse what the model refuses"


@ROWS.row(UP, DOWN, floats(-1, 0, 9))
class HelperFunction(nn.Module):
    def forward(self, x):
        def squash(y):
            if y.max() > 2:
                return y / y.max()
            return y

        return squash(x) + squash(x.abs())


def _normalize(x, limit):
    norm = x.norm()
    if norm > limit:
        return x / norm * limit
    return x


@ROWS.row(UP, floats(0.1, 0.2, 0.2))
class HelperOutsideTheClass(nn.Module):
    def forward(self, x):
        return _normalize(x, 1.0) + _normalize(x, 3.0)


class Gate(nn.Module):
    def __init__(self):
        super().__init__()
        self.on, self.off = nn.Linear(3, 3), nn.Linear(3, 3)

    def forward(self, x):
        if x.mean() > 0:
            return self.on(x)
        return self.off(x)


@ROWS.row(UP, DOWN)
class BranchInASubmodule(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate = Gate()

    def forward(self, x):
        return self.gate(x).relu()


@ROWS.row((UP, DOWN), (DOWN, UP), (UP, UP), (DOWN, DOWN))
class SubmoduleCalledTwice(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate = Gate()

    def forward(self, x, y):
        return self.gate(x) - self.gate(y)


@ROWS.row(UP, DOWN, noise(3, seed=1), noise(3, seed=2))
class SubmodulesInSequence(nn.Module):
    def __init__(self):
        super().__init__()
        self.gates = nn.Sequential(Gate(), nn.Tanh(), Gate(), nn.Tanh(), Gate())

    def forward(self, x):
        return self.gates(x)


@ROWS.row(
    *sizes(lambda n: noise(n, 3) + 1, 4, 1, 2, 9), *sizes(lambda n: noise(n, 3) - 1, 3, 1, 6), axes={"x": {0: "batch"}}
)
class DynamicBatch(nn.Module):
    def __init__(self):
        super().__init__()
        self.small, self.large = nn.Linear(3, 2), nn.Sequential(nn.Linear(3, 8), nn.GELU(), nn.Linear(8, 2))

    def forward(self, x):
        if x.mean() > 0:
            return self.large(x)
        return self.small(x)


@ROWS.row(UP, DOWN, raises=[floats(0, 0, 0)], expects="warns", reason=NOT_CHECKED)
class RaiseOnTheOtherSide(nn.Module):
    def forward(self, x):
        if (x == 0).all():
            raise ValueError("the input is all zeros")
        return x / x.abs().max()


@ROWS.row(UP, floats(4, 5, 6), raises=[DOWN], expects="warns", reason=NOT_CHECKED)
class Assert(nn.Module):
    def forward(self, x):
        assert (x > 0).all(), "positive numbers only"
        return x.log()


@ROWS.row(UP, floats(4, 0, 6), floats(0, 0, 0))
class CheckOfWeights(nn.Module):
    """A question about constants alone has one answer."""

    def __init__(self):
        super().__init__()
        self.register_buffer("scale", torch.ones(3))

    def forward(self, x):
        if (self.scale <= 0).any():  # never
            return x  # never
        return x * self.scale if x.any() else x + 1


@ROWS.row(noise(5, 4), noise(5, 4, seed=1), noise(1, 4).expand(5, 4), torch.zeros(5, 4))
class EightExperts(nn.Module):
    def __init__(self):
        super().__init__()
        self.router = nn.Linear(4, 8)
        self.experts = nn.ModuleList([nn.Linear(4, 4) for _ in range(8)])

    def forward(self, x):
        choice = self.router(x).argmax(-1)
        y = torch.zeros_like(x)
        for index, expert in enumerate(self.experts):
            mask = choice == index
            if mask.any():
                y[mask] = expert(x[mask])
        return y


@ROWS.row(noise(6), noise(6, seed=1), -noise(6).abs(), noise(6).abs())
class BranchInALoopOfFixedLength(nn.Module):
    def forward(self, x):
        total = torch.zeros(())
        for i in range(6):
            if x[i] > 0:
                total = total + x[i]
            else:
                total = total * 0.5
        return total


@ROWS.row(noise(5), -noise(5).abs(), noise(5).abs(), floats(-1, -1, 3, 1, 1), floats(-1, -1, -1, -1, 4))
class ReturnFromALoopOfFixedLength(nn.Module):
    def forward(self, x):
        for i in range(5):
            if x[i] > 0:
                return x * x[i]
        return x - 1


@ROWS.row(*[number(value) for value in (3.0, 0.5, 20.0, -1.0)])
class RecursionOfBoundedDepth(nn.Module):
    def halve(self, x, depth):
        if depth == 0 or x < 1:
            return x
        return self.halve(x / 2, depth - 1) + 1

    def forward(self, x):
        return self.halve(x, 3)
