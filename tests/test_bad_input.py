"""Bad input: a mistake in the call is an error that says what, where and what to do, and leaves everything as it was.

Targets that cannot be written to, Ctrl-C and a missing onnxruntime are in test_bad_ending.py.
"""

from __future__ import annotations

import collections
import io
from pathlib import Path
from typing import Any

import pytest
import torch

import onward
from onward.options import newest_opset

from .unharmed import OLD, Model, Two, X, unharmed


@pytest.fixture
def target(tmp_path: Path) -> Path:
    path = tmp_path / "model.onnx"
    path.write_bytes(OLD)
    return path


@pytest.fixture(autouse=True, scope="module")
def _loaded() -> None:
    """What the first export imports would otherwise look like a change."""
    onward.export(Model(), X, verify=True)


def refused(kind: type[BaseException], text: str, target: Path, model: Any, args: Any, **options: Any) -> Any:
    with unharmed(model, target.parent), pytest.raises(kind) as caught:
        onward.export(model, args, target, **options)
    assert str(caught.value) == text
    return caught.value


# The call ------------------------------------------------------------------------------------------------------------

FIT = "the arguments do not fit Model.forward(x, scale=1.0)"
TWO = "the arguments do not fit Two.forward(x, y)"
TUPLE = "pass a tuple with one entry per parameter, and keyword arguments in kwargs"
SUBTRACT = "the arguments do not fit subtract(a, b)"


Three = collections.namedtuple("Three", ["a", "b", "c"])


def subtract(a, b):
    return a - b


CALLS: dict[str, tuple[Any, Any, dict[str, Any], str]] = {
    "no arguments": (
        Model(), (), {},
        f"{FIT}: missing a required argument: 'x'\n  0 positional and 0 keyword arguments given; {TUPLE}",
    ),
    "too few": (
        Two(), (X,), {},
        f"{TWO}: missing a required argument: 'y'\n  1 positional and 0 keyword arguments given; {TUPLE}",
    ),
    "too many": (
        Model(), (X, 1.0, X), {},
        f"{FIT}: too many positional arguments\n  3 positional and 0 keyword arguments given; {TUPLE}",
    ),
    "too few for a function": (
        subtract, X, {},
        f"{SUBTRACT}: missing a required argument: 'b'\n  1 positional and 0 keyword arguments given; {TUPLE}",
    ),
    "a list instead of a tuple": (
        Two(), [X, X], {},
        f"{TWO}: missing a required argument: 'y'\n  args is a list, which is one argument; {TUPLE}",
    ),
    "a named tuple for one parameter": (
        Model(), Three(X, X, X), {},
        f"{FIT}: too many positional arguments\n  args is a named tuple, each field of which is one argument; {TUPLE}",
    ),
    "an unknown keyword": (
        Model(), (X,), {"kwargs": {"scal": 2.0}},
        f"{FIT}: got an unexpected keyword argument 'scal'\n  1 positional and 1 keyword argument given; {TUPLE}",
    ),
    "an argument twice": (
        Model(), (X, 1.0), {"kwargs": {"scale": 2.0}},
        f"{FIT}: multiple values for argument 'scale'\n  2 positional and 1 keyword argument given; {TUPLE}",
    ),
    "a keyword twice": (
        Model(), (X, {"scale": 1.0}), {"kwargs": {"scale": 2.0}},
        "'scale' given twice: in the dict at the end of args and in kwargs\n  pass keyword arguments in one of the two",
    ),
    "kwargs that are no dict": (
        Model(), X, {"kwargs": [1]},
        'kwargs must be a dict of keyword arguments, not list\n  try kwargs={"mask": mask}',
    ),
    "a sparse tensor": (
        Model(), X.to_sparse(), {},
        "the tensor for 'x' is sparse_coo, and inputs of an ONNX model are dense\n"
        "  pass a dense tensor, and convert it inside the model if need be",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("model", "args", "options", "text"), CALLS.values(), ids=CALLS.keys())
def test_arguments_that_do_not_fit(model: Any, args: Any, options: dict[str, Any], text: str, target: Path) -> None:
    refused(onward.InputError, text, target, model, args, **options)


class Failing(torch.nn.Module):
    """Raises inside a submodule, after some work."""

    class Inner(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            raise LookupError("no such token\nand more")

    def __init__(self) -> None:
        super().__init__()
        self.blocks = torch.nn.Sequential(Model(), self.Inner())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.blocks(x) + 1


CALL_IT = "call the model with the same arguments to see the error without the export"
FORWARD = f"{Model.forward.__code__.co_filename}:{Model.forward.__code__.co_firstlineno + 1}"


def test_a_model_that_raises(target: Path) -> None:
    line = Failing.Inner.forward.__code__.co_firstlineno + 1
    text = f"Failing raised LookupError in forward: no such token\n  at {__file__}:{line} in blocks.1\n  {CALL_IT}"
    error = refused(onward.CaptureError, text, target, Failing(), X)
    assert isinstance(error.__cause__, LookupError)
    assert (error.stage, error.module, error.source) == ("capture", "blocks.1", f"{__file__}:{line}")


MUST = "Model raised TypeError in forward: linear(): argument 'input' (position 1) must be Tensor, not"
NO_TENSOR = "there is no tensor among args, so the model has no input"
TYPES: dict[str, tuple[Any, str]] = {
    "a list": (
        [X],
        f"{MUST} list\n  at {FORWARD} in linear\n"
        f"  args is a list, which is one argument ('x'); pass a tuple for several\n  {CALL_IT}",
    ),
    "numpy": (
        X.numpy(),
        f"{MUST} numpy.ndarray\n  at {FORWARD} in linear\n"
        f"  'x' came as numpy; pass tensors: torch.from_numpy(...)\n  {CALL_IT}",
    ),
    "a number": (
        3,
        f"{MUST} int\n  at {FORWARD} in linear\n  {NO_TENSOR}\n  {CALL_IT}",
    ),
    "a string": (
        "x",
        f"{MUST} str\n  at {FORWARD} in linear\n  {NO_TENSOR}\n  {CALL_IT}",
    ),
    "another dtype": (
        X.long(),
        "Model raised RuntimeError in forward: mat1 and mat2 must have the same dtype, but got Long and Float\n"
        f"  at {FORWARD} in linear\n  {CALL_IT}",
    ),
    "another shape": (
        X.t(),
        "Model raised RuntimeError in forward: mat1 and mat2 shapes cannot be multiplied (4x2 and 4x3)\n"
        f"  at {FORWARD} in linear\n  {CALL_IT}",
    ),
    "a dict at the end with a wrong key": (
        (X, {"scal": 2.0}),
        "Model raised TypeError in forward: unsupported operand type(s) for *: 'Tensor' and 'dict'\n"
        f"  at {FORWARD}\n  the dict at the end of args was passed for 'scale': "
        f"not all of its keys (scal) are parameters of the model\n  {CALL_IT}",
    ),
}


@pytest.mark.parametrize(("args", "text"), TYPES.values(), ids=TYPES.keys())
def test_arguments_of_the_wrong_type(args: Any, text: str, target: Path) -> None:
    refused(onward.CaptureError, text, target, Model(), args)


def test_a_model_that_returns_no_tensor(target: Path) -> None:
    text = "nothing returned no tensor\n  return at least one tensor from forward"

    def nothing(x: torch.Tensor) -> int:
        return 3

    refused(onward.CaptureError, text, target, nothing, X)


def test_operators_that_onnx_does_not_have_are_told_all_at_once(target: Path) -> None:
    def decompose(x: torch.Tensor) -> torch.Tensor:
        roots = torch.linalg.eig(x.mT @ x)[0].real
        return roots, torch.segment_reduce(x, "max", lengths=torch.tensor([x.shape[0]]))

    with unharmed(decompose, target.parent), pytest.raises(onward.UnsupportedOpError) as caught:
        onward.export(decompose, X, target, opset_version=17)
    first = decompose.__code__.co_firstlineno + 1
    assert str(caught.value) == (
        "2 operators have no lowering for opset 17\n"
        f"  aten.linalg_eig.default: 1 call, first at {__file__}:{first}\n"
        f"  aten.segment_reduce.default: 1 call, first at {__file__}:{first + 1}\n"
        "  register them:\n"
        '    onward.register_custom_op_symbolic("aten::linalg_eig", function, 17)\n'
        '    onward.register_custom_op_symbolic("aten::segment_reduce", function, 17)'
    )


# What is not a model -------------------------------------------------------------------------------------------------

PASS = "pass an nn.Module or a function that takes and returns tensors"


@pytest.mark.parametrize(
    ("model", "text"),
    [
        (Model, "Model is a class, not a model\n  pass an instance: Model(...)"),
        (None, f"the model is of type NoneType, which cannot be called\n  {PASS}"),
        (3, f"the model is of type int, which cannot be called\n  {PASS}"),
        (X, f"the model is of type Tensor, which cannot be called\n  {PASS}"),
        (
            Model().state_dict(),
            "the model is of type OrderedDict, which cannot be called\n"
            "  if this is a state_dict, build the model, call model.load_state_dict(...) and pass the model",
        ),
        (
            "model.pt",
            "the model is of type str, which cannot be called\n"
            "  if this is a checkpoint, load it first and pass the model",
        ),
    ],
    ids=["a class", "None", "a number", "a tensor", "a state_dict", "a path"],
)
def test_what_is_not_a_model(model: Any, text: str, target: Path) -> None:
    refused(onward.InputError, text, target, model, X)


def scripted_module() -> Any:
    return torch.jit.script(Two())


def traced_module() -> Any:
    return torch.jit.trace(Two(), (X, X))


def scripted_function() -> Any:
    return torch.jit.trace(lambda x, y: x - y, (X, X))


# dynamic_axes --------------------------------------------------------------------------------------------------------

NAMES = "use the names in input_names and output_names, or the parameter names of forward"
AXES: dict[str, tuple[dict[str, Any], str]] = {
    "no dict": (
        {"dynamic_axes": [0]},
        'dynamic_axes must be a dict of input name to axes, not list\n  for example dynamic_axes={"x": {0: "batch"}}',
    ),
    "an unknown name": (
        {"dynamic_axes": {"z": {0: "batch"}}},
        f"dynamic_axes names 'z', which is neither an input (x) nor an output (output)\n  {NAMES}",
    ),
    "an unknown name beside given ones": (
        {"dynamic_axes": {"x": {0: "batch"}}, "input_names": ["a"], "output_names": ["b"]},
        f"dynamic_axes names 'x', which is neither an input (a) nor an output (b)\n  {NAMES}",
    ),
    "an axis beyond the last": (
        {"dynamic_axes": {"x": {2: "batch"}}},
        "dynamic_axes['x'] has axis 2, and 'x' has 2 axes\n  axes run from -2 to 1",
    ),
    "an axis before the first": (
        {"dynamic_axes": {"x": [-3]}},
        "dynamic_axes['x'] has axis -3, and 'x' has 2 axes\n  axes run from -2 to 1",
    ),
    "an output's axis out of range": (
        {"dynamic_axes": {"y": {2: "batch"}}, "output_names": ["y"]},
        "dynamic_axes['y'] has axis 2, and 'y' has 2 axes\n  axes run from -2 to 1",
    ),
    "an axis that is no number": (
        {"dynamic_axes": {"x": {"0": "batch"}}},
        "dynamic_axes['x'] has the axis '0', which is not an integer\n  axes are numbers: {0: 'batch'}",
    ),
    "a bool for an axis": (
        {"dynamic_axes": {"x": [True]}},
        "dynamic_axes['x'] has the axis True, which is not an integer\n  axes are numbers: {0: 'batch'}",
    ),
    "neither list nor dict": (
        {"dynamic_axes": {"x": 0}},
        "dynamic_axes['x'] must be a list of axes or a dict of axis to name, not 0\n"
        "  try dynamic_axes={'x': {0: \"batch\"}}",
    ),
    "a name that is none": (
        {"dynamic_axes": {"x": {0: ""}}},
        "dynamic_axes['x'][0] must be a name, not ''\n  such as \"batch\"",
    ),
    "an axis with two names": (
        {"dynamic_axes": {"x": {0: "batch", -2: "rows"}}},
        "dynamic_axes['x'] names axis 0 twice: 'batch' and 'rows'\n  axis -2 of 'x' is axis 0; keep one of the names",
    ),
    "one name, different sizes": (
        {"dynamic_axes": {"x": {0: "n", 1: "n"}}},
        "'n' is 2 on axis 0 of 'x' and 4 on axis 1 of 'x' of the example\n"
        "  axes of one name must have one size: correct the example, or give them different names",
    ),
}


@pytest.mark.parametrize(("options", "text"), AXES.values(), ids=AXES.keys())
def test_axes_that_are_not_there(options: dict[str, Any], text: str, target: Path) -> None:
    refused(onward.InputError, text, target, Model(), X, **options)


def test_one_name_on_two_inputs_of_different_sizes(target: Path) -> None:
    text = (
        "'batch' is 2 on axis 0 of 'x' and 3 on axis 0 of 'y' of the example\n"
        "  axes of one name must have one size: correct the example, or give them different names"
    )
    axes = {"x": {0: "batch"}, "y": {0: "batch"}}
    refused(onward.InputError, text, target, Two(), (X, torch.randn(3, 4)), dynamic_axes=axes)


def test_a_scalar_has_no_axes(target: Path) -> None:
    text = "dynamic_axes['x'] has axis 0, and 'x' has 0 axes\n  'x' is a scalar: it has no axes"
    refused(onward.InputError, text, target, Model(), torch.tensor(1.0), dynamic_axes={"x": [0]})


def test_an_empty_example_along_a_dynamic_axis(target: Path) -> None:
    text = "axis 0 of 'x' is dynamic and has size 0 in the example\n  use an example with data"
    refused(onward.InputError, text, target, Model(), torch.randn(0, 4), dynamic_axes={"x": {0: "batch"}})


def test_an_axis_that_cannot_vary(target: Path) -> None:
    """The model itself refuses other sizes: what was tried, where, and why it failed."""
    with unharmed(model := Model(), target.parent), pytest.raises(onward.CaptureError) as caught:
        onward.export(model, X, target, dynamic_axes={"x": {1: "features"}})
    text = str(caught.value)
    assert text.startswith(
        "the model works on the example but not at other sizes of 'features': aten.linear.default: mat1 and mat2 shapes"
    )
    assert f"\n  at {FORWARD} in linear\n  tried features = 4/" in text
    assert text.endswith("ask for a fixed axis if it cannot vary, or give axes that must be equal one name")


def looping(x: torch.Tensor) -> list[torch.Tensor]:
    """As many results as there are rows, which no file can have."""
    parts = []
    for i in range(x.shape[0]):
        parts.append(x[i] * 2)
    return parts


def test_an_axis_that_the_model_freezes(target: Path) -> None:
    with unharmed(looping, target.parent), pytest.raises(onward.FrozenAxisError) as caught:
        onward.export(looping, torch.randn(3, 4), target, dynamic_axes={"x": {0: "steps"}})
    line = f"{__file__}:{looping.__code__.co_firstlineno + 3}"
    text = str(caught.value)
    assert text.startswith(
        "dynamic axis 'steps' (= 3) is frozen by the model: a plain Python number is made from the size of "
        f"axis 0 of 'x'\n  at {line}\n  {line}: `steps` became 3\n"
    )
    assert text.endswith(
        "compute with the size itself (no int(), range() or if on it), ask for a fixed axis, "
        "or pass allow_static_axes=True to write it as fixed"
    )
    assert caught.value.axes == ("steps",)


# Names ---------------------------------------------------------------------------------------------------------------

FEW = "the names of the first few are enough; those without one are named for you"
NAMED: dict[str, tuple[dict[str, Any], str]] = {
    "a plain string of inputs": (
        {"input_names": "x"}, "input_names must be a list of names, not 'x'\n  try input_names=[\"x\"]"
    ),
    "a plain string of outputs": (
        {"output_names": "y"}, "output_names must be a list of names, not 'y'\n  try output_names=[\"y\"]"
    ),
    "a set": ({"input_names": {"x"}}, "input_names must be a list of names, not {'x'}\n  try input_names=[\"x\"]"),
    "a number": ({"output_names": 3}, "output_names must be a list of names, not 3\n  try output_names=[\"x\"]"),
    "a number inside": (
        {"input_names": [1]}, f"input_names must be a list of non-empty strings, and it has 1\n  {FEW}"
    ),
    "an empty name": (
        {"output_names": [""]}, f"output_names must be a list of non-empty strings, and it has ''\n  {FEW}"
    ),
    "too many inputs": (
        {"input_names": ["a", "b", "c"]},
        "input_names has 3 names, and there are 2 tensors among the arguments (x, y)\n"
        "  give at most one name per tensor",
    ),
    "too many outputs": (
        {"output_names": ["a", "b"]},
        "output_names has 2 names, and the model returns 1 tensor\n"
        "  give at most one name per tensor that forward returns",
    ),
    "an input twice": (
        {"input_names": ["a", "a"]}, "input_names has 'a' more than once\n  every input needs its own name"
    ),
    "an output like an input": (
        {"input_names": ["a"], "output_names": ["a"]},
        "'a' names more than one input or output\n  every one needs its own name",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("options", "text"), NAMED.values(), ids=NAMED.keys())
def test_names_that_cannot_be_given(options: dict[str, Any], text: str, target: Path) -> None:
    refused(onward.InputError, text, target, Two(), (X, X), **options)


def test_an_output_name_twice(target: Path) -> None:
    text = "'a' names more than one input or output\n  every one needs its own name"
    refused(onward.InputError, text, target, lambda x: (x + 1, x + 2), X, output_names=["a", "a"])


# Opset and flags -----------------------------------------------------------------------------------------------------

WRITES = f"this installation writes opsets 9 to {newest_opset()}"
INTEGER = f"opset_version must be an integer from 9 to {newest_opset()}, not"
OPTIONS: dict[str, tuple[dict[str, Any], str]] = {
    "opset 8": ({"opset_version": 8}, f"opset_version=8 is out of range\n  {WRITES}"),
    "opset -1": ({"opset_version": -1}, f"opset_version=-1 is out of range\n  {WRITES}"),
    "opset 99": ({"opset_version": 99}, f"opset_version=99 is out of range\n  {WRITES}"),
    "opset '17'": ({"opset_version": "17"}, f"{INTEGER} '17'"),
    "opset 17.0": ({"opset_version": 17.0}, f"{INTEGER} 17.0"),
    "opset True": ({"opset_version": True}, f"{INTEGER} True"),
    "verify": ({"verify": "no"}, "verify must be True or False, not 'no'"),
    "allow_static_axes": ({"allow_static_axes": 1}, "allow_static_axes must be True or False, not 1"),
    "external_data": ({"external_data": "yes"}, "external_data must be True, False or None, not 'yes'"),
    "use_external_data_format": (
        {"use_external_data_format": 1}, "use_external_data_format must be True, False or None, not 1"
    ),
    "external_data twice": (
        {"external_data": True, "use_external_data_format": False},
        "external_data=True and use_external_data_format=False contradict each other\n  give external_data alone",
    ),
    "external_data twice, the other way": (
        {"external_data": False, "use_external_data_format": True},
        "external_data=False and use_external_data_format=True contradict each other\n  give external_data alone",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("options", "text"), OPTIONS.values(), ids=OPTIONS.keys())
def test_opsets_and_flags_of_no_meaning(options: dict[str, Any], text: str, target: Path) -> None:
    error = refused(onward.InputError, text, target, Model(), X, **options)
    assert isinstance(error, ValueError)


@pytest.mark.parametrize(
    ("name", "advice"),
    [("opset", "; did you mean 'opset_version'?"), ("dynamic_axis", "; did you mean 'dynamic_axes'?"), ("quality", "")],
)
def test_an_unknown_parameter_is_a_type_error(name: str, advice: str, target: Path) -> None:
    text = f"export() got an unexpected keyword argument '{name}'{advice}"
    refused(TypeError, text, target, Model(), X, **{name: True})


def test_external_data_needs_a_path() -> None:
    with pytest.raises(onward.InputError) as caught:
        onward.export(Model(), X, io.BytesIO(), external_data=True)
    assert str(caught.value) == "a stream has no place for a data file\n  give a path, or leave external_data out"


def test_a_misspelt_input_is_named_where_the_model_refuses_the_axes_that_are_left() -> None:
    def joined(ids: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        return ids + lengths

    with pytest.raises(onward.ExportError) as caught:
        onward.export(joined, (torch.randn(3), torch.randn(3)), dynamic_axes={"ids": {0: "b"}, "length": {0: "b"}})
    assert "  no input is called 'length': the inputs are ids, lengths\n" in str(caught.value)
