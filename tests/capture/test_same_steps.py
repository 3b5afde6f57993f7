"""Other sizes are tried without data where model and program take the same steps."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import onward
from onward.capture.python.threads import is_tracing
from onward.errors import FrozenAxisError


class Net(nn.Module):
    """Down and up again: what an odd size has lost is padded."""

    def __init__(self, fill: float = 0.0) -> None:
        super().__init__()
        self.down, self.up = nn.Conv2d(1, 4, 3, padding=1), nn.ConvTranspose2d(4, 4, 2, 2)
        self.norm, self.fill = nn.BatchNorm2d(4), fill
        self.with_data = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        skip = F.relu_(self.norm(self.down(x)))
        if not is_tracing() and type(skip) is torch.Tensor:
            self.with_data += 1
        y = self.up(F.max_pool2d(skip, 2))
        high, wide = skip.size(2) - y.size(2), skip.size(3) - y.size(3)
        if high or wide:
            y = F.pad(y, [0, wide, 0, high]) + self.fill
        return torch.cat([skip, y], 1)


@pytest.mark.parametrize("size", [8, 9])
def test_padding_by_nothing_needs_no_data(size: int) -> None:
    model = Net().eval()
    axes = {"x": {0: "batch", 2: "height", 3: "width"}}
    program = onward.export(model, (torch.randn(2, 1, size, size),), dynamic_axes=axes, verify=False)
    assert model.with_data == 0
    for shape in ((1, 1, 8, 8), (3, 1, 9, 8), (1, 1, 8, 13), (2, 1, 11, 7)):
        x = torch.randn(shape)
        torch.testing.assert_close(program(x), model(x))


def test_a_side_that_differs_is_not_taken_for_both() -> None:
    """`+ 1` is on one side alone: the steps differ, and so do the results."""
    axes = {"x": {2: "height", 3: "width"}}
    with pytest.raises(FrozenAxisError, match="a branch depends on the size"):
        onward.export(Net(fill=1.0).eval(), (torch.randn(2, 1, 8, 8),), dynamic_axes=axes, verify=False)
