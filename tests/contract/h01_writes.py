"""Contract row H1: branches that change something: a dict, a list, an attribute, a tensor in place, a view's base."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import nn

from .h_rows import Table, floats, noise, sizes

ROWS = Table()
UP, DOWN = floats(1, 2, 3), floats(-1, -2, -3)
SQUARE = noise(3, 3).abs()


@ROWS.row(UP, DOWN)
class DictChanged(nn.Module):
    def forward(self, x):
        state = {"x": x, "y": x + 1}
        if x.sum() > 0:
            state["y"] = state["x"] * 2
            state.update(x=x.exp())
        return state["x"] + state["y"]


@ROWS.row(UP, DOWN)
class DictReturned(nn.Module):
    def forward(self, x):
        out = {"logits": x, "loss": x.sum()}
        if x.mean() < 0:
            out = {"logits": -x, "loss": x.prod()}
        return out


@ROWS.row(UP, DOWN)
class ListChanged(nn.Module):
    def forward(self, x):
        parts = [x, x + 1]
        if x.sum() > 0:
            parts[0] = x * 2
        else:
            parts[1] = x * 3
        return torch.cat(parts)


@ROWS.row(UP, DOWN, floats(5, 5, 5))
class ListGrows(nn.Module):
    def forward(self, x):
        parts = [x]
        if x.sum() > 0:
            parts.append(x * 2)
        if x.sum() > 10:
            parts += [x * 3, x * 4]
        return torch.stack(parts).sum(0)


@ROWS.row(UP, DOWN)
class ListPopped(nn.Module):
    def forward(self, x):
        stack = [x, x + 1, x * 2]
        if x.sum() > 0:
            top = stack.pop()
        else:
            top = stack.pop(0)
        return top * sum(stack)


@ROWS.row(UP, DOWN)
class TupleOfValues(nn.Module):
    def forward(self, x):
        state = (x, x * 2)
        if x.sum() > 0:
            state = (state[1], state[0] - 1)
        first, second = state
        return first * second, second


@ROWS.row(UP, DOWN)
class AttributeChanged(nn.Module):
    def forward(self, x):
        self.last = x
        if x.sum() > 0:
            self.last = self.last * 2
        return self.last + 1


@ROWS.row(UP, DOWN)
class AttributeChangedByAMethod(nn.Module):
    def remember(self, value):
        if value.max() > 0:
            self.memory = value.exp()

    def forward(self, x):
        self.memory = torch.zeros(3)
        self.remember(x)
        return x + self.memory


@dataclass
class State:
    value: torch.Tensor
    count: int = 0


@ROWS.row(UP, DOWN)
class DataclassChanged(nn.Module):
    def forward(self, x):
        state = State(x)
        if x.sum() > 0:
            state.value = state.value * 2
            state.count += 3
        return state.value + state.count


class Pair(NamedTuple):
    left: torch.Tensor
    right: torch.Tensor


@ROWS.row(UP, DOWN)
class NamedTupleReturned(nn.Module):
    def forward(self, x):
        pair = Pair(x, -x)
        if (x < 0).all():
            pair = pair._replace(left=x.abs())
        return pair


@ROWS.row(UP, DOWN)
class ClosureChanged(nn.Module):
    def forward(self, x):
        total = x + 1

        def double():
            nonlocal total
            total = total * 2

        if x.sum() > 0:
            double()
        return total


@ROWS.row(UP, DOWN)
class NoneUnlessSet(nn.Module):
    def forward(self, x):
        bias = None
        if x.sum() > 0:
            bias = x.mean()
        y = x * 2
        if bias is not None:
            y = y + bias
        return y


@ROWS.row(UP, DOWN)
class KeyAddedInABranch(nn.Module):
    def forward(self, x):
        extras = {}
        if x.sum() > 0:
            extras["bias"] = x.mean()
        y = x * 2
        if "bias" in extras:
            y = y + extras["bias"]
        return y


@ROWS.row(UP, DOWN)
class FunctionChosen(nn.Module):
    def forward(self, x):
        activation = torch.tanh if x.sum() > 0 else torch.sigmoid
        return activation(x) * 2


@ROWS.row(UP, DOWN)
class StringChosen(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleDict({"up": nn.Linear(3, 2), "down": nn.Linear(3, 2)})

    def forward(self, x):
        name = "up" if x.sum() > 0 else "down"
        return self.layers[name](x)


@ROWS.row(UP, DOWN)
class WriteOfOneElement(nn.Module):
    def forward(self, x):
        y = x.clone()
        if x.sum() > 0:
            y[0] = 10
        return y * 2


@ROWS.row(SQUARE, -SQUARE)
class WriteOfARow(nn.Module):
    def forward(self, x):
        y = torch.zeros(3, 3)
        if x.sum() > 0:
            y[1] = x[0]
        else:
            y[:, 2] = x.sum(1)
        return y + x


@ROWS.row(UP, DOWN)
class AddInPlace(nn.Module):
    def forward(self, x):
        y = x * 2
        if x.sum() > 0:
            y.add_(1).mul_(3)
        else:
            y -= 5
        return y


@ROWS.row(UP, DOWN)
class MaskedFillInPlace(nn.Module):
    def forward(self, x):
        y = x + 0.5
        if x.max() > 0:
            y.masked_fill_(y.abs() > 2, -1.0)
        return y


@ROWS.row(UP, DOWN, floats(-1, 5, -9))
class WriteThroughAMask(nn.Module):
    def forward(self, x):
        y = x.clone()
        mask = x > 0
        if mask.any():
            y[mask] = y[mask] * 10
        else:
            y[~mask] = 1.5
        return y


@ROWS.row(SQUARE, -SQUARE)
class WriteThroughAView(nn.Module):
    def forward(self, x):
        y = x.clone()
        flat = y.view(-1)
        if x.sum() > 0:
            flat[4] = 0
        return y, flat + 1


@ROWS.row(SQUARE, -SQUARE)
class WriteThroughAViewOfAView(nn.Module):
    def forward(self, x):
        y = x.clone()
        column = y.t()[0][1:]
        if x.sum() > 0:
            column.fill_(7)
        else:
            column += 1
        return y


@ROWS.row(SQUARE, -SQUARE)
class ViewMadeInABranch(nn.Module):
    def forward(self, x):
        y = x * 1
        part = y[0] if x.sum() > 0 else y[:, 1]
        part.zero_()
        return y


@ROWS.row(UP, DOWN)
class WriteBeforeAndBehind(nn.Module):
    def forward(self, x):
        y = x * 2
        y[0] = 1
        if x.sum() > 0:
            y[1] = 2
        y[2] = y[1] + 1
        return y


@ROWS.row(UP, DOWN, floats(1.5, 0, -1), floats(3, 0, 0))
class WriteInAHelper(nn.Module):
    def clip(self, y):
        if y.max() > 2:
            y.div_(y.max())

    def forward(self, x):
        y = x.abs()
        self.clip(y)
        self.clip(y[1:])
        return y


@ROWS.row(*sizes(lambda n: noise(n, 3) + 1, 4, 2, 9), *sizes(lambda n: noise(n, 3) - 1, 1, 3, 6), axes={"x": {0: "n"}})
class WriteAtADynamicSize(nn.Module):
    def forward(self, x):
        y = torch.zeros_like(x)
        if x.sum() > 0:
            y[1:] = x[:-1]
        else:
            y[:, 0] = x.sum(1)
        return y


@ROWS.row(UP, DOWN)
class BufferReplacedInABranch(nn.Module):
    """A buffer that the call sets before it is read: no state is left from the call before."""

    def __init__(self):
        super().__init__()
        self.register_buffer("scale", torch.ones(3))

    def forward(self, x):
        self.scale = torch.full((3,), 2.0)
        if x.sum() > 0:
            self.scale = x
        return self.scale * 3


@ROWS.row(SQUARE, -SQUARE)
class ConstantWrittenOnBothSides(nn.Module):
    def forward(self, x):
        count = torch.zeros(())
        if x.sum() > 0:
            count += 1
        else:
            count -= 2
        return count * x
