"""Questions about how a tensor lies in memory are decisions on sizes: kept, warned of with their line, or refused."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable

import pytest
import torch

import onward
from onward import CaptureError

Function = Callable[[torch.Tensor], torch.Tensor]


def contiguous_if_one_row(x: torch.Tensor) -> torch.Tensor:
    y = x.t()
    return y * 2 if y.is_contiguous() else y * 3


def contiguous_result(x: torch.Tensor) -> torch.Tensor:
    y = x.t() * 2
    return y * 2 if y.is_contiguous() else y * 3


def contiguous_part(x: torch.Tensor) -> torch.Tensor:
    y = x[:, :2]
    return y * 2 if y.is_contiguous() else y * 3


def contiguous_part_of_a_dynamic_axis(x: torch.Tensor) -> torch.Tensor:
    y = x.t()[:, :8]
    return y * 2 if y.is_contiguous() else y * 3


def channels_last(x: torch.Tensor) -> torch.Tensor:
    y = x.reshape(2, 2, 1, -1)
    return y * 2 if y.is_contiguous(memory_format=torch.channels_last) else y * 3


def order_of_strides(x: torch.Tensor) -> torch.Tensor:
    y = x.t()
    return y * 2 if y.dim_order() == (0, 1) else y * 3


def strides_of_a_copy(x: torch.Tensor) -> torch.Tensor:
    y = x.t()
    return y * 2 if y.stride() == y.contiguous().stride() else y * 3


def far_from_the_beginning(x: torch.Tensor) -> torch.Tensor:
    return x * 2 if x[x.shape[0] // 2 :].storage_offset() > 3 else x * 3


def viewed_if_possible(x: torch.Tensor) -> torch.Tensor:
    y = x.t()
    try:
        return y.view(-1) * 2
    except RuntimeError:
        return y.reshape(-1) * 3


def a_view_by_chance(x: torch.Tensor) -> torch.Tensor:
    y = (x * 1).t()
    return y * 2 if y.reshape(-1)._is_view() else y * 3


def with_a_base(x: torch.Tensor) -> torch.Tensor:
    y = (x * 1).t()
    return y * 2 if y.reshape(-1)._base is not None else y * 3


def contiguous_unless_viewed(x: torch.Tensor) -> torch.Tensor:
    y = (x * 2).t()
    return y * 2 if y.reshape(-1, 2).is_contiguous() else y * 3


def stride_of_a_copy_or_a_view(x: torch.Tensor) -> torch.Tensor:
    y = (x * 2).t()
    return y * 2 if y.reshape(-1, 2).stride(0) == 2 else y * 3


def written_through_a_view_of_the_same_shape(x: torch.Tensor) -> torch.Tensor:
    y = (x * 2).t()
    y.reshape(-1, 2).add_(1)
    return y


ASKING = [
    contiguous_if_one_row, contiguous_result, contiguous_part, contiguous_part_of_a_dynamic_axis, channels_last,
    order_of_strides, strides_of_a_copy, far_from_the_beginning, viewed_if_possible, a_view_by_chance, with_a_base,
    contiguous_unless_viewed, stride_of_a_copy_or_a_view, written_through_a_view_of_the_same_shape,
]  # fmt: skip


def _matrix(rows: int) -> torch.Tensor:
    return torch.arange(1.0, 4 * rows + 1).reshape(rows, 4)


def _unlike(program: onward.Program, function: Function) -> list[int]:
    """The numbers of rows at which a file is wrong."""
    return [n for n in (1, 2, 3, 6, 8, 9, 20) if not torch.equal(program(_matrix(n)), function(_matrix(n)))]


@pytest.mark.parametrize("rows", [6, 1])
@pytest.mark.parametrize("function", ASKING)
def test_no_answer_is_kept_without_a_word(function: Function, rows: int) -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with contextlib.suppress(CaptureError):
            program = onward.export(function, (_matrix(rows),), dynamic_axes={"x": {0: "n"}})
            lines = [str(each.message) for each in caught if "test_memory_questions.py:" in str(each.message)]
            assert lines or not _unlike(program, function)


def test_a_view_of_the_same_shape_is_told_with_its_sizes() -> None:
    with pytest.warns(onward.CaptureWarning, match="`n <= 2` is False, and n = 2 would take the other branch"):
        onward.export(written_through_a_view_of_the_same_shape, (_matrix(6),), dynamic_axes={"x": {0: "n"}})


def test_the_warning_names_the_line_and_the_size() -> None:
    text = r"test_memory_questions.py:\d+: .* `storage_offset\(\) > 3` is True, and n = 1"
    with pytest.warns(onward.CaptureWarning, match=text):
        program = onward.export(far_from_the_beginning, (_matrix(6),), dynamic_axes={"x": {0: "n"}})
    assert _unlike(program, far_from_the_beginning) == [1]


@pytest.mark.parametrize("rows", [6, 1])
@pytest.mark.parametrize("function", [contiguous_if_one_row, contiguous_result, contiguous_part, channels_last])
def test_a_condition_on_sizes_keeps_both_sides(function: Function, rows: int) -> None:
    program = onward.export(function, (_matrix(rows),), dynamic_axes={"x": {0: "n"}}, verify=True)
    assert "If" in [node.op_type for node in program.model.graph]
    assert not _unlike(program, function)


SIZES = [(2, 3), (1, 1), (2, 1), (2, 2), (1, 3), (3, 2), (1, 7), (3, 7)]


def test_a_part_as_long_as_the_whole_is_a_condition_on_both_lengths() -> None:
    def contiguous_half(x: torch.Tensor) -> torch.Tensor:
        y = x[:, : x.shape[1] // 2 + 1]
        return y * 2 if y.is_contiguous() else y * 3

    axes = {"x": {0: "rows", 1: "columns"}}
    program = onward.export(contiguous_half, (torch.randn(2, 3),), dynamic_axes=axes, verify=True)
    for sizes in SIZES:
        x = torch.randn(sizes)
        torch.testing.assert_close(program(x), contiguous_half(x))


@pytest.mark.parametrize("script", [False, True])
def test_a_file_refuses_sizes_at_which_a_write_reaches_the_whole(script: bool) -> None:
    model: torch.nn.Module = _WritesToAPart()
    model = torch.jit.script(model) if script else model
    axes = {"x": {0: "rows", 1: "columns"}}
    with pytest.warns(onward.CaptureWarning, match=r"\(rows == 1\) or .* == columns\)` is False.*The file refuses"):
        program = onward.export(model, (torch.randn(2, 3),), dynamic_axes=axes)
    for sizes in SIZES:
        x = torch.randn(sizes)
        if x[:, : sizes[1] // 2 + 1].is_contiguous():
            with pytest.raises(onward.VerifyError):
                program(x)
        else:
            torch.testing.assert_close(program(x.clone()), model(x.clone()))


class _WritesToAPart(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = x[:, : x.shape[1] // 2 + 1]
        y.flatten()[0] = 7.0
        return y.cos()


def strides_as_numbers(x: torch.Tensor) -> torch.Tensor:
    y = x[None].expand(2, -1, -1)
    return x * x.stride(0) + y.stride(0) + x.t().stride(1)


def made_contiguous(x: torch.Tensor) -> torch.Tensor:
    y = x.t()
    return (y if y.is_contiguous() else y.contiguous()) * 3


def copies_are_contiguous(x: torch.Tensor) -> torch.Tensor:
    y = x.t().contiguous()
    return y * 2 if y.is_contiguous() and y[1:].is_contiguous() else y * 3


def offset_of_a_fixed_part(x: torch.Tensor) -> torch.Tensor:
    return x * x[:, 1:].storage_offset()


@pytest.mark.parametrize("rows", [6, 1])
@pytest.mark.parametrize(
    "function", [strides_as_numbers, made_contiguous, copies_are_contiguous, offset_of_a_fixed_part]
)
def test_what_is_right_at_all_sizes_is_silent(function: Function, rows: int) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error", onward.CaptureWarning)
        program = onward.export(function, (_matrix(rows),), dynamic_axes={"x": {0: "n"}})
    assert not _unlike(program, function)


def test_a_place_that_depends_on_an_axis_is_refused() -> None:
    with pytest.raises(CaptureError, match=r"no form in the graph \(storage_offset\(\): 20\)"):
        onward.export(lambda x: x[-1] * x[-1].storage_offset(), (_matrix(6),), dynamic_axes={"x": {0: "n"}})
    with pytest.raises(CaptureError, match="is_set_to.* the same memory, which depends on a dynamic axis"):
        onward.export(lambda x: x * x[:2].is_set_to(x), (_matrix(6),), dynamic_axes={"x": {0: "n"}})


def test_without_dynamic_axes_the_answers_are_pytorchs() -> None:
    def asks(x: torch.Tensor) -> torch.Tensor:
        y = x.t()
        numbers = (
            *y.stride(),
            y[1:].storage_offset(),
            y.is_contiguous(),
            x[:].is_set_to(x),
            y._is_view(),
            (x * 1)._is_view(),
        )
        return torch.tensor(numbers) * x[0, 0]

    x = _matrix(3)
    assert torch.equal(onward.export(asks, (x,))(x), asks(x))
