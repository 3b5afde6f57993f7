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
