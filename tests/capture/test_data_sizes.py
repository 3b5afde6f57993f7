"""Sizes that depend on data: exported as such, and right for data that gives another size than the example."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

import onward

from ..contract.control import OPSETS, check

Shape = tuple[int | str, ...]


class Case(NamedTuple):
    function: Callable[..., Any]
    example: tuple[Tensor, ...]
    others: tuple[tuple[Tensor, ...], ...]
    shapes: tuple[Shape, ...]
    dynamic: dict[str, dict[int, str]]
    first_opset: int = 9


def check_names(case: Case) -> None:
    """The axes of the outputs have names, and other data gives other sizes."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", onward.CaptureWarning)
        program = check(case.function, case.example, case.others, dynamic_axes=case.dynamic, opset_version=17)
    assert tuple(port.shape for port in program.outputs) == case.shapes
    assert program.warnings == ()


def check_fixed(case: Case) -> None:
    """The inputs are fixed; what depends on data varies all the same."""
    shapes = [tensor.shape for tensor in case.example]
    others = [inputs for inputs in case.others if [tensor.shape for tensor in inputs] == shapes]
    with warnings.catch_warnings():
        warnings.simplefilter("error", onward.CaptureWarning)
        check(case.function, case.example, others, opset_version=case.first_opset)


def draw(*shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape)))


# --- masks -----------------------------------------------------------------------------------------------------------
ROWS = {"x": {0: "rows"}}
SOME, NONE, ALL = draw(6, 4), -torch.ones(6, 4), draw(6, 4).abs() + 1
OTHERS = ((NONE,), (ALL,), (draw(9, 4),), (draw(1, 4),))


def nonzero(x: Tensor) -> Tensor:
    return (x > 0).nonzero()


def nonzero_as_tuple(x: Tensor) -> Any:
    return (x > 0).nonzero(as_tuple=True)


def where_alone(x: Tensor) -> Any:
    return torch.where(x > 0)


def argwhere(x: Tensor) -> Tensor:
    return torch.argwhere(x > 0)


def masked_select(x: Tensor) -> Tensor:
    return torch.masked_select(x, x > 0)


def masked_select_of_a_smaller_mask(x: Tensor) -> Tensor:
    return torch.masked_select(x, x[:, :1] > 0)


def read_by_mask(x: Tensor) -> Tensor:
    return x[x > 0] * 2


def rows_by_mask(x: Tensor) -> Tensor:
    return x[x[:, 0] > 0]


def rows_by_mask_and_slice(x: Tensor) -> Tensor:
    return x[x[:, 0] > 0, 1:3]


def slice_and_mask(x: Tensor) -> Tensor:
    return x.t()[1:3, x[:, 0] > 0]


def mask_and_number(x: Tensor) -> Tensor:
    return x[x[:, 0] > 0, 2]


def write_a_number(x: Tensor) -> Tensor:
    y = x.clone()
    y[y < 0] = 0.0
    return y


def write_a_tensor(x: Tensor) -> Tensor:
    y = x.clone()
    mask = y[:, 0] < 0
    y[mask, 1:3] = y[mask, 1:3] + 1
    return y


def scale_in_place(x: Tensor) -> Tensor:
    y = x.clone()
    y[y > 0] *= 3
    return y


def one_mask_twice(x: Tensor) -> Tensor:
    mask = x > 0
    return x[mask] + (x * 2)[mask]


def two_masks(x: Tensor) -> Tensor:
    return torch.cat([x[x > 0], x[x < 0]])


def mask_of_a_masked(x: Tensor) -> Tensor:
    y = x[x[:, 0] > 0]
    return y[y[:, 1] > 0]


def each_with_each(x: Tensor) -> Tensor:
    y = x[x[:, 0] > 0]
    return y @ y.t()


def reshaped(x: Tensor) -> Tensor:
    y = x[x[:, 0] > 0]
    return y.view(y.shape[0], 2, 2).flatten(1) + y.view(-1, 2, 2).flatten(1)


def counted_and_reshaped(x: Tensor) -> Tensor:
    mask = x[:, 0] > 0
    return x[mask].reshape(mask.sum().item(), 2, 2)


def made_as_long(x: Tensor) -> Any:
    y = x[x[:, 0] > 0]
    return torch.arange(len(y)), y.new_full((len(y), 2), 3.0) + y[:, :2], torch.zeros_like(y)


def padded_to_all(x: Tensor) -> Tensor:
    y = x[x[:, 0] > 0]
    return F.pad(y, (0, 0, 0, x.shape[0] - y.shape[0]))


def experts(x: Tensor) -> Tensor:
    out = torch.zeros_like(x)
    chosen = (x[:, 0] > 0).long()
    for expert in range(2):
        rows = torch.where(chosen == expert)[0]
        out.index_add_(0, rows, x[rows] * (expert + 1))
    return out


def suppressed(x: Tensor) -> Any:
    """What torchvision's nms does, in one pass."""
    boxes = torch.cat([x[:, :2], x[:, :2] + x[:, 2:].abs()], 1)
    scores = x[:, 0] + x[:, 1] * 0.1
    keep = scores > -1
    boxes, scores = boxes[keep], scores[keep]
    order = scores.argsort(descending=True)
    boxes, scores = boxes[order], scores[order]
    areas = (boxes[:, 2:] - boxes[:, :2]).prod(1)
    corner = torch.max(boxes[:, None, :2], boxes[None, :, :2])
    inside = (torch.min(boxes[:, None, 2:], boxes[None, :, 2:]) - corner).clamp(min=0).prod(2)
    covered = inside / (areas[:, None] + areas - inside)
    gone = torch.triu(covered > 0.2, diagonal=1).any(0)
    return boxes[~gone], scores[~gone]


N = "nonzero_1"
MASKS = [
    Case(nonzero, (SOME,), OTHERS, ((N, 2),), ROWS),
    Case(nonzero_as_tuple, (SOME,), OTHERS, ((N,), (N,)), ROWS),
    Case(where_alone, (SOME,), OTHERS, ((N,), (N,)), ROWS),
    Case(argwhere, (SOME,), OTHERS, ((N, 2),), ROWS),
    Case(masked_select, (SOME,), OTHERS, (("masked_select_1",),), ROWS),
    Case(masked_select_of_a_smaller_mask, (SOME,), OTHERS, (("masked_select_1",),), ROWS),
    Case(read_by_mask, (SOME,), OTHERS, ((N,),), ROWS),
    Case(rows_by_mask, (SOME,), OTHERS, ((N, 4),), ROWS),
    Case(rows_by_mask_and_slice, (SOME,), OTHERS, ((N, 2),), ROWS),
    Case(slice_and_mask, (SOME,), OTHERS, ((2, N),), ROWS),
    Case(mask_and_number, (SOME,), OTHERS, ((N,),), ROWS),
    Case(write_a_number, (SOME,), OTHERS, (("rows", 4),), ROWS),
    Case(write_a_tensor, (SOME,), OTHERS, (("rows", 4),), ROWS),
    Case(scale_in_place, (SOME,), OTHERS, (("rows", 4),), ROWS),
    Case(one_mask_twice, (SOME,), OTHERS, ((N,),), ROWS),
    Case(two_masks, (SOME,), OTHERS, (("nonzero_1 + nonzero_2",),), ROWS),
    Case(mask_of_a_masked, (SOME,), OTHERS, (("nonzero_2", 4),), ROWS),
    Case(each_with_each, (SOME,), OTHERS, ((N, N),), ROWS),
    Case(reshaped, (SOME,), OTHERS, ((N, 4),), ROWS),
    Case(counted_and_reshaped, (SOME,), OTHERS, ((N, 2, 2),), ROWS),
    Case(made_as_long, (SOME,), OTHERS, ((N,), (N, 2), (N, 4)), ROWS),
    Case(padded_to_all, (SOME,), OTHERS, (("rows", 4),), ROWS),
    Case(experts, (SOME,), OTHERS, (("rows", 4),), ROWS),
    Case(suppressed, (SOME,), OTHERS, (("nonzero_2", 4), ("nonzero_2",)), ROWS, 10),
]

# --- different values, repeats ---------------------------------------------------------------------------------------
IDS = torch.tensor([1, 2, 2, 5, 1, 0])
NO_IDS = torch.zeros(0, dtype=torch.int64)
OTHER_IDS = ((torch.full((6,), 3),), (torch.arange(6),), (torch.tensor([7, 0, 7]),), (NO_IDS,))
PAIRS = torch.tensor([[1, 2], [1, 2], [3, 4], [0, 9], [3, 4]])
OTHER_PAIRS = ((torch.ones(5, 2, dtype=torch.int64),), (torch.tensor([[1, 1], [2, 2], [1, 1]]),))
COUNTS = torch.tensor([1, 0, 2, 3, 0, 1])
OTHER_COUNTS = ((SOME, torch.zeros(6, dtype=torch.int64)), (SOME, torch.full((6,), 2)), (draw(0, 4), NO_IDS))
IDS_AXIS, PAIRS_AXIS, BOTH_AXES = {"ids": {0: "n"}}, {"pairs": {0: "n"}}, {"x": {0: "n"}, "counts": {0: "n"}}


def unique(ids: Tensor) -> Any:
    return torch.unique(ids)


def unique_with_all(ids: Tensor) -> Any:
    return torch.unique(ids, return_inverse=True, return_counts=True)


def unique_consecutive(ids: Tensor) -> Any:
    return torch.unique_consecutive(ids, return_inverse=True, return_counts=True)


def unique_rows(pairs: Tensor) -> Any:
    return torch.unique(pairs, dim=0, return_inverse=True, return_counts=True)


def unique_of_all(pairs: Tensor) -> Any:
    return torch.unique(pairs, return_inverse=True)


def unique_consecutive_rows(pairs: Tensor) -> Any:
    return torch.unique_consecutive(pairs, dim=0, return_inverse=True, return_counts=True)


def bincount(ids: Tensor) -> Tensor:
    return torch.bincount(ids)


def bincount_of_at_least(ids: Tensor) -> Tensor:
    return torch.bincount(ids, minlength=4)


def repeated_rows(x: Tensor, counts: Tensor) -> Any:
    return torch.repeat_interleave(x, counts, dim=0), torch.repeat_interleave(counts)


def repeated_elements(x: Tensor, counts: Tensor) -> Tensor:
    return x[:, 0].repeat_interleave(counts) + x[:, 1].repeat_interleave(counts)


U, C, R = "unique_1", "unique_consecutive_1", "repeat_interleave_1"
VALUES = [
    Case(unique, (IDS,), OTHER_IDS, ((U,),), IDS_AXIS, 11),
    Case(unique_with_all, (IDS,), OTHER_IDS, ((U,), ("n",), (U,)), IDS_AXIS, 11),
    Case(unique_rows, (PAIRS,), OTHER_PAIRS, ((U, 2), ("n",), (U,)), PAIRS_AXIS, 11),
    Case(unique_of_all, (PAIRS,), OTHER_PAIRS, ((U,), ("n", 2)), PAIRS_AXIS, 11),
    Case(unique_consecutive, (IDS,), OTHER_IDS, ((C,), ("n",), (C,)), IDS_AXIS),
    Case(unique_consecutive_rows, (PAIRS,), OTHER_PAIRS, ((C, 2), ("n",), (C,)), PAIRS_AXIS),
    Case(bincount, (IDS,), OTHER_IDS, (("bincount_1",),), IDS_AXIS),
    Case(bincount_of_at_least, (IDS,), OTHER_IDS, (("bincount_1",),), IDS_AXIS),
    Case(repeated_rows, (SOME, COUNTS), OTHER_COUNTS, ((R, 4), ("repeat_interleave_2",)), BOTH_AXES),
    Case(repeated_elements, (SOME, COUNTS), OTHER_COUNTS, ((R,),), BOTH_AXES),
]

# --- numbers in tensors ----------------------------------------------------------------------------------------------
TABLE = draw(8, 4)
OTHER_NUMBERS = tuple((draw(rows, 4), torch.tensor(n)) for rows, n in ((8, 0), (8, 1), (8, 8), (11, 7)))
FROM_ONE = OTHER_NUMBERS[1:]


def first_rows(x: Tensor, n: Tensor) -> Tensor:
    return x[: n.item()]


def first_rows_by_tensor(x: Tensor, n: Tensor) -> Tensor:
    return x[:n]


def more_than_there_are(x: Tensor, n: Tensor) -> Tensor:
    y = x[: n + 3]
    return y + torch.arange(y.shape[0])[:, None]


def rows_between(x: Tensor, n: Tensor) -> Tensor:
    return x[n // 2 : n] + 1


def rotated(x: Tensor, n: Tensor) -> Tensor:
    number = n.item()
    return torch.cat([x[number:], x[:number]])


def write_first_rows(x: Tensor, n: Tensor) -> Tensor:
    y = x.clone()
    y[:n] = 0
    return y


def narrowed(x: Tensor, n: Tensor) -> Tensor:
    return x.narrow(0, 0, n.item())


def counted(x: Tensor, n: Tensor) -> Any:
    number = n.item()
    return torch.arange(number), torch.zeros(number + 1, 4) + x[0], x[:1].expand(number, 4), x[:1].repeat(number, 1)


def arange_of_a_tensor(x: Tensor, n: Tensor) -> Tensor:
    return torch.arange(n) * 2


def split_in_two(x: Tensor, n: Tensor) -> Any:
    number = n.item()
    return x.split([number, x.shape[0] - number])


def tensor_split(x: Tensor, n: Tensor) -> Any:
    return torch.tensor_split(x, [n.item()])


def padded(x: Tensor, n: Tensor) -> Tensor:
    number = n.item()
    return F.pad(x, (number, 1, 0, number + 1), value=2.0)


def sliced_and_reshaped(x: Tensor, n: Tensor) -> Tensor:
    number = n.item()
    return x[:number].reshape(number, 2, 2)


def best_rows(x: Tensor, n: Tensor) -> Any:
    return torch.topk(x[:, 0], n.item())


def kth_row(x: Tensor, n: Tensor) -> Any:
    return torch.kthvalue(x[:, 0], n.item())


def row(x: Tensor, n: Tensor) -> Tensor:
    return x[n.item() - 1] + x.select(0, n.item() - 1)


def used_twice(x: Tensor, n: Tensor) -> Tensor:
    return x[: n.item()] + torch.ones(4) * n.item() + x[: n.item()] * 2


NUMBERS = [
    Case(first_rows, (TABLE, torch.tensor(3)), OTHER_NUMBERS, (("slice_1", 4),), ROWS),
    Case(first_rows_by_tensor, (TABLE, torch.tensor(3)), OTHER_NUMBERS, (("slice_1", 4),), ROWS),
    Case(more_than_there_are, (TABLE, torch.tensor(3)), OTHER_NUMBERS, (("slice_1", 4),), ROWS),
    Case(rows_between, (TABLE, torch.tensor(3)), OTHER_NUMBERS, (("slice_1", 4),), ROWS),
    Case(rotated, (TABLE, torch.tensor(3)), OTHER_NUMBERS, (("slice_1 + slice_2", 4),), ROWS),
    Case(write_first_rows, (TABLE, torch.tensor(3)), OTHER_NUMBERS, (("rows", 4),), ROWS),
    Case(narrowed, (TABLE, torch.tensor(3)), OTHER_NUMBERS, (("n", 4),), ROWS),
    Case(counted, (TABLE, torch.tensor(3)), OTHER_NUMBERS, (("n",), ("n + 1", 4), ("n", 4), ("n", 4)), ROWS),
    Case(arange_of_a_tensor, (TABLE, torch.tensor(3)), OTHER_NUMBERS, (("n",),), ROWS),
    Case(split_in_two, (TABLE, torch.tensor(3)), OTHER_NUMBERS, (("n", 4), ("rows - n", 4)), ROWS),
    Case(tensor_split, (TABLE, torch.tensor(3)), OTHER_NUMBERS, (("dim_1", 4), ("dim_2", 4)), ROWS),
    Case(padded, (TABLE, torch.tensor(3)), OTHER_NUMBERS, (("rows + n + 1", "n + 5"),), ROWS),
    Case(sliced_and_reshaped, (TABLE, torch.tensor(3)), OTHER_NUMBERS, (("n", 2, 2),), ROWS),
    Case(best_rows, (TABLE, torch.tensor(3)), FROM_ONE, (("n",), ("n",)), ROWS, 10),
    Case(kth_row, (TABLE, torch.tensor(3)), FROM_ONE, ((), ()), ROWS, 10),
    Case(row, (TABLE, torch.tensor(3)), FROM_ONE, ((4,),), ROWS),
    Case(used_twice, (TABLE, torch.tensor(3)), OTHER_NUMBERS, (("slice_1", 4),), ROWS),
]
CASES = [*MASKS, *VALUES, *NUMBERS]


def _name(case: Case) -> str:
    return case.function.__name__


@pytest.mark.parametrize("case", CASES, ids=_name)
def test_the_axis_is_named_and_other_data_gives_other_sizes(case: Case) -> None:
    check_names(case)


@pytest.mark.parametrize("case", CASES, ids=_name)
def test_without_dynamic_axes(case: Case) -> None:
    check_fixed(case)


@pytest.mark.parametrize("opset", OPSETS)
@pytest.mark.parametrize(
    "function", [write_a_tensor, experts, repeated_rows, unique_consecutive_rows, bincount, rotated, padded, counted]
)
def test_at_every_opset(function: Callable[..., Any], opset: int) -> None:
    case = next(case for case in CASES if case.function is function)
    check(function, case.example, case.others, dynamic_axes=case.dynamic, opset_version=opset)


# --- where a model needs the example's number ------------------------------------------------------------------------
def test_a_mask_that_must_select_a_fixed_number_is_kept_with_a_warning() -> None:
    def fixed(x: Tensor) -> Tensor:
        return x[x > -100].reshape(6, 4)

    with pytest.warns(onward.CaptureWarning, match="how large the result of nonzero is depends on data") as caught:
        program = check(fixed, (SOME,), [(ALL,)])
    assert program.outputs[0].shape == (6, 4)
    assert program.warnings == tuple(str(each.message) for each in caught)


def test_the_same_beside_a_dynamic_axis() -> None:
    def fixed(x: Tensor, y: Tensor) -> Any:
        positive = y[y > 0]
        return x[x > -100].reshape(6, 4), y * 2, positive

    with pytest.warns(onward.CaptureWarning, match="works only where it is as large as in the example"):
        program = check(fixed, (SOME, draw(3)), [(ALL, draw(7))], dynamic_axes={"y": {0: "n"}})
    assert [port.shape for port in program.outputs] == [(6, 4), ("n",), ("nonzero_1",)]


def test_a_number_that_must_be_the_examples_is_kept_with_a_warning() -> None:
    def fixed(x: Tensor, n: Tensor) -> Tensor:
        return x.reshape(n.item(), -1) + torch.ones(3, 8)

    with pytest.warns(onward.CaptureWarning, match=r"the file keeps the example's answer \(3\)"):
        program = check(fixed, (SOME, torch.tensor(3)), [(ALL, torch.tensor(3))])
    assert program.outputs[0].shape == (3, 8)


@pytest.mark.filterwarnings("error::onward.CaptureWarning")
def test_a_loop_over_as_many_as_the_data_says_is_kept() -> None:
    def each(x: Tensor) -> Tensor:
        return torch.stack([row * 2 for row in x[x[:, 0] > 0]])

    program = onward.export(each, (SOME,))
    for x in (SOME, SOME.abs() + 1, -SOME):
        torch.testing.assert_close(program(x), each(x))


def test_a_number_of_chunks_of_as_many_as_the_data_says_is_kept_with_a_warning() -> None:
    with pytest.warns(onward.CaptureWarning, match=r"the example \(`number_of_chunks\(.*, 3\)` is 3\)"):
        onward.export(lambda x: torch.cat(x[x > 0].chunk(3)), torch.arange(8.0), verify=False)
