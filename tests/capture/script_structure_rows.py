# ruff: noqa: UP006, UP007, UP045
"""Scripts whose structure disappears, and some with several things at once. See `script_table.py`."""

import math
from typing import Dict, List, NamedTuple, Optional, Tuple, Union  # noqa: UP035  (TorchScript's own names)

import torch

from .script_table import row, sample, turns

Tensor = torch.Tensor


# --- structure that disappears ---------------------------------------------------------------------------------------
@row(example=(sample(2), None), others=((sample(5), None),))
def optional_that_is_none(x: Tensor, y: Optional[Tensor] = None) -> Tensor:
    if y is not None:
        x = x + y
    return x * 2


@row(example=(sample(2), sample(2, 1)), others=((sample(2), sample(2, 5)),), axes={})
def optional_that_is_given(x: Tensor, y: Optional[Tensor] = None) -> Tensor:
    if y is None:
        return x
    assert y is not None
    return x + y


@row(example=(sample(2), 3), others=((sample(4), 3),))
def union_that_is_refined(x: Tensor, y: Union[int, Tensor]) -> Tensor:
    if isinstance(y, int):
        return x + y
    return x * y


@row(example=(sample(2),), others=((sample(4),),))
def strings(x: Tensor) -> Tensor:
    name = "{}-{}".format("a", 3)
    text = f"{name}:{x.dim()}"
    if text == "a-3:2" and name.startswith("a") and "3" in name:
        x = x + len(text)
    parts = text.split(":")
    return x * len(parts)


@row(example=(sample(2),), others=((sample(4),),))
def raise_that_is_never_reached(x: Tensor) -> Tensor:
    if x.dim() == 3:
        raise ValueError("two axes, please")
    assert x.size(1) == 3, f"three columns, not {x.size(1)}"
    return x + 1


@row(example=(sample(2).abs(),), others=((sample(4).abs(),),))
def assert_on_data(x: Tensor) -> Tensor:
    assert bool((x >= 0).all()), "no negative numbers"
    if bool(x.sum() < 0):
        raise RuntimeError("never")
    return x.sqrt()


@row(example=(sample(2),), others=((sample(4),),))
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


@row(example=(sample(2),), others=((sample(4),),))
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


@row(example=(sample(2),), others=((sample(4),),))
def named_tuples(x: Tensor) -> Tensor:
    point = Point(x, x * 2)
    return point.left + point.right * 2


@row(example=(sample(2),), others=((sample(4),),))
def lists_of_known_length(x: Tensor) -> Tensor:
    parts = list(x.unbind(1))
    parts.insert(0, parts.pop())
    parts.reverse()
    parts += [x[:, 0]]
    parts.extend([x[:, 1]])
    del parts[0]
    head = parts[:2] + parts[-1:]
    return torch.stack(head, 1) + len(parts) + [3, 1, 2].index(1) + [1, 1].count(1)


@row(
    example=(sample(2), (sample(2, 1), [sample(2, 2), sample(2, 3)])),
    others=((sample(2), (sample(2, 4), [sample(2, 5), sample(2, 6)])),),
    axes={},
)
def nested_arguments(x: Tensor, more: Tuple[Tensor, List[Tensor]]) -> Tuple[Tensor, Dict[str, Tensor]]:
    first, rest = more
    return x + first, {"sum": rest[0] + rest[1]}


@row(example=(sample(2),), others=((sample(4),),))
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


@row(others=turns(1, 2, 7))
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


@row(example=(sample(3),), others=((sample(1, 3),), (sample(5, 4),)))
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


@row(others=turns(1, 2, 7))
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
