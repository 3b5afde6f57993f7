"""Branches and numbers that all probes agree on: kept silently where it does not matter, warned about where it does."""

from __future__ import annotations

import math
import operator
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.nn import functional as F

import onward
from onward.capture.decisions.decisions import CaptureWarning
from onward.capture.program.execute import execute
from onward.capture.sizes import shape_formulas

from .tracing import traced

PICTURE = {"x": {0: "batch", 2: "height", 3: "width"}}
LINE = {"x": {0: "batch", 1: "length"}}


def agrees(function: Callable[..., Any], program: Any, *shapes: tuple[int, ...]) -> bool:
    inputs = [torch.randn(shape) for shape in shapes]
    return all(torch.allclose(function(x), execute(program, [x])[0], atol=1e-5) for x in inputs)


def quietly(function: Callable[..., Any], example: torch.Tensor, axes: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return traced(function, example, axes)


def keeps_a_branch(function: Callable[..., Any], example: torch.Tensor, axes: Any) -> bool:
    """Whether the program has both sides of a branch, and nothing is left to warn of."""
    return any("kept as If" in each for each in quietly(function, example, axes).remarks)


def refuses_short_lines(x: torch.Tensor) -> torch.Tensor:
    if x.shape[1] < 3:
        raise ValueError("too short")
    return x * 2


def refuses_long_lines(x: torch.Tensor) -> torch.Tensor:
    if x.shape[1] > 12:
        raise ValueError("too long")
    return x * 2


def padded_to_fours(x: torch.Tensor) -> torch.Tensor:
    missing = (4 - x.shape[1] % 4) % 4
    if missing > 0:
        x = F.pad(x, (0, missing))
    return x.unflatten(1, (-1, 4)).sum(2)


def positions_of_a_known_size(x: torch.Tensor) -> torch.Tensor:
    table = torch.arange(8.0).view(1, 1, 8)
    if x.shape[1] == 8:
        return x + table[0]
    return x + F.interpolate(table, size=(x.shape[1],), mode="linear", align_corners=True)[0]


def multiples_only(x: torch.Tensor) -> torch.Tensor:
    if x.shape[1] % 4:
        raise ValueError("not a multiple of 4")
    return x.view(x.shape[0], -1, 4).sum(2)


@pytest.mark.parametrize(
    ("function", "lengths"),
    [
        (lambda x: x * 2 if x.shape[1] > 1 else x + x, (1, 5)),
        (refuses_short_lines, (3, 9)),
        (refuses_long_lines, (1, 12)),
        (padded_to_fours, (1, 3, 4, 8, 9, 11)),
        (positions_of_a_known_size, (2, 8, 13)),
        (multiples_only, (4, 12)),
        (lambda x: F.pad(x, (0, max(12 - x.shape[1], 0))), (1, 12, 15)),
        (lambda x: x[:, : min([x.shape[1] // 2, x.shape[0]])], (1, 2, 9)),
    ],
)
def test_a_branch_whose_other_side_is_the_same_says_nothing(function: Any, lengths: tuple[int, ...]) -> None:
    program = quietly(function, torch.randn(2, 8), LINE)
    assert agrees(function, program, *((2, length) for length in lengths), (3, lengths[0]))


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x.cumsum(0) if x.shape[0] > 2 else x,  # one row is its own sum, two are not
        lambda x: x.sort(0).values if x.shape[0] > 3 else x,
    ],
)
def test_a_branch_whose_other_side_is_the_same_for_one_row_alone_is_kept(function: Any) -> None:
    assert keeps_a_branch(function, torch.randn(8, 3), {"x": {0: "batch"}})


def test_the_example_is_verified_where_the_trace_had_to_move_it() -> None:
    example = torch.randn(2, 8)
    program = quietly(padded_to_fours, example, LINE)
    assert torch.equal(program.example_inputs[0], example)
    assert torch.equal(program.example_outputs[0], padded_to_fours(example))


@pytest.mark.parametrize("length", [8, 9])
def test_a_branch_with_two_sides_that_differ_is_kept(length: int) -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        return x * 2 if x.shape[1] % 4 == 0 else x

    program = quietly(function, torch.randn(2, length), LINE)
    assert program.inputs[0].shape == ("batch", "length")
    assert agrees(function, program, *((2, each) for each in (1, 3, 4, 5, 8, 9, 12, 33)), (1, 4), (5, 7))


def test_a_branch_with_two_sides_of_another_rank_is_an_error() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        return x * 2 if x.shape[1] % 4 == 0 else x.sum(0)

    with pytest.raises(onward.FrozenAxisError, match="a branch depends on the size"):
        traced(function, torch.randn(2, 8), LINE)


def test_a_number_that_only_the_probes_agree_on_stays_a_formula() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        rounded = F.avg_pool1d(x, 2, 2, ceil_mode=True).shape[2] * 2 - x.shape[2]
        return F.pad(x + 6 // x.shape[2], (0, rounded + max(4 - x.shape[2], 0)))

    program = quietly(function, torch.randn(2, 3, 8), {"x": {2: "length"}})
    assert agrees(function, program, (2, 3, 1), (2, 3, 3), (2, 3, 8), (2, 3, 9))


def test_a_plain_number_that_only_the_probes_agree_on_is_warned_about() -> None:
    expected = r"a number depends on the size of axis 'length': .* `6 // length` is 0, and length = 6 gives another"
    with pytest.warns(CaptureWarning, match=expected):
        traced(lambda x: x + operator.index(6 // x.shape[1]), torch.randn(2, 8), LINE)


def test_two_axes_that_are_even_and_odd_together_stay_two() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        def missing(size: int) -> int:
            return max((math.ceil(size / 2) - 1) * 2 + 3 - size, 0)

        height, width = missing(x.shape[2]), missing(x.shape[3])
        return F.pad(x, (width // 2, width - width // 2, height // 2, height - height // 2))

    program = quietly(function, torch.randn(2, 3, 8, 8), PICTURE)
    assert agrees(function, program, (2, 3, 7, 8), (2, 3, 8, 7), (1, 3, 9, 9), (1, 3, 1, 2))


def test_min_and_max_are_pythons_own_again_afterwards() -> None:
    before = min, max
    traced(lambda x: x[:, : min(x.shape[1], 5)] + max(1, 2), torch.randn(2, 8), LINE)
    assert (min, max) == before
    assert (min(3, 2), max([1, 4]), min("ab"), max((), default=0)) == (2, 4, "a", 0)


def test_an_example_that_is_contiguous_by_chance_is_copied_at_other_sizes() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        windows = x.view(x.shape[0], x.shape[1] // 4, 4, x.shape[2] // 4, 4).permute(0, 1, 3, 2, 4).contiguous()
        return windows.view(-1, 4, 4) * 2

    program = quietly(function, torch.randn(2, 4, 4), {"x": {1: "height", 2: "width"}})
    assert agrees(function, program, (2, 8, 12), (2, 4, 4))


def test_a_slice_that_takes_everything_on_all_probes_stays_a_slice() -> None:
    table = torch.arange(9.0)

    def function(x: torch.Tensor) -> torch.Tensor:
        missing = max(x.shape[1] - 9, 0)
        return x + F.pad(table, (0, missing))[: x.shape[1]]

    program = quietly(function, torch.randn(2, 12), LINE)
    assert agrees(function, program, (2, 1), (2, 9), (2, 15))


def test_a_branch_on_a_size_that_is_rounded_is_kept() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        return x * 2 if F.max_pool1d(x, 8, 8, ceil_mode=True).shape[2] <= 2 else x * 3

    program = quietly(function, torch.randn(2, 3, 16), {"x": {2: "length"}})
    assert agrees(function, program, *((2, 3, each) for each in (4, 8, 15, 16, 17, 18, 24, 25, 100)))


def test_sizes_so_near_that_rounding_hides_the_axis_are_not_believed() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        return x * 2 if F.max_pool1d(x, 8, 8, ceil_mode=True).shape[2] <= 2 else x.sum(2)

    with pytest.raises(onward.FrozenAxisError, match="a branch depends on the size"):
        traced(function, torch.randn(2, 3, 16), {"x": {2: "length"}})


def test_a_branch_is_kept_behind_a_check_of_the_size() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        if x.shape[1] % 4:
            raise ValueError("not a multiple of 4")
        return x * 2 if x.shape[1] == 8 else x * 3

    program = quietly(function, torch.randn(2, 8), LINE)
    assert agrees(function, program, *((2, each) for each in (4, 8, 12, 16, 40)), (1, 8), (5, 4))


def test_a_model_that_refuses_a_moved_example_keeps_its_own_error() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        if x.shape[1] % 4:
            raise ValueError("not a multiple of 4")
        return x * 2 if x.shape[1] == 8 else x.sum(1)

    with pytest.raises(onward.FrozenAxisError, match="`length == 8` became True"):
        traced(function, torch.randn(2, 8), LINE)


def test_a_side_that_does_for_both_is_found_from_either_side() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        x = F.max_pool1d(x, 2)  # the branch is on a size that only a kernel can tell
        missing = (5 - x.shape[2] % 5) % 5
        if missing > 0:
            x = F.pad(x, (0, missing))
        return x.reshape(x.shape[0], -1, 5).sum(2)

    for length in (20, 24):
        program = quietly(function, torch.randn(2, 3, length), {"x": {2: "length"}})
        assert agrees(function, program, (2, 3, 10), (2, 3, 13), (2, 3, 20), (2, 3, 21), (2, 3, 58))


def test_a_side_must_do_at_sizes_that_the_model_takes() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        assert x.shape[1] % 4 == 0
        return x * 2 if x.shape[1] % 8 == 0 else x.sum(1)

    with pytest.raises(onward.FrozenAxisError, match="a branch depends on the size"):
        traced(function, torch.randn(2, 8), LINE)


@pytest.mark.parametrize("length", [8, 12])
def test_both_sides_are_kept_at_sizes_that_the_model_takes(length: int) -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        assert x.shape[1] % 4 == 0
        return x * 2 if x.shape[1] % 8 == 0 else x

    program = quietly(function, torch.randn(2, length), LINE)
    assert agrees(function, program, *((2, each) for each in (4, 8, 12, 16, 20, 24)), (1, 8), (5, 4))


@pytest.mark.parametrize("formula", [True, False])
def test_a_side_must_do_on_the_other_side_though_an_operator_hides_it(
    formula: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An operator without a formula is asked at the smallest points alone, and the others die."""
    if not formula:
        monkeypatch.delitem(shape_formulas._RULES, torch.ops.aten.vstack.default)

    def function(x: torch.Tensor) -> torch.Tensor:
        y = torch.vstack([x[:, :, 0], x[:, :, 1]]) * 1
        return y.clamp(-1, 1) if x.shape[1] > 8 else -y

    def of_another_rank(x: torch.Tensor) -> torch.Tensor:
        y = function(x)
        return y if x.shape[1] > 8 else y.sum()

    axes = {"x": {0: "batch", 1: "length", 2: "width"}}
    program = quietly(function, torch.randn(3, 3, 5), axes)
    assert program.inputs[0].shape == ("batch", "length", "width")
    assert agrees(function, program, *((2, length, 3) for length in (1, 3, 8, 9, 10, 20)), (1, 9, 2), (5, 8, 7))
    said = (onward.FrozenAxisError, CaptureWarning)
    with warnings.catch_warnings(), pytest.raises(said, match="a branch depends on the size"):
        warnings.simplefilter("error")
        traced(of_another_rank, torch.randn(3, 3, 5), axes)


def test_squeeze_asks_for_the_size_of_the_axes_that_it_keeps() -> None:
    with pytest.warns(CaptureWarning, match=r"holds where `batch == 1` is False, and batch = 1 would take the other"):
        traced(lambda x: x.squeeze(0), torch.randn(4, 3), {"x": {0: "batch"}})
    quietly(lambda x: x.squeeze(1), torch.randn(4, 1), {"x": {0: "batch"}})


def test_a_number_of_pieces_that_grows_with_an_axis_is_refused() -> None:
    with pytest.raises(onward.ExportError, match="it returns 1 tensors at the example's sizes and [0-9]+ at others"):
        traced(lambda x: x.split(5, 1)[-1], torch.randn(5, 5), {"x": {1: "width"}})


def test_the_first_of_a_number_of_pieces_that_grows_with_an_axis_is_followed() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        return x.split(5, 1)[0]

    program = quietly(function, torch.randn(5, 5), {"x": {1: "width"}})
    for width in (1, 3, 5, 6, 9, 10, 11, 26):
        x = torch.randn(5, width)
        assert torch.equal(execute(program, [x])[0], function(x))


def test_a_difference_that_was_warned_of_is_told_with_the_warning() -> None:
    def model(x: torch.Tensor) -> torch.Tensor:
        return x[0] * 2 if x.shape[0] == 1 else x + 1  # an If has results of one rank

    with pytest.warns(CaptureWarning, match="The file refuses such inputs"):
        program = onward.export(model, torch.randn(4, 3), dynamic_axes={"x": {0: "batch"}}, verify=True)
    refused = [each for each in program.verification.checks if each.label == "batch=1"]
    assert "the file refuses it: it is only for sizes where `batch == 1` is False" in str(refused[0].skipped)


def test_a_difference_that_was_warned_of_and_is_not_refused_is_told_with_the_warning() -> None:
    def model(x: torch.Tensor) -> torch.Tensor:
        return x * float(str(float(x[0, 0])))  # a number that text was made of

    with pytest.warns(CaptureWarning), pytest.raises(onward.VerifyError) as caught:
        onward.export(model, torch.rand(3, 4), dynamic_axes={"x": {1: "width"}}, verify=True)
    first, *_, hint = str(caught.value).splitlines()
    assert first == "onnxruntime and PyTorch disagree at other sizes or values than the example's"
    assert "the export has warned: " in str(caught.value)
    assert "Dim(..., min=2)" in hint


def _fills_the_middle(x: torch.Tensor) -> torch.Tensor:
    y = x.clone()
    y[-3:2] = 7.0  # nothing from 5 rows on
    return y


@pytest.mark.parametrize(
    "function",
    [
        _fills_the_middle,
        lambda x: x[-2:].reshape(2, -1).mean(0),
        lambda x: x[:3].sum(0) / 3 + x[1:3].shape[0],
        lambda x: x[-2:, 1:1] * 2,
        lambda x: x[:3].sum() / len(x[:3]),
        lambda x: torch.full_like(x[:3], 1.0).sum() + torch.full_like(x[:, :3], 2.0).sum(),
        lambda x: x[: min(x.shape[0], x.shape[1])] * 2,
        lambda x: torch.zeros(min(x.shape[0], x.shape[1]), x.shape[1]) + x[: x.shape[1]],
        lambda x: x.diagonal() * 2,
        lambda x: x[-4:].flip(0),
    ],
    ids=["write", "reshape", "shape", "empty", "len", "like", "shorter", "zeros", "diagonal", "last"],
)
def test_a_slice_that_is_shorter_on_a_shorter_axis_is_a_size_of_its_own(function: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        program = onward.export(function, torch.randn(5, 6), dynamic_axes={"x": {0: "rows", 1: "columns"}})
    for shape in ((1, 6), (2, 6), (3, 5), (4, 1), (5, 6), (7, 2), (8, 8), (23, 4)):
        x = torch.randn(shape)
        try:
            expected = function(x)
        except RuntimeError:  # the model refuses the size itself
            continue
        torch.testing.assert_close(program(x), expected)


def test_a_number_that_pytorch_reads_inside_of_an_operator_is_told() -> None:
    with pytest.warns(CaptureWarning, match="depends on the size of axis 'rows'.* rows = 1 gives another"):
        onward.export(lambda x: torch.cov(x[:2]), torch.randn(5, 4), dynamic_axes={"x": {0: "rows"}})


@pytest.mark.parametrize(
    ("function", "example"),
    [
        (lambda x: x if x.shape[0] > 2 else x.clamp(-1, 1), torch.rand(4, 2)),
        (lambda x: x - x.mean() if x.shape[0] > 1 else x * 2, torch.zeros(5)),
        (lambda x: x * 1.0 if x.shape[0] > 2 else x.abs(), torch.rand(4, 2)),
        (
            lambda x: x.float() - x.float().mean() if x.shape[0] > 1 else x.float() * 2,
            torch.tensor([False, True, True]),
        ),
        (lambda x: x.abs() if x.shape[0] > 1 else x - 3, torch.tensor([3, 0, 5])),
        (lambda x: x.abs() if x.shape[0] > 1 else x * 2, torch.tensor([0, 0, 0])),
    ],
    ids=["clamp", "mean", "abs", "mask", "the first id", "no other id"],
)
def test_a_branch_that_hides_behind_the_values_is_found(function: Any, example: torch.Tensor) -> None:
    assert keeps_a_branch(function, example, {"x": {0: "rows"}})


def test_a_branch_is_tried_with_values_beyond_those_of_the_example() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        return ((x if x.numel() > 8 else x + 1).cos() > 0.5) & (x < 0)  # differs between -2.05 and -1.05

    assert keeps_a_branch(function, torch.linspace(-0.9, 0.9, 12).reshape(2, 6), {"x": {0: "rows"}})


def test_an_example_of_one_id_does_not_hide_a_branch() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        return x.float().abs() if x.shape[0] % 2 == 0 else x.float().tanh()

    def of_another_rank(x: torch.Tensor) -> torch.Tensor:
        return x.float().abs().sum(0) if x.shape[0] % 2 == 0 else x.float().tanh()

    program = quietly(function, torch.tensor([0]), {"x": {0: "rows"}})
    for rows in (1, 2, 3, 4, 9, 10):
        x = torch.arange(rows) - 2
        torch.testing.assert_close(execute(program, [x])[0], function(x))
    with pytest.raises(onward.FrozenAxisError, match="a branch depends on the size"):
        traced(of_another_rank, torch.tensor([0]), {"x": {0: "rows"}})


@pytest.mark.parametrize("kept", [torch.neg, torch.clone, lambda x: x + x, lambda x: torch.where(x > 0, x, x * 2)])
def test_one_column_does_not_hide_that_a_flattened_tensor_is_a_copy(kept: Any) -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        turned = kept(x.t())
        flat = turned.flatten()
        turned.mul_(3)
        return flat

    with pytest.raises(onward.FrozenAxisError, match="the model does something else at columns = 1, the example"):
        traced(function, torch.randn(4, 1), {"x": {1: "columns"}})
    with pytest.warns(CaptureWarning, match="the file holds where `columns == 1` is False"):
        program = traced(function, torch.randn(4, 3), {"x": {1: "columns"}})
    assert agrees(function, program, (4, 2), (4, 5))


def test_a_branch_is_tried_with_more_than_one_set_of_values() -> None:
    example = -0.8 - torch.arange(8.0).reshape(4, 2) / 20  # the second relu gives nothing but zeros here

    def function(x: torch.Tensor) -> torch.Tensor:
        return (-x).relu() * 2 if x.shape[0] > 2 else (-x).relu() * 2 + (x + 0.75).relu()

    assert keeps_a_branch(function, example, {"x": {0: "rows"}})


@pytest.mark.parametrize("small", [[-0.0147, 0.7246], [0.7246, -0.0147], [0.004, -0.003]])
def test_a_branch_that_a_rounding_hides_near_zero_is_tried_with_other_values(small: list[float]) -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        y = x - x.mean() if x.shape[0] != 1 else x * 0.5
        return (y.abs().sqrt() * 3).to(torch.int16)

    assert keeps_a_branch(function, torch.tensor(small), {"x": {0: "batch"}})


def with_the_last_row_cleared(x: torch.Tensor) -> torch.Tensor:
    y = torch.tanh(x) if x.shape[1] > 1 else x + 1
    y[-1:] = 0
    return y


def with_the_last_rows_doubled(x: torch.Tensor) -> torch.Tensor:
    y = torch.tanh(x) if x.shape[1] > 1 else x + 1
    return torch.cat([y[:-2], x[-2:] * 2])


@pytest.mark.parametrize("function", [with_the_last_row_cleared, with_the_last_rows_doubled])
@pytest.mark.parametrize("rows", [1, 2, 5])
def test_few_rows_do_not_hide_a_branch_on_another_axis(function: Callable[..., Any], rows: int) -> None:
    program = quietly(function, torch.rand(rows, 3), LINE)
    assert agrees(function, program, (5, 1), (1, 1), (2, 1), (5, 4))


def without_the_first_columns(x: torch.Tensor) -> torch.Tensor:
    y = x.sin() if x.shape[0] > 4 else x + 1
    return y[:, 6:].sum() + x.sum()


@pytest.mark.parametrize("columns", [1, 2, 3, 5])
def test_few_columns_do_not_hide_a_branch_on_another_axis(columns: int) -> None:
    program = quietly(without_the_first_columns, torch.rand(3, columns), LINE)
    assert agrees(without_the_first_columns, program, (3, 9), (6, 9), (7, 2))


@pytest.mark.parametrize("shape", [(4, 1), (1, 4), (5, 2)])
def test_a_branch_on_all_axes_together_is_tried_at_small_sizes(shape: tuple[int, int]) -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        return torch.tanh(x) if x.numel() > 2 else x * 0.5

    program = quietly(function, torch.rand(shape), LINE)
    assert agrees(function, program, (1, 1), (1, 2), (2, 1), (1, 3), (3, 1), (2, 2), (9, 9))
