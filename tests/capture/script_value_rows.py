# ruff: noqa: UP006, UP007, UP045
"""Scripts that compare dtypes, return named tuples, write texts, and compute with numbers. See `script_table.py`."""

import enum
import math
from typing import Any, Dict, List, NamedTuple, Optional, Tuple, Union  # noqa: UP035  (TorchScript's own names)

import torch

from .script_table import SIGNS, row, sample

Tensor = torch.Tensor
X = (sample(),)
BOTH = {"x": {0: "batch", 1: "width"}}
SIZES = tuple((sample(rows)[:, :columns],) for rows in (1, 3, 8) for columns in (1, 2, 3))


# --- dtypes, layouts, memory formats ---------------------------------------------------------------------------------
@row(X, SIGNS)
def another_dtype_would_be_multiplied(x: Tensor) -> Tensor:
    if x.dtype != torch.float32:
        return x * 100
    return x


@row(X, SIGNS)
def a_dtype_in_a_list(x: Tensor) -> Tensor:
    if x.dtype in [torch.float16, torch.float32]:
        x = x * 2
    if x.dtype not in [torch.float64]:
        x = x + 1
    return x


def _of(x: Tensor, dtype: Optional[torch.dtype] = None) -> Tensor:
    if dtype is None:
        dtype = x.dtype
    return torch.ones([2], dtype=dtype) + x[0, 0].to(dtype)


@row(X, SIGNS)
def a_dtype_as_an_argument(x: Tensor) -> Tuple[Tensor, Tensor]:
    wide = torch.float64 if x.dim() == 2 else torch.int32
    return _of(x), _of(x, wide)


@row(X, SIGNS)
def dtypes_of_two_tensors(x: Tensor) -> Tensor:
    y = x.to(torch.int32)
    if x.dtype == y.dtype or y.dtype != torch.int32:
        return x * 5
    return x + y.to(x.dtype)


@row(X, SIGNS)
def a_layout_and_a_device(x: Tensor) -> Tensor:
    if x.layout == torch.strided and x.device == torch.device("cpu") and x.device.type != "cuda":
        return x * 2
    return x


@row(X, SIGNS, axes={"x": {0: "batch"}})
def contiguous_or_not(x: Tensor) -> Tensor:
    turned = torch.cat([x, x]).t()
    if turned.is_contiguous() or not x.is_contiguous(memory_format=torch.contiguous_format):
        return turned * 2
    return turned


@row(X, SIGNS)
def no_gradients(x: Tensor) -> Tensor:
    with torch.no_grad():
        y = x * 2
    return y * 3 if x.requires_grad else y


# --- named tuples ----------------------------------------------------------------------------------------------------
@row(X, SIGNS[:2])
def results_with_names(x: Tensor) -> Tuple[Tuple[Tensor, Tensor], Tuple[Tensor, Tensor], Tuple[Tensor, Tensor]]:
    return torch.topk(x, 1), torch.max(x, 1), torch.sort(x, 1, descending=True)


@row(X, SIGNS[:2])
def smallest_and_largest(x: Tensor) -> Tuple[Tensor, Tensor]:
    return torch.aminmax(x)


@row(X, SIGNS[:2])
def a_named_result_of_a_branch(x: Tensor) -> Tuple[Tensor, Tensor]:
    if bool(x.sum() > 0):
        return torch.max(x, 1)
    return torch.min(x, 1)


class Pair(NamedTuple):
    first: Tensor
    others: List[Tensor]


@row(X, SIGNS)
def a_named_tuple_of_ones_own(x: Tensor) -> Tensor:
    pair = Pair(x, [x * 2, x + 1]) if bool(x.sum() > 0) else Pair(x * 3, [x, x])
    return pair.first + pair.others[0]


# --- texts -----------------------------------------------------------------------------------------------------------
@row(X, SIGNS)
def texts_are_written_as_torchscript_does(x: Tensor) -> Tensor:
    weights: Dict[str, float] = {"2.": 3.0, "2.0": 5.0, "3-a": 7.0}
    return x * weights[str(2.0)] + weights["{}-{}".format(3, "a")] + len("%d,%s" % (3, "b"))  # noqa: UP031


@row(X, SIGNS)
def texts_of_empty_lists_and_of_none(x: Tensor) -> Tensor:
    none: List[int] = []
    nothing: Dict[str, List[int]] = {}
    nowhere: Optional[List[int]] = None
    text = "{} {} {} {}".format(x.sum().size(), [none, [1]], {"a": none}, (none, 2.0))
    return x * len(text) + len("%d %s" % (3, none)) + len(str(nothing)) + len(str(nowhere))  # noqa: UP031


@row(X, SIGNS)
def a_text_of_data_is_printed(x: Tensor) -> Tensor:
    text = f"{x.size(0)} rows, sum {x.sum()}"
    print(text, x.shape, x)
    assert bool(x.sum() < 1e6), "too large: " + text
    return x * 2


@row(X, SIGNS)
def places_of_a_text(x: Tensor) -> Tensor:
    text = "abcdef"
    if text.startswith("cd", 2) and not text.startswith("ab", 1) and text.endswith("cd", 0, 4):
        return x * 2
    return x


# --- containers and types --------------------------------------------------------------------------------------------
@row(X, SIGNS)
def an_element_is_removed(x: Tensor) -> Tensor:
    numbers = [3, 1, 5, 2]
    numbers.remove(5)
    return x * len(numbers) + numbers[-1]


@row(X, SIZES, BOTH)
def shapes_are_compared(x: Tensor) -> Tensor:
    if x.shape == [4, 4] or 7 in x.shape:
        return x * 2
    return x


@row((sample(), [sample(seed=5)]), (), axes={})
def a_list_or_a_tensor(x: Tensor, other: Union[Tensor, List[Tensor]]) -> Tensor:
    if isinstance(other, list):
        return x * other[0]
    return x * 3


class Color(enum.Enum):
    RED = 1
    GREEN = 2


@row(X, SIGNS)
def members_of_an_enumeration(x: Tensor) -> Tensor:
    total = 0
    for each in [Color.RED, Color.GREEN]:
        if each == Color.GREEN and each.name == "GREEN":
            total += each.value
    return x * total


@torch.jit.script
class Counting:
    def __init__(self, number: int) -> None:
        self.number = number

    def __enter__(self) -> int:
        self.number += 1
        return self.number

    def __exit__(self, kind: Any, value: Any, trace: Any) -> None:
        self.number += 10


@row(X, SIGNS)
def a_context_of_ones_own(x: Tensor) -> Tensor:
    counting = Counting(3)
    with counting as number:
        y = x * number
    return y + counting.number


# --- numbers ---------------------------------------------------------------------------------------------------------
@row(X, SIZES, BOTH)
def bits_of_a_size(x: Tensor) -> Tensor:
    n, m = x.size(0), x.size(1)
    return x + (n & 3) + (n | 4) * 10 + (n ^ 5) * 100 + (n << 2) * 1000 + (n >> 1) * 10000 + (-n & m) * 1e5


@row(X, SIZES, BOTH)
def powers_are_floats(x: Tensor) -> Tensor:
    n = x.size(0)
    return (x * 10).to(torch.int64) * 2**n / 2 + round(n / 4) + math.log(n + 1) + math.gcd(n, 6) + math.sin(n)


@row(X, SIGNS)
def numbers_of_data(x: Tensor) -> Tensor:
    total = float(x.abs().sum())
    whole, rest = divmod(int(total), 2)
    return x * math.tanh(total) + whole * 10 + rest + math.fmod(total, 3) + math.ldexp(1.0, whole % 4)


@row(X, SIZES, BOTH)
def loops_that_end_early_inside_loops(x: Tensor) -> Tensor:
    total = 0
    for i in range(x.size(0)):
        for j in range(x.size(1)):
            if bool(x[i, j] > 1):
                break
            if bool(x[i, j] < -1):
                continue
            total += i * j + 1
    return x * total


@row(X, SIZES, BOTH)
def some_and_all(x: Tensor) -> Tensor:
    some, both = any([x.size(0) > 3, bool(x.sum() > 0)]), all([x.size(1) > 1, bool(x.sum() < 2)])
    return x * (int(some) + 2 * int(both) + 4 * int(some ^ both))


@row(X, SIZES, BOTH)
def counts_of_turns(x: Tensor) -> Tensor:
    n = x.size(0)
    while n > 2:
        n = n // 2
    steps = torch.linspace(-1, 1, n).sum() + torch.logspace(0, 1, n).sum()
    places = torch.tril_indices(n, n).sum() - torch.triu_indices(n, n, 1).sum()
    return x + steps + places + torch.nn.functional.one_hot(torch.zeros(1, dtype=torch.long), n).sum(0).numel()


def _beside(x: Tensor) -> Tensor:
    return x * 2


@row(X, SIGNS)
def what_runs_beside(x: Tensor) -> Tensor:
    future = torch.jit.fork(_beside, x)
    return torch.jit.wait(future) + 1
