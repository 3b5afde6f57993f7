"""B4 in depth: control flow in control flow, nested operands, every kind of carried value, and wrong use."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch._higher_order_ops.associative_scan import associative_scan
from torch._higher_order_ops.map import map as torch_map
from torch._higher_order_ops.scan import scan
from torch._higher_order_ops.while_loop import while_loop

import onward
from tests.opsets import NEWEST

from .control import check, kinds

Tensor = torch.Tensor
WEIGHT = torch.linspace(-1, 1, 16).reshape(4, 4)


# --- torch.cond ------------------------------------------------------------------------------------------------------
def nested_operands(x: Tensor) -> Any:
    def yes(given: Any) -> Any:
        return {"a": given["p"][0] + 1, "b": (given["q"],)}

    def no(given: Any) -> Any:
        return {"a": given["p"][0] * 2, "b": (given["q"] - 1,)}

    return torch.cond(x.sum() > 0, yes, no, ({"p": [x], "q": x * 3},))


def nested_operands_eager(x: Tensor) -> Any:
    return {"a": x + 1, "b": (x * 3,)} if x.sum() > 0 else {"a": x * 2, "b": (x * 3 - 1,)}


def one_element(x: Tensor) -> Tensor:
    return torch.cond((x.sum() > 0).reshape(1), lambda x: x + 1, lambda x: x * 2, (x,))


def on_a_size(x: Tensor) -> Tensor:
    return torch.cond(torch.sym_not(x.shape[0] > 3), lambda x: x + 1, lambda x: x * 2, (x,))


def writes(x: Tensor) -> Tensor:
    def yes(x: Tensor) -> Tensor:
        return x.clone().add_(1).mul_(x)

    def no(x: Tensor) -> Tensor:
        y = x.clone()
        y[0] = 3
        return y

    return torch.cond(x.sum() > 0, yes, no, (x,))


def writes_eager(x: Tensor) -> Tensor:
    return (x + 1) * x if x.sum() > 0 else torch.cat([torch.full((1, 4), 3.0), x[1:]])


def of_different_size(x: Tensor) -> Tensor:
    part = torch.cond(x.sum() > 0, lambda x: x[:1], lambda x: torch.cat([x, x]), (x.half(),))
    return part.float().sum(0) * part.shape[0]


def of_different_size_eager(x: Tensor) -> Tensor:
    part = x.half()[:1] if x.sum() > 0 else torch.cat([x, x]).half()
    return part.float().sum(0) * part.shape[0]


# --- while_loop ------------------------------------------------------------------------------------------------------
def mixed_carried(x: Tensor) -> Any:
    def going(half: Tensor, on: Tensor, count: Tensor) -> Tensor:
        return (count < 4) & on

    def body(half: Tensor, on: Tensor, count: Tensor) -> Any:
        return half * 2, (half.sum() < 20) & on, count + 1

    return while_loop(going, body, (x.half(), torch.tensor(True), torch.tensor(0)))


def nested_carried(x: Tensor) -> Any:
    def body(state: Any) -> Any:
        return ({"count": state["count"] + 1, "values": (state["values"][0] * 2,)},)

    return while_loop(lambda state: state["count"] < 3, body, ({"count": torch.tensor(0), "values": (x,)},))


def over_rows(x: Tensor) -> Any:
    """A carried tensor as an index, the limit a size."""
    return while_loop(
        lambda i, y: i < x.shape[0], lambda i, y: (i + 1, y @ WEIGHT + x[i]), (torch.tensor(0), torch.zeros(4))
    )


def over_rows_eager(x: Tensor) -> Any:
    y = torch.zeros(4)
    for row in x:
        y = y @ WEIGHT + row
    return torch.tensor(len(x)), y


def loops_in_a_branch_in_a_loop(x: Tensor) -> Any:
    def inner(y: Tensor) -> Tensor:
        return while_loop(lambda j, z: j < 2, lambda j, z: (j + 1, z + x), (torch.tensor(0), y))[1]

    def body(i: Tensor, y: Tensor) -> Any:
        return i + 1, torch.cond(y.sum() > 10, lambda y: inner(y) * 2, lambda y: inner(y) + 1, (y,))

    return while_loop(lambda i, y: (i < 6) & (y.sum() < 50), body, (torch.tensor(0), x))


def loops_in_a_branch_in_a_loop_eager(x: Tensor) -> Any:
    count, y = 0, x
    while count < 6 and y.sum() < 50:
        z = y + x + x
        y, count = z * 2 if y.sum() > 10 else z + 1, count + 1
    return torch.tensor(count), y


def writes_in_a_loop(x: Tensor) -> Any:
    def body(i: Tensor, y: Tensor) -> Any:
        y = y.clone()
        y[0] += 1
        y[:, 1:3].mul_(1.5)
        return i + 1, y

    return while_loop(lambda i, y: i < 3, body, (torch.tensor(0), x))


def writes_in_a_loop_eager(x: Tensor) -> Any:
    y = x.clone()
    for _ in range(3):
        y[0] += 1
        y[:, 1:3] *= 1.5
    return torch.tensor(3), y


def grows(x: Tensor) -> Any:
    return while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, torch.cat([y, y])), (torch.tensor(0), x))


# --- scan, map, associative_scan -------------------------------------------------------------------------------------
def _steps(x: Tensor, reverse: bool) -> Any:
    state, found = torch.zeros(4), []
    for row in x.flip(0) if reverse else x:
        found.append(state + row)
        state = state * 0.5 + row
    stacked = torch.stack(found)
    return state, stacked.flip(0) if reverse else stacked


def _scan(x: Tensor, **options: Any) -> Any:
    return scan(lambda state, row: (state * 0.5 + row, state + row), torch.zeros(4), x, **options)


def nested_scan(x: Tensor) -> Any:
    def step(carried: Any, row: Any) -> Any:
        state = {"sum": carried["sum"] + row["p"][0], "odd": carried["odd"] ^ True}
        return state, {"product": carried["sum"] * row["q"], "none": None, "odd": state["odd"].clone()}

    return scan(step, {"sum": torch.zeros(4), "odd": torch.tensor(False)}, {"p": (x,), "q": x * 2})


def nested_scan_eager(x: Tensor) -> Any:
    turns = torch.arange(1, len(x) + 1)
    carried = {"sum": x.sum(0), "odd": turns[-1] % 2 == 1}
    return carried, {"product": (x.cumsum(0) - x) * x * 2, "none": None, "odd": turns % 2 == 1}


def closes_over(x: Tensor) -> Any:
    rows, mean = x.shape[0], x.mean(0)
    return scan(lambda state, row: (torch.tanh(state @ WEIGHT + row * rows), state + mean), x[0], x)


def closes_over_eager(x: Tensor) -> Any:
    state, found = x[0], []
    for row in x:
        found.append(state + x.mean(0))
        state = torch.tanh(state @ WEIGHT + row * len(x))
    return state, torch.stack(found)


def scan_in_a_scan(x: Tensor) -> Any:
    def step(total: Tensor, row: Tensor) -> Any:
        inner, _ = scan(lambda a, b: (a * 0.9 + b, a * b), torch.zeros(()), row)
        return torch.cond(inner > 0, lambda: total + inner, lambda: total - inner), total.clone()

    return scan(step, torch.zeros(()), x)


def scan_in_a_scan_eager(x: Tensor) -> Any:
    total, found = torch.zeros(()), []
    for row in x:
        inner = torch.zeros(())
        for each in row:
            inner = inner * 0.9 + each
        found.append(total)
        total = total + inner.abs()
    return total, torch.stack(found)


def nested_map(x: Tensor) -> Any:
    def each(given: Any, bias: Tensor) -> Any:
        return {"a": given["x"] + bias, "b": torch_map(lambda e: e * 2 + 1, given["z"]).sum()}

    return torch_map(each, {"x": x, "z": x * 3}, torch.ones(4))


def linear_recurrence(x: Tensor) -> Any:
    def combine(first: Any, second: Any) -> Any:
        return {"m": first["m"] * second["m"], "s": first["s"] * second["m"] + second["s"]}

    return associative_scan(combine, {"m": x, "s": x + 1}, dim=0, combine_mode="generic")


def linear_recurrence_eager(x: Tensor) -> Any:
    sums = [x[0] + 1]
    for row in x[1:]:
        sums.append(sums[-1] * row + row + 1)
    return {"m": x.cumprod(0), "s": torch.stack(sums)}


CASES: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "cond: nested operands": (nested_operands, nested_operands_eager),
    "cond: one element": (one_element, lambda x: x + 1 if x.sum() > 0 else x * 2),
    "cond: a size decides": (on_a_size, lambda x: x * 2 if len(x) > 3 else x + 1),
    "cond: writes": (writes, writes_eager),
    "cond: different sizes": (of_different_size, of_different_size_eager),
    "while: half, bool, int64": (mixed_carried, mixed_carried),
    "while: nested": (nested_carried, lambda x: ({"count": torch.tensor(3), "values": (x * 8,)},)),
    "while: over rows": (over_rows, over_rows_eager),
    "while: nested in cond in while": (loops_in_a_branch_in_a_loop, loops_in_a_branch_in_a_loop_eager),
    "while: writes": (writes_in_a_loop, writes_in_a_loop_eager),
    "while: grows": (grows, lambda x: (torch.tensor(3), torch.cat([x] * 8))),
    "scan: reverse": (lambda x: _scan(x, reverse=True), lambda x: _steps(x, True)),
    "scan: dim": (lambda x: _scan(x.T, dim=1)[1], lambda x: _steps(x, False)[1].T),
    "scan: nested": (nested_scan, nested_scan_eager),
    "scan: closes over": (closes_over, closes_over_eager),
    "scan: in a scan": (scan_in_a_scan, scan_in_a_scan_eager),
    "map: nested": (nested_map, lambda x: {"a": x + 1, "b": (x * 6 + 1).sum(1)}),
    "associative_scan: nested": (linear_recurrence, linear_recurrence_eager),
}


@pytest.mark.parametrize("opset", (9, 13, 17, 20, NEWEST))
@pytest.mark.parametrize("case", CASES)
def test_control_flow(case: str, opset: int) -> None:
    model, eager = CASES[case]
    generator = torch.Generator().manual_seed(0)
    others = [(torch.randn(rows, 4, generator=generator),) for rows in (1, 2, 7)]
    others += [(torch.full((5, 4), -0.7),), (torch.full((2, 4), 2.0),), (torch.full((3, 4), 0.1),)]
    names = {"verify": False, "opset_version": opset, "dynamic_axes": {"x": {0: "n"}}}
    program = onward.export(model, (torch.randn(3, 4, generator=generator),), input_names=["x"], **names)
    program.check()
    for inputs in others:
        torch.testing.assert_close(program(*inputs), eager(*inputs), rtol=1e-3, atol=1e-4)
    expected = "If" if case.startswith("cond") else "Loop"
    assert kinds(program).count(expected) == 1


def test_no_turn_at_all() -> None:
    program = check(
        lambda x: while_loop(lambda i, y: i < x.sum(), lambda i, y: (i + 1, y * 2), (torch.tensor(0), x)),
        (torch.ones(2),),
        [(torch.zeros(3),), (torch.full((2,), 2.0),)],
        reference=lambda x: (x.sum().long(), x * 2 ** x.sum()),
        dynamic_axes={"x": {0: "n"}},
    )
    assert program.outputs[1].shape == ("n",)


def test_an_integer_is_carried() -> None:
    def powers(x: Tensor) -> Any:
        return while_loop(lambda i, y: i < 5, lambda i, y: (i + 1, y * 2), (0, x))

    program = onward.export(powers, (torch.ones(2),), dynamic_axes={"x": {0: "n"}})
    count, result = program(torch.ones(3))
    assert int(count) == 5 and torch.equal(result, torch.full((3,), 32.0))


def test_a_predicate_of_python_is_decided_at_once() -> None:
    def one_side(x: Tensor) -> Tensor:
        return torch.cond(x.dim() == 2, lambda x: x + torch.zeros(x.shape[0], 1), lambda x: x * 2, (x,))

    with pytest.warns(UserWarning, match="Pred is a Python constant"):
        program = onward.export(one_side, (torch.randn(2, 4),), dynamic_axes={"x": {0: "n"}})
    assert "If" not in kinds(program)
    x = torch.randn(5, 4)
    torch.testing.assert_close(program(x), x)


# --- wrong use -------------------------------------------------------------------------------------------------------
def changes_dtype(x: Tensor) -> Any:
    return while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, y.double()), (torch.tensor(0), x))


def changes_structure(x: Tensor) -> Any:
    return while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, y, y), (torch.tensor(0), x))


def different_structures(x: Tensor) -> Any:
    return torch.cond(x.sum() > 0, lambda x: (x, x), lambda x: x, (x,))


def many_elements(x: Tensor) -> Any:
    return torch.cond(x > 0, lambda x: x, lambda x: -x, (x,))


MISUSED = {
    changes_dtype: "the loop turns a carried tensor float32[2] into float64[2]\n  at {line}\n"
    "  give it its dtype and its number of axes before the loop",
    changes_structure: "the loop's body returns another structure than it is given\n  at {line}\n"
    "  carry the same values on",
    different_structures: "the two branches return different structures\n  at {line}\n"
    "  return the same structure from both",
}


@pytest.mark.parametrize("model", MISUSED, ids=lambda model: model.__name__)
def test_wrong_use(model: Any) -> None:
    with pytest.raises(onward.CaptureError) as caught:
        onward.export(model, (torch.ones(2),))
    line = f"{__file__}:{model.__code__.co_firstlineno + 1}"
    assert str(caught.value) == MISUSED[model].format(line=line)


def test_a_predicate_with_many_elements() -> None:
    with pytest.raises(onward.CaptureError, match="Expected pred to be bool or single-element tensor"):
        onward.export(many_elements, (torch.ones(2),))
