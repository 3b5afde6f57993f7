"""Other sizes are tried without data where model and program take the same steps."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import onward
from onward.capture.attempt.same_steps import Untold, _Following, _Numbers
from onward.capture.ground.threads import is_tracing
from onward.capture.sizes.layouts import LayoutKernels


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
    """`+ 1` is on one side alone: the steps differ, and so do the results. So the file has both."""
    axes = {"x": {2: "height"}}
    model = Net(fill=1.0).eval()
    program = onward.export(model, (torch.randn(2, 1, 8, 8),), dynamic_axes=axes, verify=False)
    assert "If" in {node.op_type for node in program.model.graph}
    for height in (6, 7, 9):
        x = torch.randn(2, 1, height, 8)
        torch.testing.assert_close(program(x), model(x), rtol=1e-4, atol=1e-5)


class Padded(nn.Module):
    """Pads to an even size, does something, and counts the runs on data that are not the trace."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.kind, self.with_data, self.drop = kind, 0, nn.Dropout(0.5)
        self.table = nn.Parameter(torch.randn(1, 1, 4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if not is_tracing() and type(x) is torch.Tensor:
            self.with_data += 1
        if self.kind == "refusal" and x.shape[2] < 4:
            raise ValueError("too short")
        long = x.shape[2] % 2 != 0
        if long:
            x = F.pad(x, (0, x.shape[2] % 2))
        if self.kind == "dropout":
            return self.drop(x).relu_()
        if self.kind == "upsampling":
            return F.interpolate(x, size=2 * x.shape[2]) if long else F.interpolate(x, scale_factor=2.0)
        if self.kind == "weights":
            return x + F.interpolate(self.table, size=x.shape[2], mode="linear") * torch.ones(x.shape[2])
        if self.kind == "written":
            scale = torch.ones(x.shape[2])
            scale[0] = 2.0
            return x * scale
        return x * 2


@pytest.mark.parametrize("kind", ["dropout", "upsampling", "weights", "written", "refusal"])
def test_what_needs_no_data(kind: str) -> None:
    model = Padded(kind).eval()
    program = onward.export(model, (torch.randn(1, 1, 8),), dynamic_axes={"x": {2: "time"}}, verify=False)
    assert model.with_data == 0
    for size in (5, 6, 8, 13):
        x = torch.randn(1, 1, size)
        torch.testing.assert_close(program(x), model(x))


class Stepping(nn.Module):
    """The two sides differ by a factor that no size tells."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if x.shape[2] % 2 != 0:
            return F.interpolate(x, size=x.shape[2] * 3 // 2, mode="linear")
        return F.interpolate(x, size=x.shape[2] * 3 // 2, mode="linear") * (1 + 1e-2)


def test_another_result_is_not_taken_for_the_same() -> None:
    model = Stepping().eval()
    program = onward.export(model, (torch.randn(1, 1, 8),), dynamic_axes={"x": {2: "time"}}, verify=False)
    for size in (5, 6, 8, 13):
        x = torch.randn(1, 1, size)
        torch.testing.assert_close(program(x), model(x))


class Written(nn.Module):
    """A parameter is written to on one side alone: what it holds is not what the program's constant holds."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(3), requires_grad=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if x.shape[0] % 2 == 0:
            self.scale.add_(1.0)
        return x * self.scale


def test_a_write_to_a_weight_is_seen_without_data() -> None:
    axes = {"x": {0: "rows"}}
    with pytest.warns(onward.CaptureWarning, match="writes to its parameter 'scale'"):
        program = onward.export(Written().eval(), (torch.randn(4, 3),), dynamic_axes=axes, verify=False)
    for size in (3, 4):
        x = torch.randn(size, 3)
        torch.testing.assert_close(program(x), Written().eval()(x))


@pytest.mark.parametrize("written", [repr, str, "{}".format], ids=["repr", "str", "format"])
def test_what_has_no_data_cannot_be_written_out(written: Any) -> None:
    """PyTorch's own text of a tensor calls itself for its elements, and holds on to its modes when that never ends."""
    following = _Following(_Numbers(()), LayoutKernels(), torch.device("cpu"))
    x = following.input(torch.ones(3), 0)
    with pytest.raises(Untold, match="asks for data"):
        written(x)
    assert following.untold


class Upsampled(nn.Module):
    """A question that no memory is large enough for, as U-Nets ask it; it counts its runs, and the largest input."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.runs = nn.GroupNorm(2, 4), 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.runs += 1
        for _ in range(4):  # each of the norms asks whether there is more than one value to a channel
            x = self.norm(x)
        if x.numel() * 4 > 2**31:
            x = x.contiguous()
        return F.interpolate(x, scale_factor=2.0)


def test_sizes_beyond_any_memory_are_tried_without_data() -> None:
    model = Upsampled().eval()
    with warnings.catch_warnings():
        warnings.simplefilter("error", onward.CaptureWarning)
        axes = {"x": {0: "batch"}}
        program = onward.export(model, (torch.randn(2, 4, 8, 8),), dynamic_axes=axes, verify=False)
    assert program.captured.limits == ()
    assert model.runs < 10, "a side was explored that there is not"


class Cropped(nn.Module):
    """Works at multiples of 4 alone, and asks a question that does not help it."""

    def __init__(self) -> None:
        super().__init__()
        self.down, self.up, self.runs = nn.Conv2d(1, 2, 4, 4), nn.ConvTranspose2d(2, 1, 4, 4), 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.runs += 1
        y = self.up(self.down(x))
        if x.shape[0] >= 64:
            y = y.contiguous()
        return torch.cat([x, y], 1)


def test_what_the_model_refuses_itself_has_no_other_side() -> None:
    model = Cropped().eval()
    axes = {"x": {0: "batch", 2: "height", 3: "width"}}
    program = onward.export(model, (torch.randn(2, 1, 16, 16),), dynamic_axes=axes, verify=False)
    assert model.runs < 20
    for shape in ((1, 1, 4, 8), (70, 1, 12, 4), (3, 1, 40, 16)):
        x = torch.randn(shape)
        torch.testing.assert_close(program(x), model(x), rtol=1e-4, atol=1e-5)


class Survives(nn.Module):
    """What a view refuses, it does in another way; or it asks its data, which a run without data does not know."""

    def __init__(self, asks: bool) -> None:
        super().__init__()
        self.asks = asks

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.asks:
            return x * 2 if x.shape[0] > 4 and x.sum() > 0 else x + 1
        try:
            return x.view(-1, 2) * 2
        except RuntimeError:
            return x.reshape(-1, 1) + 1


@pytest.mark.parametrize("asks", [False, True])
def test_an_error_of_a_run_without_data_is_not_taken_for_the_models(asks: bool) -> None:
    model = Survives(asks)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        program = onward.export(model, (torch.ones(4),), dynamic_axes={"x": {0: "n"}}, verify=False)
    wrong = []
    for size in (2, 3, 4, 5, 6, 9):
        for sign in (1, -1):
            x = torch.full((size,), 0.5) * sign
            try:
                torch.testing.assert_close(program(x), model(x))
            except Exception as error:
                wrong.append(f"{size}: {error}")
    assert not wrong or caught, wrong
