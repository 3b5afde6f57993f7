"""C2: tensor lists, of known length and of one that depends on data."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import onnx
import pytest
import torch

import onward

from .control import OPSETS, check, kinds

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


class Known(torch.nn.Module):
    """Lists of known length, taken apart and put together again."""

    def forward(self, x: torch.Tensor) -> list[torch.Tensor]:
        first, *rest = x.unbind(1)
        left, right = x.chunk(2, 2)
        parts = x.split([1, 2], 1)
        return [first, *(each * 2 for each in rest), left - right, *(part.sum(1) for part in parts)]


@pytest.mark.parametrize("opset", OPSETS)
def test_lists_of_known_length_in_a_traced_model(opset: int) -> None:
    axes = {"x": {0: "batch"}}
    program = check(Known(), (torch.randn(2, 3, 4),), [(torch.randn(5, 3, 4),)], dynamic_axes=axes, opset_version=opset)
    assert len(program.outputs) == 6


def unbind(x: torch.Tensor) -> torch.Tensor:
    return torch.stack([row * 2 for row in x.unbind(0)])


def split(x: torch.Tensor) -> torch.Tensor:
    return torch.cat([part * 2 for part in x.split(1)])


@pytest.mark.parametrize("function", [unbind, split])
def test_a_trace_takes_a_dynamic_axis_apart_and_puts_it_together(function: Callable[..., Any]) -> None:
    others = [(torch.randn(rows, 2),) for rows in (1, 2, 8)]
    program = check(function, (torch.randn(3, 2),), others, dynamic_axes={"x": {0: "batch"}})
    assert "Loop" in kinds(program)


def unbind_and_return(x: torch.Tensor) -> list[torch.Tensor]:
    return [row * 2 for row in x.unbind(0)]


def split_and_return(x: torch.Tensor) -> list[torch.Tensor]:
    return [part * 2 for part in x.split(1)]


@pytest.mark.parametrize("function", [unbind_and_return, split_and_return])
def test_a_trace_cannot_return_a_dynamic_axis_taken_apart_and_says_where(function: Callable[..., Any]) -> None:
    with pytest.raises(onward.CaptureError) as caught:
        onward.export(function, (torch.randn(3, 2),), dynamic_axes={"x": {0: "batch"}})
    assert "it returns 3 tensors at the example's sizes and" in str(caught.value)
    assert "test_c02_lists.py" in str(caught.value)


def stacked(x: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
    outs: list[torch.Tensor] = []
    for i in range(int(n)):
        outs.append(x * i)
    return torch.stack(outs)


def with_a_first_one(x: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
    outs = [x]
    for i in range(int(n)):
        outs.append(x - i)
    return torch.cat(outs, 1)


def looks_back(x: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
    outs = [x]
    for _ in range(int(n)):
        outs.append(outs[-1] * 2 + len(outs))
    return torch.cat(outs, -1)


def only_some(x: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
    outs: list[torch.Tensor] = []
    for i in range(int(n)):
        if i % 2 == 0:
            outs.append(x * i)
    return torch.stack([x] + outs).sum(0)


def two_a_turn(x: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
    outs: list[torch.Tensor] = []
    for i in range(int(n)):
        outs.append(x + i)
        outs += [x - i]
    return torch.stack(outs, 1)


def nested(x: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
    outs: list[torch.Tensor] = []
    for i in range(int(n)):
        for j in range(i):
            outs.append(x + i * j)
    total = torch.zeros_like(x)
    for each in outs:
        total = total * 2 + each
    return total + len(outs)


def numbers(x: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
    powers: list[int] = []
    power = 1
    for _ in range(int(n)):
        powers.append(power)
        power = power * 2
    total = 0
    for each in powers:
        total += each
    if 4 in powers:
        total = -total
    return x * total + torch.tensor(powers).sum()


def pairs(x: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
    hypotheses: list[tuple[torch.Tensor, int]] = []
    for i in range(int(n)):
        if bool(x.sum() > i):
            hypotheses.append((x + i, i))
        else:
            hypotheses.append((x - i, -i))
    y = torch.zeros_like(x)
    for tensor, number in hypotheses:
        y = y + tensor * number
    return y


def rebound(x: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
    outs: list[torch.Tensor] = []
    i = 0
    while i < int(n):
        if bool(x[0, 0] > i + 2):
            break
        outs = outs + [x + i]
        i += 1
    y = x
    if len(outs) > 0:
        y = outs[0] + outs[-1]
    return y


def changed_in_place(x: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
    outs = [x, x + 1, x + 2]
    for i in range(int(n)):
        outs[i % 3] = outs[(i + 1) % 3] * 2
    outs.pop()
    outs.insert(0, x)
    outs.reverse()
    return torch.stack(outs)


def a_stack_of_work(x: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
    work = [int(n)]
    done = 0
    while len(work) > 0:
        item = work.pop()
        done += item
        if item > 1:
            work.append(item // 2)
            work.append(item - item // 2 - 1)
    return x * done


def in_a_dict(x: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
    state = {"a": x, "b": x + 1}
    if bool(x.sum() > 0):
        state["a"] = x * 3
    for _ in range(int(n)):
        state["b"] = state["b"] + state["a"]
    return state["a"] + state["b"]


def rows_of_a_dynamic_axis(x: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
    y = torch.zeros_like(x[0])
    for row in x.unbind(0):
        y = y * 0.5 + row
    for row in x:
        y = y - row
    return y + n


FUNCTIONS = [
    stacked, with_a_first_one, looks_back, only_some, two_a_turn, nested, numbers, pairs, rebound, changed_in_place,
    a_stack_of_work, in_a_dict, rows_of_a_dynamic_axis,
]  # fmt: skip


@pytest.mark.parametrize("opset", (9, 13, 20))
@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda each: each.__name__)
def test_lists_whose_length_depends_on_data(function: Callable[..., Any], opset: int) -> None:
    torch.manual_seed(0)
    empty = function is not stacked and function is not two_a_turn
    others = [(torch.randn(rows, 3), torch.tensor(n)) for rows in (1, 4) for n in (1, 2, 6, *([0] if empty else []))]
    axes = {"x": {0: "batch"}}
    check(
        torch.jit.script(function),
        (torch.randn(2, 3), torch.tensor(3)),
        others,
        reference=function,
        dynamic_axes=axes,
        opset_version=opset,
    )


def test_a_list_that_is_only_appended_to_is_an_output_of_the_loop() -> None:
    program = onward.export(torch.jit.script(stacked), (torch.randn(2, 3), torch.tensor(3)))
    assert kinds(program) == ["Loop"]
    assert program.outputs[0].shape == ("turns_1", 2, 3)


def ragged(x: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
    outs = [x]
    for i in range(int(n)):
        outs.append(x[: i + 1])
    return torch.cat(outs)


def returned(x: torch.Tensor, n: torch.Tensor) -> list[torch.Tensor]:
    outs: list[torch.Tensor] = []
    for i in range(int(n)):
        outs.append(x * i)
    return outs


@pytest.mark.parametrize(("function", "first_opset"), [(ragged, 13), (returned, 11)])
@pytest.mark.parametrize("opset", OPSETS)
def test_a_list_that_is_no_tensor_is_a_sequence(function: Callable[..., Any], first_opset: int, opset: int) -> None:
    script, example, axes = torch.jit.script(function), (torch.randn(4, 3), torch.tensor(3)), {"x": {0: "batch"}}
    if opset < first_opset:
        with pytest.raises(onward.LoweringError) as caught:
            onward.export(script, example, dynamic_axes=axes, opset_version=opset)
        assert f"has no form in opset {opset} (exists from {first_opset})" in str(caught.value)
        assert f"try opset_version={first_opset}" in str(caught.value)
        assert "test_c02_lists.py" in str(caught.value)
        return
    others = [(torch.randn(rows, 3), torch.tensor(n)) for rows in (1, 6) for n in (0, 1, 5)]
    check(script, example, others, reference=function, dynamic_axes=axes, opset_version=opset)


def test_a_sequence_is_an_output_like_any_other(tmp_path: Path) -> None:
    script, example = torch.jit.script(returned), (torch.randn(4, 3), torch.tensor(3))
    program = onward.export(
        script, example, output_names=["outs"], dynamic_axes={"x": {0: "batch"}}, f=tmp_path / "model.onnx", verify=True
    )
    assert kinds(program) == ["Loop", "SplitToSequence"]
    assert str(program.outputs[0]) == "list of float32[batch, 3]"
    assert "outs: list of float32[batch, 3]" in repr(program)
    assert "%outs : Sequence[Float(batch, 3)] = onnx::SplitToSequence" in str(program)
    kind = onnx.load(tmp_path / "model.onnx").graph.output[0].type.sequence_type.elem_type.tensor_type
    assert [dim.dim_param or dim.dim_value for dim in kind.shape.dim] == ["batch", 3]
    named = {"x": example[0], "n": example[1]}
    onward.optimize(tmp_path / "model.onnx", output=tmp_path / "smaller.onnx", verify=True, inputs=named)
    assert [type(each) for each in program.with_outputs(["loop"])(*example).values()] == [list, torch.Tensor]


def written_after(x: torch.Tensor, n: torch.Tensor) -> list[torch.Tensor]:
    outs: list[torch.Tensor] = []
    y = x.clone()
    for _ in range(int(n)):
        outs.append(y)
        y += 1
    return outs


def written_before(x: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
    outs: list[torch.Tensor] = []
    y = x.clone()
    for _ in range(int(n)):
        y += 1
        outs.append(y)
    return torch.stack(outs)


def written_inside(x: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
    first = x.clone()
    [first, x[:1].clone()][int(n) - 3].add_(1)
    return first


@pytest.mark.parametrize(
    ("function", "turns"),
    [(written_after, 3), (written_before, 3), (written_inside, 3), (written_after, 1), (written_before, 1)],
    ids=lambda each: getattr(each, "__name__", str(each)),
)
def test_a_write_that_the_list_would_not_see_is_refused(function: Callable[..., Any], turns: int) -> None:
    with pytest.raises(onward.CaptureError) as caught:
        onward.export(torch.jit.script(function), (torch.randn(4, 3), torch.tensor(turns)))
    assert "writes in place to a tensor of a list whose length depends on data" in str(caught.value)
    assert "x.clone()" in str(caught.value)


def test_a_write_that_the_list_would_not_see_at_other_sizes_is_refused() -> None:
    """With one row there is one turn, and no write comes after what it appends."""

    def rows(x: torch.Tensor) -> torch.Tensor:
        outs: list[torch.Tensor] = []
        for i in range(x.size(0)):
            x.add_(1)
            outs.append(x[i])
        return torch.stack(outs)

    script = torch.jit.script(rows)
    with pytest.raises(onward.CaptureError, match="writes in place to a tensor of a list whose length depends on data"):
        onward.export(script, (torch.randn(1, 3),), dynamic_axes={"x": {0: "batch"}})


def copies(x: torch.Tensor, n: torch.Tensor) -> list[torch.Tensor]:
    outs: list[torch.Tensor] = []
    y = x.clone()
    for i in range(int(n)):
        outs.append(y[i:].clone())
        y += 1
    outs.append(x)
    outs[0] += 1
    return outs


def beyond_the_end(x: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
    outs = [x]
    for i in range(int(n)):
        outs.append(x[i:])
    return outs[5]


def test_a_write_to_a_copy_reaches_nobody_else_and_one_to_an_element_the_list() -> None:
    others = [(torch.randn(rows, 3), torch.tensor(n)) for rows in (1, 6) for n in (1, 5)]
    axes = {"x": {0: "batch"}}
    example = (torch.randn(4, 3), torch.tensor(3))
    check(torch.jit.script(copies), example, others, reference=lambda x, n: copies(x.clone(), n), dynamic_axes=axes)


def test_an_element_that_the_example_does_not_have_is_the_models_error() -> None:
    with pytest.raises(onward.CaptureError, match="raised RuntimeError in forward"):
        onward.export(torch.jit.script(beyond_the_end), (torch.randn(4, 3), torch.tensor(3)))


def tuples_returned(x: torch.Tensor, n: torch.Tensor) -> list[tuple[torch.Tensor, int]]:
    outs: list[tuple[torch.Tensor, int]] = []
    for i in range(int(n)):
        outs.append((x, i))
    return outs


def of_different_ranks(x: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
    outs = [x]
    for _ in range(int(n)):
        outs.append(x[0])
    return outs[-1]


def lists_of_lists(x: torch.Tensor, n: torch.Tensor) -> int:
    outs: list[list[torch.Tensor]] = []
    for i in range(int(n)):
        inner: list[torch.Tensor] = []
        for _ in range(i):
            inner.append(x)
        outs.append(inner)
    return len(outs)


def keys_from_data(x: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
    found = {1: x}
    for i in range(int(n)):
        found[i] = x + i
    return found[1]


def new_keys(x: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
    found = {"a": x}
    if bool(n > 2):
        found["b"] = x
    return found["a"] * len(found)


@pytest.mark.parametrize(
    ("function", "text"),
    [
        (of_different_ranks, "has no form in ONNX: its elements are float32[9, 3] and float32[3]"),
        (lists_of_lists, "has no form in ONNX: its elements are lists whose length depends on data"),
        (keys_from_data, "TorchScript's aten::_set_item is given a key of a dict that depends on data or on a size"),
        (tuples_returned, "a script returns a list of tuples whose length depends on data"),
        (new_keys, "a dict changes its structure inside a branch or a loop that depends on data: [a, b] becomes [a]"),
    ],
)
def test_what_has_no_form_is_refused_by_its_line(function: Callable[..., Any], text: str) -> None:
    with pytest.raises(onward.CaptureError) as caught:
        onward.export(torch.jit.script(function), (torch.randn(9, 3), torch.tensor(3)))
    assert text in str(caught.value)
    assert "test_c02_lists.py" in str(caught.value)


class Cuts(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(3, 3)

    def forward(self, x: torch.Tensor, n: torch.Tensor) -> list[torch.Tensor]:
        return list(self.linear(x).split(int(n)))


class Adds(torch.nn.Module):
    def forward(self, parts: list[torch.Tensor]) -> torch.Tensor:
        total = torch.zeros(3)
        for part in parts:
            total = total * 2 + part.sum(0)
        return total


class HandsOver(torch.nn.Module):
    """A list goes from one module to another."""

    def __init__(self) -> None:
        super().__init__()
        self.cuts, self.adds = torch.jit.script(Cuts()), torch.jit.script(Adds())

    def forward(self, x: torch.Tensor, n: torch.Tensor) -> tuple[torch.Tensor, list[torch.Tensor]]:
        parts = self.cuts(x, n)
        return self.adds(parts), parts


@pytest.mark.parametrize("opset", (15, 20))
def test_a_list_goes_in_and_out_of_functions(opset: int) -> None:
    example, others = (torch.randn(4, 3), torch.tensor(3)), [(torch.randn(7, 3), torch.tensor(2))]
    options = {"dynamic_axes": {"x": {0: "batch"}}, "opset_version": opset, "export_modules_as_functions": True}
    program = check(HandsOver().eval(), example, others, **options)
    assert len(program.model.functions) == 3  # the linear layer is one too
