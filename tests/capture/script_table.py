# ruff: noqa: UP006, UP007, UP045, B905
"""Small scripts, each with an example and with inputs that take another way: the other branch, another number of turns.

A row is a function or a module; `x` has two axes and `n` is a number in a tensor, unless the row says otherwise.
TorchScript reads annotations as they are written, so they are not postponed here.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Dict, Final, List, NamedTuple, Optional, Tuple, Union  # noqa: UP035  (TorchScript's own names)

import torch
from torch import nn

Tensor = torch.Tensor


@dataclass(frozen=True)
class Row:
    name: str
    model: Any
    example: tuple
    others: tuple[tuple, ...]
    axes: dict[str, dict[int, str]]
    first_opset: int = 9


ROWS: list[Row] = []
_DEFAULT = {"x": {0: "batch"}}


def _x(rows: int = 2, seed: int = 0) -> Tensor:
    return torch.randn(rows, 3, generator=torch.Generator().manual_seed(seed))


def _turns(*counts: int) -> tuple[tuple, ...]:
    return tuple((_x(rows, seed), torch.tensor(n)) for seed, n in enumerate(counts) for rows in (1, 4))


def row(
    example: tuple | None = None,
    others: tuple[tuple, ...] | None = None,
    axes: dict[str, dict[int, str]] | None = None,
    first_opset: int = 9,
) -> Callable[[Any], Any]:
    """Add a function or a module class; without inputs of its own it takes `x` and `n`."""

    def add(model: Any) -> Any:
        inputs = example or (_x(), torch.tensor(3))
        more = others if others is not None else _turns(0, 1, 2, 7) if example is None else ()
        ROWS.append(Row(model.__name__, model, inputs, more, _DEFAULT if axes is None else axes, first_opset))
        return model

    return add


SIGNS = ((_x(4).abs(),), (-_x(4).abs(),), (_x(1) * 0,))


# --- loops -----------------------------------------------------------------------------------------------------------
@row()
def for_range(x: Tensor, n: Tensor) -> Tensor:
    for i in range(int(n)):
        x = x * 0.5 + i
    return x


@row()
def for_range_with_a_step(x: Tensor, n: Tensor) -> Tensor:
    for i in range(1, int(n), 2):
        x = x + i
    return x


@row()
def for_range_backwards(x: Tensor, n: Tensor) -> Tensor:
    for i in range(int(n), 0, -1):
        x = x * 0.5 + i
    return x


@row()
def while_with_a_number(x: Tensor, n: Tensor) -> Tensor:
    i = 0
    while i < int(n):
        x = x + i
        i += 2
    return x


@row(others=((_x(4) * 100, torch.tensor(2)), (_x(1) * 0.01, torch.tensor(2))))
def while_with_a_tensor(x: Tensor, n: Tensor) -> Tensor:
    while bool(x.abs().sum() > 1):
        x = x / n
    return x


@row()
def break_out(x: Tensor, n: Tensor) -> Tensor:
    for i in range(int(n)):
        x = x + i
        if bool(x.sum() > 10):
            break
    return x


@row()
def go_on_with_the_next(x: Tensor, n: Tensor) -> Tensor:
    for i in range(int(n)):
        if i % 2 == 1:
            continue
        x = x * 2 - i
    return x


@row()
def return_early_from_a_loop(x: Tensor, n: Tensor) -> Tensor:
    for i in range(int(n)):
        x = x + 1
        if bool(x.sum() > 8):
            return x * i
    return -x


@row()
def loops_in_loops(x: Tensor, n: Tensor) -> Tensor:
    for i in range(int(n)):
        for j in range(i + 1):
            if (i + j) % 2 == 0:
                x = x + j
            else:
                x = x - i
    return x


@row()
def several_values_carried(x: Tensor, n: Tensor) -> Tuple[Tensor, int, float, bool]:
    count, total, seen = 0, 0.5, False
    for i in range(int(n)):
        count += i
        total = total / 2 + count
        seen = seen or i == 2
    return x + count, count, total, seen


@row()
def a_tuple_carried(x: Tensor, n: Tensor) -> Tensor:
    state = (x, torch.zeros_like(x))
    for _ in range(int(n)):
        hidden, cell = state
        state = (torch.tanh(hidden + cell), hidden * 0.5)
    return state[0] + state[1]


@row()
def a_list_carried(x: Tensor, n: Tensor) -> Tensor:
    state = [x, x * 2, x * 3]
    for _ in range(int(n)):
        state = [state[2], state[0], state[1] + 1]
    return torch.cat(state)


@row(example=(_x(3),), others=((_x(1),), (_x(6),)))
def over_a_dynamic_size(x: Tensor) -> Tensor:
    total = torch.zeros(3)
    for i in range(x.size(0)):
        total = total * 0.9 + x[i]
    return total


@row(example=(_x(3),), others=((_x(1),), (_x(6),)))
def over_the_rows_of_a_tensor(x: Tensor) -> Tensor:
    rows: List[Tensor] = []
    for i, each in enumerate(x):
        rows.append(each * i)
    return torch.stack(rows)


@row(example=(_x(2),), others=((_x(5),),))
def over_lists_that_are_known(x: Tensor) -> Tensor:
    for i, (scale, name) in enumerate(zip([1, 2, 3], ["a", "b", "c"])):
        if name != "b":
            x = x * scale + i
    return x


@row(example=(_x(2),), others=((_x(5),),))
def comprehensions(x: Tensor) -> Tensor:
    parts = [each * 2 for each in x.split(1, 1)]
    sizes = [part.size(1) for part in parts]
    return torch.cat(parts, 1) * sum(sizes)


@row(example=(_x(2),), others=((_x(5),),))
def over_a_dict(x: Tensor) -> Tensor:
    weights: Dict[str, float] = {"a": 0.5, "b": 2.0}
    for name, weight in weights.items():
        x = x * weight if name == "a" else x - weight
    for name in weights:
        x = x + len(name)
    return x + sum([1, 2]) + len(weights.keys())


@row()
def a_tensor_that_grows(x: Tensor, n: Tensor) -> Tensor:
    rows = x
    for i in range(int(n)):
        rows = torch.cat([rows, x[:1] * i])
    return rows


@row()
def a_write_in_place(x: Tensor, n: Tensor) -> Tensor:
    y = torch.zeros(8, 3)
    for i in range(int(n)):
        y[i] = x[0] * i
        y[i + 1, 0] += 1.0
    return y


# --- branches --------------------------------------------------------------------------------------------------------
@row(example=(_x(2).abs(),), others=SIGNS)
def if_else(x: Tensor) -> Tensor:
    return x.relu() + 1 if bool(x.sum() > 0) else x * 3


@row(example=(_x(2).abs(),), others=SIGNS)
def if_without_else(x: Tensor) -> Tensor:
    if bool(x.sum() > 0):
        x = x * 2
    return x


@row(example=(_x(2).abs(),), others=SIGNS)
def elif_and_nested(x: Tensor) -> Tensor:
    if bool(x.sum() > 0):
        if bool(x.max() > 1):
            y = x - 1
        else:
            y = x + 1
    elif bool(x.min() < -1):
        y = x * 2
    else:
        y = x
    return y


@row(example=(_x(2).abs(),), others=SIGNS)
def return_early(x: Tensor) -> Tensor:
    if bool(x.sum() > 0):
        return x + 1
    y = x * 2
    if bool(x.min() < -1):
        return y
    return y - 1


@row(example=(_x(2).abs(),), others=SIGNS)
def and_or_not(x: Tensor) -> Tensor:
    if (bool(x.sum() > 0) and bool(x.max() > 0.5)) or not bool(x.min() < 0):
        x = x + 1
    return x


@row(example=(_x(5),), others=((_x(1),), (_x(2),), (_x(3),), (_x(9),)))
def on_a_dynamic_size(x: Tensor) -> Tensor:
    if x.size(0) > 3:
        x = x * 2
    elif x.size(0) == 1:
        x = x - 1
    return x


@row(example=(_x(2).abs(),), others=SIGNS)
def numbers_from_either_side(x: Tensor) -> Tuple[Tensor, int]:
    k = 1
    scale = 0.5
    if bool(x.sum() > 0):
        k, scale = 3, 2.0
    return x * scale + k, k


@row(example=(_x(4).abs(),), others=SIGNS)
def sizes_that_differ(x: Tensor) -> Tensor:
    if bool(x.sum() > 0):
        y = x[:1]
    else:
        y = torch.cat([x, x])
    return y * 2


@row(example=(_x(2).abs(),), others=SIGNS)
def both_sides_append(x: Tensor) -> Tensor:
    outs = [x]
    if bool(x.sum() > 0):
        outs.append(x * 2)
    else:
        outs.append(-x)
    return torch.stack(outs)


# --- structure that disappears ---------------------------------------------------------------------------------------
@row(example=(_x(2), None), others=((_x(5), None),))
def optional_that_is_none(x: Tensor, y: Optional[Tensor] = None) -> Tensor:
    if y is not None:
        x = x + y
    return x * 2


@row(example=(_x(2), _x(2, 1)), others=((_x(2), _x(2, 5)),), axes={})
def optional_that_is_given(x: Tensor, y: Optional[Tensor] = None) -> Tensor:
    if y is None:
        return x
    assert y is not None
    return x + y


@row(example=(_x(2), 3), others=((_x(4), 3),))
def union_that_is_refined(x: Tensor, y: Union[int, Tensor]) -> Tensor:
    if isinstance(y, int):
        return x + y
    return x * y


@row(example=(_x(2),), others=((_x(4),),))
def strings(x: Tensor) -> Tensor:
    name = "{}-{}".format("a", 3)
    text = f"{name}:{x.dim()}"
    if text == "a-3:2" and name.startswith("a") and "3" in name:
        x = x + len(text)
    parts = text.split(":")
    return x * len(parts)


@row(example=(_x(2),), others=((_x(4),),))
def raise_that_is_never_reached(x: Tensor) -> Tensor:
    if x.dim() == 3:
        raise ValueError("two axes, please")
    assert x.size(1) == 3, f"three columns, not {x.size(1)}"
    return x + 1


@row(example=(_x(2).abs(),), others=((_x(4).abs(),),))
def assert_on_data(x: Tensor) -> Tensor:
    assert bool((x >= 0).all()), "no negative numbers"
    if bool(x.sum() < 0):
        raise RuntimeError("never")
    return x.sqrt()


@row(example=(_x(2),), others=((_x(4),),))
def mathematics(x: Tensor) -> Tensor:
    a = math.sqrt(16.0) + math.floor(2.7) + math.ceil(2.1) + math.pi
    b = math.exp(1.0) * math.log(3.0) + math.sin(0.5) * math.cos(0.5) + math.pow(2.0, 3.0)
    return x * a + b + float(7 // 2) + 7 % 4 + abs(-3) + min(2, 5) + max(1.0, 0.5) + round(2.6)


@row()
def integers_with_signs(x: Tensor, n: Tensor) -> Tensor:
    k = int(n) - 4
    return x + k // 3 + k % 3 + (-k) // 2 + (-k) % 5 + abs(k) + max(k, 0) - min(k, 2) + k * k + k**2


@row()
def true_division(x: Tensor, n: Tensor) -> Tensor:
    k = int(n) + 1
    share = k / 4
    return x * share + float(k) / 3.0 + int(share * 2.0) + (share // 0.3)


@row(example=(_x(2),), others=((_x(4),),))
def annotated_empties(x: Tensor) -> Tensor:
    parts = torch.jit.annotate(List[Tensor], [])
    for i in range(3):
        parts.append(x[:, i])
    names = torch.jit.annotate(Dict[str, int], {})
    names["a"] = 2
    return torch.stack(parts, 1) * names["a"]


class Point(NamedTuple):
    left: Tensor
    right: Tensor


@row(example=(_x(2),), others=((_x(4),),))
def named_tuples(x: Tensor) -> Tensor:
    point = Point(x, x * 2)
    return point.left + point.right * 2


@row(example=(_x(2),), others=((_x(4),),))
def lists_of_known_length(x: Tensor) -> Tensor:
    parts = list(x.unbind(1))
    parts.insert(0, parts.pop())
    parts.reverse()
    parts += [x[:, 0]]
    parts.extend([x[:, 1]])
    del parts[0]
    head = parts[:2] + parts[-1:]
    return torch.stack(head, 1) + len(parts) + [3, 1, 2].index(1) + [1, 1].count(1)


@row(example=(_x(2), (_x(2, 1), [_x(2, 2), _x(2, 3)])), others=((_x(2), (_x(2, 4), [_x(2, 5), _x(2, 6)])),), axes={})
def nested_arguments(x: Tensor, more: Tuple[Tensor, List[Tensor]]) -> Tuple[Tensor, Dict[str, Tensor]]:
    first, rest = more
    return x + first, {"sum": rest[0] + rest[1]}


@row(example=(_x(2),), others=((_x(4),),))
def kinds_of_numbers(x: Tensor) -> Tuple[Tensor, Tensor, Tensor, Tensor]:
    whole = torch.arange(3)
    return torch.add(x, x, alpha=2), 2 - x, whole * 2 + 1.5, torch.rsub(whole, 3, alpha=2)


@row(example=(torch.arange(6).reshape(2, 3).half(),), others=((torch.arange(12).reshape(4, 3).half() - 5,),))
def half_precision(x: Tensor) -> Tensor:
    y = 2 - x * 0.5
    for _ in range(2):
        y = y + 1
    return y.clamp(min=-1.0) + x.size(0)


@row(example=(torch.arange(6).reshape(2, 3),), others=((torch.arange(12).reshape(4, 3) - 5,),))
def whole_numbers(x: Tensor) -> Tensor:
    if int(x.sum()) > 10:
        x = x * 2 + 1
    return x // 2 - x % 3


# --- modules ---------------------------------------------------------------------------------------------------------
@row(example=(_x(2),), others=((_x(4),),))
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


@row(example=(_x(2),), others=((_x(4),),))
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


@row(example=(_x(2),), others=((_x(4),),))
def script_classes(x: Tensor) -> Tensor:
    pair = Pair(x, 2.0)
    pair.scale = pair.scale + 1
    return pair.product() + pair.left


@row(example=(_x(2),), others=((_x(4),),))
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


@row(example=(_x(2),), others=((_x(4),),))
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


@row(example=(_x(3),), others=((_x(1),), (_x(5),), (-_x(4).abs(),)))
def sizes_that_depend_on_data(x: Tensor) -> Tensor:
    found = torch.nonzero(x > 0)
    if found.size(0) == 0:
        return torch.zeros(1)
    total = torch.zeros(1)
    for i in range(found.size(0)):
        total = total + x[found[i, 0], found[i, 1]]
    return total


# --- optionals that depend on data -----------------------------------------------------------------------------------
@row()
def the_best_so_far(x: Tensor, n: Tensor) -> Tensor:
    best: Optional[Tensor] = None
    for i in range(int(n)):
        if best is None:
            best = x
        else:
            best = torch.maximum(best * 0.5, x + i)
    if best is None:
        return x * 100
    return best


@row(example=(_x(2).abs(),), others=SIGNS)
def given_on_one_side(x: Tensor) -> Tensor:
    y: Optional[Tensor] = None
    if bool(x.sum() > 0):
        y = x + 1
    if y is not None:
        x = x * y
    return x


@row()
def the_last_that_fits(x: Tensor, n: Tensor) -> Tensor:
    last: Optional[int] = None
    for i in range(int(n)):
        if bool(x.sum() > i - 2):
            last = i
    k = -5
    if last is not None:
        k = last
    return x + k


@row(others=_turns(1, 2, 7))
def the_best_with_its_score(x: Tensor, n: Tensor) -> Tensor:
    best: Optional[Tensor] = None
    score: Optional[float] = None
    for i in range(int(n)):
        total = float((x * i).sum())
        if score is None or total > score:
            score = total
            best = x * i
    assert best is not None
    return best


# --- several things at once ------------------------------------------------------------------------------------------
@row(first_opset=10)
def beam_search(x: Tensor, n: Tensor) -> Tuple[Tensor, Tensor]:
    """Two carried tensors whose first axis grows alike, and one of them along another axis too."""
    scores = torch.zeros(1)
    tokens = torch.zeros(1, 1, dtype=torch.int64)
    for _ in range(int(n)):
        candidates = (scores[:, None] + x.log_softmax(1)[tokens[:, -1] % x.size(0)]).reshape(-1)
        scores, best = candidates.topk(min(2, candidates.numel()))
        tokens = torch.cat([tokens[torch.div(best, 3, rounding_mode="floor")], (best % 3)[:, None]], 1)
    return tokens, scores


@row()
def lists_in_a_dict(x: Tensor, n: Tensor) -> Tensor:
    buckets: Dict[str, List[Tensor]] = {"even": [], "odd": []}
    for i in range(int(n)):
        if i % 2 == 0:
            buckets["even"].append(x * i)
        else:
            buckets["odd"].append(x - i)
    for each in buckets["even"]:
        x = x + each
    for each in buckets["odd"]:
        x = x * 0.5 + each
    return x


@row(others=_turns(1, 2, 7))
def lists_in_a_list(x: Tensor, n: Tensor) -> Tensor:
    lists: List[List[Tensor]] = []
    for i in range(2):
        inner: List[Tensor] = []
        for j in range(int(n)):
            inner.append(x * j + i)
        lists.append(inner)
    return torch.stack(lists[0]).sum(0) + torch.stack(lists[1]).sum(0) * 2


@row()
def until_broken(x: Tensor, n: Tensor) -> Tensor:
    i = 0
    while True:
        x = x + 1
        i += 1
        if i >= int(n) or bool(x.sum() > 30):
            break
    return x * i


@row(example=(_x(3),), others=((_x(1, 3),), (_x(5, 4),)))
def the_largest_row(x: Tensor) -> Tensor:
    best = -math.inf
    where = -1
    for i in range(x.size(0)):
        total = float(x[i].sum())
        if total > best:
            best = total
            where = i
    return x[where] * best


@row()
def sorted_numbers(x: Tensor, n: Tensor) -> Tensor:
    numbers = [int(n), 4, int(n) * 2 - 3]
    numbers.sort()
    return x + numbers[-1] * 100 + numbers[1] * 10 + numbers[0]


@row(others=_turns(1, 2, 7))
def elements_written_to(x: Tensor, n: Tensor) -> Tensor:
    outs: List[Tensor] = []
    for i in range(int(n)):
        y = x + i
        outs.append(y)
        y += 100
    outs[0] += 5
    outs[-1][0] = 9.0
    first = outs[0]
    first *= 2
    return torch.stack(outs)


@row()
def columns_from_both_ends(x: Tensor, n: Tensor) -> Tensor:
    y = x.clone()
    for i in range(int(n)):
        j = i % x.size(1)
        y[:, j] = y[:, j - 1] + i
        y[:, j - 1] += 1
        if bool(y.sum() > 10):
            y.mul_(0.5)
    return y


@row()
def numbers_of_a_tensor(x: Tensor, n: Tensor) -> Tensor:
    values: List[float] = x[:, 0].tolist()
    total = 0.0
    for value in values:
        total += value
    return x * total
