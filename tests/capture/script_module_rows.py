# ruff: noqa: UP006
"""Scripted modules. See `script_table.py`."""

from typing import Final, List, Tuple  # noqa: UP035  (TorchScript's own names)

import torch
from torch import nn

from .script_table import row, sample

Tensor = torch.Tensor


# --- modules ---------------------------------------------------------------------------------------------------------
@row(example=(sample(2),), others=((sample(4),),))
class Layers(nn.Module):
    """Different modules called in a loop, constants and attributes."""

    scale: Final[int]

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layers = nn.ModuleList([nn.Linear(3, 3), nn.ReLU(), nn.LayerNorm(3)])
        self.named = nn.ModuleDict({"a": nn.Linear(3, 3), "b": nn.Tanh()})
        self.scale = 2
        self.names = ["a", "b"]

    def forward(self, x: Tensor) -> Tensor:
        for i, layer in enumerate(self.layers):
            x = layer(x) * self.scale + i
        for name, layer in self.named.items():
            x = layer(x) + len(name)
        return x + len(self.names)


@row()
class Exported(nn.Module):
    """Methods, a submodule called in a loop over data, a buffer that is read."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.cell = nn.Linear(3, 3)
        self.register_buffer("offset", torch.ones(3))

    @torch.jit.export
    def turn(self, x: Tensor, scale: float) -> Tensor:
        return torch.tanh(self.cell(x)) * scale + self.offset

    def forward(self, x: Tensor, n: Tensor) -> Tensor:
        for _ in range(int(n)):
            x = self.turn(x, 0.5)
        return self.turn(x, scale=2.0)


@row()
class Counts(nn.Module):
    """Attributes that are assigned in a loop and in a branch."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0
        self.last = torch.zeros(3)

    def forward(self, x: Tensor, n: Tensor) -> Tensor:
        self.count = 1
        self.last = torch.zeros(3)
        for i in range(int(n)):
            self.count += i
            self.last = x[0] * self.count
        if bool(x.sum() > 0):
            self.count = -self.count
        return x * self.count + self.last


class Cell(nn.Module):
    """A cell as in PyTorch's own benchmark of scripted recurrent networks."""

    def __init__(self, inputs: int, hidden: int) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.weight_ih = nn.Parameter(torch.randn(4 * hidden, inputs) * 0.3)
        self.weight_hh = nn.Parameter(torch.randn(4 * hidden, hidden) * 0.3)
        self.bias = nn.Parameter(torch.randn(4 * hidden) * 0.3)

    def forward(self, x: Tensor, state: Tuple[Tensor, Tensor]) -> Tuple[Tensor, Tuple[Tensor, Tensor]]:
        hidden, cell = state
        gates = torch.mm(x, self.weight_ih.t()) + torch.mm(hidden, self.weight_hh.t()) + self.bias
        i, f, g, o = gates.chunk(4, 1)
        cell = torch.sigmoid(f) * cell + torch.sigmoid(i) * torch.tanh(g)
        hidden = torch.sigmoid(o) * torch.tanh(cell)
        return hidden, (hidden, cell)


_SEQUENCE = {"x": {0: "time", 1: "batch"}, "state_0": {0: "batch"}, "state_1": {0: "batch"}}


def _sequence(time: int, batch: int) -> tuple:
    return torch.randn(time, batch, 3), (torch.randn(batch, 4), torch.randn(batch, 4))


@row(example=_sequence(5, 2), others=(_sequence(1, 2), _sequence(8, 3)), axes=_SEQUENCE)
class CustomLSTM(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.cell = Cell(3, 4)

    def forward(self, x: Tensor, state: Tuple[Tensor, Tensor]) -> Tuple[Tensor, Tuple[Tensor, Tensor]]:
        inputs = x.unbind(0)
        outputs = torch.jit.annotate(List[Tensor], [])
        for i in range(len(inputs)):
            out, state = self.cell(inputs[i], state)
            outputs += [out]
        return torch.stack(outputs), state


@row(example=_sequence(5, 2), others=(_sequence(1, 2), _sequence(8, 3)), axes=_SEQUENCE)
class ReverseLSTM(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.cell = Cell(3, 4)

    def forward(self, x: Tensor, state: Tuple[Tensor, Tensor]) -> Tuple[Tensor, Tuple[Tensor, Tensor]]:
        inputs = _reverse(x.unbind(0))
        outputs = torch.jit.annotate(List[Tensor], [])
        for i in range(len(inputs)):
            out, state = self.cell(inputs[i], state)
            outputs += [out]
        return torch.stack(_reverse(outputs)), state


def _reverse(items: List[Tensor]) -> List[Tensor]:
    result = torch.jit.annotate(List[Tensor], [])
    start = len(items) - 1
    end = -1
    step = -1
    for i in range(start, end, step):
        result += [items[i]]
    return result


@torch.jit.interface
class Activation(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        pass


class Double(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x * 2


@row(example=(sample(2),), others=((sample(4),),))
class Interface(nn.Module):
    act: Activation

    def __init__(self) -> None:
        super().__init__()
        self.act = Double()

    def forward(self, x: Tensor) -> Tensor:
        return self.act.forward(x) + 1


@torch.jit.script
class Pair:
    """A class of the script's own."""

    def __init__(self, left: Tensor, scale: float) -> None:
        self.left = left
        self.scale = scale

    def product(self) -> Tensor:
        return self.left * self.scale


@row(example=(sample(2),), others=((sample(4),),))
def script_classes(x: Tensor) -> Tensor:
    pair = Pair(x, 2.0)
    pair.scale = pair.scale + 1
    return pair.product() + pair.left


@row(example=(sample(2),), others=((sample(4),),))
class Unused(nn.Module):
    """What is never called does not matter."""

    def forward(self, x: Tensor) -> Tensor:
        if x.dim() == 5:
            return self.strange(x)
        return x + 1

    @torch.jit.unused
    def strange(self, x: Tensor) -> Tensor:
        return x.new_tensor(x.tolist())


@row(example=(torch.randn(2, 3, 8),), others=((torch.randn(1, 3, 8),), (torch.randn(4, 3, 8),)))
class Encoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.encoder(x)


@row(example=(sample(2),), others=((sample(4),),))
def calls_other_functions(x: Tensor) -> Tensor:
    return _helper(x, scale=2.0) + _helper(x)


def _helper(x: Tensor, scale: float = 1.0) -> Tensor:
    if bool(x.sum() > 100):
        return x * scale
    return x - scale


@row()
def number_lists(x: Tensor, n: Tensor) -> Tensor:
    sizes = [int(n), 2, 5]
    sizes[1] = sizes[0] + 1
    sizes.append(max(sizes))
    total = 0
    for size in sizes:
        total += size
    return x.repeat(sizes[1], 1) + total


@row()
def slices_by_data(x: Tensor, n: Tensor) -> Tensor:
    k = int(n)
    y = torch.arange(10)
    return y[:k].sum() + y[k:].float().mean() + x


@row(example=(sample(3),), others=((sample(1),), (sample(5),), (-sample(4).abs(),)))
def sizes_that_depend_on_data(x: Tensor) -> Tensor:
    found = torch.nonzero(x > 0)
    if found.size(0) == 0:
        return torch.zeros(1)
    total = torch.zeros(1)
    for i in range(found.size(0)):
        total = total + x[found[i, 0], found[i, 1]]
    return total
