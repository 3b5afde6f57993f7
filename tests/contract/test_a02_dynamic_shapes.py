"""A2: `dynamic_shapes` in every form that `torch.export` takes, alone or together with `dynamic_axes`."""

from __future__ import annotations

import dataclasses
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.export import AdditionalInputs, Dim, ShapesCollection
from torch.utils import _pytree as pytree

import onward
from tests.opsets import DEFAULT, NEWEST

from .nets import Encoder
from .running import assert_same, load, open_session, run, shapes

MODEL = Encoder().eval()
BATCH, LENGTH = Dim("batch"), Dim("length")
FIXED, AUTO, DYNAMIC = Dim.STATIC, Dim.AUTO, Dim.DYNAMIC


def inputs(batch: int, length: int) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.randn(batch, length, 4), torch.rand(batch, length)


EXAMPLE = inputs(2, 5)
FORMS = {
    "a dict of dicts": ({"x": {0: BATCH, 1: LENGTH}, "mask": {0: BATCH, 1: LENGTH}}, ("batch", "length")),
    "a dict of tuples": ({"x": (BATCH, LENGTH, None), "mask": (BATCH, LENGTH)}, ("batch", "length")),
    "a tuple": (({0: BATCH, 1: LENGTH}, [BATCH, LENGTH]), ("batch", "length")),
    "a list": ([{0: BATCH, 1: LENGTH}, (BATCH, LENGTH)], ("batch", "length")),
    "names": ({"x": {0: "batch", 1: "length"}, "mask": ("batch", "length")}, ("batch", "length")),
    "names and Dims": ({"x": {0: "batch", 1: LENGTH}, "mask": (BATCH, "length")}, ("batch", "length")),
    "negative axes": ({"x": {-3: BATCH, -2: LENGTH}, "mask": {-2: BATCH, -1: LENGTH}}, ("batch", "length")),
    "another order": ({"mask": (BATCH, LENGTH), "x": (BATCH, LENGTH, FIXED)}, ("batch", "length")),
    "sizes are fixed": ({"x": (BATCH, LENGTH, 4), "mask": (BATCH, LENGTH)}, ("batch", "length")),
    "STATIC": ({"x": (BATCH, FIXED, FIXED), "mask": (BATCH, FIXED)}, ("batch", 5)),
    "None": ({"x": (BATCH, None, None), "mask": (BATCH, None)}, ("batch", 5)),
    "DYNAMIC": ({"x": (DYNAMIC, DYNAMIC, 4), "mask": (DYNAMIC, DYNAMIC)}, ("x_axis_0", "x_axis_1")),
    "AUTO": ({"x": (AUTO, AUTO, AUTO), "mask": (AUTO, AUTO)}, ("x_axis_0", "x_axis_1")),
    "bounds on hints": ({"x": (AUTO(max=9), 5, 4), "mask": (DYNAMIC(min=2, max=9), 5)}, ("x_axis_0", 5)),
    "nothing": ({}, (2, 5)),
    "None for all": ((None, None), (2, 5)),
}


@pytest.mark.parametrize("opset", [9, DEFAULT, NEWEST])
@pytest.mark.parametrize(("form", "expected"), FORMS.values(), ids=FORMS.keys())
def test_every_form_says_the_same(form: Any, expected: tuple, opset: int, tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    with warnings.catch_warnings():
        warnings.simplefilter("error", onward.CaptureWarning)
        onward.export(MODEL, EXAMPLE, path, dynamic_shapes=form, opset_version=opset, verify=opset == DEFAULT)
    proto = load(path)
    assert shapes(proto.graph.input) == {"x": (*expected, 4), "mask": expected}
    assert shapes(proto.graph.output) == {"output": (*expected, 6)}
    other = inputs(*(size if isinstance(dim, int) else size + 3 for dim, size in zip(expected, (2, 5), strict=True)))
    assert_same(run(path, other), [MODEL(*other)])


# Bounds --------------------------------------------------------------------------------------------------------------


def recording(seen: set[int]) -> Any:
    def model(x: torch.Tensor) -> torch.Tensor:
        if x.device.type != "meta" and type(x) is torch.Tensor:
            seen.add(x.shape[0])
        return x.reshape(x.shape[0] * 2, -1).relu()

    return model


@pytest.mark.parametrize(("low", "high", "example"), [(2, 64, 32), (3, 4, 3), (2, 9, 8), (5, None, 5), (None, 3, 1)])
def test_bounds_are_kept_when_probing_and_verifying(low: int | None, high: int | None, example: int) -> None:
    seen: set[int] = set()
    dim = Dim("batch", min=low, max=high)
    program = onward.export(recording(seen), torch.randn(example, 4), dynamic_shapes=({0: dim},), verify=True)
    probed = program.captured.axes["batch"]
    assert len(set(probed)) > 1 and probed[0] == example
    for size in (*probed, *seen):
        assert max(low or 1, 1) <= size <= (high or size)
    runs = [check.label for check in program.verify().checks]
    assert runs[0] == "example" and len(runs) > 1
    assert ("batch=1" in runs) is (low is None and example != 1)


def test_bounds_are_recorded(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    batch, length = Dim("batch", min=2, max=64), Dim("length", max=128)
    form = {"x": (batch, length, 4), "mask": (batch, length)}
    program = onward.export(MODEL, EXAMPLE, path, dynamic_shapes=form)
    assert [port.bounds for port in program.inputs] == [{0: (2, 64), 1: (0, 128)}] * 2
    assert program.outputs[0].bounds == {0: (2, 64), 1: (0, 128)}
    found = open_session(path).get_modelmeta().custom_metadata_map
    assert found == {"onward.axis.batch": "2..64", "onward.axis.length": "0..128"}
    unbounded = onward.export(MODEL, EXAMPLE, dynamic_shapes={"x": (BATCH, 5, 4), "mask": (BATCH, 5)})
    assert unbounded.inputs[0].bounds == {} and not unbounded.proto().metadata_props


def test_a_branch_beyond_the_bounds_is_nobodys_business() -> None:
    def model(x: torch.Tensor) -> torch.Tensor:
        return x * 2 if x.shape[0] > 3 else x - 1

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        onward.export(model, torch.randn(6, 2), dynamic_shapes=({0: Dim("n", min=4)},), verify=True)
        kept = onward.export(model, torch.randn(6, 2), dynamic_shapes=({0: Dim("n", min=3)},), verify=True)
    assert "kept as If" in str(kept.captured.remarks)


def test_divisibility_is_kept_within_bounds(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"

    def patches(x: torch.Tensor) -> torch.Tensor:
        return x.reshape(x.shape[0], x.shape[1] // 16, 16).sum(-1)

    dim = Dim("width", min=16, max=64)
    onward.export(patches, torch.randn(2, 32), path, dynamic_shapes=({1: dim},), verify=True)
    other = torch.randn(2, 48)
    assert_same(run(path, [other]), [patches(other)])


def test_frozen_numbers_thaw_within_bounds(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"

    def halved(x: torch.Tensor) -> torch.Tensor:
        return x[: int(x.shape[0] * 0.5)]

    onward.export(halved, torch.randn(8, 3), path, dynamic_shapes=({0: Dim("n", min=4, max=12)},), verify=True)
    for size in (4, 5, 11, 12):
        other = torch.randn(size, 3)
        assert_same(run(path, [other]), [halved(other)])


# Axes that follow others ---------------------------------------------------------------------------------------------


def test_derived_axes_follow_their_root(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    n = Dim("n", min=2, max=32)

    def model(x: torch.Tensor, twice: torch.Tensor, more: torch.Tensor) -> torch.Tensor:
        return torch.cat([x, x]) + twice - more[1:].repeat(2, 1)

    example = (torch.randn(3, 2), torch.randn(6, 2), torch.randn(4, 2))
    program = onward.export(model, example, path, dynamic_shapes=({0: n}, {0: 2 * n}, {0: n + 1}), verify=True)
    assert [port.shape[0] for port in program.inputs] == ["n", "2*n", "n + 1"]
    assert [port.bounds for port in program.inputs] == [{0: (2, 32)}, {0: (4, 64)}, {0: (3, 33)}]
    assert list(program.captured.axes) == ["n"]
    other = (torch.randn(5, 2), torch.randn(10, 2), torch.randn(6, 2))
    assert_same(run(path, other), [model(*other)])


def test_the_root_need_not_be_an_axis(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    n = Dim("n")

    def model(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return x.reshape(-1, 2, 3).sum(1) + y[1:]

    program = onward.export(
        model, (torch.randn(8, 3), torch.randn(5, 3)), path, dynamic_shapes=({0: 2 * n}, {0: n + 1}), verify=True
    )
    assert [port.shape for port in (*program.inputs, *program.outputs)] == [("2*n", 3), ("n + 1", 3), ("n", 3)]
    other = (torch.randn(6, 3), torch.randn(4, 3))
    assert_same(run(path, other), [model(*other)])


@pytest.mark.parametrize("parameter", ["dynamic_axes", "dynamic_shapes"])
def test_a_name_may_be_a_sum_of_others(parameter: str, tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"

    axes = {"past": {1: "past"}, "new": {1: "new"}, "mask": {1: "past + new"}}
    example = (torch.randn(2, 5), torch.randn(2, 3), torch.rand(2, 8))
    onward.export(masked, example, path, verify=True, **{parameter: axes})
    assert shapes(load(path).graph.input)["mask"] == (2, "past + new")
    other = (torch.randn(2, 1), torch.randn(2, 9), torch.rand(2, 10))
    assert_same(run(path, other), [masked(*other)])


def masked(past: torch.Tensor, new: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    return torch.cat([past, new], 1) * mask


def test_an_axis_that_can_only_be_the_sum_of_two_others_is_taken_for_it(tmp_path: Path) -> None:
    path, example = tmp_path / "model.onnx", (torch.randn(2, 5), torch.randn(2, 3), torch.rand(2, 8))
    axes = {"past": {1: "past"}, "new": {1: "new"}, "mask": {1: "total"}}
    with pytest.warns(onward.CaptureWarning, match="axis 1 of 'mask', 'total', is taken for past \\+ new") as caught:
        program = onward.export(masked, example, path, dynamic_axes=axes, verify=True)
    assert caught[0].filename == __file__ and program.warnings == (str(caught[0].message),)
    assert shapes(load(path).graph.output) == {"output": (2, "total")}
    other = (torch.randn(2, 1), torch.randn(2, 9), torch.rand(2, 10))
    assert_same(run(path, other), [masked(*other)])
    with warnings.catch_warnings():  # nobody named these
        warnings.simplefilter("error")
        program = onward.export(masked, example, dynamic_shapes=((AUTO, AUTO),) * 3, verify=True)
    assert [port.shape for port in program.inputs] == [
        ("past_axis_0", "past_axis_1"),
        ("past_axis_0", "new_axis_1"),
        ("past_axis_0", "mask_axis_1"),
    ]


# AUTO ----------------------------------------------------------------------------------------------------------------


def frozen(x: torch.Tensor) -> torch.Tensor:
    return x * pow(7, int(x.shape[0]), 101)  # no formula has these numbers


def looped(x: torch.Tensor) -> torch.Tensor:
    return torch.cat([x[i] for i in range(x.shape[0])])


def test_what_the_model_does_not_let_vary_is_fixed_without_complaint() -> None:
    def model(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return frozen(x) + y.sum() + x.shape[1]

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        program = onward.export(
            model, (torch.randn(3, 4), torch.randn(5)), dynamic_shapes=((AUTO, AUTO), (AUTO,)), verify=True
        )
    assert [port.shape for port in program.inputs] == [(3, "x_axis_1"), ("y_axis_0",)]
    assert any("written as fixed: dynamic axis 'x_axis_0' (= 3) is frozen" in each for each in program.warnings)


def test_an_axis_that_the_model_loops_over_varies() -> None:
    def model(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return looped(x) + y.sum() + x.shape[1]

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        program = onward.export(
            model, (torch.randn(3, 4), torch.randn(5)), dynamic_shapes=((AUTO, AUTO), (AUTO,)), verify=True
        )
    assert [port.shape for port in program.inputs] == [("x_axis_0", "x_axis_1"), ("y_axis_0",)]
    for rows, columns in ((1, 1), (2, 7), (9, 4)):
        other = torch.randn(rows, columns), torch.randn(2)
        torch.testing.assert_close(program(*other), model(*other))


def test_sizes_that_the_model_refuses_are_fixed_without_complaint() -> None:
    layer = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.Flatten(2), torch.nn.ReLU())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        program = onward.export(layer, torch.randn(3, 3, 8, 8), dynamic_shapes=((AUTO,) * 4,), verify=True)
    assert program.inputs[0].shape == ("input_axis_0", 3, "input_axis_2", "input_axis_3")
    assert any("written as fixed: axis 1 of 'input'" in each for each in program.warnings)


def auto(model: Any, *example: torch.Tensor) -> Any:
    """A model with every axis AUTO, verified, and not a word to the user."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        shapes = tuple((AUTO,) * each.dim() for each in example)
        names = [f"in_{place}" for place in range(len(example))]
        return onward.export(model, example, dynamic_shapes=shapes, input_names=names, verify=True)


def test_an_axis_of_one_that_broadcasts_is_fixed() -> None:
    program = auto(lambda x, y: x + y, torch.randn(5, 1), torch.randn(7))
    assert [port.shape for port in program.inputs] == [("in_0_axis_0", 1), ("in_1_axis_0",)]


def test_an_axis_that_squeeze_would_drop_starts_at_two() -> None:
    program = auto(lambda x: x.squeeze(), torch.randn(5, 1))
    assert program.inputs[0].shape == ("in_0_axis_0", 1)
    assert program.inputs[0].bounds == {0: (2, None)}
    assert any("written for sizes from 2 on: axis 0 of 'in_0'" in each for each in program.warnings)


def test_an_axis_that_only_a_mask_binds_is_one_with_the_masks() -> None:
    program = auto(torch.masked_select, torch.randn(4, 3), torch.rand(4, 3) > 0.5)
    assert program.inputs[0].shape == program.inputs[1].shape == ("in_0_axis_0", "in_0_axis_1")


def test_an_axis_that_has_no_dynamic_form_in_onnx_is_fixed() -> None:
    program = auto(torch.nn.functional.conv2d, torch.randn(2, 3, 8, 9), torch.randn(4, 3, 3, 5))
    assert program.inputs[0].shape == ("in_0_axis_0", "in_0_axis_1", "in_0_axis_2", "in_0_axis_3")
    assert program.inputs[1].shape == ("in_1_axis_0", "in_0_axis_1", 3, 5)
    assert any("written as fixed: axis 2 of 'in_1', axis 3 of 'in_1': " in each for each in program.warnings)


def test_what_never_has_a_form_in_onnx_is_still_an_error() -> None:
    with pytest.raises(onward.UnsupportedOpError, match="aten.resize"):
        auto(lambda x: torch.ops.aten.resize.default(x, [3]), torch.randn(3))


def test_a_frozen_axis_is_placed_though_its_root_is_none() -> None:
    with pytest.raises(onward.FrozenAxisError, match=r"'n' \(= 2\) is frozen.* the size of axis 0 of 'x'"):
        onward.export(frozen, torch.randn(4, 3), dynamic_shapes=({0: 2 * Dim("n")},))


def test_a_loop_over_an_axis_whose_root_is_none() -> None:
    program = onward.export(looped, torch.randn(4, 3), dynamic_shapes=({0: 2 * Dim("n")},), verify=True)
    assert [port.shape for port in (*program.inputs, *program.outputs)] == [("2*n", 3), ("6*n",)]
    for rows in (2, 6, 8):
        other = torch.randn(rows, 3)
        torch.testing.assert_close(program(other), looped(other))


def test_what_must_be_dynamic_is_still_an_error() -> None:
    def model(x: torch.Tensor) -> torch.Tensor:
        return frozen(x) + x.shape[1]

    with pytest.raises(onward.FrozenAxisError, match="dynamic axis 'x_axis_0' "):
        onward.export(model, torch.randn(3, 4), dynamic_shapes=((DYNAMIC, AUTO),))
    with pytest.raises(onward.FrozenAxisError, match="dynamic axis 'n' "):
        onward.export(model, torch.randn(3, 4), dynamic_axes={"x": {0: "n"}}, dynamic_shapes=((AUTO, AUTO),))
    with pytest.raises(onward.errors.RefusedSizesError, match="not at other sizes of 'f'"):
        onward.export(torch.nn.Linear(4, 2), torch.randn(3, 4), dynamic_shapes={"input": {1: "f"}})


# Nested arguments ----------------------------------------------------------------------------------------------------


@dataclasses.dataclass
class Batch:
    values: torch.Tensor
    extra: list[torch.Tensor]


class Ragged:
    def __init__(self, rows: torch.Tensor, lengths: torch.Tensor) -> None:
        self.rows, self.lengths = rows, lengths


pytree.register_pytree_node(
    Ragged,
    lambda ragged: ([ragged.rows, ragged.lengths], None),
    lambda children, _: Ragged(*children),
    serialized_type_name="tests.contract.dynamic_shapes.Ragged",
)


def rows(size: int = 3) -> torch.Tensor:
    return torch.randn(size, 2)


B = {0: BATCH}
NESTED: dict[str, tuple[Any, tuple, dict[str, Any], Any]] = {
    "a list": (lambda xs: xs[0] + xs[1], ([rows(), rows()],), {}, {"xs": [B, B]}),
    "a list by a tuple": (lambda xs: xs[0] + xs[1], ([rows(), rows()],), {}, ((B, (BATCH, None)),)),
    "a dict": (lambda d: d["a"] + d["b"][0], ({"a": rows(), "b": [rows()]}, {}), {}, {"d": {"a": B, "b": [B]}}),
    "a dataclass by its fields": (
        lambda batch: batch.values + batch.extra[0],
        (Batch(rows(), [rows()]),),
        {},
        {"batch": {"values": B, "extra": [B]}},
    ),
    "a dataclass by itself": (
        lambda batch: batch.values + batch.extra[0],
        (Batch(rows(), [rows()]),),
        {},
        ({"values": B, "extra": (B,)},),
    ),
    "a registered pytree": (lambda r: r.rows + r.lengths, (Ragged(rows(), rows()),), {}, {"r": [B, B]}),
    "*args": (lambda x, *more: x + more[0] + more[1], (rows(), rows(), rows()), {}, {"x": B, "more": (B, B)}),
    "*args in a tuple": (lambda x, *more: x + more[0], (rows(), rows()), {}, (B, (B,))),
    "**kwargs": (lambda x, **more: x + more["y"], (rows(),), {"y": rows()}, {"x": B, "more": {"y": B}}),
    "**kwargs by their own names": (lambda x, **more: x + more["y"], (rows(),), {"y": rows()}, {"x": B, "y": B}),
    "kwargs": (lambda x, *, y: x + y, (rows(),), {"y": rows()}, {"x": B, "y": B}),
    "with something that is no tensor": (lambda x, k, y: x * k + y, (rows(), 2, rows()), {}, (B, None, B)),
    "AUTO for something that is no tensor": (lambda x, k, y: x * k + y, (rows(), 2, rows()), {}, (B, AUTO, B)),
}


@pytest.mark.parametrize(("model", "args", "kwargs", "form"), NESTED.values(), ids=NESTED.keys())
def test_shapes_are_nested_like_the_arguments(model: Any, args: tuple, kwargs: dict, form: Any) -> None:
    program = onward.export(model, args, kwargs=kwargs, dynamic_shapes=form, verify=True)
    assert {port.shape for port in program.inputs} == {("batch", 2)}
    assert program.outputs[0].shape == ("batch", 2)


def test_input_names_are_keys_too() -> None:
    program = onward.export(
        lambda pair: pair[0] + pair[1], ((rows(), rows()),), input_names=["a", "b"], dynamic_shapes={"a": B, "b": B}
    )
    assert [port.shape for port in program.inputs] == [("batch", 2)] * 2


def test_a_collection_of_shapes() -> None:
    x, y = rows(), rows()
    collection = ShapesCollection()
    collection[x] = {0: BATCH}
    collection[y] = (BATCH, 2)
    program = onward.export(lambda a: a["x"] + a["y"], ({"x": x, "y": y}, {}), dynamic_shapes=collection, verify=True)
    assert [port.shape for port in program.inputs] == [("batch", 2)] * 2


def test_additional_inputs() -> None:
    more = AdditionalInputs()
    more.add((torch.randn(7, 5, 4), torch.randn(7, 5)))
    program = onward.export(MODEL, EXAMPLE, dynamic_shapes=more, verify=True)
    assert [port.shape for port in program.inputs] == [("x_axis_0", 5, 4), ("x_axis_0", 5)]


# Together with dynamic_axes ------------------------------------------------------------------------------------------

MERGED = {
    "one each": ({"mask": {0: "batch", 1: "length"}}, {"x": {0: BATCH, 1: LENGTH}}, ("batch", "length")),
    "axis by axis": (
        {"x": {0: "batch"}, "mask": {0: "batch"}},
        {"x": {1: LENGTH}, "mask": {1: LENGTH}},
        ("batch", "length"),
    ),
    "the same twice": ({"x": {0: "batch"}}, {"x": {0: BATCH}, "mask": {0: BATCH}}, ("batch", 5)),
    "a list gets its names": ({"x": [0], "mask": [0]}, ({0: BATCH}, {0: BATCH}), ("batch", 5)),
    "hints get their names": ({"x": {0: "batch"}, "mask": {0: "batch"}}, ((AUTO, 5, 4), (DYNAMIC, 5)), ("batch", 5)),
    "an output": ({"y": {0: "batch"}}, ({0: BATCH}, {0: BATCH}), ("batch", 5)),
}


@pytest.mark.parametrize(("axes", "form", "expected"), MERGED.values(), ids=MERGED.keys())
def test_both_parameters_add_up(axes: Any, form: Any, expected: tuple) -> None:
    program = onward.export(MODEL, EXAMPLE, output_names=["y"], dynamic_axes=axes, dynamic_shapes=form, verify=True)
    assert [port.shape for port in program.inputs] == [(*expected, 4), expected]


# Mistakes ------------------------------------------------------------------------------------------------------------

WRONG: dict[str, tuple[Any, str]] = {
    "no form": (3, "dynamic_shapes must be a dict by parameter or a tuple in the order of the arguments, not 3"),
    "no parameter": ({"y": {}}, "dynamic_shapes has 'y', and the arguments are x, mask\n  its keys are parameters"),
    "too few": (({0: BATCH},), r"dynamic_shapes has 1 entry, and there are 2 arguments \(x, mask\)"),
    "a name for an axis": ({"x": {"0": BATCH}}, r"dynamic_shapes\['x'\] has '0', and 'x' is a tensor: its axes"),
    "no such axis": ({"x": {3: BATCH}}, r"dynamic_shapes\['x'\] has axis 3, and 'x' has 3 axes\n  axes run from"),
    "axes missing": ({"x": (BATCH,)}, r"dynamic_shapes\['x'\] has 1 entry, and 'x' has 3 axes\n  give one entry per"),
    "a Dim for a tensor": ({"x": BATCH}, r"dynamic_shapes\['x'\] is Dim\('batch'\), and 'x' is a tensor of"),
    "another size": (({0: 3}, None), r"dynamic_shapes\[0\]\[0\] is 3, and axis 0 of 'x' is 2 in the example"),
    "no dimension": (({0: 2.5}, None), r"dynamic_shapes\[0\]\[0\] is 2.5\n  give a Dim, Dim.AUTO"),
    "a boolean": (({0: True}, None), r"dynamic_shapes\[0\]\[0\] is True\n  give a Dim, Dim.AUTO"),
    "no name": (({0: ""}, None), r"dynamic_shapes\[0\]\[0\] is ''\n  give a Dim, Dim.AUTO"),
    "below": (
        ({0: Dim("n", min=3)}, None),
        r"axis 0 of 'x' is 2 in the example, and Dim\('n', min=3\) allows 3 and more\n  use an example within",
    ),
    "above": (
        ({1: Dim("n", min=2, max=4)}, None),
        r"axis 1 of 'x' is 5 in the example, and Dim\('n', min=2, max=4\) allows 2 to 4",
    ),
    "a hint's bounds": (({1: AUTO(max=4)}, None), r"axis 1 of 'x' is 5 in the example, and Dim.AUTO\(max=4\) allows 0"),
    "two definitions": (
        ({0: Dim("n", max=8)}, {0: Dim("n", min=2)}),
        r"'n' has two definitions in dynamic_shapes: Dim\('n', max=8\) and Dim\('n', min=2\)\n  one name is one axis",
    ),
    "one size": (({0: DYNAMIC(min=2, max=2)}, None), r"Dim.DYNAMIC\(min=2, max=2\) on axis 0 of 'x' allows one size"),
    "two sizes of one name": (({0: BATCH, 1: BATCH}, None), "'batch' is 2 on axis 0 of 'x' and 5 on axis 1 of 'x'"),
    "a relation that does not hold": (
        ({0: BATCH, 1: 2 * BATCH}, None),
        r"axis 1 of 'x' is '2\*batch', and its size in the example is 5: 'batch' is 2, so it must be 4",
    ),
    "a relation without a solution": (({1: 2 * BATCH}, None), r"axis 1 of 'x' is '2\*batch', and no size of 'batch'"),
}  # fmt: skip


@pytest.mark.parametrize(("form", "message"), WRONG.values(), ids=WRONG.keys())
def test_a_wrong_form_is_said_clearly(form: Any, message: str) -> None:
    with pytest.raises(onward.InputError, match=message):
        onward.export(MODEL, EXAMPLE, dynamic_shapes=form)


def test_a_root_out_of_bounds_is_said() -> None:
    with pytest.raises(onward.InputError, match=r"'n' is 2 in the example, and Dim\('n', min=3, max=9\) allows 3 to 9"):
        onward.export(MODEL, inputs(2, 4), dynamic_shapes=({1: 2 * Dim("n", min=3, max=9)}, None))


@pytest.mark.parametrize(
    ("args", "form", "message"),
    [
        (([rows(), rows()],), {"xs": [B]}, r"dynamic_shapes\['xs'\] has 1 entry, and the argument there is a list"),
        (([rows(), rows()],), {"xs": B}, r"dynamic_shapes\['xs'\]\[0\] is Dim\('batch'\), and 'xs_0' is a"),
        (([rows(), rows()],), {"xs": BATCH}, r"dynamic_shapes\['xs'\] is Dim\('batch'.*, and the argument there is"),
        (({"a": rows()}, {}), {"xs": {"b": B}}, r"dynamic_shapes\['xs'\] has 'b', and the argument there has a\n"),
        (({"a": rows()}, {}), {"a": B}, r"dynamic_shapes has 'a', and the arguments are xs\n.* wrap it in a tuple"),
        (([rows(), 3],), {"xs": [B, B]}, r"dynamic_shapes\['xs'\]\[1\] is .*, and the argument there is 3, which"),
    ],
)  # fmt: skip
def test_a_wrong_nesting_is_said_clearly(args: tuple, form: Any, message: str) -> None:
    with pytest.raises(onward.InputError, match=message):
        onward.export(lambda xs: xs[0] + 1, args, dynamic_shapes=form)


def test_a_parameter_that_is_left_at_its_default() -> None:
    def model(x: torch.Tensor, mask: torch.Tensor | None = None) -> torch.Tensor:
        return x if mask is None else x * mask

    program = onward.export(model, rows(), dynamic_shapes={"x": B, "mask": None})
    assert [port.shape for port in program.inputs] == [("batch", 2)]
    with pytest.raises(onward.InputError, match="has 'mask', which the example call leaves at its default\n  pass"):
        onward.export(model, rows(), dynamic_shapes={"x": B, "mask": B})


def test_wrong_collections_are_said() -> None:
    collection, more = ShapesCollection(), AdditionalInputs()
    collection[torch.randn(2, 3)] = {0: BATCH}
    more.add((torch.randn(2, 5), torch.rand(2, 5)))
    with pytest.raises(onward.InputError, match="a ShapesCollection, has 1 that are no tensors among the arguments"):
        onward.export(MODEL, EXAMPLE, dynamic_shapes=collection)
    with pytest.raises(
        onward.InputError, match="an AdditionalInputs, has 2 axes for 'x' in its call 0, and the example"
    ):
        onward.export(MODEL, EXAMPLE, dynamic_shapes=more)


@pytest.mark.parametrize(
    ("axes", "form", "message"),
    [
        (
            {"x": {0: "n"}},
            {"x": {0: BATCH}},
            r"dynamic_axes\['x'\]\[0\] is 'n', and dynamic_shapes\['x'\]\[0\] is 'batch': they contradict each other",
        ),
        ({"x": {0: "n"}}, {"x": {0: 2}}, r"dynamic_axes\['x'\]\[0\] is 'n', and dynamic_shapes\['x'\]\[0\] is 2: they"),
        ({"x": [0]}, {"x": {0: FIXED}}, r"\['x'\]\[0\] is 'x_axis_0', and dynamic_shapes\['x'\]\[0\] is Dim.STATIC"),
    ],
)  # fmt: skip
def test_a_contradiction_names_both(axes: Any, form: Any, message: str) -> None:
    with pytest.raises(onward.InputError, match=message):
        onward.export(MODEL, EXAMPLE, dynamic_axes=axes, dynamic_shapes=form)
