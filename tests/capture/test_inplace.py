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


# --- views that a schema does not show -------------------------------------------------------------------------------
def turned_by_einsum(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    y, z = x.clone(), x.clone()
    turned, square = torch.einsum("ij->ji", y), torch.einsum("ii->i", z[:4, :4])
    y[:1] *= 2
    turned[1:] -= 1
    square.zero_()
    return turned * y.mean(), z


def grids(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    y = x[:, 0].clone()
    rows, _ = torch.meshgrid(y, torch.arange(3.0), indexing="xy")
    y += 1
    (alone,) = torch.meshgrid(y, indexing="ij")
    alone[1:] *= 3
    return rows * 1, y


def parts_that_forget_where_they_come_from(x: torch.Tensor) -> torch.Tensor:
    y = x.clone()
    first, second = torch.unsafe_chunk(y, 2)
    y += 1
    second.mul_(first.sum())
    torch.unsafe_split(y, 1, 1)[3].sub_(5)
    torch.unsafe_split_with_sizes(y, [3, 1], 1)[0].abs_()
    return y


def conjugates(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    y = torch.view_as_complex(x.reshape(-1, 2, 2).clone())
    mirrored, imaginary, adjoint = y.conj(), y.conj().imag, y.mT.conj()
    y.add_(1 + 2j)
    copy, resolved = mirrored * 1, mirrored.resolve_conj()
    mirrored[1:].mul_(2 - 1j)
    adjoint[0] += 3j
    return tuple(map(torch.view_as_real, (y, copy, resolved, mirrored * 1, adjoint * 1))) + (imaginary * 1,)


FUNCTIONS = [
    turned_by_einsum, grids, parts_that_forget_where_they_come_from, conjugates,
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


def written_after_a_sum_to_a_size(x: torch.Tensor) -> torch.Tensor:
    y = x.clone()
    other = y.sum_to_size(1, 6, 4)
    y += 1
    return other


class Called(torch.nn.Module):
    def __init__(self, function: Any) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.function(x)


@pytest.mark.parametrize(
    "function", [written_through_a_reshape, written_after_contiguous, written_after_a_sum_to_a_size]
)
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


def test_a_write_to_overlapping_windows_is_refused() -> None:
    """PyTorch's own result depends on the order in which its kernel writes; one number for all does not."""

    def squashed(x: torch.Tensor) -> torch.Tensor:
        windows = x.unfold(-1, 2, 1)
        windows.tanh_()
        return windows

    def emptied(x: torch.Tensor) -> torch.Tensor:
        y = x * 1
        y.unfold(-1, 2, 1).zero_()
        return y

    with pytest.raises(onward.CaptureError, match="elements share memory"):
        onward.export(squashed, torch.randn(5))
    onward.export(emptied, torch.randn(5), verify=True, allow_constant_outputs=True)


class _EitherMemory(torch.nn.Module):
    def forward(self, x: torch.Tensor, twice: bool) -> torch.Tensor:
        y = x
        if x.sum() > 0:
            y = x * 2
        if twice:
            y.mul_(3)
            return x + 1
        x[0].mul_(3)
        return y


@pytest.mark.parametrize("twice", [True, False])
def test_memory_that_is_the_same_on_one_side_of_a_branch_is_not_read_after_a_write(twice: bool) -> None:
    with pytest.raises(onward.CaptureError, match=r"same memory as another one on one side of a branch .*\.py:[0-9]+"):
        onward.export(torch.jit.script(_EitherMemory()), (torch.randn(3, 2), twice))


def test_a_write_after_a_branch_that_nobody_sees_is_kept() -> None:
    @torch.jit.script
    def function(x: torch.Tensor) -> torch.Tensor:
        y = x
        if x.sum() > 0:
            y = x * 2
        y = y + 1
        y.mul_(3)
        return y

    onward.export(function, torch.randn(3, 2), verify=True)
