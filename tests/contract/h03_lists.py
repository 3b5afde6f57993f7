"""Contract section H3: lists that a loop fills, and what the model does with them behind it."""

from __future__ import annotations

import torch
from torch import nn

from .h_rows import Table, floats, noise, sizes

ROWS = Table()
AXES = {"x": {0: "n"}}


def rows(count: int) -> torch.Tensor:
    return noise(count, 3)


def exponentials(x: torch.Tensor) -> list[torch.Tensor]:
    states = []
    for row in x:
        states.append(row.exp())
    return states


@ROWS.row(*sizes(rows, 4, 1, 2, 7), axes=AXES)
class StackedAndAdded(nn.Module):
    def forward(self, x):
        return x + torch.stack(exponentials(x))


@ROWS.row(*sizes(rows, 4, 1, 2, 7), axes=AXES)
class StackedAndReshaped(nn.Module):
    def forward(self, x):
        y = torch.stack(exponentials(x))
        return y.reshape(y.shape[0] * 3)


@ROWS.row(*sizes(rows, 4, 1, 2, 7), axes=AXES)
class ListByIndex(nn.Module):
    def forward(self, x):
        states, total = exponentials(x), torch.zeros(3)
        for i in range(len(states)):
            total = torch.log1p(total + states[i] * i)
        return total


@ROWS.row(*sizes(rows, 4, 1, 2, 7), axes=AXES)
class RowsWithAList(nn.Module):
    def forward(self, x):
        total = torch.zeros(3)
        for row, state in zip(x, exponentials(x), strict=True):
            total = torch.tanh(total * row + state)
        return total


@ROWS.row(*sizes(rows, 4, 3, 7), axes=AXES, raises=[rows(1), rows(2)])
class ThreeOfAList(nn.Module):
    def forward(self, x):
        states, total = exponentials(x), torch.zeros(3)
        for i in range(3):
            total = torch.log1p(total + states[i])
        return total


@ROWS.row(*sizes(rows, 4, 1, 2, 7), axes=AXES)
class ThereAndBack(nn.Module):
    def __init__(self):
        super().__init__()
        self.there, self.back = nn.GRUCell(3, 4), nn.GRUCell(4, 4)

    def forward(self, x):
        state, states = torch.zeros(4), []
        for row in x:
            state = self.there(row, state)
            states.append(state)
        other, others = torch.zeros(4), []
        for each in reversed(states):
            other = self.back(each, other)
            others.append(other)
        others.reverse()
        return torch.stack(states) + torch.stack(others), state, other


@ROWS.row(*sizes(rows, 4, 1, 2, 7), axes=AXES)
class LayersOverAList(nn.Module):
    def __init__(self):
        super().__init__()
        self.cells = nn.ModuleList([nn.GRUCell(3, 3) for _ in range(2)])

    def forward(self, x):
        sequence = list(x)
        for cell in self.cells:
            state, states = torch.zeros(3), []
            for each in sequence:
                state = cell(each, state)
                states.append(state)
            sequence = states
        return torch.stack(sequence), state


@ROWS.row(*sizes(rows, 4, 1, 2, 7), axes=AXES)
class ListOfDifferences(nn.Module):
    def forward(self, x):
        states = exponentials(x)
        return torch.stack([states[0]] + [states[i] - states[i - 1] for i in range(1, len(states))])


@ROWS.row(*sizes(rows, 4, 1, 2, 7), -rows(4).abs(), axes=AXES)
class BranchOnAListsValues(nn.Module):
    def forward(self, x):
        total = torch.zeros(3)
        for state in exponentials(x):
            total = total + state if state.sum() > 3 else total * 2 - state
        return total


@ROWS.row(*sizes(rows, 4, 1, 2, 7), axes=AXES)
class ListInEveryTurn(nn.Module):
    def forward(self, x):
        out = []
        for row in x:
            products = [(row * other).sum() for other in x]
            total = torch.zeros(())
            for product in products:
                total = torch.log1p(total + product.abs())
            out.append(total)
        return torch.stack(out)


@ROWS.row(*sizes(rows, 4, 1, 2, 7), axes=AXES)
class TwoPerTurn(nn.Module):
    def forward(self, x):
        out = []
        for row in x:
            out.append(row.exp())
            out.append(row + 1)
        return torch.stack(out), torch.stack(out[::-1], 1), torch.cat(out, -1)


@ROWS.row(*sizes(rows, 4, 1, 2, 7), axes=AXES)
class StackedAsRowsAndColumns(nn.Module):
    def forward(self, x):
        states = exponentials(x)
        return torch.vstack(states), torch.hstack(states), torch.hstack([state[None] for state in states])


@ROWS.row(*sizes(rows, 4, 1, 2, 7), axes=AXES, expects="warns", reason="the last part may be shorter")
class PartsFromTheLast(nn.Module):
    def forward(self, x):
        return torch.cat(list(reversed(x.split(2))))


@ROWS.row(floats(5, 3), floats(0.5, 0), floats(1.5, 1), floats(70, -70))
class WhileThenFor(nn.Module):
    def forward(self, x):
        states = [x]
        while x.abs().max() > 1:
            x = x / 2
            states.append(x)
        together, total = torch.stack(states), torch.zeros(2)
        for each in together:
            total = torch.tanh(total + each)
        return total, together - together.flip(0)


@ROWS.row(*sizes(rows, 4, 1, 2, 7), axes=AXES)
class MeanOfThePast(nn.Module):
    def forward(self, x):
        states = [torch.zeros(3)]
        for row in x:
            states.append(torch.tanh(row + torch.stack(states).mean(0)))
        return torch.stack(states)


@ROWS.row(*[(noise(3, 6, 2), torch.tensor(n)) for n in [(2, 6, 1), (6, 6, 6), (1, 0, 0), (0, 3, 6)]],
    *sizes(lambda n: (noise(n, 6, 2), torch.arange(n) % 6 + 1), 1, 2, 8),
    axes={"x": {0: "n"}, "lengths": {0: "n"}},
)  # fmt: skip
class UnpaddedRows(nn.Module):
    def forward(self, x, lengths):
        parts = [torch.zeros(1, 2)]
        for i in range(x.shape[0]):
            parts.append(x[i, : int(lengths[i])].cumsum(0))
        return torch.cat(parts)


@ROWS.row(*sizes(rows, 4, 1, 2, 7), axes=AXES)
class UpperTriangle(nn.Module):
    def forward(self, x):
        total = torch.zeros(3)
        for i in range(x.shape[0]):
            for j in range(i + 1):
                total = torch.tanh(total + x[i] * x[j])
        return total


@ROWS.row(*sizes(rows, 4, 1, 2, 7), -rows(4).abs(), axes=AXES)
class FirstThatIsLarge(nn.Module):
    def forward(self, x):
        for i in range(x.shape[0]):
            if x[i].sum() > 0.5:
                return x[i] + i
        return x[0] * 0 - 1
