"""Dynamic axes: what stays dynamic, what is refused, and in which words."""

from __future__ import annotations

import functools
import math
import operator
import re
import warnings
from typing import Any

import pytest
import torch

import onward
from onward.capture import CaptureWarning
from onward.capture.program.execute import execute

from .tracing import ops, shapes, traced

X = {"x": {0: "batch"}}


@pytest.mark.parametrize("batch", [1, 2, 3, 7])
@pytest.mark.parametrize(
    ("function", "shape"),
    [
        (lambda x: x.reshape(x.shape[0], -1), ("batch", 12)),
        (lambda x: x.reshape(x.shape[0] * 3, 4), ("3*batch", 4)),
        (lambda x: torch.zeros(x.shape[0] + 1, 2) + x.sum(), ("batch + 1", 2)),
        (lambda x: x.new_ones(2 * x.size(0), 5) * x.mean(), ("2*batch", 5)),
        (lambda x: torch.arange(x.shape[0]) + x.sum(), ("batch",)),
        (lambda x: x[: x.shape[0] // 1], ("batch", 3, 4)),
        (lambda x: torch.cat([x, x[:1]]), ("batch + 1", 3, 4)),
        (lambda x: x.expand(x.shape[0], 3, 4) + 1, ("batch", 3, 4)),
        (lambda x: x.flatten().unsqueeze(0), (1, "12*batch")),
        (lambda x: x.transpose(0, 2), (4, 3, "batch")),
        (lambda x: x * math.prod(x.shape[1:]), ("batch", 3, 4)),
        (lambda x: torch.full((x.numel(),), 2.0) * x.sum(), ("12*batch",)),
        (lambda x: torch.tensor([x.shape[0], 5]) + x.sum().long(), (2,)),
        (lambda x: x.repeat(x.shape[0] * 0 + 2, 1, 1), ("2*batch", 3, 4)),
    ],
)  # fmt: skip
def test_sizes_flow_through_python(function: Any, shape: tuple[int | str, ...], batch: int) -> None:
    assert shapes(traced(function, torch.randn(batch, 3, 4), X)) == [shape]


def test_a_static_axis_is_a_number() -> None:
    seen: list[Any] = []

    def function(x: torch.Tensor) -> torch.Tensor:
        seen.extend([hasattr(x.shape[0], "node"), hasattr(x.shape[1], "node")])  # what a torch.SymInt has
        return x * 2

    traced(function, torch.randn(2, 3), {"x": {0: "batch"}})
    assert seen[:2] == [True, False]


def test_axes_of_equal_size_stay_apart() -> None:
    program = traced(lambda x: x.transpose(0, 1), torch.randn(4, 4), {"x": {0: "rows", 1: "columns"}})
    assert shapes(program) == [("columns", "rows")]


def test_one_name_is_one_axis_over_several_inputs() -> None:
    program = traced(
        lambda x, y: torch.cat([x, y], 1), (torch.randn(2, 3), torch.randn(2, 5)), {"x": {0: "n"}, "y": {0: "n"}}
    )
    assert shapes(program) == [("n", 8)]


def test_axes_that_must_be_equal_are_found_out() -> None:
    with pytest.warns(CaptureWarning, match=r"axis 0 of 'y' is written as 'x_axis_0' \(axis 0 of 'x'\)"):
        program = traced(lambda x, y: x + y, (torch.randn(3, 2), torch.randn(3, 2)), {"x": [0], "y": [0]})
    assert shapes(program) == [("x_axis_0", 2)]
    assert program.inputs[1].axes == {0: "x_axis_0"}


@pytest.mark.parametrize(
    ("function", "expression", "value", "reason"),
    [
        (
            lambda x: x * (operator.index(x.shape[0]) ** 3 % 5),
            "batch",
            6,
            ".* uses a number that no formula of the axes gives:\n    1 at batch = 6\n    3 at",
        ),
        (
            lambda x: functools.reduce(lambda y, _: y.unsqueeze(0), range(x.shape[0]), x),
            "batch",
            6,
            "the model runs other operations at",
        ),
        (
            lambda x: [x[i] * 2 for i in range(x.shape[0])],
            "batch",
            6,
            "the model returns another number of values at other sizes:\n    6 at batch = 6\n    12 at batch = 12",
        ),
        (lambda x: x * 2 if x.shape[0] % 4 == 0 else x[0], "(batch % 4) == 0", False, "a branch depends on the size"),
        (lambda x: x.sum(0) if len(x) < 9 else x.mean(), "batch < 9", True, "a branch depends on the size"),
    ],
)
def test_a_frozen_axis_is_an_error_with_its_line(function: Any, expression: str, value: Any, reason: str) -> None:
    with pytest.raises(onward.FrozenAxisError) as caught:
        traced(function, torch.randn(6, 3), X)
    text = str(caught.value)
    line = function.__code__.co_firstlineno
    assert "dynamic axis 'batch' (= 6) is frozen by the model" in text
    assert f"test_sizes.py:{line}: `{expression}` became {value!r}" in text
    assert re.search(f"it could not be thawed: {reason}", text)
    assert "allow_static_axes=True" in text
    assert caught.value.source is not None and caught.value.source.endswith(f"test_sizes.py:{line}")


def _even_or_shorter(x: torch.Tensor) -> torch.Tensor:
    return x if int(x.shape[0] % 2) == 0 else x[:-1]


def _columns(x: torch.Tensor) -> torch.Tensor:
    return torch.cat([x[:, i : i + 1] * i for i in range(x.shape[1])], 1)


@pytest.mark.parametrize(
    ("function", "example"),
    [
        (lambda x: torch.stack([x[i] * 2 for i in range(x.shape[0])]), 6),
        (lambda x: x * 2 if x.shape[0] % 4 == 0 else x, 6),
        (lambda x: x.sum(0) if len(x) < 9 else x.mean(0), 6),
        (lambda x: x * 100 if x.shape[0] == 1 else x + 1, 1),
        (lambda x: x + 1 if x.shape[0] > 1 else x * 100, 1),
        (_even_or_shorter, 4),
        (_even_or_shorter, 3),
        (_columns, 6),
    ],
)
def test_branches_and_loops_over_sizes_are_kept(function: Any, example: int) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        program = traced(function, torch.randn(example, 3), {"x": {0: "batch", 1: "width"}})
    assert program.warnings == () and "kept as" in program.remarks[0]
    assert program.inputs[0].shape == ("batch", "width")
    for shape in ((1, 3), (2, 1), (3, 3), (4, 5), (7, 2), (8, 3), (9, 3), (10, 9), (20, 4)):
        x = torch.randn(shape)
        torch.testing.assert_close(execute(program, [x])[0], function(x))


def frozen_width(x: torch.Tensor) -> torch.Tensor:
    for _ in range(x.shape[1]):
        x = x.unsqueeze(2)
    return x


def test_a_frozen_axis_may_be_written_as_fixed() -> None:
    axes = {"x": {0: "batch", 1: "width"}}
    with pytest.warns(CaptureWarning, match="written as fixed: dynamic axis 'width'"):
        program = traced(frozen_width, torch.randn(6, 3), axes, allow_static_axes=True)
    assert program.inputs[0].shape == ("batch", 3)


def test_a_frozen_axis_leaves_the_others_out_of_the_message() -> None:
    with pytest.raises(onward.FrozenAxisError, match="dynamic axis 'width'") as caught:
        traced(frozen_width, torch.randn(6, 3), {"x": {0: "batch", 1: "width"}})
    assert caught.value.axes == ("width",)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x * 100 if x.shape[0] == 1 else x.sum(0),
        lambda x: x.sum(0) if x.shape[0] > 1 else x * 100,
        lambda x: x.squeeze(),
        lambda x: x.squeeze(0) * 2,
        lambda x: x.squeeze((0, 1)) * 2,
        lambda x: x.clone().squeeze_(0),
        lambda x: x.chunk(2)[-1],
        lambda x: list(x.chunk(2)),
        lambda x: x.split(2)[-1],
    ],
)
def test_an_example_of_size_one_is_right_or_refused(function: Any) -> None:
    line = function.__code__.co_firstlineno
    with pytest.raises((onward.FrozenAxisError, onward.errors.RefusedSizesError)) as caught:
        traced(function, torch.randn(1, 3, 1), X)
    assert caught.value.source == f"{__file__}:{line}"


def test_a_refused_example_of_size_one_names_the_branch_and_what_to_do() -> None:
    with pytest.raises(onward.errors.RefusedSizesError) as caught:
        traced(lambda x: x.squeeze(0) * 2, torch.randn(1, 3), X)
    assert re.search(
        r"something else at batch = 1, the example, than at larger sizes because of `batch == 1` "
        r"\(.*test_sizes.py:\d+\); "
        "an example with larger sizes gives a file for those",
        str(caught.value),
    )


def test_an_example_of_size_one_may_be_written_as_fixed() -> None:
    with pytest.warns(CaptureWarning, match="written as fixed"):
        program = traced(
            lambda x: x * 100 if x.shape[0] == 1 else x.sum(0), torch.randn(1, 3), X, allow_static_axes=True
        )
    assert ops(program) == ["aten.mul.Tensor"]
    assert shapes(program) == [(1, 3)]


def test_a_squeeze_that_makes_no_difference_is_no_reason_to_refuse() -> None:
    program = traced(lambda x: x.squeeze(0).sum(), torch.randn(1, 3), X)
    assert program.example_inputs[0].shape == (1, 3)
    assert torch.equal(program.example_outputs[0], program.example_inputs[0].sum())


@pytest.mark.parametrize(
    ("function", "expression"),
    [
        (lambda x: x.chunk(2)[-1], "number_of_chunks\\(batch, 2\\)` is 2, and batch = 1"),
        (lambda x: list(x.chunk(2)), "number_of_chunks\\(batch, 2\\)` is 2, and batch = 1"),
        (
            lambda x: torch.stack([each.sum() for each in x.chunk(3)]),
            "number_of_chunks\\(batch, 3\\)` is 3, and batch = 4",
        ),
    ],
)
def test_how_many_tensors_there_are_is_a_number_that_depends_on_sizes(function: Any, expression: str) -> None:
    with pytest.warns(CaptureWarning, match=expression):
        traced(function, torch.randn(6, 3), X)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x.split(x.shape[0] // 2)[1],
        lambda x: x.chunk(3)[0],
        lambda x: torch.cat(x[1:].chunk(3)[::-1]),  # there may be no row
        lambda x: torch.kron(x[:2], x[:3]),
        lambda x: torch.stack([x[i, :n].sum(0) for i, n in enumerate((x > 0).sum(1).tolist())]),
    ],
)
def test_pieces_and_numbers_that_follow_a_size_need_no_warning(function: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error", CaptureWarning)
        program = onward.export(function, (torch.randn(6, 4),), dynamic_axes={"x": {0: "batch"}}, verify=True)
    for size in (2, 3, 4, 5, 7, 12):
        x = torch.randn(size, 4)
        torch.testing.assert_close(program(x), function(x))


def test_as_many_tensors_at_any_size_need_no_warning() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error", CaptureWarning)
        traced(lambda x: x.tensor_split(2)[-1] + x.chunk(3, 1)[0].sum(), torch.randn(6, 3), X)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: torch.split(x[x[:, 0] > 0], [int((x[:, 0] > 0).sum())])[0] * len(x.sum(1).tolist()),
        lambda x: torch.split(x.flatten(), (x > -9).sum(1).tolist()),
        lambda x: torch.tensor(x.sum(1).tolist()) + x.sum(),
        lambda x: torch.tensor(x.detach().numpy()) + x.sum(),
    ],
)
@pytest.mark.filterwarnings("ignore::onward.CaptureWarning")
def test_numbers_read_from_a_dynamic_axis_freeze_it(function: Any) -> None:
    with pytest.raises(onward.FrozenAxisError, match="dynamic axis 'batch' .* is frozen"):
        traced(function, torch.randn(3, 4).abs(), X)


def test_a_branch_that_no_probe_takes_is_warned_about_with_its_line() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        return x * 2 if x.shape[0] > 2 else x[0]  # an If has results of one rank

    with pytest.warns(CaptureWarning) as caught:
        program = traced(function, torch.randn(8, 3), X)
    line = function.__code__.co_firstlineno + 1
    assert re.search(rf"test_sizes.py:{line}: a branch depends on the size of axis 'batch'", str(caught[0].message))
    assert program.warnings == (str(caught[0].message),)


def test_sizes_that_the_model_refuses_are_tried_again_below_the_limit() -> None:
    table = torch.randn(40, 3)

    def function(x: torch.Tensor) -> torch.Tensor:
        return x + table[: x.shape[0]]  # fewer rows than the probe wants beyond 40

    assert shapes(traced(function, torch.randn(32, 3), X)) == [("batch", 3)]


def test_rounding_is_seen_although_the_example_is_even() -> None:
    program = traced(lambda x: torch.zeros(x.shape[0] // 2 * 2) + x.sum(), torch.randn(4, 3), X)
    assert shapes(program) != [("batch",)]
    with pytest.raises(onward.FrozenAxisError, match=r"`\(batch % 2\) == 0` became True"):
        traced(lambda x: x if int(x.shape[0] % 2) == 0 else x[:-1].sum(), torch.randn(4, 3), X)


def test_a_model_that_needs_multiples_gets_them() -> None:
    program = traced(lambda x: x.reshape(-1, 4, 3) + torch.zeros(x.shape[0] // 4, 4, 3), torch.randn(8, 3), X)
    assert program.outputs[0].fact.shape[1:] == (4, 3)


def test_an_axis_that_cannot_vary_says_which_op_line_and_sizes() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        return x + torch.ones(6, 1)

    with pytest.raises(onward.CaptureError) as caught:
        traced(function, torch.randn(6, 3), X)
    text = str(caught.value)
    assert "works on the example but not at other sizes of 'batch'" in text
    assert "aten.add.Tensor" in text
    assert f"test_sizes.py:{function.__code__.co_firstlineno + 1}" in text
    assert "tried batch = 6/12/19/33" in text
    assert "tried batch = 6/12/18/30" in text
    assert "tried batch = 6/7/8/10" in text


def test_output_axes_take_the_name_asked_for() -> None:
    program = traced(lambda x: torch.cat([x, x[:1]]), torch.randn(4, 3), {"x": {0: "n"}, "output": {0: "n_plus_one"}})
    assert shapes(program) == [("n_plus_one", 3)]


def test_an_output_axis_that_is_fixed_is_said_to_be() -> None:
    with pytest.warns(CaptureWarning, match=r"dynamic_axes\['output'\]\[1\] is 'm', but the model always gives 3"):
        traced(lambda x: x * 2, torch.randn(4, 3), {"x": {0: "n"}, "output": {0: "n", 1: "m"}})


def test_nothing_is_warned_about_where_nothing_is_decided() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        traced(lambda x: x.view(x.shape[0], -1).relu(), torch.randn(4, 3), X)


def test_a_pool_over_the_whole_axis_is_a_reduction() -> None:
    program = traced(
        lambda x: torch.nn.functional.max_pool1d(x, x.size(2)), torch.randn(2, 3, 9), {"x": {0: "b", 2: "s"}}
    )
    assert ops(program) == ["aten.amax.default"]
    assert shapes(program) == [("b", 3, 1)]


@pytest.mark.parametrize("digits", [-2, -1, 1])
@pytest.mark.parametrize("example", [1, 12])
def test_a_size_that_is_rounded_to_tens_or_hundreds(digits: int, example: int) -> None:
    class Model(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x + round(x.shape[0], digits)

    exported = onward.export(
        Model(), (torch.randn(example, 3),), input_names=["x"], dynamic_axes={"x": {0: "rows"}}, verify=False
    )
    for rows in (1, 4, 5, 6, 15, 25, 35, 36, 50, 51, 149, 150, 250):
        x = torch.randn(rows, 3)
        torch.testing.assert_close(exported(x), x + round(rows, digits))
