# ruff: noqa: UP006
"""Scripts with lists of tensors of unknown length that need a list in the file. See `script_table.py`.

Their opsets begin at 11, where ONNX has sequences, or at 13, where branches and loops take them.
"""

from typing import Any, Dict, List, Tuple  # noqa: UP035  (TorchScript's own names)

import torch
from torch import nn

from .script_table import Row, rows_in, sample

Tensor = torch.Tensor
LIST_ROWS: list[Row] = []
row = rows_in(LIST_ROWS)
_LENGTHS: dict[str, dict[int, str]] = {"x": {0: "total"}, "lengths": {0: "count"}}


def _parts(*lengths: int) -> tuple:
    return sample(sum(lengths)), torch.tensor(lengths)


# --- returned --------------------------------------------------------------------------------------------------------
@row(first_opset=11)
def a_list_of_one_shape_returned(x: Tensor, n: Tensor) -> List[Tensor]:
    found: List[Tensor] = []
    for i in range(int(n)):
        found.append(x * i)
    return found


@row(first_opset=13)
def a_list_of_many_shapes_returned(x: Tensor, n: Tensor) -> List[Tensor]:
    found: List[Tensor] = []
    for i in range(int(n)):
        found.append(x[:, :i] + i)
    return found


@row(first_opset=13)
def lists_in_a_structure_returned(x: Tensor, n: Tensor) -> Tuple[Tensor, Dict[str, List[Tensor]], List[Tensor]]:
    found = [x]
    for i in range(int(n)):
        found.append(x[:, i:])
    return x + 1, {"found": found, "known": [x, x * 2]}, found[1:]


@row()
def numbers_returned(x: Tensor, n: Tensor) -> Tuple[List[int], List[float], List[bool], Tensor]:
    counts: List[int] = []
    shares: List[float] = []
    odd: List[bool] = []
    for i in range(int(n)):
        counts.append(i * i)
        shares.append(i / 4)
        odd.append(i % 2 == 1)
    return counts, shares, odd, x


@row(first_opset=13)
def on_one_side_only(x: Tensor, n: Tensor) -> List[Tensor]:
    found = [x]
    if bool(n > 2):
        found.append(x[:1])
    return found


@row(first_opset=13)
def passed_on_as_it_is(x: Tensor, n: Tensor) -> List[Tensor]:
    found: List[Tensor] = []
    for i in range(int(n)):
        found.append(x[:i])
    for i in range(int(n)):
        if i % 2 == 1:
            found.append(x)
    return found


# --- changed ---------------------------------------------------------------------------------------------------------
@row(first_opset=13)
def a_queue(x: Tensor, n: Tensor) -> Tensor:
    waiting = [x]
    for i in range(int(n)):
        first = waiting.pop(0)
        waiting.append(torch.cat([first, x[:1]]))
        if i % 2 == 0:
            waiting.append(first)
    return waiting[-1] + len(waiting)


@row(first_opset=13)
def set_at_places(x: Tensor, n: Tensor) -> List[Tensor]:
    found = [x, x[:1], x]
    for i in range(int(n)):
        found[i % 3] = torch.cat([found[i % 3], x])
        found[-2] = x[:2]
        found[-1 - i % 2] = found[0] * 2
    return found


@row(first_opset=13)
def inserted_at_places(x: Tensor, n: Tensor) -> List[Tensor]:
    found: List[Tensor] = []
    for i in range(int(n)):
        found.insert(0, x[:i])
        found.insert(1, x[:, :1])
        found.insert(i, x)
        found.insert(-1, x[:, 1:])
        found.insert(1 - i, x[:, 2:])
    return found


@row(first_opset=13)
def deleted_and_reversed(x: Tensor, n: Tensor) -> List[Tensor]:
    found = [x, x[:1]]
    for i in range(int(n)):
        found.append(x[:, :i])
        del found[i % 2]
    found.reverse()
    return found


@row(first_opset=13)
def put_together(x: Tensor, n: Tensor) -> List[Tensor]:
    one: List[Tensor] = []
    other: List[Tensor] = []
    for i in range(int(n)):
        one.append(x[:, :i])
        other.append(x[:i])
    other.extend(one)
    return [x] + one + other + [x[:1], x] + one[1:] + other[-2:] + one[: int(n) - 1]


@row(first_opset=13)
def cleared_and_begun_again(x: Tensor, n: Tensor) -> Tensor:
    found: List[Tensor] = []
    for i in range(int(n)):
        if i % 3 == 2:
            found.clear()
        found.append(x[:, :i])
    return torch.cat([x] + found, 1)


# --- read ------------------------------------------------------------------------------------------------------------
@row(first_opset=13)
def concatenated(x: Tensor, n: Tensor) -> Tuple[Tensor, Tensor]:
    found: List[Tensor] = []
    for i in range(int(n)):
        found.append(x[:, :i])
    found.append(x)
    return torch.cat(found, 1), torch.cat(found, -1).sum()


@row(first_opset=13)
def stacked_in_the_end(x: Tensor, n: Tensor) -> Tensor:
    """All have one shape, but nobody knows before it is computed."""
    found = [x]
    for i in range(int(n)):
        found.append(torch.cat([x, x], 1)[:, i % 3 : 3 + i % 3])
    return torch.stack(found, 1)


@row(first_opset=13)
def gone_through(x: Tensor, n: Tensor) -> Tensor:
    found: List[Tensor] = []
    for i in range(int(n)):
        found.append(x[:, :i])
    total = torch.zeros(())
    for i, each in enumerate(found):
        total = total * 2 + each.sum() * i
    if len(found) > 1:
        total = total + found[1].sum() + found[-1].sum()
    return total


@row(first_opset=11)
def one_of_a_known_list(x: Tensor, n: Tensor) -> Tensor:
    return [x, x[:1], x[:, :1]][int(n) % 3]


@row(first_opset=13)
def lists_made_in_a_loop(x: Tensor, n: Tensor) -> List[Tensor]:
    found: List[Tensor] = []
    for i in range(int(n)):
        inner: List[Tensor] = []
        for j in range(i):
            inner.append(x[:, :j])
        inner.append(x)
        found.append(torch.cat(inner, 1))
    return found


# --- taken apart -----------------------------------------------------------------------------------------------------
@row(example=(sample(5),), others=((sample(1),), (sample(4),), (sample(7),)), first_opset=11)
def split_along_a_dynamic_axis(x: Tensor) -> List[Tensor]:
    return list(x.split(2))


@row(example=(sample(5),), others=((sample(1),), (sample(4),), (sample(7),)), first_opset=11)
def split_and_gone_through(x: Tensor) -> Tensor:
    total = torch.zeros(3)
    for part in torch.split(x, 2):
        total = total * 2 + part.sum(0)
    return total


@row(example=_parts(1, 2, 3), others=(_parts(4), _parts(2, 0, 1, 1)), axes=_LENGTHS, first_opset=11)
def split_by_lengths(x: Tensor, lengths: Tensor) -> List[Tensor]:
    sizes: List[int] = lengths.tolist()
    return list(x.split(sizes))


@row(example=_parts(1, 2, 3), others=(_parts(4), _parts(2, 0, 1, 1)), axes=_LENGTHS, first_opset=13)
def padded_to_one_length(x: Tensor, lengths: Tensor) -> Tensor:
    sizes: List[int] = lengths.tolist()
    longest = int(lengths.max())
    rows: List[Tensor] = []
    for part in x.split(sizes):
        rows.append(nn.functional.pad(part, [0, 0, 0, longest - part.size(0)]))
    return torch.stack(rows)


@row(example=(sample(3),), others=((sample(1),), (sample(6),)), first_opset=11)
def unbound_and_returned(x: Tensor) -> List[Tensor]:
    return list(x.unbind(0))


@row(example=(sample(4), torch.tensor(2)), others=((sample(6), torch.tensor(3)),), first_opset=11)
def split_in_two_by_data(x: Tensor, n: Tensor) -> Tensor:
    first, second = x.split(int(n))
    return first[:1] - second[:1]


# --- several things at once ------------------------------------------------------------------------------------------
@row(first_opset=13)
class BeamSearch(nn.Module):
    """Hypotheses of different lengths: some end early, the best of all is returned with its score."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.step = nn.Linear(3, 4)
        self.embed = nn.Embedding(4, 3)

    def forward(self, x: Tensor, n: Tensor) -> Tuple[Tensor, float, List[Tensor]]:
        open_ones: List[Tuple[Tensor, Tensor, float]] = [(torch.zeros(1, dtype=torch.int64), x[0], 0.0)]
        ended: List[Tensor] = []
        scores: List[float] = []
        for _ in range(int(n)):
            longer: List[Tuple[Tensor, Tensor, float]] = []
            for tokens, state, score in open_ones:
                logits = torch.log_softmax(self.step(state), 0)
                best, place = torch.topk(logits, 2)
                for k in range(2):
                    found = torch.cat([tokens, place[k : k + 1]])
                    total = score + float(best[k])
                    if int(place[k]) == 3:
                        ended.append(found)
                        scores.append(total / found.size(0))
                    elif len(longer) < 2:
                        longer.append((found, torch.tanh(state + self.embed(place[k])), total))
            open_ones = longer
        for tokens, _, score in open_ones:
            ended.append(tokens)
            scores.append(score / tokens.size(0))
        chosen = 0
        for i, each in enumerate(scores):
            if each > scores[chosen]:
                chosen = i
        return ended[chosen], scores[chosen], ended


@row(first_opset=13)
class Collects(nn.Module):
    """A list that is an attribute, and one that a method changes."""

    def add(self, found: List[Tensor], x: Tensor, i: int) -> int:
        found.append(x[i:])
        return len(found)

    def forward(self, x: Tensor, n: Tensor) -> Tuple[List[Tensor], int]:
        found = [x]
        count = 0
        for i in range(int(n)):
            count += self.add(found, x, i)
        return found, count


# --- written to ------------------------------------------------------------------------------------------------------
@row()
class WritesAfterTensorsWereMadeOfAList(nn.Module):
    """A tensor made of a list does not see later writes; its elements do. In evaluation the layer draws nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.GRU(3, 2, num_layers=2, dropout=0.5)

    def forward(self, x: Tensor, n: Tensor) -> Tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
        states = self.layer(x)[0]
        y = x * 2
        parts = y.unbind(0)
        stacked, joined = torch.stack(parts), torch.cat(parts)
        numbers = y[:, 0].long()
        counts: List[int] = numbers.tolist()
        y.abs_()
        numbers.add_(1)
        stacked[0] = n
        return stacked, joined, parts[0] * 1, torch.tensor(counts), states


# --- types -----------------------------------------------------------------------------------------------------------
def _typed(dtype: torch.dtype) -> dict[str, Any]:
    def inputs(rows: int, n: int) -> tuple:
        return (sample(rows) * 9).abs().to(dtype), torch.tensor(n)

    return {"example": inputs(2, 3), "others": (inputs(4, 0), inputs(1, 2), inputs(3, 5)), "first_opset": 13}


def _both_forms(x: Tensor, n: Tensor) -> Tuple[List[Tensor], List[Tensor], List[Tensor]]:
    alike: List[Tensor] = []
    different: List[Tensor] = []
    for i in range(int(n)):
        alike.append(x)
        different.append(x[:i])
    return alike, different, list(x.split(2))


for _dtype in (torch.float16, torch.float64, torch.int64, torch.uint8, torch.int8, torch.int16, torch.bool):
    row(**_typed(_dtype), name=f"lists_of_{str(_dtype).removeprefix('torch.')}")(_both_forms)
