"""U-Nets of diffusers, in tiny configurations, with dynamic batch, height and width."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
import torch
from torch import nn

import onward
from onward.capture.ground.threads import is_tracing

from ._torchvision import torchvision_models

PICTURE = {0: "batch", 2: "height", 3: "width"}
SMALL = {
    "sample_size": 16,
    "in_channels": 3,
    "out_channels": 3,
    "layers_per_block": 1,
    "block_out_channels": (8, 16),
    "norm_num_groups": 4,
    "attention_head_dim": 4,
}


class Denoiser(nn.Module):
    """The tensor of a result; it counts the runs on data that are not the trace."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model, self.with_data = model, 0

    def forward(self, pixels: torch.Tensor, step: torch.Tensor, *text: torch.Tensor) -> Any:
        if not is_tracing() and type(pixels) is torch.Tensor:
            self.with_data += 1
        return self.model(pixels, step, *text).sample


def unet() -> nn.Module:
    torchvision_models()  # diffusers imports transformers, which imports it
    diffusers = pytest.importorskip("diffusers")
    down, up = ("DownBlock2D", "AttnDownBlock2D"), ("AttnUpBlock2D", "UpBlock2D")
    return diffusers.UNet2DModel(**SMALL, down_block_types=down, up_block_types=up)


def conditional_unet() -> nn.Module:
    """Sizes that it cannot halve and double again are handed to the upsampling blocks (`forward_upsample_size`)."""
    torchvision_models()
    diffusers = pytest.importorskip("diffusers")
    down, up = ("CrossAttnDownBlock2D", "DownBlock2D"), ("UpBlock2D", "CrossAttnUpBlock2D")
    return diffusers.UNet2DConditionModel(**SMALL, down_block_types=down, up_block_types=up, cross_attention_dim=8)


def inputs(batch: int, height: int, width: int, *, text: bool) -> tuple[torch.Tensor, ...]:
    given = torch.randn(batch, 3, height, width), torch.randint(0, 999, (batch,))
    return (*given, torch.randn(batch, 5, 8)) if text else given


@pytest.mark.parametrize(
    ("build", "sizes"),
    [
        (unet, [(1, 16, 16), (3, 20, 14), (2, 34, 12)]),
        (conditional_unet, [(1, 16, 16), (3, 20, 14), (2, 17, 16), (1, 15, 33), (65, 9, 10)]),
    ],
    ids=["UNet2DModel", "UNet2DConditionModel"],
)
def test_unets_of_diffusers(build: Any, sizes: list[tuple[int, int, int]]) -> None:
    torch.manual_seed(0)
    model, text = Denoiser(build()).eval(), build is conditional_unet
    axes = {"pixels": PICTURE, "step": {0: "batch"}, **({"text_0": {0: "batch"}} if text else {})}
    with warnings.catch_warnings():
        warnings.simplefilter("error", onward.CaptureWarning)
        program = onward.export(model, inputs(2, 16, 16, text=text), dynamic_axes=axes, verify=False)
    assert model.with_data == 0
    for each in sizes:
        given = inputs(*each, text=text)
        with torch.no_grad():
            torch.testing.assert_close(program(*given), model(*given), rtol=1e-3, atol=1e-4)
