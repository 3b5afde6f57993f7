"""B5: numbers in a script do not change a tensor's type."""

from __future__ import annotations

import pytest
import torch

from .control import OPSETS, check, kinds


class Implicit(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = x + 2
        return y + 3


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("opset", OPSETS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.int64])
def test_numbers_take_the_tensors_type(dtype: torch.dtype, opset: int) -> None:
    x = torch.arange(6).reshape(2, 3).to(dtype)
    program = check(torch.jit.script(Implicit()), (x,), [(x * 2,)], opset_version=opset)
    assert program.outputs[0].dtype is dtype
    assert set(kinds(program)) <= {"Add", "Cast"}


@torch.jit.script
def root_of_size(x: torch.Tensor, factor: int) -> torch.Tensor:
    return x * torch.sqrt(torch.tensor(x.size(-1), dtype=torch.float) * factor)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_tensor_of_a_size_with_a_dtype() -> None:
    check(root_of_size, (torch.ones(2, 3), 4), [(torch.ones(2, 9), 4)], dynamic_axes={"x": {1: "width"}})
