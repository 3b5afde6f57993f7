"""An error in forward: whether the model itself fails, or only while it is traced."""

from __future__ import annotations

import pytest
import torch

import onward

Tensor = torch.Tensor
OURS = (
    "  the model works when it is called without the export, so this is a limit of onward: write this line with tensor "
    "operations"
)


KIND = type  # under another name, which is not followed: `type(x)` is `torch.Tensor` for a traced tensor


class Counting(torch.nn.Module):
    """Works when called, and takes no traced tensor. It has a state that a call changes."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("count", torch.zeros(()))

    def forward(self, x: Tensor) -> Tensor:
        self.count += 1
        noise = torch.rand(1)
        return x * len({1: "a"}[int(x.storage_offset() + KIND(x).__name__.count("Tensor"))]) + noise


def test_a_limit_of_ours_is_called_so_and_the_model_stays_as_it_was() -> None:
    model, line = Counting(), Counting.forward.__code__.co_firstlineno + 3
    torch.manual_seed(3)
    with pytest.raises(onward.CaptureError) as caught:
        onward.export(model, (torch.ones(2),))
    assert str(caught.value) == f"Counting raised KeyError in forward: 0\n  at {__file__}:{line}\n{OURS}"
    assert isinstance(caught.value.__cause__, KeyError)
    assert float(model.count) == 0
    drawn = torch.rand(1)
    torch.manual_seed(3)
    assert torch.equal(drawn, torch.rand(1))


@pytest.mark.parametrize("axes", [None, {"x": {0: "batch"}}])
def test_the_models_own_error_is_chained_as_the_model_raises_it(axes: dict[str, dict[int, str]] | None) -> None:
    def model(x: Tensor) -> Tensor:
        return x @ x

    with pytest.raises(RuntimeError) as plain:
        model(torch.ones(2, 3))
    with pytest.raises(onward.CaptureError) as caught:
        onward.export(model, (torch.ones(2, 3),), input_names=["x"], dynamic_axes=axes)
    error = caught.value
    assert error.source == f"{__file__}:{model.__code__.co_firstlineno + 1}"
    assert error.hint == "call the model with the same arguments to see the error without the export"
    assert type(error.__cause__) is plain.type
    assert str(error.__cause__) == str(plain.value)


def test_a_model_that_fails_is_called_once_with_gradients_and_once_without() -> None:
    calls: list[type] = []

    def model(x: Tensor) -> Tensor:
        calls.append(KIND(x))
        return x * {}[x.shape[0]]  # type: ignore[operator]

    with pytest.raises(onward.CaptureError, match="KeyError"):
        onward.export(model, (torch.ones(2, 3),), input_names=["x"], dynamic_axes={"x": {0: "batch", 1: "width"}})
    assert calls.count(torch.Tensor) == 2
