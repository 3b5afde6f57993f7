"""What a branch or a loop returns may be memory from outside: a write that would have to show there is refused."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import onward

Tensor = torch.Tensor


def no_turn(x: Tensor) -> tuple[Tensor, Tensor]:
    y = x * 2
    z = y
    n = x.size(0)
    while n > 3:
        z = z - z.mean()
        n = n // 2
    z.T[0] = 1.0
    return y, z


def turns_by_data(x: Tensor) -> tuple[Tensor, Tensor]:
    y = x * 2
    z = y
    while bool(z.sum() > 5):
        z = z - 1
    y[0] = 1.0
    return y, z


def branches_in_a_row(x: Tensor) -> tuple[Tensor, Tensor]:
    y = x * 2
    z = y
    for i in range(3):
        if bool(x[0, i] > 0):
            z = z - 1
    z.mul_(2)
    return y, z


def a_branch_in_a_branch(x: Tensor) -> tuple[Tensor, Tensor]:
    y = x * 2
    z = y
    if bool(x.sum() > 0):
        if bool(x[0, 0] > 0.5):
            z = y + 1
    else:
        z = y + 2
    z.mul_(2)
    return y, z


def the_first_turn_writes(x: Tensor) -> tuple[Tensor, Tensor]:
    y = x * 2
    z = y
    for _ in range(x.size(0)):
        z.add_(1)
        z = z * 2
    return y, z


def values_change_places(x: Tensor) -> tuple[Tensor, Tensor]:
    one, other = x * 2, x * 3
    y, z = one, other
    for _ in range(x.size(0)):
        one, other = other, one
    one.add_(1)
    return y, z


def two_values_in_one_new_memory(x: Tensor) -> tuple[Tensor, Tensor]:
    if bool(x.sum() > 0):
        y = x * 2
        z = y
    else:
        y = x * 3
        z = y
    y.add_(1)
    return y, z


def two_carried_values_in_one_memory(x: Tensor) -> tuple[Tensor, Tensor]:
    y = x * 2
    z = y
    for _ in range(x.size(0)):
        y.add_(1)
        z = z - y
        y = y * 2
    return y, z


def the_last_row(x: Tensor) -> Tensor:
    y = x * 2
    last = x[0]
    for i in range(x.size(0)):
        last = y[i]
    last.add_(1)
    return y


@pytest.mark.parametrize(
    "function",
    [
        no_turn, turns_by_data, branches_in_a_row, a_branch_in_a_branch, the_first_turn_writes, values_change_places,
        two_values_in_one_new_memory, two_carried_values_in_one_memory, the_last_row,
    ],
)  # fmt: skip
def test_a_write_that_shows_or_not_is_refused(function: object) -> None:
    with pytest.raises(onward.CaptureError, match=r"same memory as another one .*turns of a loop.*\.py:[0-9]+"):
        onward.export(torch.jit.script(function), torch.randn(3, 4), dynamic_axes={"x": {0: "batch"}})


def carried_memory_is_new(x: Tensor) -> tuple[Tensor, Tensor]:
    first = x.sum(0)
    y, all_of_them = first, torch.zeros_like(x)
    for i in range(x.size(0)):
        y = (y + x[i]).tanh_()
        y[0] = 1
        all_of_them[i] = y
    y.mul_(2)
    return y + first, all_of_them


def the_old_value_is_not_read(x: Tensor) -> tuple[Tensor, Tensor]:
    y = x * 2
    while bool(y.sum() > 3):
        y = y.sub_(1)
    y.mul_(2)
    return x, y


def either_of_two_is_read_no_more(x: Tensor) -> tuple[Tensor, Tensor]:
    y, z = x * 2, x * 3
    total = (y if bool(x.sum() > 0) else z).sum()
    y.add_(1)
    return y + total, z


def rows_are_put_together(x: Tensor) -> tuple[Tensor, Tensor]:
    y = torch.zeros(4)
    rows = []
    for i in range(x.size(0)):
        y = y + x[i]
        y.mul_(2)
        rows.append(y)
    together = torch.stack(rows)
    together.mul_(2)
    y.add_(1)
    return together, y


def rows_are_read_after_a_write_to_all_of_them(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    y = torch.zeros(4)
    rows = []
    for i in range(x.size(0)):
        y = y + x[i]
        rows.append(y)
    together = torch.stack(rows, 1)
    together.mul_(3)
    return together, rows[0] + 1, rows[-1] * 2


def parts_are_put_together(x: Tensor) -> tuple[Tensor, Tensor]:
    together = torch.cat([part for part in x.split(1)])  # noqa: C416
    together.mul_(3)
    return together, x + 1


@pytest.mark.parametrize("scripted", [True, False])
@pytest.mark.parametrize(
    "function",
    [
        carried_memory_is_new, the_old_value_is_not_read, either_of_two_is_read_no_more, rows_are_put_together,
        rows_are_read_after_a_write_to_all_of_them, parts_are_put_together,
    ],
)  # fmt: skip
def test_a_write_to_new_memory_is_kept(function: Any, scripted: bool) -> None:
    x = torch.rand(3, 4, generator=torch.Generator().manual_seed(0))
    given = torch.jit.script(function) if scripted else function
    program = onward.export(given, x, dynamic_axes={"x": {0: "batch"}}, verify=True)
    for size in (1, 5):
        x = torch.rand(size, 4, generator=torch.Generator().manual_seed(size))
        torch.testing.assert_close(tuple(program(x.clone())), function(x.clone()))


def rows_that_are_written_to(x: Tensor) -> Tensor:
    y = x * 2
    rows = []
    for i in range(x.size(0)):
        rows.append(y[i])
    y.add_(1)
    return torch.stack(rows)


def the_next_turn_writes(x: Tensor) -> Tensor:
    y = torch.zeros(4)
    rows = []
    for i in range(x.size(0)):
        y.add_(x[i])
        y = y * 2
        rows.append(y)
    return torch.stack(rows)


def the_last_of_a_list(x: Tensor) -> tuple[Tensor, Tensor]:
    y = torch.zeros(4)
    rows = []
    for i in range(x.size(0)):
        y = y + x[i]
        rows.append(y)
    y.add_(1)
    return torch.stack(rows), y


@pytest.mark.parametrize("scripted", [True, False])
@pytest.mark.parametrize("function", [the_last_row, rows_that_are_written_to, the_next_turn_writes, the_last_of_a_list])
def test_what_turns_leave_is_not_read_after_a_write(function: Any, scripted: bool) -> None:
    given = torch.jit.script(function) if scripted else function
    told = "same memory as another one|writes in place to a tensor of a list" if scripted else "is frozen by the model"
    with pytest.raises(onward.ExportError, match=told):
        onward.export(given, torch.rand(3, 4), dynamic_axes={"x": {0: "batch"}})


def test_a_loop_of_python_that_shows_or_not_is_not_kept() -> None:
    with pytest.warns(onward.CaptureWarning, match="same memory as another one"):
        onward.export(turns_by_data, torch.rand(3, 4))
