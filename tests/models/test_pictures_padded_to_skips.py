"""U-Nets that make a decoder's picture as large as the skip connection, in the forms in which people write it.

One side of the question does for both, so the file has no If, and every axis keeps its name.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import onward

PICTURE = {"x": {0: "batch", 2: "height", 3: "width"}}
Fit = Callable[[Tensor, Tensor], Tensor]


def missing(x: Tensor, h: Tensor) -> tuple[int, int]:
    return h.shape[2] - x.shape[2], h.shape[3] - x.shape[3]


def if_either(x: Tensor, h: Tensor) -> Tensor:
    dh, dw = missing(x, h)
    if dh or dw:
        x = F.pad(x, (0, dw, 0, dh))
    return x


def if_either_is_positive(x: Tensor, h: Tensor) -> Tensor:
    dh, dw = missing(x, h)
    if dh > 0 or dw > 0:
        x = F.pad(x, (0, dw, 0, dh))
    return x


def one_after_the_other(x: Tensor, h: Tensor) -> Tensor:
    dh, dw = missing(x, h)
    if dh != 0:
        x = F.pad(x, (0, 0, 0, dh))
    if dw != 0:
        x = F.pad(x, (0, dw))
    return x


def unless_both_are_equal(x: Tensor, h: Tensor) -> Tensor:
    dh, dw = missing(x, h)
    if not (dh == 0 and dw == 0):
        x = F.pad(x, (0, dw, 0, dh))
    return x


def if_shapes_differ(x: Tensor, h: Tensor) -> Tensor:
    dh, dw = missing(x, h)
    return F.pad(x, (0, dw, 0, dh)) if x.shape[2:] != h.shape[2:] else x


def interpolated(x: Tensor, h: Tensor) -> Tensor:
    return F.interpolate(x, size=h.shape[2:]) if x.size()[2:] != h.size()[2:] else x


def is_odd(x: Tensor, h: Tensor) -> Tensor:
    if h.shape[2] % 2 == 1 or h.shape[3] % 2 == 1:
        x = F.pad(x, (0, h.shape[3] % 2, 0, h.shape[2] % 2))
    return x


def cut(x: Tensor, h: Tensor) -> Tensor:
    x = F.pad(x, (0, 1, 0, 1))
    if x.shape[2] > h.shape[2] or x.shape[3] > h.shape[3]:
        x = x[:, :, : h.shape[2], : h.shape[3]]
    return x


FORMS = [
    if_either,
    if_either_is_positive,
    one_after_the_other,
    unless_both_are_equal,
    if_shapes_differ,
    interpolated,
    is_odd,
    cut,
]


class UNet(nn.Module):
    """Halves its picture as often as there are levels, and doubles it again."""

    def __init__(self, fit: Fit, levels: int = 2) -> None:
        super().__init__()
        self.fit = fit
        self.down = nn.ModuleList(nn.Conv2d(2 if not level else 4, 4, 3, padding=1) for level in range(levels))
        self.up = nn.ModuleList(nn.Conv2d(8, 4, 3, padding=1) for _ in range(levels))

    def forward(self, x: Tensor) -> Tensor:
        skips = []
        for down in self.down:
            x = down(x).relu()
            skips.append(x)
            x = F.max_pool2d(x, 2)
        for up, skip in zip(self.up, reversed(skips), strict=True):
            x = self.fit(F.interpolate(x, scale_factor=2), skip)
            x = up(torch.cat([x, skip], 1))
        return x


def exported(model: nn.Module, height: int, width: int) -> onward.ONNXProgram:
    with warnings.catch_warnings():
        warnings.simplefilter("error", onward.CaptureWarning)
        return onward.export(model, (torch.randn(2, 2, height, width),), dynamic_axes=PICTURE, verify=False)


def check_without_branches(model: nn.Module, program: Any, sizes: list[tuple[int, int, int]]) -> None:
    assert not any("kept as If" in each for each in program.warnings)
    assert not {"If", "Loop"} & {node.op_type for node in program.model_proto.graph.node}
    shape = [each.dim_param for each in program.model_proto.graph.output[0].type.tensor_type.shape.dim]
    assert shape == ["batch", "", "height", "width"]
    for batch, height, width in sizes:
        x = torch.randn(batch, 2, height, width)
        with torch.no_grad():
            torch.testing.assert_close(program(x), model(x), rtol=1e-3, atol=1e-4)


SIZES = [(1, 16, 16), (3, 17, 20), (2, 18, 21), (1, 19, 23), (2, 8, 9), (1, 31, 33)]


@pytest.mark.parametrize("size", [(16, 16), (17, 22)], ids=["even", "odd"])
@pytest.mark.parametrize("fit", FORMS, ids=lambda fit: fit.__name__)
def test_a_picture_is_made_as_large_as_the_skip_without_a_branch(fit: Fit, size: tuple[int, int]) -> None:
    torch.manual_seed(0)
    model = UNet(fit).eval()
    check_without_branches(model, exported(model, *size), SIZES)


def test_many_levels_are_written_without_a_branch() -> None:
    torch.manual_seed(0)
    model = UNet(if_either, 4).eval()
    sizes = [(1, 32, 32), (2, 33, 47), (3, 47, 31), (1, 63, 62), (2, 40, 24)]
    check_without_branches(model, exported(model, 32, 48), sizes)
