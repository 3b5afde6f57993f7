"""Pictures of any height and width through models that compute sizes in Python, as people write them."""

from __future__ import annotations

import math
import warnings
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import onward

from ..contract.control import check
from ._torchvision import torchvision_models

AXES = {"x": {2: "height", 3: "width"}}


class UNet(nn.Module):
    """Halves with `int(h / 2)` on the way down, and resizes to what it had on the way up."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.down, self.deep = (
            nn.Conv2d(3, 8, 3, padding=1),
            nn.Conv2d(8, 16, 3, padding=1),
            nn.Conv2d(16, 16, 1),
        )
        self.up, self.last = nn.Conv2d(24, 8, 3, padding=1), nn.Conv2d(8, 2, 1)

    def forward(self, x: Tensor) -> Tensor:
        top = self.first(x).relu()
        h, w = top.shape[-2:]
        half = F.interpolate(top, size=(int(h / 2), int(w / 2)), mode="bilinear", align_corners=False)
        half = self.down(half).relu()
        quarter = F.interpolate(half, size=(int(half.shape[2] / 2), int(half.shape[3] * 0.5)), mode="nearest")
        quarter = self.deep(quarter).relu()
        back = F.interpolate(quarter, size=(int(h), int(w)), mode="bilinear", align_corners=False)
        return self.last(self.up(torch.cat([top, back], 1)).relu())


class DetectorHead(nn.Module):
    """Anchors on a grid whose size is worked out with `math.ceil`, one per stride."""

    strides = (4, 8, 16)

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 3, stride=4, padding=1)
        self.downs = nn.ModuleList(nn.Conv2d(8, 8, 3, stride=2, padding=1) for _ in range(2))
        self.heads = nn.ModuleList(nn.Conv2d(8, 4, 1) for _ in self.strides)

    def forward(self, x: Tensor) -> Any:
        height, width = x.shape[2:]
        maps = [self.stem(x)]
        for down in self.downs:
            maps.append(down(maps[-1]))
        boxes = []
        for stride, features, head in zip(self.strides, maps, self.heads, strict=True):
            rows, columns = math.ceil(height / stride), math.ceil(width / stride)
            y, x_ = torch.meshgrid(torch.arange(rows), torch.arange(columns), indexing="ij")
            centres = (torch.stack([x_, y], -1).reshape(-1, 2) + 0.5) * stride
            offsets = head(features).flatten(2).transpose(1, 2)
            boxes.append(torch.cat([centres - offsets[..., :2], centres + offsets[..., 2:]], -1))
        return torch.cat(boxes, 1)


class WindowAttention(nn.Module):
    """Swin's windows: padded to a multiple of the window, in Python, with `if` as in the original."""

    def __init__(self, window: int = 7, shift: int = 3) -> None:
        super().__init__()
        self.window, self.shift = window, shift
        self.embed = nn.Conv2d(3, 8, 2, stride=2)
        self.attention = nn.MultiheadAttention(8, 2, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        x = self.embed(x).permute(0, 2, 3, 1)
        batch, height, width, channels = x.shape
        win = self.window
        pad_h, pad_w = (win - height % win) % win, (win - width % win) % win
        if pad_h > 0 or pad_w > 0:
            x = F.pad(x, (0, 0, 0, pad_w, 0, pad_h))
        rows, columns = x.shape[1], x.shape[2]
        x = torch.roll(x, (-self.shift, -self.shift), (1, 2))
        x = x.view(batch, rows // win, win, columns // win, win, channels).permute(0, 1, 3, 2, 4, 5)
        x = x.reshape(-1, win * win, channels)
        x = x + self.attention(x, x, x)[0]
        x = x.view(batch, rows // win, columns // win, win, win, channels).permute(0, 1, 3, 2, 4, 5)
        x = torch.roll(x.reshape(batch, rows, columns, channels), (self.shift, self.shift), (1, 2))
        if pad_h > 0 or pad_w > 0:
            x = x[:, :height, :width, :].contiguous()
        return x


MODELS = [
    (UNet, (32, 48), [(33, 48), (32, 50), (20, 20), (64, 31), (47, 95)]),
    (DetectorHead, (64, 96), [(65, 96), (64, 100), (33, 47), (128, 64), (31, 160)]),
    (WindowAttention, (28, 42), [(30, 42), (28, 56), (20, 34), (43, 29), (70, 70)]),
    (WindowAttention, (32, 46), [(28, 42), (28, 56), (20, 34), (43, 29), (70, 70)]),
]


@pytest.mark.parametrize(("model", "size", "others"), MODELS, ids=lambda value: getattr(value, "__name__", None))
def test_pictures_of_other_sizes(model: Any, size: tuple[int, int], others: list[tuple[int, int]]) -> None:
    torch.manual_seed(0)
    built = model().eval()
    inputs = [(torch.randn(1, 3, *each),) for each in others]
    with warnings.catch_warnings():
        warnings.simplefilter("error", onward.CaptureWarning)
        program = check(built, (torch.randn(1, 3, *size),), inputs, dynamic_axes=AXES)
    assert program.inputs[0].shape == (1, 3, "height", "width")


def swin_of_timm() -> nn.Module:
    torchvision_models()  # timm imports it
    timm = pytest.importorskip("timm")
    sizes = {"embed_dim": 24, "depths": (2, 2), "num_heads": (2, 4), "num_classes": 10}
    return timm.create_model("swin_tiny_patch4_window7_224", pretrained=False, strict_img_size=False, **sizes)


def swin_of_torchvision() -> nn.Module:
    models = torchvision_models()
    return models.swin_transformer.SwinTransformer([4, 4], 24, [2, 2], [2, 4], [7, 7], num_classes=10)


SIZES = [(60, 92), (112, 84), (100, 76), (128, 128), (84, 64)]


@pytest.mark.parametrize("size", [(224, 224), (112, 84), (120, 92)], ids=str)
def test_swin_of_timm(size: tuple[int, int]) -> None:
    """Padded to windows, which are cut from patches, which the model insists on: all of it in Python."""
    torch.manual_seed(0)
    model = swin_of_timm().eval()
    with warnings.catch_warnings():
        warnings.simplefilter("error", onward.CaptureWarning)
        program = onward.export(model, (torch.randn(1, 3, *size),), dynamic_axes=AXES)
    for other in SIZES:
        x = torch.randn(1, 3, *other)
        torch.testing.assert_close(program(x), model(x), rtol=1e-3, atol=1e-5)


def test_swin_of_torchvision() -> None:
    """Windows are not shifted where there is only one: the file has both sides of that."""
    torch.manual_seed(0)
    model = swin_of_torchvision().eval()
    program = onward.export(model, (torch.randn(1, 3, 112, 112),), dynamic_axes=AXES)
    for other in (*SIZES, (64, 96), (448, 64)):
        x = torch.randn(1, 3, *other)
        torch.testing.assert_close(program(x), model(x), rtol=1e-3, atol=1e-5)
