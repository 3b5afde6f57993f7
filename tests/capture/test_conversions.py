"""`int(tensor)` and `float(tensor)`: numbers that the graph computes, and a warning where Python needs a plain one."""

from __future__ import annotations

import builtins
import math
import threading
import types
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import onward
from onward.capture.python.conversions import _CALLS
from tests.opsets import NEWEST

from ..contract.control import check
from .test_data_sizes import OTHER_NUMBERS, ROWS, TABLE, draw


def _name(model: Any) -> str:
    return getattr(model, "__name__", type(model).__name__)


EXAMPLE = (TABLE, torch.tensor(3))
READ_OUT = r"the file keeps the example's answer"


def whole(x: Tensor, n: Tensor) -> Tensor:
    return x[: int(n)] * (int(n) + 1)


def whole_of_a_float(x: Tensor, n: Tensor) -> Tensor:
    return x[: int(x.abs().max() * 2)] - int(-x.abs().max())


def whole_of_a_choice(x: Tensor, n: Tensor) -> Tensor:
    return x[: int(n > 2) + int(n.item() > 5) + 1]


def real(x: Tensor, n: Tensor) -> Tensor:
    return x / (float(n) + 1) + x * float(x.abs().max()) + float(n > 2)


def in_a_list(x: Tensor, n: Tensor) -> Tensor:
    return x.new_ones([int(each) for each in torch.stack([n, n + 1])])


def mapped(x: Tensor, n: Tensor) -> Tensor:
    return x.new_ones(*map(int, (n, n + 1)))


def of_a_list(x: Tensor, n: Tensor) -> Tensor:
    first, second = torch.stack([n, n * 2]).tolist()
    return x[first:second]


def rounded(x: Tensor, n: Tensor) -> Tensor:
    return x[: round(n.item() / 2)] * math.floor(float(n) / 2) + math.ceil(int(n) / 2) + round(n.item() / 3, 1)


def smallest_and_largest(x: Tensor, n: Tensor) -> Tensor:
    return x[max(int(n) - 2, 0) : min(int(n), len(x))] * min(float(n), 2.5)


def divided(x: Tensor, n: Tensor) -> Tensor:
    quotient, rest = divmod(int(n), 2)
    return x[:quotient] + rest


def a_number_it_is(x: Tensor, n: Tensor) -> Tensor:
    number = int(n)
    return x[:number] if isinstance(number, int) and not isinstance(number, (str, float)) else x


def as_large_as_a_mask(x: Tensor, n: Tensor) -> Tensor:
    return torch.ones(int(x[x > 0].shape[0])) / float(max(x[x > 0].numel(), 1))


def from_a_helper(x: Tensor, n: Tensor) -> Tensor:
    return x[: _one_more(n)]


def _one_more(n: Tensor) -> int:
    return int(n) + 1


def once(function: Callable[..., Any]) -> Callable[..., Any]:
    def wrapped(x: Tensor, n: Tensor) -> Any:
        return function(x, n)

    return wrapped


@once
def decorated(x: Tensor, n: Tensor) -> Tensor:
    return x[: int(n)]


class Crop(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.register_buffer("most", torch.tensor(6))

    def length(self, n: Tensor) -> int:
        return min(int(n), int(self.most))

    def forward(self, x: Tensor, n: Tensor) -> Tensor:
        return self.linear(x)[: self.length(n)]


CROP = Crop().eval()


def around_a_module(x: Tensor, n: Tensor) -> Tensor:
    return CROP(x, n)


FOLLOWED = [
    *(whole, whole_of_a_float, whole_of_a_choice, real, in_a_list, mapped, of_a_list, rounded, smallest_and_largest),
    *(divided, a_number_it_is, as_large_as_a_mask, from_a_helper, decorated, CROP, around_a_module),
]


@pytest.mark.parametrize("opset", [9, 17, NEWEST])
@pytest.mark.parametrize("model", FOLLOWED, ids=_name)
def test_the_number_is_followed(model: Callable[..., Any], opset: int) -> None:
    others = [*OTHER_NUMBERS, (-TABLE.abs(), torch.tensor(5))]
    with warnings.catch_warnings():
        warnings.simplefilter("error", onward.CaptureWarning)
        program = check(model, EXAMPLE, others, dynamic_axes=ROWS, opset_version=opset)
    assert program.warnings == ()


# --- what needs a plain number ---------------------------------------------------------------------------------------
class ByKey(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.factors = {3: 2.0}
        self.scale3 = 2.0

    def forward(self, x: Tensor, n: Tensor) -> Tensor:
        return x * self.factors[int(n)] + torch.zeros(int(x.shape[0] * 0.5), 1)[:1]


class ByName(ByKey):
    def forward(self, x: Tensor, n: Tensor) -> Tensor:
        return x * getattr(self, f"scale{int(n)}")


def as_often(x: Tensor, n: Tensor) -> Tensor:
    for _ in range(int(n)):
        x = x + 1
    return x


def factorial(x: Tensor, n: Tensor) -> Tensor:
    return x * math.factorial(int(n))


def chosen(x: Tensor, n: Tensor) -> Tensor:
    return x * 2 if int(n) > 2 else x


def as_deep(x: Tensor, n: Tensor) -> Tensor:
    for _ in range(int(n)):
        x = x.unsqueeze(0)
    return x


def chosen_rank(x: Tensor, n: Tensor) -> Tensor:
    return x * 2 if int(n) > 2 else x.sum()


@pytest.mark.parametrize("model", [ByKey(), ByName(), as_deep, factorial, chosen_rank], ids=_name)
def test_what_needs_a_plain_number_keeps_the_examples_with_a_warning(model: Callable[..., Any]) -> None:
    with pytest.warns(onward.CaptureWarning, match=READ_OUT):
        program = check(model, EXAMPLE, [(draw(11, 4), torch.tensor(3))], dynamic_axes=ROWS)
    assert any(READ_OUT in each for each in program.warnings)


@pytest.mark.parametrize(("model", "number"), [(as_often, 3), (as_often, 0), (chosen, 3), (chosen, 0)])
def test_what_a_number_decides_is_kept(model: Callable[..., Any], number: int) -> None:
    others = [(draw(rows, 4), torch.tensor(each)) for rows in (1, 11) for each in (-1, 0, 1, 2, 3, 9)]
    with warnings.catch_warnings():
        warnings.simplefilter("error", onward.CaptureWarning)
        program = check(model, (TABLE, torch.tensor(number)), others, dynamic_axes=ROWS)
    assert not any(READ_OUT in each for each in program.warnings)


def _clamped(x: Tensor, n: Tensor) -> Tensor:
    total = x.sum().item()
    if total < 2:
        factor = 1 if total < 1 else total
    else:
        factor = 2
    return x * factor


def _mean_or_one(x: Tensor, n: Tensor) -> Tensor:
    return x * (x.mean() if x.sum() < 2 else 1)


def _median(x: Tensor, n: Tensor) -> Tensor:
    return x * sorted([1, 2, x.sum().item()])[1]


@pytest.mark.parametrize("example", [0.0, 0.1, 1.0])
@pytest.mark.parametrize("model", [_clamped, _mean_or_one, _median], ids=_name)
def test_sides_with_numbers_of_other_kinds_keep_the_digits(model: Callable[..., Any], example: float) -> None:
    """A whole number on one side must not make one of the fraction on the other, or of a tensor."""
    row, n = torch.ones(3, 4), torch.tensor(0)
    others = [(row * each, n) for each in (-1.0, 0.0, 0.05, 0.1, 0.12, 0.15, 0.2, 2.0)]
    with warnings.catch_warnings():
        warnings.simplefilter("error", onward.CaptureWarning)
        check(model, (row * example, n), others)


def test_sides_whose_numbers_give_other_dtypes_are_warned_about() -> None:
    def model(x: Tensor, n: Tensor) -> Tensor:
        return x * (0.5 if x.sum() < 1 else 2)

    with pytest.warns(onward.CaptureWarning, match=f"{READ_OUT}.* tensors of different kinds"):
        check(model, (torch.ones(2, 3, dtype=torch.long), torch.tensor(0)), [])


def test_a_number_that_was_read_is_warned_about_where_a_size_was_recovered() -> None:
    """The program is made of a second run, which must not swallow what the first one said."""
    whole = int

    def model(x: Tensor, n: Tensor) -> Tensor:
        return x[: whole(x.shape[0] * 0.5)] * [1.0, 2.0, 3.0, 4.0][int(n)]

    with pytest.warns(onward.CaptureWarning, match=READ_OUT) as caught:
        program = check(model, EXAMPLE, [(draw(11, 4), torch.tensor(3))], dynamic_axes=ROWS)
    assert [str(each.message) for each in caught] == [each for each in program.warnings if READ_OUT in each]


def test_a_root_of_a_number_from_data_is_followed() -> None:
    def root(x: Tensor, n: Tensor) -> Tensor:
        return x * math.sqrt(int(n))

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check(root, EXAMPLE, [(draw(11, 4), torch.tensor(3)), (draw(2, 4), torch.tensor(7))], dynamic_axes=ROWS)


# --- the model's code ------------------------------------------------------------------------------------------------
def test_the_models_code_is_what_it_was_also_after_an_error() -> None:
    def refuses(x: Tensor, n: Tensor) -> Tensor:
        changed.append(refuses.__code__ is not before)
        raise ValueError(int(n))

    before, changed = refuses.__code__, list[bool]()
    with pytest.raises(onward.CaptureError, match="raised"):
        onward.export(refuses, EXAMPLE)
    assert changed[0] and refuses.__code__ is before
    assert not [name for name in vars(builtins) if "onward" in name]


def test_another_thread_gets_pythons_numbers() -> None:
    seen: list[Any] = []

    def asks(x: Tensor, n: Tensor) -> Tensor:
        thread = threading.Thread(target=lambda: seen.append(int(7.5)))
        thread.start()
        thread.join()
        return x[: int(n)]

    onward.export(asks, EXAMPLE)
    assert seen and all(type(each) is int and each == 7 for each in seen)


def test_only_calls_are_rewritten() -> None:
    def code(value: Any) -> Any:
        kinds = {int: "whole", float: "real"}
        return kinds[type(value)], value.int(), int(value), [float(each) for each in (value,)]

    called: set[str] = set()
    waiting = [_CALLS.rewritten(__file__, code.__code__)]
    for each in waiting:
        called |= {inner.__name__ for inner in each.co_consts if callable(inner)}
        waiting += [inner for inner in each.co_consts if isinstance(inner, types.CodeType)]
    assert called == {"int", "float", "type"}

    def without(value: Any) -> Any:
        return value + 1

    assert _CALLS.rewritten(__file__, without.__code__) is without.__code__
