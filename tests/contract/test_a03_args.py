"""A3: a tensor, a tuple, anything nested, a dict at the end or `kwargs`; what is no tensor is baked in.

Outputs flatten in the same way.
"""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils import _pytree as pytree

import onward

from .running import assert_same, load, run, tensors_in

X, Y, Z = torch.randn(2, 3), torch.randn(2, 3), torch.randn(2, 3)
Pair = collections.namedtuple("Pair", ["first", "second"])


@dataclasses.dataclass
class Batch:
    values: torch.Tensor
    weights: dict[str, torch.Tensor]
    scale: float = 1.0


class Ragged:
    """A container of the user's own, registered as a PyTorch pytree."""

    def __init__(self, rows: torch.Tensor, lengths: torch.Tensor, pad: float) -> None:
        self.rows, self.lengths, self.pad = rows, lengths, pad


pytree.register_pytree_node(
    Ragged,
    lambda ragged: ([ragged.rows, ragged.lengths], ragged.pad),
    lambda children, pad: Ragged(*children, pad),
    serialized_type_name="tests.contract.Ragged",
)


def subtract(x: Any, y: Any, scale: Any = 1.0) -> Any:
    return (x - y) * scale


def nested(tree: Any) -> Any:
    return tree["a"] - tree["b"][0] * tree["b"][1][0]


class Recurrent(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lstm = torch.nn.LSTM(3, 4)

    def forward(self, input: torch.Tensor, state: tuple[torch.Tensor, torch.Tensor]) -> Any:
        return self.lstm(input, state)


@dataclasses.dataclass
class Row:
    """A call, and the names its inputs must have."""

    model: Callable[..., Any]
    args: Any
    names: list[str]
    kwargs: dict[str, Any] | None = None

    @property
    def positional(self) -> tuple:
        return self.args if isinstance(self.args, tuple) else (self.args,)


ROWS = {
    "a tensor": Row(lambda x: x * 2, X, ["x"]),
    "a tuple": Row(subtract, (X, Y), ["x", "y"]),
    "a tuple with a default replaced": Row(subtract, (X, Y, Z), ["x", "y", "scale"]),
    "the same tensor twice": Row(subtract, (X, X), ["x", "y"]),
    "a state in a tuple": Row(
        Recurrent(),
        (torch.randn(5, 2, 3), (torch.randn(1, 2, 4), torch.randn(1, 2, 4))),
        ["input", "state_0", "state_1"],
    ),
    "dicts, lists and tuples": Row(nested, ({"a": X, "b": [Y, (Z,)]},), ["tree_a", "tree_b_0", "tree_b_1_0"]),
    "an ordered dict": Row(
        nested, (collections.OrderedDict(b=[Y, (Z,)], a=X), {}), ["tree_b_0", "tree_b_1_0", "tree_a"]
    ),
    "a named tuple": Row(lambda pair: pair.first - pair.second, (Pair(X, Y),), ["pair_first", "pair_second"]),
    "a named tuple of arguments": Row(lambda x, y: x - y, Pair(X, Y), ["x", "y"]),
    "a dataclass": Row(
        lambda batch: batch.values * batch.weights["w"] * batch.scale,
        (Batch(X, {"w": Y}, 3.0),),
        ["batch_values", "batch_weights_w"],
    ),
    "a registered pytree": Row(lambda r: r.rows * r.pad + r.lengths, (Ragged(X, Y, 0.5),), ["r_0", "r_1"]),
    "any number of arguments": Row(
        lambda first, *rest: first - rest[0] * rest[1], (X, Y, Z), ["first", "rest_0", "rest_1"]
    ),
    "kwargs": Row(subtract, (X,), ["x", "y"], {"y": Y}),
    "kwargs alone, in another order": Row(subtract, (), ["scale", "y", "x"], {"scale": Z, "y": Y, "x": X}),
    "kwargs into **": Row(lambda x, **more: x - more["a"] * more["b"], (X,), ["x", "a", "b"], {"a": Y, "b": Z}),
    "keyword-only": Row(lambda x, *, mask: x * mask, (X,), ["x", "mask"], {"mask": Y}),
    "nested in kwargs": Row(lambda x, *, state: x - state["h"][0], (X,), ["x", "state_h_0"], {"state": {"h": [Y]}}),
}


@pytest.mark.parametrize("row", ROWS.values(), ids=ROWS.keys())
def test_every_tensor_is_an_input_in_order(row: Row, tmp_path: Path) -> None:
    path, kwargs = tmp_path / "model.onnx", row.kwargs or {}
    positional = row.positional
    if positional and positional[-1] == {}:
        positional = positional[:-1]
    expected = list(tensors_in(row.model(*positional, **kwargs)))

    program = onward.export(row.model, row.args, path, kwargs=row.kwargs)

    assert [value.name for value in load(path).graph.input] == row.names
    assert_same(run(path, list(tensors_in((positional, kwargs)))), expected)
    assert_same(list(tensors_in(program(*positional, **kwargs))), expected)


# The dict at the end -------------------------------------------------------------------------------------------------


def test_a_dict_at_the_end_holds_keyword_arguments(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    onward.export(subtract, (X, {"scale": Z, "y": Y}), path)
    assert [value.name for value in load(path).graph.input] == ["x", "scale", "y"]
    assert_same(run(path, {"x": X, "y": Y, "scale": Z}), [subtract(X, Y, Z)])


def test_a_dict_at_the_end_and_kwargs_add_up() -> None:
    program = onward.export(subtract, (X, {"y": Y}), kwargs={"scale": Z})
    assert [port.name for port in program.inputs] == ["x", "scale", "y"]
    assert_same([program(X, Y, Z)], [subtract(X, Y, Z)])


def test_a_dict_whose_keys_are_no_parameters_is_an_argument() -> None:
    def forward(x: torch.Tensor, features: dict[str, torch.Tensor]) -> torch.Tensor:
        return x - features["a"]

    for args in ((X, {"a": Y}), (X, {"a": Y}, {})):
        program = onward.export(forward, args)
        assert [port.name for port in program.inputs] == ["x", "features_a"]
        assert_same([program(X, {"a": Y})], [X - Y])


# Baked in ------------------------------------------------------------------------------------------------------------


class Choosing(torch.nn.Module):
    def forward(self, x, power: int, mode: str, bias=None, *, flip: bool = False, sizes=(1, 1)) -> torch.Tensor:
        y = x * power if mode == "times" else x + power
        y = y if bias is None else y + bias
        return (-y if flip else y).reshape(sizes)


def test_what_is_not_a_tensor_is_baked_in(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    arguments, named = (X, 3, "times", None), {"flip": True, "sizes": [3, 2]}
    program = onward.export(Choosing(), arguments, path, kwargs=named)
    assert [value.name for value in load(path).graph.input] == ["x"]
    assert_same(run(path, [Y]), [(-Y * 3).reshape(3, 2)])
    assert_same([program(Y, 3, "times", None, flip=True, sizes=[3, 2])], [(-Y * 3).reshape(3, 2)])


@pytest.mark.parametrize(
    ("arguments", "named", "message"),
    [
        ((Y, 4, "times"), {}, r"'power' cannot be changed: the model was exported with 3\n  export the model again"),
        ((Y, 3, "plus"), {}, r"'mode' cannot be changed: the model was exported with 'times'"),
        ((Y, 3, "times"), {"flip": True}, r"'flip' cannot be changed: the model was exported without it"),
        ((Y, 3, "times", Z), {}, r"'bias' cannot be changed: the model was exported without it"),
        ((3.0, 3, "times"), {}, r"the argument 'x' is of type float, not a tensor\n  call the program as"),
    ],
)
def test_what_is_baked_in_is_not_silently_ignored_later(arguments: tuple, named: dict, message: str) -> None:
    program = onward.export(Choosing(), (X, 3, "times"), kwargs={"sizes": (2, 3)})
    with pytest.raises(onward.InputError, match=message):
        program(*arguments, **named, sizes=(2, 3))
    assert_same([program(Y, 3, "times", sizes=(2, 3), flip=False)], [Y * 3])


def test_arguments_are_matched_by_parameter_and_not_by_order() -> None:
    program = onward.export(subtract, kwargs={"y": Y, "x": X})
    assert [port.name for port in program.inputs] == ["y", "x"]
    assert_same([program(X, Y)], [X - Y])
    assert_same([program(X, y=Y)], [X - Y])


def test_the_callers_tensors_stay_as_they_are() -> None:
    def in_place(x: torch.Tensor) -> torch.Tensor:
        return x.add_(1).mul_(2)

    given = X.clone()
    program = onward.export(in_place, given, verify=True)
    assert torch.equal(given, X)
    given.zero_()
    assert program.verify().ok


# Outputs -------------------------------------------------------------------------------------------------------------

WEIGHT = torch.nn.Parameter(torch.randn(3))
RESULTS = {
    "a tensor": (lambda x: x + 1, ["output"]),
    "a tuple": (lambda x: (x + 1, x * 2), ["output_0", "output_1"]),
    "nested": (lambda x: (x + 1, [x * 2, (x - 1,)]), ["output_0", "output_1_0", "output_1_1_0"]),
    "a dict": (lambda x: {"logits": x + 1, "extra": [x * 2]}, ["logits", "extra_0"]),
    "a named tuple": (lambda x: Pair(x + 1, x * 2), ["first", "second"]),
    "a dataclass": (lambda x: Batch(x + 1, {"w": x * 2}), ["values", "weights_w"]),
    "a registered pytree": (lambda x: Ragged(x + 1, x * 2, 0.0), ["output_0", "output_1"]),
    "the input itself": (lambda x: (x, x + 1), ["output_0", "output_1"]),
    "one tensor twice": (lambda x: [y := x + 1, y], ["output_0", "output_1"]),
    "a weight": (lambda x: (WEIGHT, x * WEIGHT), ["output_0", "output_1"]),
    "the names of inputs": (lambda x: {"x": x + 1}, ["x_out"]),
}


@pytest.mark.parametrize(("model", "names"), RESULTS.values(), ids=RESULTS.keys())
def test_outputs_flatten_in_order(model: Callable[..., Any], names: list[str], tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    program = onward.export(model, X, path, allow_constant_outputs=True)
    expected = model(Y)
    assert [value.name for value in load(path).graph.output] == names
    assert_same(run(path, [Y]), list(tensors_in(expected)))
    result = program(Y)
    assert type(result) is type(expected)
    assert_same(list(tensors_in(result)), list(tensors_in(expected)))


def test_numbers_and_none_among_the_outputs_are_given_back() -> None:
    program = onward.export(lambda x: {"loss": None, "logits": x + 1, "steps": 3}, X)
    assert [port.name for port in program.outputs] == ["logits"]
    result = program(Y)
    assert result["loss"] is None and result["steps"] == 3
    assert_same([result["logits"]], [Y + 1])


def test_a_size_among_the_outputs_follows_the_input(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    onward.export(lambda x: (x + 1, x.shape[0] * 2), X, path, dynamic_axes={"x": {0: "batch"}})
    assert run(path, [torch.randn(7, 3)])[1].item() == 14


# Names ---------------------------------------------------------------------------------------------------------------


def test_names_may_be_fewer_than_inputs_and_outputs(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    onward.export(lambda x, y, z: (x - y, y - z), (X, Y, Z), path, input_names=["a", "b"], output_names=["first"])
    proto = load(path)
    assert [value.name for value in proto.graph.input] == ["a", "b", "z"]
    assert [value.name for value in proto.graph.output] == ["first", "output_1"]
    assert_same(run(path, {"a": X, "b": Y, "z": Z}), [X - Y, Y - Z])
