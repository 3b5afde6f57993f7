"""B4: an ExportedProgram exports directly, with its axes, its names and its weights."""

from __future__ import annotations

import re
import warnings
from pathlib import Path
from typing import Any

import onnx
import pytest
import torch
from torch.export import Dim

import onward
from tests.opsets import NEWEST


class Block(torch.nn.Module):
    """A parameter, a buffer, a constant, and a tensor that is made in forward."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)
        self.register_buffer("shift", torch.randn(4))
        self.register_buffer("hidden", torch.randn(4), persistent=False)
        self.constant = torch.randn(4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.linear(x).relu() + self.shift * self.hidden - self.constant * torch.tensor([1.0, 2, 3, 4])


class Nested(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = Block(), Block()

    def forward(self, given: dict[str, Any], factor: int, *, bias: torch.Tensor) -> dict[str, Any]:
        x, (y, nothing) = given["x"], given["more"]
        assert nothing is None
        rows = x.shape[0]
        result = self.second(self.first(x)) * factor + bias
        return {"result": (result, y), "none": None, "rows": rows, "same": x, "number": 3}


def nested_program(**options: Any) -> tuple[Nested, torch.export.ExportedProgram]:
    torch.manual_seed(0)
    model = Nested().eval()
    rows = Dim("rows", min=2, max=50)
    shapes = {"given": {"x": {0: rows}, "more": [{0: 2 * rows + 1}, None]}, "factor": None, "bias": None}
    given = {"x": torch.randn(3, 4), "more": [torch.randn(7), None]}
    return model, torch.export.export(model, (given, 2), {"bias": torch.randn(4)}, dynamic_shapes=shapes, **options)


def equal(actual: Any, expected: Any) -> None:
    torch.testing.assert_close(actual, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("opset", (9, 13, 17, 20, NEWEST))
@pytest.mark.parametrize("form", ("as it is", "strict", "decomposed", "loaded"))
def test_everything_that_a_program_says(form: str, opset: int, tmp_path: Path) -> None:
    model, exported = nested_program(strict=form == "strict")
    if form == "decomposed":
        exported = exported.run_decompositions()
    if form == "loaded":
        torch.export.save(exported, tmp_path / "model.pt2")
        exported = torch.export.load(tmp_path / "model.pt2")
    program = onward.export(exported, opset_version=opset)
    onnx.checker.check_model(program.proto(), full_check=True)
    program.verify()
    rows = "rows" if form != "loaded" else program.inputs[0].shape[0]  # files do not have the names of Dims
    assert re.fullmatch(r"rows|s\d+", str(rows))
    assert [(port.name, port.shape) for port in program.inputs] == [
        ("given_x", (rows, 4)), ("given_more_0", (f"2*{rows} + 1",)), ("bias", (4,)),
    ]  # fmt: skip
    assert program.inputs[0].bounds == {0: (2, 50)} and program.inputs[1].bounds == {0: (5, 101)}
    assert [(port.name, port.shape) for port in program.outputs] == [
        ("result_0", (rows, 4)), ("result_1", (f"2*{rows} + 1",)), ("rows", ()), ("same", (rows, 4)),
    ]  # fmt: skip
    names = [each.name for each in program.proto().graph.initializer]
    for weight in ("first.linear.weight", "second.linear.weight"):
        assert any(name.startswith(weight) for name in names)  # decomposed programs transpose it first
    for size in (2, 9):
        given = {"x": torch.randn(size, 4), "more": [torch.randn(2 * size + 1), None]}
        bias = torch.randn(4)
        expected = {**model(given, 2, bias=bias), "rows": size}
        equal(program(given, 2, bias=bias), expected)


def test_the_original_model_is_where_nodes_come_from() -> None:
    _, exported = nested_program()
    listing = str(onward.export(exported))
    line = Block.forward.__code__.co_firstlineno + 1
    assert f"scope: Nested/Block[first]/Linear[linear]  # test_b04_exported.py:{line}" in listing
    assert f"scope: Nested/Block[second]  # test_b04_exported.py:{line}" in listing
    assert "%first.linear.linear" in listing


def test_other_names_and_another_example() -> None:
    _, exported = nested_program()
    given = {"x": torch.randn(5, 4), "more": [torch.randn(11), None]}
    program = onward.export(
        exported,
        (given, 2),
        kwargs={"bias": torch.randn(4)},
        input_names=["x"],
        output_names=["y"],
        dynamic_axes={"x": {0: "batch"}},
        verify=True,
    )
    assert [port.shape for port in program.inputs] == [("batch", 4), ("2*batch + 1",), (4,)]
    assert program.outputs[0].name == "y" and program.outputs[0].shape == ("batch", 4)


def test_weights_as_inputs() -> None:
    model, exported = nested_program()
    program = onward.export(exported, export_params=False, verify=True)
    names = [value.name for value in program.proto().graph.input]
    assert [name for name in names if name in model.state_dict()] == list(model.state_dict())


def test_modules_as_functions() -> None:
    _, exported = nested_program()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        program = onward.export(exported, export_modules_as_functions={Block}, verify=True)
    assert [node.op_type for node in program.model.graph].count("Block") == 2
    assert {function.name for function in program.model.functions.values()} == {"Block"}


def _other(**changes: Any) -> dict[str, Any]:
    given = {"x": torch.randn(3, 4), "more": [torch.randn(7), None]}
    return {"args": (changes.pop("given", given), changes.pop("factor", 2)), "kwargs": {"bias": torch.randn(4)}}


REFUSED = {
    "fixed axis": (
        {"dynamic_axes": {"given_x": {1: "width"}}},
        "axis 1 of 'given_x' shall be dynamic ('width'), and the ExportedProgram has fixed it at 4\n"
        "  make it dynamic in torch.export.export(dynamic_shapes=...), or export the model itself",
    ),
    "dynamic axis": (
        {"dynamic_shapes": {"given": {"x": {0: Dim.STATIC}}}},
        "axis 0 of 'given_x' shall be fixed, and it is dynamic in the ExportedProgram (rows)\n"
        "  leave it out of dynamic_shapes, or fix it in torch.export.export",
    ),
    "another constant": (
        _other(factor=3),
        "'factor' is 3, and the ExportedProgram was made for 2\n"
        "  what is not a tensor is part of the program: make another one with torch.export.export",
    ),
    "another structure": (
        _other(given={"x": torch.randn(3, 4), "more": torch.randn(7)}),
        "the arguments are given['x'], given['more'], factor, bias, and the ExportedProgram takes given['x'], "
        "given['more'][0], given['more'][1], factor, bias\n"
        "  call it as the model was called for torch.export.export, with tensors of the same dtype and number of axes",
    ),
    "another dtype": (
        _other(given={"x": torch.ones(3, 4).long(), "more": [torch.randn(7), None]}),
        "'given_x' is int64[3, 4], and the ExportedProgram takes float32[rows, 4]\n"
        "  pass tensors like those that the program was made with",
    ),
    "another size": (
        _other(given={"x": torch.randn(3, 5), "more": [torch.randn(7), None]}),
        "axis 1 of 'given_x' is 5, and the ExportedProgram has fixed it at 4\n"
        "  pass a tensor of that size, or make the axis dynamic in torch.export.export(dynamic_shapes=...)",
    ),
    "out of bounds": (
        _other(given={"x": torch.randn(51, 4), "more": [torch.randn(103), None]}),
        "'rows' is 51 in the example, and the ExportedProgram allows 2 to 50\n  use an example within the bounds",
    ),
    "a list": (
        {"args": [torch.randn(3, 4), 2]},
        "the arguments do not fit Nested.forward(given, factor, *, bias): missing a required argument: 'factor'\n"
        "  args is a list, which is one argument; pass a tuple with one entry per parameter, and keyword arguments "
        "in kwargs",
    ),
    "two names": (
        {"dynamic_axes": {"given_x": {0: "a"}, "given_more_0": {0: "b"}, "bias": []}},
        None,
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_what_does_not_fit_the_program(case: str) -> None:
    options, text = REFUSED[case]
    _, exported = nested_program()
    if text is None:  # a size that follows another may have a name of its own
        program = onward.export(exported, **options)
        assert [port.shape for port in program.inputs][:2] == [("a", 4), ("b",)]
        return
    with pytest.raises(onward.InputError) as caught:
        onward.export(exported, **options)
    assert str(caught.value) == text


def test_one_size_has_one_name() -> None:
    class Two(torch.nn.Module):
        def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            return x + y

    rows = Dim("rows")
    example = torch.randn(3), torch.randn(3)
    exported = torch.export.export(Two(), example, dynamic_shapes=({0: rows}, {0: rows}))
    with pytest.raises(onward.InputError) as caught:
        onward.export(exported, dynamic_axes={"x": {0: "a"}, "y": {0: "b"}})
    assert str(caught.value) == (
        "'a' and 'b' (axis 0 of 'y') are one size in the ExportedProgram (rows)\n  give them one name"
    )


def test_a_path_is_no_program(tmp_path: Path) -> None:
    _, exported = nested_program()
    torch.export.save(exported, tmp_path / "model.pt2")
    with pytest.raises(onward.InputError) as caught:
        onward.export(tmp_path / "model.pt2")
    assert str(caught.value).endswith("load the program first: onward.export(torch.export.load(path), ...)")


def test_no_example() -> None:
    _, exported = nested_program()
    exported.example_inputs = None
    with pytest.raises(onward.InputError, match="the ExportedProgram has no example inputs"):
        onward.export(exported)


def test_the_mode_is_part_of_the_program() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Dropout(0.5))
    example = (torch.randn(2, 4),)
    with pytest.warns(onward.CaptureWarning, match=r"made of a model in training mode \(aten.dropout.default"):
        program = onward.export(torch.export.export(model.train(), example))
    assert "Dropout" in [node.op_type for node in program.model.graph]
    with pytest.warns(onward.CaptureWarning, match="has no meaning here"):
        onward.export(torch.export.export(model.eval(), example), training=onward.TrainingMode.TRAINING)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        onward.export(torch.export.export(model.eval(), example))
        onward.export(torch.export.export(model.train(), example), training=onward.TrainingMode.PRESERVE)


# --- modules of generated code, and modules that say how to export them ---------------------------------------------
def test_the_module_of_a_program() -> None:
    model = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.BatchNorm2d(4)).eval()
    exported = torch.export.export(model, (torch.randn(2, 3, 8, 8),), dynamic_shapes=({0: Dim("n")},))
    x = torch.randn(5, 3, 8, 8)
    program = onward.export(exported.module(), (x,), dynamic_axes={"input": {0: "batch"}}, verify=True)
    assert [node.op_type for node in program.model.graph] == ["Conv"]
    assert "scope: GraphModule/Conv2d[0]" in str(program)


def test_a_traced_graph_module() -> None:
    torch.manual_seed(0)
    model = Block().eval()
    module = torch.fx.symbolic_trace(model)
    program = onward.export(module, (torch.randn(3, 4),), dynamic_axes={"x": {0: "n"}}, verify=True)
    line = re.search(r"%relu.*", str(program))
    assert line and line[0].endswith("scope: Block")  # it does not know its line, and nobody else's is said instead
    assert "scope: Block/Linear[linear]" in str(program)
    x = torch.randn(6, 4)
    equal(program(x), model(x))
    named = onward.export(module, kwargs={"x": x}, input_names=["given"])
    equal(named(x=x), model(x))


def test_a_module_that_says_how_to_export_it() -> None:
    class Sayer(torch.onnx.ExportableModule):
        def forward(self, x: torch.Tensor, *, y: torch.Tensor) -> torch.Tensor:
            return x * y

        def example_arguments(self) -> Any:
            return (torch.randn(2, 3),), {"y": torch.randn(3)}

        def dynamic_shapes(self) -> Any:
            return {"x": {0: Dim("n")}, "y": None}

        def input_names(self) -> list[str]:
            return ["first", "second"]

        def output_names(self) -> list[str]:
            return ["product"]

    program = onward.export(Sayer(), verify=True)
    assert [(port.name, port.shape) for port in program.inputs] == [("first", ("n", 3)), ("second", (3,))]
    assert program.outputs[0].name == "product"
    other = onward.export(
        Sayer(), torch.randn(4, 3), kwargs={"y": torch.randn(3)}, input_names=["x"], dynamic_axes={"x": {0: "rows"}}
    )
    assert [(port.name, port.shape) for port in other.inputs] == [("x", ("rows", 3)), ("y", (3,))]
