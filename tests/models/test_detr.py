"""Tiny detectors of transformers with dynamic batch, height and width: positions are cached by size, masks are made."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import onward

from ._torchvision import torchvision_models
from ._weights import seeded

torchvision_models()  # before transformers, some of whose models import torchvision
transformers = pytest.importorskip("transformers")

LAYERS = {
    "encoder_layers": 1,
    "decoder_layers": 1,
    "encoder_attention_heads": 2,
    "decoder_attention_heads": 2,
    "encoder_ffn_dim": 16,
    "decoder_ffn_dim": 16,
    "num_queries": 5,
    "d_model": 32,
}
PLAIN = {"use_timm_backbone": False, "backbone": None, "use_pretrained_backbone": False}


def _backbone(*stages: int) -> Any:
    return transformers.ResNetConfig(
        embedding_size=32,
        hidden_sizes=[32, 32, 32, 32],
        depths=[1, 1, 1, 1],
        layer_type="basic",
        out_features=[f"stage{stage}" for stage in stages],
    )


def _detector(family: str, *stages: int, **options: Any) -> Callable[[], nn.Module]:
    def make() -> nn.Module:
        settings = {**PLAIN, **LAYERS, **options, "backbone_config": _backbone(*stages)}
        return getattr(transformers, f"{family}Model")(getattr(transformers, f"{family}Config")(**settings))

    return make


def _mask_former() -> nn.Module:
    config = transformers.MaskFormerConfig(
        backbone_config=_backbone(1, 2, 3, 4),
        fpn_feature_size=32,
        mask_feature_size=32,
        decoder_config=transformers.DetrConfig(**LAYERS),
    )
    return transformers.MaskFormerModel(config)


MODELS = {
    "detr": _detector("Detr", 4),
    "conditional detr": _detector("ConditionalDetr", 4),
    "deformable detr": _detector("DeformableDetr", 2, 3, 4, num_feature_levels=3),
    "maskformer": _mask_former,
}


class First(nn.Module):
    """The first result of a model."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, pixels: Tensor) -> Tensor:
        return self.model(pixels)[0]


@pytest.mark.parametrize("name", MODELS)
def test_pictures_of_any_size(name: str) -> None:
    model = seeded(lambda: First(MODELS[name]()))
    axes = {"pixels": {0: "batch", 2: "height", 3: "width"}}
    with warnings.catch_warnings():
        warnings.simplefilter("error", onward.CaptureWarning)
        program = onward.export(model, torch.randn(2, 3, 96, 64), input_names=["pixels"], dynamic_axes=axes)
    for batch, height, width in ((1, 96, 64), (3, 64, 128), (2, 96, 160)):
        pixels = torch.randn(batch, 3, height, width)
        with torch.no_grad():
            wanted = model(pixels)
        torch.testing.assert_close(program(pixels), wanted, rtol=1e-3, atol=1e-4)
