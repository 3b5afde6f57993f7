"""Views and in-place writes: the program is functional, its meaning is PyTorch's, and the caller's tensors stay."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
import torch
from torch import fx

import onward
from onward.capture import CapturedProgram, CaptureWarning

from .tracing import ops, traced


def interpret(program: CapturedProgram, *inputs: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Run the captured graph in PyTorch."""
    root = torch.nn.Module()
    graph = fx.Graph()
    values: dict[fx.Node, fx.Node] = {}
    for node in program.graph.nodes:
        if node.op == "get_attr":
            name = str(node.target).replace(".", "_")
            root.register_buffer(name, program.constants[str(node.target)].tensor.clone())
            values[node] = graph.create_node("get_attr", name)
        else:
            values[node] = graph.node_copy(node, lambda old: values[old])
    return fx.GraphModule(root, graph)(*inputs)


def add_in_place(x: torch.Tensor) -> torch.Tensor:
    y = x * 2
    y.add_(1)
    return y


def through_slice(x: torch.Tensor) -> torch.Tensor:
    y = x * 1
    y[1:3] = 7
    y[:, 1].mul_(3)
    return y


def through_select_and_transpose(x: torch.Tensor) -> torch.Tensor:
    y = x.clone()
    y.t()[0].copy_(torch.arange(y.shape[0]))
    return y


def through_view(x: torch.Tensor) -> torch.Tensor:
    y = x.clone()
    y.view(-1)[::2] = 0
    return y


def alias_sees_write(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    y = x.clone()
    row, flat = y[1], y.view(-1)
    y += 1
    flat[0] = -5
    return row * 1, y[0]


def broadcast_together(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    y = x.clone()
    both = torch.broadcast_tensors(y, y[:1])
    both[0].relu_()
    return y, both[1]


def unbound(x: torch.Tensor) -> torch.Tensor:
    y = x.clone()
    for row in y.unbind(1):
        row.add_(row.sum())
    return y


def split(x: torch.Tensor) -> torch.Tensor:
    y = x.clone()
    left, right = y.split([1, 3], dim=1)
    right.zero_()
    left.fill_(4)
    return y


def plain_memory(x: torch.Tensor) -> torch.Tensor:
    table = torch.zeros(3, 4)
    rows = table[1:]
    table[0] = x[0]
    rows[1].add_(x[1])
    return table + 1


def input_itself(x: torch.Tensor) -> torch.Tensor:
    x[0] = 0
    return x.relu_()


def other_dtype(x: torch.Tensor) -> torch.Tensor:
    y = torch.zeros_like(x, dtype=torch.int32)
    y.copy_(x * 10)
    y[0] = 2.7
    return y


def mask(x: torch.Tensor) -> torch.Tensor:
    y = x.clone()
    y[y > 0] = -1
    y.masked_fill_(y < -1, 0)
    return y


def constant_changes_later(x: torch.Tensor) -> torch.Tensor:
    c = torch.ones(4)
    first = x + c
    c += 5
    return first + x * c


def at_a_size(x: torch.Tensor) -> torch.Tensor:
    y = x.clone()
    y[x.shape[0] // 2] = x[x.shape[0] - 1] * 2
    y[..., x.shape[0] // 3, None, 1] += 7
    return y


# --- found by test_inplace_programs.py -------------------------------------------------------------------------------
def input_turned_in_place(x: torch.Tensor) -> torch.Tensor:
    x.unsqueeze_(1)
    return x * 2


def flag_as_an_index(x: torch.Tensor) -> torch.Tensor:
    y = x.sum()
    y[y > 0] = 3
    z = x.clone()
    z[z.sum() > 0, 1:] = 5
    return torch.cat([y[y > 2], z.flatten()])


def one_element_with_a_stride_of_its_own(x: torch.Tensor) -> torch.Tensor:
    y = torch.zeros(5)[::3][1:].expand(1)
    return torch.where(x > 0, y, x).flip(0).sum().flip(())


def one_part_again_after_a_write_to_another(x: torch.Tensor) -> torch.Tensor:
    y = x.clone()
    first, second = y.chunk(2, 0)
    first.add_(1)
    second.mul_(2)
    return torch.cat([second, first])


def plain_memory_turned_in_place(x: torch.Tensor) -> torch.Tensor:
    y = torch.zeros(3, 4)
    y.add_(x.sum())
    y[0] = 1
    y.transpose_(0, 1)
    y[0] = 2
    return y


def narrow_from_the_end(x: torch.Tensor) -> torch.Tensor:
    y = x.clone()
    y.narrow(0, -2, 2).zero_()
    return y


FUNCTIONS = [
    add_in_place, through_slice, through_select_and_transpose, through_view, alias_sees_write, unbound, split,
    broadcast_together,
    plain_memory, input_itself, other_dtype, mask, constant_changes_later, at_a_size,
    input_turned_in_place, flag_as_an_index, one_element_with_a_stride_of_its_own,
    one_part_again_after_a_write_to_another, narrow_from_the_end, plain_memory_turned_in_place,
]  # fmt: skip


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
@pytest.mark.parametrize("rows", [4, 6])
def test_writes_mean_what_they_mean_in_pytorch(function: Any, rows: int) -> None:
    x = torch.randn(rows, 4)
    before = x.clone()
    program = traced(function, x, {"x": {0: "rows"}})
    assert torch.equal(x, before), "the example was changed"
    for node in program.graph.nodes:
        if isinstance(node.target, torch._ops.OpOverload):
            assert not node.target._schema.is_mutable
    for count in (rows, 5):
        other = torch.randn(count, 4)
        wanted = function(other.clone())
        wanted = wanted if isinstance(wanted, tuple) else (wanted,)
        for want, got in zip(wanted, interpret(program, other.clone()), strict=True):
            torch.testing.assert_close(got, want)


def test_a_reshape_that_is_a_view_by_chance_is_a_branch_on_the_size() -> None:
    def flattened(x: torch.Tensor) -> torch.Tensor:
        y = x * 1
        y.t().reshape(-1).zero_()  # with one row, and only then, this is a view
        return y

    with pytest.raises(onward.errors.FrozenAxisError, match="`rows == 1` became True"):
        traced(flattened, torch.ones(1, 4), {"x": {0: "rows"}})
    program = traced(flattened, torch.ones(2, 4), {"x": {0: "rows"}})
    other = torch.randn(3, 4)
    assert torch.equal(interpret(program, other)[0], flattened(other))


class Counter(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("count", torch.zeros(2))
        self.weight = torch.nn.Parameter(torch.ones(2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.count += 1
        self.count[0] = x.sum()
        with torch.no_grad():
            self.weight.mul_(2)
        return x * self.count + self.weight


def test_buffers_and_parameters_are_left_alone() -> None:
    model = Counter()
    program = traced(model, torch.tensor([1.0, 2.0]))
    assert model.count.tolist() == [0, 0]
    assert model.weight.tolist() == [1, 1]
    (result,) = interpret(program, torch.tensor([1.0, 2.0]))
    assert result.tolist() == [1 * 3 + 2, 2 * 1 + 2]


def test_batch_norm_in_training_does_not_move_its_statistics() -> None:
    norm = torch.nn.BatchNorm1d(3)
    with pytest.warns(CaptureWarning, match="running statistics of the model are updated"):
        traced(norm.train(), torch.randn(4, 3))
    assert norm.running_mean.tolist() == [0, 0, 0]
    assert norm.num_batches_tracked.item() == 0


def test_dropout_in_place_is_nothing_in_evaluation() -> None:
    program = traced(lambda x: torch.nn.functional.dropout(x * 2, 0.5, training=False, inplace=True), torch.randn(2, 3))
    assert ops(program) == ["aten.mul.Tensor"]


class _Shared(torch.nn.Module):
    """Two buffers in one piece of memory."""

    def __init__(self, forward: Any) -> None:
        super().__init__()
        cache = torch.arange(8.0).reshape(2, 4)
        self.register_buffer("cache", cache)
        self.register_buffer("part", cache[1])
        self._forward = forward

    def forward(self, x: torch.Tensor) -> Any:
        return self._forward(self.cache, self.part, x)


@pytest.mark.filterwarnings("ignore::onward.CaptureWarning")
@pytest.mark.parametrize(
    "forward",
    [
        lambda cache, part, x: (part.add_(x), cache * 2)[1],
        lambda cache, part, x: (cache.add_(x), part * 2)[1],
        lambda cache, part, x: (part * 1, cache.add_(x), part * 2)[2],
        lambda cache, part, x: (cache * 1, part * 3, part.mul_(x), cache * 2, part + 1)[1:],
    ],
)
def test_buffers_in_one_piece_of_memory_see_each_others_writes(forward: Any) -> None:
    x = torch.randn(4)
    program = onward.export(_Shared(forward), x, allow_constant_outputs=True)
    found, wanted = program(x), _Shared(forward)(x)
    torch.testing.assert_close(found, wanted)


def written_through_a_reshape(x: torch.Tensor) -> torch.Tensor:
    turned = x.transpose(1, 0).clone()
    turned.reshape(-1)[-1] = 1.25
    return turned


def written_after_contiguous(x: torch.Tensor) -> torch.Tensor:
    turned = x.transpose(1, 0).clone()
    other = turned.contiguous()
    turned += 1
    return other


class Called(torch.nn.Module):
    def __init__(self, function: Any) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.function(x)


@pytest.mark.parametrize("function", [written_through_a_reshape, written_after_contiguous])
def test_a_write_that_reaches_a_copy_only_at_size_1_is_told(function: Any) -> None:
    """At size 1 the copy is a view. With an example of 1, the file would be wrong at its own example."""
    options = {"input_names": ["x"], "dynamic_axes": {"x": {0: "batch"}}, "verify": False}
    with pytest.warns(onward.CaptureWarning, match="`batch == 1` is False, and batch = 1"):
        exported = onward.export(Called(function), (torch.randn(2, 6, 4),), **options)
    x = torch.randn(5, 6, 4)
    torch.testing.assert_close(exported(x), function(x.clone()))
    with pytest.raises(onward.errors.FrozenAxisError):
        onward.export(Called(function), (torch.randn(1, 6, 4),), **options)


def test_a_write_to_a_copy_of_what_nobody_has_any_more_is_told_to_nobody() -> None:
    def harmless(x: torch.Tensor) -> torch.Tensor:
        flat = x.clone().transpose(1, 0).reshape(6, -1)
        flat += 1
        return flat

    for size in (1, 2):
        with warnings.catch_warnings():
            warnings.simplefilter("error", onward.CaptureWarning)
            exported = onward.export(
                Called(harmless), (torch.randn(size, 6, 4),), input_names=["x"], dynamic_axes={"x": {0: "batch"}}
            )
        for other in (1, 3):
            x = torch.randn(other, 6, 4)
            torch.testing.assert_close(exported(x), harmless(x.clone()))
