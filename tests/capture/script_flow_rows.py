# ruff: noqa: UP006, UP045, B905
"""Scripts with loops, branches, and optionals that depend on data. See `script_table.py`."""

from typing import Dict, List, Optional, Tuple  # noqa: UP035  (TorchScript's own names)

import torch

from .script_table import SIGNS, row, sample, turns

Tensor = torch.Tensor


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


@row(others=((sample(4) * 100, torch.tensor(2)), (sample(1) * 0.01, torch.tensor(2))))
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


@row(example=(sample(3),), others=((sample(1),), (sample(6),)))
def over_a_dynamic_size(x: Tensor) -> Tensor:
    total = torch.zeros(3)
    for i in range(x.size(0)):
        total = total * 0.9 + x[i]
    return total


@row(example=(sample(3),), others=((sample(1),), (sample(6),)))
def over_the_rows_of_a_tensor(x: Tensor) -> Tensor:
    rows: List[Tensor] = []
    for i, each in enumerate(x):
        rows.append(each * i)
    return torch.stack(rows)


@row(example=(sample(2),), others=((sample(5),),))
def over_lists_that_are_known(x: Tensor) -> Tensor:
    for i, (scale, name) in enumerate(zip([1, 2, 3], ["a", "b", "c"])):
        if name != "b":
            x = x * scale + i
    return x


@row(example=(sample(2),), others=((sample(5),),))
def comprehensions(x: Tensor) -> Tensor:
    parts = [each * 2 for each in x.split(1, 1)]
    sizes = [part.size(1) for part in parts]
    return torch.cat(parts, 1) * sum(sizes)


@row(example=(sample(2),), others=((sample(5),),))
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
@row(example=(sample(2).abs(),), others=SIGNS)
def if_else(x: Tensor) -> Tensor:
    return x.relu() + 1 if bool(x.sum() > 0) else x * 3


@row(example=(sample(2).abs(),), others=SIGNS)
def if_without_else(x: Tensor) -> Tensor:
    if bool(x.sum() > 0):
        x = x * 2
    return x


@row(example=(sample(2).abs(),), others=SIGNS)
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


@row(example=(sample(2).abs(),), others=SIGNS)
def return_early(x: Tensor) -> Tensor:
    if bool(x.sum() > 0):
        return x + 1
    y = x * 2
    if bool(x.min() < -1):
        return y
    return y - 1


@row(example=(sample(2).abs(),), others=SIGNS)
def and_or_not(x: Tensor) -> Tensor:
    if (bool(x.sum() > 0) and bool(x.max() > 0.5)) or not bool(x.min() < 0):
        x = x + 1
    return x


@row(example=(sample(5),), others=((sample(1),), (sample(2),), (sample(3),), (sample(9),)))
def on_a_dynamic_size(x: Tensor) -> Tensor:
    if x.size(0) > 3:
        x = x * 2
    elif x.size(0) == 1:
        x = x - 1
    return x


@row(example=(sample(2).abs(),), others=SIGNS)
def numbers_from_either_side(x: Tensor) -> Tuple[Tensor, int]:
    k = 1
    scale = 0.5
    if bool(x.sum() > 0):
        k, scale = 3, 2.0
    return x * scale + k, k


@row(example=(sample(4).abs(),), others=SIGNS)
def sizes_that_differ(x: Tensor) -> Tensor:
    if bool(x.sum() > 0):
        y = x[:1]
    else:
        y = torch.cat([x, x])
    return y * 2


@row(example=(sample(2).abs(),), others=SIGNS)
def both_sides_append(x: Tensor) -> Tensor:
    outs = [x]
    if bool(x.sum() > 0):
        outs.append(x * 2)
    else:
        outs.append(-x)
    return torch.stack(outs)


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


@row(example=(sample(2).abs(),), others=SIGNS)
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


@row(others=turns(1, 2, 7))
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
