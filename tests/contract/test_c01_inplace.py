"""C1: `data[index] = new` and every other in-place write, through any chain of views."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import onnx
import pytest
import torch
from torch import Tensor
from torch.nn import functional

import onward
from tests.opsets import NEWEST

from . import control
from .running import assert_same, run, tensors_in

ROWS = 6
OTHERS = (1 + ROWS, 10)
PLACES, TWICE = torch.tensor([1, 0]), torch.tensor([0, 0, 1])
ONES = torch.ones(3, 4)


def check(function: Callable[..., Any], opset: int = 20, others: Sequence[int] = OTHERS) -> None:
    """Export with a dynamic first axis; onnxruntime says what PyTorch says, and the example is as it was."""
    torch.manual_seed(0)
    x = torch.randn(ROWS, 4)
    before = x.clone()
    with warnings.catch_warnings():
        warnings.simplefilter("error", onward.CaptureWarning)
        # With one row, some copies are views, and writes to them reach the original; here are more rows.
        warnings.filterwarnings("ignore", ".*`rows == 1` is False", onward.CaptureWarning)
        proto = onward.export(function, x, dynamic_axes={"x": {0: "rows"}}, opset_version=opset).proto()
    assert torch.equal(x, before), "the export changed the caller's tensor"
    onnx.checker.check_model(proto, full_check=True)
    for rows in (ROWS, *others):
        other = torch.randn(rows, 4)
        wanted = list(tensors_in(function(other.clone())))
        got = run(proto.SerializeToString(), [other])
        assert [each.dtype for each in got] == [each.dtype for each in wanted]
        assert_same(got, wanted)


# --- views -----------------------------------------------------------------------------------------------------------
VIEWS: dict[str, Callable[[Tensor], Tensor]] = {
    "a slice": lambda y: y[1:4],
    "a slice with a step": lambda y: y[::2],
    "a slice with a step from 1": lambda y: y[1::3],
    "a slice from the end": lambda y: y[-3:-1],
    "a slice at a size": lambda y: y[y.shape[0] // 2 :],
    "a slice at a size with a step": lambda y: y[y.shape[0] // 2 :: 2],
    "a row": lambda y: y[1],
    "the last row": lambda y: y[-1],
    "a row at a size": lambda y: y[y.shape[0] // 2],
    "a column": lambda y: y[:, -1],
    "an element": lambda y: y[1][2],
    "new axes": lambda y: y[None, 1:, None, ::2],
    "transpose": lambda y: y.transpose(0, 1),
    "permute": lambda y: y.view(-1, 2, 2).permute(2, 0, 1),
    "movedim": lambda y: y.view(-1, 2, 2).movedim(0, 2)[1],
    "movedim of two": lambda y: y.view(-1, 2, 2).movedim((0, 1), (2, 0))[1],
    "swapaxes": lambda y: y.swapaxes(0, 1)[1:],
    "swapdims": lambda y: y.swapdims(0, 1)[1:],
    "T": lambda y: y.T[0],
    "mT": lambda y: y.mT[0],
    "H": lambda y: y.H[0],
    "adjoint": lambda y: y.adjoint()[0],
    "squeeze": lambda y: y[:1].squeeze(0),
    "squeeze of all": lambda y: y[:1].squeeze(),
    "squeeze of two": lambda y: y[:1, :1].squeeze((0, 1)),
    "unsqueeze": lambda y: y.unsqueeze(1)[:, :, 1:],
    "atleast_3d": lambda y: torch.atleast_3d(y)[:, :, 0],
    "flatten": lambda y: y.view(-1, 2, 2).flatten(1)[:, 1],
    "unflatten": lambda y: y.unflatten(1, (-1, 2))[:, 1],
    "view": lambda y: y.view(-1, 2)[1:],
    "view_as": lambda y: y.t().view_as(y.t())[1],
    "reshape that is a view": lambda y: y.reshape(-1)[::3],
    "reshape that copies": lambda y: y.t().reshape(-1)[::3],
    "ravel": lambda y: y.ravel()[1:4],
    "contiguous that is the same": lambda y: y.contiguous(),
    "contiguous that copies": lambda y: y.t().contiguous(),
    "to the same dtype": lambda y: y.to(torch.float32)[0],
    "to another dtype": lambda y: y.to(torch.float64)[0],
    "type_as": lambda y: y.type_as(torch.zeros(1))[0],
    "expand to its own size": lambda y: y.expand(-1, 4),
    "expand by an axis of 1": lambda y: y.expand(1, -1, 4),
    "one of those that expand repeats": lambda y: y[:, :1].expand(-1, 3)[:, 1],
    "one of those that a new axis repeats": lambda y: y.unsqueeze(0).expand(3, -1, -1)[1],
    "broadcast_to": lambda y: y.broadcast_to(y.shape[0], 4)[1:],
    "expand_as": lambda y: y.expand_as(y)[1],
    "diagonal": lambda y: y.diagonal(),
    "diagonal above": lambda y: y.diagonal(1)[1:],
    "diagonal of matrices": lambda y: y.view(-1, 2, 2).diagonal(-1, 1, 2),
    "split": lambda y: y.split(2, 1)[1],
    "split by sizes": lambda y: y.split([2, y.shape[0] - 2], 0)[1],
    "chunk": lambda y: y.chunk(2, -1)[1],
    "chunk of a dynamic axis": lambda y: y.chunk(2, 0)[1],
    "tensor_split": lambda y: y.tensor_split(3, 1)[1],
    "tensor_split of a dynamic axis": lambda y: y.tensor_split(2, 0)[1],
    "tensor_split at places": lambda y: y.tensor_split([1, 3], 1)[1],
    "hsplit": lambda y: y.hsplit(2)[1],
    "vsplit": lambda y: y.vsplit([1])[1],
    "unbind": lambda y: y.unbind(1)[2],
    "narrow": lambda y: y.narrow(0, 1, 2),
    "narrow from the end": lambda y: y.narrow(0, -2, 2),
    "narrow at a size": lambda y: y.narrow(0, y.shape[0] - 2, 2),
    "narrow of a size": lambda y: y.narrow(0, 1, y.shape[0] - 1),
    "unfold": lambda y: y.unfold(1, 2, 2),
    "unfold of a dynamic axis": lambda y: y.unfold(0, 2, 2),
    "unfold with gaps": lambda y: y.unfold(1, 1, 3),
    "one of overlapping windows": lambda y: y.unfold(1, 2, 1)[:, 1],
    "as_strided": lambda y: y.as_strided((2, 2), (4, 1), 1),
    "as_strided along a dynamic axis": lambda y: y.as_strided((y.shape[0], 2), (4, 2), 1),
    "as_strided of a view": lambda y: y.t()[1:].as_strided((2, 2), (4, 1), 1),
    "one of overlapping strides": lambda y: y.as_strided((2, 3), (1, 1), 0)[1],
    "detach": lambda y: y.detach()[0],
    "data": lambda y: y.data[0],
    "real": lambda y: y.real[0],
    "a long chain": lambda y: y.t()[1:3].unsqueeze(0).transpose(1, 2)[:, 1:, :1],
}


def through(view: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Any]:
    """Write to a view; the base, a view that was there before, and the view itself tell of it."""

    def written(x: Tensor) -> Any:
        y = x * 1
        flat = y.view(-1)
        part = view(y)
        part.mul_(3)
        y.add_(1)
        return y, flat * 1, part * 1

    return written


@pytest.mark.parametrize("name", VIEWS)
def test_a_write_through_a_view(name: str) -> None:
    check(through(VIEWS[name]))


@pytest.mark.parametrize("opset", [9, 13, 20, NEWEST])
def test_a_slice_that_smaller_inputs_do_not_fill(opset: int) -> None:
    def filled(x: Tensor) -> Tensor:
        y = x * 1
        y[1:5] = 7
        y[2:6] += 1
        return y

    check(filled, opset, [1, 2, 3, 5, 9])


@pytest.mark.parametrize("opset", [9, 11, 13, 17, NEWEST])
@pytest.mark.parametrize(
    "name",
    [
        "a slice at a size with a step", "a row at a size", "diagonal above", "chunk of a dynamic axis",
        "tensor_split of a dynamic axis", "unfold of a dynamic axis", "as_strided along a dynamic axis",
        "one of those that expand repeats", "a long chain",
    ],
)  # fmt: skip
def test_a_write_through_a_view_at_other_opsets(name: str, opset: int) -> None:
    check(through(VIEWS[name]), opset)


# --- operators that write --------------------------------------------------------------------------------------------
def assign(index: Callable[[Tensor], Any], value: Callable[[Tensor], Any]) -> Callable[[Tensor], Any]:
    def assigned(y: Tensor) -> None:
        y[index(y)] = value(y)

    return assigned


def some_row(y: Tensor) -> Tensor:
    return (y[0, 0] * 0).long() + 1


def inplace_operators(y: Tensor) -> None:
    y += 1
    y[1:] -= y[0]
    y.t()[0] *= 2
    y /= 3
    y **= 2
    y //= 0.5
    y %= 7


WRITES: dict[str, Callable[[Tensor], Any]] = {
    "at indices": assign(lambda y: PLACES, lambda y: 5.0),
    "at a list": assign(lambda y: [0, 1], lambda y: y[2] * 2),
    "at indices after a slice": assign(lambda y: (slice(None), PLACES), lambda y: y[:, :2] * 2),
    "at two indices": assign(lambda y: (PLACES, PLACES), lambda y: torch.tensor([8.0, 9.0])),
    "at indices of a view": lambda y: y.t()[1:].__setitem__((slice(None), PLACES), -1.0),
    "at indices of a slice": lambda y: y[1:].__setitem__(PLACES, 7.0),
    "at a mask": assign(lambda y: y > 0, lambda y: 0.0),
    "at a mask, as many values": assign(lambda y: y > 0, lambda y: y[y > 0] * 2),
    "at a mask of rows": assign(lambda y: y[:, 0] > 0, lambda y: y[0] * 2),
    "at a mask of a view": lambda y: y[1:].__setitem__(y[1:] > 0, -1.0),
    "at a tensor": assign(some_row, lambda y: 3.0),
    "at a tensor and a slice": assign(lambda y: (some_row(y), slice(1, 3)), lambda y: 7.0),
    "everywhere": assign(lambda y: True, lambda y: 3.0),
    "on the last axis": assign(lambda y: (..., 1), lambda y: y[:, 0]),
    "nowhere": assign(lambda y: slice(5, 5), lambda y: 3.0),
    "index_put_ that accumulates": lambda y: y.index_put_((TWICE,), ONES, accumulate=True),
    "index_put_ of a view that accumulates": lambda y: y[1:].index_put_((TWICE,), ONES, accumulate=True),
    "index_put_ at a mask that accumulates": lambda y: y.index_put_((y > 0,), torch.tensor(1.0), accumulate=True),
    "masked_fill_": lambda y: y.masked_fill_(y > 0, y.sum()),
    "masked_scatter_": lambda y: y.masked_scatter_(y > 0, y.exp()),
    "scatter_": lambda y: y.scatter_(1, PLACES.view(1, 2), y[:1, :2] * 9),
    "scatter_ that multiplies": lambda y: y.scatter_(1, PLACES.view(1, 2), 9.0, reduce="multiply"),
    "scatter_add_": lambda y: y.scatter_add_(0, TWICE.view(3, 1), ONES[:, :1]),
    "scatter_reduce_": lambda y: y.scatter_reduce_(0, TWICE.view(3, 1), ONES[:, :1], "amax"),
    "index_add_": lambda y: y[:, 1:].index_add_(0, TWICE, ONES[:, 1:], alpha=2),
    "index_copy_": lambda y: y.index_copy_(0, PLACES, ONES[:2]),
    "index_fill_": lambda y: y.t().index_fill_(0, PLACES, 3),
    "put_": lambda y: y[1:].put_(PLACES, torch.tensor([5.0, 6.0])),
    "put_ that accumulates": lambda y: y.put_(TWICE, torch.ones(3), accumulate=True),
    "fill_": lambda y: y.t()[0].fill_(y.sum()),
    "zero_": lambda y: y[1:].zero_(),
    "fill_diagonal_": lambda y: y.fill_diagonal_(4),
    "fill_diagonal_ that wraps": lambda y: y.fill_diagonal_(4, wrap=True),
    "copy_ of whole numbers": lambda y: y.copy_(torch.arange(4)),
    "copy_ that broadcasts": lambda y: y[1:].copy_(y[0] * 2),
    "clamp_": lambda y: y[::2].clamp_(-0.5, 0.5),
    "tril_": lambda y: y.tril_(),
    "addmm_": lambda y: y.addmm_(y * 2, torch.ones(4, 4)),
    "addcmul_": lambda y: y.addcmul_(y, y, value=2),
    "cumsum_": lambda y: y.cumsum_(0),
    "eq_": lambda y: y.eq_(y.mean()),
    "logical_not_": lambda y: y.logical_not_(),
    "operators": inplace_operators,
    "relu(inplace=True)": lambda y: functional.relu(y[1:], inplace=True),
    "elu_": lambda y: functional.elu_(y[:, 1:]),
    "two rows exchanged": lambda y: y[:2].copy_(y[:2].flip(0)),
    "out= itself": lambda y: torch.add(y, 1, out=y),
    "out= a view": lambda y: torch.mul(y[0], 2, out=y[1]),
    "out= of another dtype": lambda y: torch.add(torch.ones(4, dtype=torch.int64), 1, out=y[0]),
    "out= two": lambda y: torch.max(y[:, :2], 1, out=(y[:, 3], torch.zeros(y.shape[0], dtype=torch.int64))),
    "_foreach_add_": lambda y: torch._foreach_add_([y[0], y[1]], [2.0, 3.0]),
    "_foreach_mul_": lambda y: torch._foreach_mul_([y[0], y[1]], [y[0] * 2, y[1] + 1]),
    "_foreach_addcmul_": lambda y: torch._foreach_addcmul_([y[0]], [y[1]], [y[2]], 2.0),
    "_foreach_lerp_": lambda y: torch._foreach_lerp_([y[0]], [y[1] + 0], 0.5),
    "_foreach_zero_": lambda y: torch._foreach_zero_([y[0], y[1]]),
    "_foreach_copy_": lambda y: torch._foreach_copy_([y[0], y[1]], [y[1] + 1, y[0] + 1]),
    "_foreach_maximum_": lambda y: torch._foreach_maximum_([y[1:]], 0.1),
    "resize_ to its own size": lambda y: y.resize_(y.shape).resize_as_(y)[0].zero_(),
    "resize_ to another form": lambda y: y.resize_(y.shape[1], y.shape[0])[0].zero_(),
    "resize_ to fewer": lambda y: y.resize_(y.shape[0], 3).add_(1),
    "resize_as_ a part": lambda y: y.resize_as_(y[:, 1:])[1].mul_(2),
}


@pytest.mark.parametrize("name", WRITES)
def test_an_operator_that_writes(name: str) -> None:
    def written(x: Tensor) -> Any:
        y = x * 1
        flat = y.view(-1)
        WRITES[name](y)
        return y, flat * 1

    check(written)


# --- whole programs --------------------------------------------------------------------------------------------------
def aliases_both_ways(x: Tensor) -> Any:
    y = x * 1
    a = y[1:]
    b = a.t()
    c = b[0]
    y += 1
    c.mul_(2)
    a[0] = 3
    b[1:, 0] -= 1
    return y, a * 1, b * 1, c * 1


def copies_see_nothing(x: Tensor) -> Any:
    y = x * 1
    copied, cloned, flat = y.t().reshape(-1), y.clone(), y.reshape(-1)
    y.zero_()
    copied[0] = 9
    flat[1] = 8
    return y, copied, cloned


def every_part(x: Tensor) -> Any:
    y = x * 1
    for row in y.unbind(1):
        row.add_(row.sum())
    for number, part in enumerate(y.split(2, 1)):
        part[:, 0] = number
    a, b = y.chunk(2, 1)
    a.add_(b)
    b.sub_(a)
    return y


def turned_in_place(x: Tensor) -> Any:
    y = x * 1
    row = y[1:]
    y.t_()
    y[0] = 5
    row += 1
    y.unsqueeze_(0).squeeze_(0).transpose_(0, 1)[1] = 7
    return y, row * 1


def turned_square(x: Tensor) -> Any:
    y = x.t() @ x
    row = y[0]
    y.t_()
    y[0] = 5
    row.mul_(2)
    return y, row * 1


def out_of_nothing(x: Tensor) -> Any:
    out, values, places = torch.empty(0), torch.empty(0), torch.empty(0, dtype=torch.int64)
    torch.add(x, 1, out=out)
    torch.topk(x, 2, out=(values, places))
    out[0] = 4
    return out.view(out.shape[0], 2, 2), values, places


def into_plain_memory(x: Tensor) -> Any:
    table = torch.zeros(5, 4)
    across = table.t()
    table[1] = x[0]
    across[0] = 2
    table.view(-1)[3:6] = x.sum()
    return table, across


def cache_at_a_position(x: Tensor) -> Any:
    cache = torch.zeros(16, 4)
    position = (x[0, 0] * 0).long() + 2
    seen = cache[: x.shape[0]]
    cache[position] = x[0]
    cache.index_copy_(0, position.view(1) + 1, x[1:2])
    cache[: x.shape[0]] += x
    return cache, seen * 1


def half_and_double(x: Tensor) -> Any:
    y = x.half()
    y += x
    y[0] += torch.ones(4, dtype=torch.float64)
    return y


def whole_numbers(x: Tensor) -> Any:
    y = (x * 10).int()
    y.t()[1:] += 3
    y[0] = x[0]
    y //= 2
    y[:, 1] |= 1
    y <<= 1
    return y


def truths(x: Tensor) -> Any:
    y = x > 0
    y[0] = True
    y &= x < 1
    y[:, 1].logical_not_()
    y ^= x > 1
    return y


def bits_of_another_type(x: Tensor) -> Any:
    y = (x * 10).to(torch.int8)
    y.view(torch.uint8)[0] = 200
    z = x > 0
    z.view(torch.uint8)[0] = 1
    return y, y.view(torch.uint8) * 1, z


def on_other_memory(x: Tensor) -> Any:
    y, z = x * 1, x + 1
    y.data = z
    y[0] = 4
    z[1] = 5
    return y, z


def the_input_itself(x: Tensor) -> Any:
    seen = x.t()
    x[0] = 1
    x.mul_(2)
    return seen * 1, x


def at_random(x: Tensor) -> Any:
    y = x * 1
    y[0].uniform_(2, 3)
    y[1].bernoulli_()
    y[2].exponential_()
    y[3].random_(5, 6)
    y[4].geometric_(0.5)
    y[5].log_normal_()
    y[0].t()[1:].cauchy_()
    y[1, 1:].normal_()
    inside = (y[0, 0] >= 2) & (y[0, 0] <= 3), y[1, 0] <= 1, y[2] >= 0, y[3], y[4] >= 1, y[5] > 0, y[6:]
    return inside


PROGRAMS = [
    aliases_both_ways, copies_see_nothing, every_part, turned_in_place, turned_square, out_of_nothing,
    into_plain_memory, cache_at_a_position, half_and_double, whole_numbers, truths, bits_of_another_type,
    on_other_memory, the_input_itself,
]  # fmt: skip


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_a_program(program: Callable[[Tensor], Any]) -> None:
    check(program)


@pytest.mark.parametrize("opset", [11, 13, 17, NEWEST])
@pytest.mark.parametrize("program", [aliases_both_ways, every_part, cache_at_a_position], ids=lambda p: p.__name__)
def test_a_program_at_other_opsets(program: Callable[[Tensor], Any], opset: int) -> None:
    check(program, opset)


@pytest.mark.parametrize("opset", [13, 20, NEWEST])
def test_random_numbers_in_place(opset: int) -> None:
    check(at_random, opset)


def test_random_numbers_are_drawn_anew() -> None:
    def noisy(x: Tensor) -> Tensor:
        y = x * 0
        y[1:].uniform_()
        return y

    program = onward.export(noisy, torch.randn(3, 4))
    first, second = program(torch.randn(3, 4)), program(torch.randn(3, 4))
    assert not torch.equal(first, second)
    assert first[0].tolist() == [0, 0, 0, 0]


def test_a_resize_that_needs_more_than_there_may_be_is_said() -> None:
    with pytest.warns(onward.CaptureWarning, match=r"`\(rows \* 4\) < 6` is False, and rows = 1 would take the other"):
        onward.export(lambda x: (x * 1).resize_(2, 3), torch.randn(5, 4), dynamic_axes={"x": {0: "rows"}})


# --- what is refused -------------------------------------------------------------------------------------------------
def resized(x: Tensor) -> Tensor:
    return (x * 1).resize_(2000)


def other_memory(x: Tensor) -> Tensor:
    return (x * 1).set_(x + 1)


def memory_itself(x: Tensor) -> Tensor:
    y = x * 1
    y.untyped_storage().fill_(0)
    return y


def memory_of_old(x: Tensor) -> Tensor:
    y = x * 1
    torch.tensor([], dtype=y.dtype).set_(y.storage())
    return y


def fraction(x: Tensor) -> Tensor:
    y = x.long()
    y /= 2
    return y


def repeated(x: Tensor) -> Tensor:
    y = x * 1
    y[:1].expand(3, 4).add_(1)
    return y


def wrong_size(x: Tensor) -> Tensor:
    return torch.add(x, 1, out=torch.zeros(2, 2))


def bits_of_floats(x: Tensor) -> Tensor:
    y = x * 1
    y.view(torch.int32).add_(1)
    return y


def bits_of_halves(x: Tensor) -> Tensor:
    return (x * 1).view(torch.int16)


def strides_out_of_order(x: Tensor) -> Tensor:
    return (x.t() * 1).as_strided((2, 2), (1, 1))


def strides_at_a_size(x: Tensor) -> Tensor:
    return (x * 1)[x.shape[0] // 2 :].as_strided((2, 2), (1, 1))


@pytest.mark.parametrize(
    ("floats", "whole"), [(torch.float32, torch.int32), (torch.float64, torch.int64), (torch.float16, torch.int16)]
)
def test_the_bits_of_floats_are_written_from_opset_26_on(floats: torch.dtype, whole: torch.dtype) -> None:
    def magnitude(x: Tensor) -> tuple[Tensor, Tensor]:
        y = x * 1
        y.view(whole)[:2].bitwise_and_(torch.iinfo(whole).max)
        return y, x.view(whole)

    x = torch.randn(ROWS, 4).to(floats)
    others = [(torch.randn(rows, 4).to(floats),) for rows in (2, 9)]
    control.check(magnitude, (x,), others, dynamic_axes={"x": {0: "rows"}}, opset_version=NEWEST)


@pytest.mark.parametrize("opset", control.OPSETS)
def test_the_last_rows_are_all_where_there_are_few(opset: int) -> None:
    def tail(x: Tensor) -> tuple[Tensor, ...]:
        filled, spread = x * 1, x * 1
        filled[-3:] = 7.0
        spread[..., -2:] = x[..., :1]
        return filled, spread

    others = [(torch.randn(rows, columns),) for rows, columns in ((1, 2), (2, 1), (3, 3), (9, 5))]
    control.check(
        tail, (torch.randn(ROWS, 4),), others, dynamic_axes={"x": {0: "rows", 1: "columns"}}, opset_version=opset
    )


REFUSED = [
    (resized, "resize_ changes the memory of a tensor"),
    (other_memory, "set_ exchanges the memory of a tensor"),
    (memory_itself, "untyped_storage.. asks for the memory of a tensor that depends on the inputs"),
    (memory_of_old, "storage.. asks for the memory of a tensor that depends on the inputs"),
    (fraction, "aten.div_.Tensor computes torch.float32, which cannot be written to a tensor of torch.int64"),
    (repeated, "writes to a tensor that sees some of its memory more than once"),
    (wrong_size, r"aten.add.out would resize its target from \[2, 2\] to \[rows, 4\]"),
    (bits_of_floats, r"aten.view.dtype has no lowering for opset \d+ \(exists from 26\)"),
    (bits_of_halves, "the bits of torch.float32 as torch.int16, which is of another width"),
    (strides_out_of_order, "as_strided depends on how a tensor lies in memory, and this one's elements are not in"),
    (strides_at_a_size, "as_strided depends on how a tensor lies in memory, and where this one begins varies"),
]


@pytest.mark.parametrize(("function", "message"), REFUSED, ids=lambda value: getattr(value, "__name__", ""))
@pytest.mark.filterwarnings("ignore:TypedStorage is deprecated")
def test_what_no_graph_can_say_is_refused(function: Callable[[Tensor], Any], message: str) -> None:
    with pytest.raises(onward.ExportError, match=message) as caught:
        onward.export(function, torch.randn(ROWS, 4), dynamic_axes={"x": {0: "rows"}})
    assert "test_c01_inplace.py" in str(caught.value)
