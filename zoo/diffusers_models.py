"""Networks of diffusers in small configurations, with dynamic batch, height and width."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from tests.models._torchvision import torchvision_models
from tests.models._weights import seeded

from .case import Case, Sizes

SIZES: Sizes = {"batch": 2, "height": 16, "width": 16}
OTHERS: tuple[Sizes, ...] = (
    {"batch": 1, "height": 16, "width": 16},
    {"batch": 3, "height": 24, "width": 16},
    {"batch": 1, "height": 32, "width": 48},
    {"batch": 2, "height": 20, "width": 12},
)
TOKENS = 5
_UNET = {
    "sample_size": 16, "layers_per_block": 1, "block_out_channels": (8, 16), "norm_num_groups": 4,
    "attention_head_dim": 4,
}  # fmt: skip
_CROSS = {
    **_UNET, "in_channels": 4, "out_channels": 4, "cross_attention_dim": 8,
    "down_block_types": ("CrossAttnDownBlock2D", "DownBlock2D"), "up_block_types": ("UpBlock2D", "CrossAttnUpBlock2D"),
}  # fmt: skip
_CODER = {"block_out_channels": (8, 16), "norm_num_groups": 4, "layers_per_block": 1, "latent_channels": 4}
_TRANSFORMER = {"num_layers": 2, "num_attention_heads": 2, "attention_head_dim": 8}

# The class, its configuration, and the arguments that it takes beside pictures.
NETWORKS: dict[str, tuple[dict[str, Any], tuple[str, ...]]] = {
    "UNet2DModel": ({**_UNET, "down_block_types": ("DownBlock2D", "AttnDownBlock2D"),
                     "up_block_types": ("AttnUpBlock2D", "UpBlock2D")}, ("step",)),
    "UNet2DConditionModel": (_CROSS, ("step", "text")),
    "UNet2DConditionModel/xl": ({**_CROSS, "use_linear_projection": True, "transformer_layers_per_block": (1, 2)},
                                ("step", "text")),
    "AutoencoderKL": ({**_CODER, "down_block_types": ("DownEncoderBlock2D",) * 2,
                       "up_block_types": ("UpDecoderBlock2D",) * 2}, ()),
    "VQModel": ({**_CODER, "down_block_types": ("DownEncoderBlock2D",) * 2, "up_block_types": ("UpDecoderBlock2D",) * 2,
                 "num_vq_embeddings": 16}, ()),
    "AutoencoderTiny": ({"encoder_block_out_channels": (8, 8), "decoder_block_out_channels": (8, 8),
                         "num_encoder_blocks": (1, 1), "num_decoder_blocks": (1, 1)}, ()),
    "ConsistencyDecoderVAE": ({}, ()),
    "DiTTransformer2DModel": ({**_TRANSFORMER, "in_channels": 4, "sample_size": 16, "patch_size": 2,
                               "norm_num_groups": 4, "num_embeds_ada_norm": 10}, ("step", "label")),
    "PixArtTransformer2DModel": ({**_TRANSFORMER, "in_channels": 4, "out_channels": 8, "sample_size": 16,
                                  "patch_size": 2, "cross_attention_dim": 16, "caption_channels": 8,
                                  "norm_num_groups": 4, "use_additional_conditions": False}, ("words", "step")),
    "SD3Transformer2DModel": ({**_TRANSFORMER, "in_channels": 4, "out_channels": 4, "sample_size": 16, "patch_size": 2,
                               "joint_attention_dim": 8, "caption_projection_dim": 16, "pooled_projection_dim": 8,
                               "pos_embed_max_size": 24}, ("text", "pooled", "step")),
    "ControlNetModel": ({"block_out_channels": (8, 16), "layers_per_block": 1, "norm_num_groups": 4, "in_channels": 4,
                         "attention_head_dim": 4, "cross_attention_dim": 8,
                         "down_block_types": ("CrossAttnDownBlock2D", "DownBlock2D"),
                         "conditioning_embedding_out_channels": (8, 8)}, ("step", "text", "hint")),
    "AutoencoderDC": ({"latent_channels": 4, "encoder_block_out_channels": (8, 16), "encoder_layers_per_block": (1, 1),
                       "decoder_block_out_channels": (8, 16), "decoder_layers_per_block": (1, 1),
                       "encoder_block_types": "ResBlock", "decoder_block_types": "ResBlock",
                       "encoder_qkv_multiscales": ((), ()), "decoder_qkv_multiscales": ((), ())}, ()),
}  # fmt: skip
# How each extra argument is called, and made for a batch of pictures of some height and width.
EXTRA: dict[str, tuple[str, Callable[[int, int, int], Tensor]]] = {
    "step": ("timestep", lambda batch, height, width: torch.randint(0, 999, (batch,))),
    "text": ("encoder_hidden_states", lambda batch, height, width: torch.randn(batch, TOKENS, 8)),
    "words": ("encoder_hidden_states", lambda batch, height, width: torch.randn(batch, TOKENS, 8)),
    "label": ("class_labels", lambda batch, height, width: torch.randint(0, 9, (batch,))),
    "pooled": ("pooled_projections", lambda batch, height, width: torch.randn(batch, 8)),
    "hint": ("controlnet_cond", lambda batch, height, width: torch.randn(batch, 3, 2 * height, 2 * width)),
}


class ByPosition(nn.Module):
    """A network that takes keywords, called with tensors by position; its result as a tuple."""

    def __init__(self, model: nn.Module, keywords: tuple[str, ...]) -> None:
        super().__init__()
        self.model, self.keywords = model, keywords

    def forward(self, pictures: Tensor, *tensors: Tensor) -> Any:
        return self.model(pictures, **dict(zip(self.keywords, tensors, strict=True)), return_dict=False)


def names() -> list[str]:
    return sorted(NETWORKS)


def case(name: str) -> Case:
    torchvision_models()  # diffusers imports transformers, which imports it
    import diffusers

    configuration, extra = NETWORKS[name]
    build = functools.partial(getattr(diffusers, name.partition("/")[0]), **configuration)
    model = ByPosition(seeded(build), tuple(EXTRA[each][0] for each in extra)).eval()
    channels = configuration.get("in_channels", 3)

    def at(sizes: Sizes) -> dict[str, Tensor]:
        batch, height, width = sizes.values()
        drawn = {each: EXTRA[each][1](batch, height, width) for each in extra}
        return {"pictures": torch.randn(batch, channels, height, width), **drawn}

    axes: dict[str, dict[int, str]] = {"pictures": {0: "batch", 2: "height", 3: "width"}}
    axes |= {each: {0: "batch"} for each in extra}
    if "hint" in extra:
        axes["hint"] = {0: "batch", 2: "hint_height", 3: "hint_width"}
    return Case(model, at, axes, SIZES, OTHERS)
