"""Questions about data that PyTorch answers with a bool: the graph answers them, for other data too."""

from __future__ import annotations

import warnings
from typing import Any

import onnx
import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

import onward
from onward.verify import Session
from tests.opsets import NEWEST

X = torch.arange(6.0).reshape(2, 3)
NEAR, FAR = X + 1e-7, X + 1.0
BOTH = {"x": {0: "n"}, "y": {0: "n"}}


def exported(function: Any, *args: Tensor, axes: dict[str, dict[int, str]] | None = None, opset: int = 20) -> Session:
    names = ["x", "y"][: len(args)]
    program = onward.export(
        function,
        args,
        input_names=names,
        dynamic_axes=axes or {},
        opset_version=opset,
        allow_constant_outputs=True,  # tensors of other shapes are never equal
    )
    onnx.checker.check_model(program.proto(), full_check=True)
    return Session(program.model)


ANSWERS = {
    "equal": lambda x, y: torch.equal(x, y),
    "method": lambda x, y: x.equal(y),
    "allclose": lambda x, y: torch.allclose(x, y),
    "allclose with tolerances": lambda x, y: x.allclose(y, rtol=0.1, atol=2.0),
    "beside a tensor": lambda x, y: (x + y, torch.equal(x, y)),
    "in a tensor": lambda x, y: torch.where(torch.tensor(torch.equal(x, y)), x, -y),
}


@pytest.mark.parametrize("opset", [9, 13, 20, NEWEST])
@pytest.mark.parametrize("function", ANSWERS.values(), ids=ANSWERS.keys())
def test_the_graph_answers(function: Any, opset: int) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        session = exported(function, X, X.clone(), axes=BOTH, opset=opset)
    for x, y in ((X, X), (X, NEAR), (X, FAR), (X[:1], X[:1]), (X[:0], X[:0])):
        wanted = function(x, y)
        for got, each in zip(session.run([x, y]), wanted if isinstance(wanted, tuple) else (wanted,), strict=True):
            torch.testing.assert_close(got, torch.as_tensor(each))


def test_tensors_of_other_shapes_are_never_equal() -> None:
    session = exported(lambda x, y: torch.equal(x, y), X, X[0])
    assert session.run([X, X[0]])[0].tolist() is False


@pytest.mark.parametrize("example", [X, FAR])
def test_a_branch_keeps_both_sides(example: Tensor) -> None:
    def choose(x: Tensor, y: Tensor) -> Tensor:
        return x + 1 if torch.equal(x, y) else y

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        session = exported(choose, X, example.clone(), axes=BOTH)
    for x, y in ((X, X), (X, NEAR), (X, FAR), (X[:1], X[:1]), (X[:1], FAR[:1])):
        assert torch.equal(session.run([x, y])[0], choose(x, y))


def test_a_branch_keeps_the_side_of_the_example_and_says_so() -> None:
    def choose(x: Tensor, y: Tensor) -> Tensor:
        return x + 1 if torch.equal(x, y) else y.sum()

    with pytest.warns(onward.CaptureWarning, match=r"test_truth_values.*keeps the example's answer \(True\)"):
        session = exported(choose, X, X.clone())
    assert torch.equal(session.run([X, X])[0], X + 1)


def test_weights_answer_while_the_model_is_exported() -> None:
    weight = torch.ones(3)

    def model(x: Tensor) -> Tensor:
        return x * 2 if torch.equal(weight, torch.ones(3)) and torch.allclose(weight, weight) else x

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert torch.equal(exported(model, X).run([X])[0], X * 2)


@pytest.mark.parametrize("opset", [9, 13, 20, NEWEST])
def test_one_hot_has_as_many_classes_as_the_data_says(opset: int) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        session = exported(F.one_hot, torch.tensor([0, 2, 1]), axes={"x": {0: "n"}}, opset=opset)
    for other in (torch.tensor([0, 2, 1]), torch.tensor([5, 1])):
        assert torch.equal(session.run([other])[0], F.one_hot(other))
