"""The models of real packages in whose Python code contract section H matters, in tiny configurations.

    python -m tests.contract.h_real [-k text]

They are slow, so no test runs them by default. `build` imports the package: one that is not installed is left out.
"""

from __future__ import annotations

import argparse
import importlib.util
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from ..models._torchvision import torchvision_models
from ..models._weights import settle_batch_norms
from .h_rows import Args, Axes, Row, noise
from .h_table import guarded, report, warm_up

SECONDS = 300
SEQUENCE = {"input_ids": {0: "batch", 1: "seq"}}
PICTURE = {"pixels": {0: "batch", 2: "height", 3: "width"}}
IMAGE = {"image": {1: "height", 2: "width"}}
TEXT = {
    "vocab_size": 97,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "intermediate_size": 48,
    "max_position_embeddings": 64,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}


class Tokens(nn.Module):
    """A model of transformers from tokens to the tensors of its result, without a cache."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, input_ids: torch.Tensor) -> Any:
        return self.model(input_ids=input_ids, use_cache=False)[0]


class TokensAndPictures(nn.Module):
    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, input_ids: torch.Tensor, pixels: torch.Tensor) -> Any:
        return self.model(input_ids=input_ids, pixel_values=pixels, use_cache=False)[0]


class Pictures(nn.Module):
    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, pixels: torch.Tensor) -> Any:
        result = self.model(pixel_values=pixels)
        return result.logits, result.pred_boxes


class Detections(nn.Module):
    """A detector of torchvision on one image of any size."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, image: torch.Tensor) -> Any:
        return self.model([image])[0]


class Denoiser(nn.Module):
    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, pixels: torch.Tensor, step: torch.Tensor) -> Any:
        return self.model(pixels, step).sample


# Inputs


def tokens(batch: int, length: int) -> Args:
    return (torch.randint(3, 96, (batch, length), generator=torch.Generator().manual_seed(batch + length)),)


def tokens_and_pictures(batch: int) -> Args:
    """One picture of four patches to a text, where the text has its places."""
    ids = tokens(batch, 9)[0]
    ids[:, 2:6] = 96
    return ids, noise(batch, 3, 8, 8)


def image(height: int, width: int, seed: int = 0) -> Args:
    return (noise(3, height, width, seed=seed).sigmoid(),)


LENGTHS = tuple(tokens(*each) for each in [(2, 7), (1, 1), (3, 2), (1, 12), (2, 20)])
SIZES = tuple((noise(b, 3, h, w),) for b, h, w in [(2, 64, 64), (1, 64, 96), (3, 80, 72), (1, 65, 127)])
DARK = (noise(3, 64, 64, seed=2) * 0.01,)  # a black image would have many equal scores, and no one right answer
IMAGES = (image(64, 64), image(64, 64, seed=1), image(48, 80), image(90, 61), DARK)


# transformers


def causal(family: str, **settings: Any) -> Callable[[], nn.Module]:
    """A causal model; its experts run one after another in Python, as `experts_implementation="eager"` has them."""

    def build() -> nn.Module:
        torchvision_models()  # transformers imports torchvision
        import transformers

        transformers.logging.set_verbosity_error()
        config = getattr(transformers, f"{family}Config")(**settings)
        config._experts_implementation = "eager"
        return Tokens(getattr(transformers, f"{family}ForCausalLM")(config))

    return build


MAMBA = {"vocab_size": 97, "hidden_size": 16, "num_hidden_layers": 2, "state_size": 4, "time_step_rank": 4}
RWKV = {"vocab_size": 97, "hidden_size": 16, "num_hidden_layers": 2, "context_length": 32}
XLSTM = {"vocab_size": 97, "hidden_size": 32, "num_hidden_layers": 2, "num_heads": 2, "chunk_size": 4}
JAMBA = {
    **TEXT,
    "num_hidden_layers": 4,
    "num_experts": 4,
    "attn_layer_period": 4,
    "attn_layer_offset": 2,
    "mamba_d_state": 4,
}
MIXTRAL = {**TEXT, "num_local_experts": 6, "num_experts_per_tok": 2}
DBRX = {
    "vocab_size": 97,
    "d_model": 32,
    "n_heads": 4,
    "n_layers": 2,
    "max_seq_len": 64,
    "attn_config": {"kv_n_heads": 2, "clip_qkv": 8, "rope_theta": 10000.0},
    "ffn_config": {"hidden_size": 32, "ffn_hidden_size": 32, "moe_num_experts": 6, "moe_top_k": 2},
}


def llava() -> nn.Module:
    torchvision_models()
    import transformers

    vision = transformers.CLIPVisionConfig(
        hidden_size=16, intermediate_size=32, num_hidden_layers=2, num_attention_heads=2, image_size=8, patch_size=4
    )
    text = transformers.LlamaConfig(**TEXT)
    config = transformers.LlavaConfig(vision_config=vision, text_config=text, image_token_index=96, image_seq_length=4)
    return TokensAndPictures(transformers.LlavaForConditionalGeneration(config))


def detr(family: str) -> Callable[[], nn.Module]:
    def build() -> nn.Module:
        torchvision_models()
        import transformers

        backbone = transformers.ResNetConfig(
            embedding_size=8, hidden_sizes=[8, 16], depths=[1, 1], out_features=["stage2"], layer_type="basic"
        )
        config = getattr(transformers, f"{family}Config")(
            backbone_config=backbone,
            use_timm_backbone=False,
            use_pretrained_backbone=False,
            num_queries=5,
            encoder_layers=1,
            decoder_layers=1,
            encoder_ffn_dim=32,
            decoder_ffn_dim=32,
            encoder_attention_heads=2,
            decoder_attention_heads=2,
            d_model=16,
            num_labels=4,
        )
        return Pictures(getattr(transformers, f"{family}ForObjectDetection")(config))

    return build


# torchvision


def backbone() -> tuple[nn.Module, Any]:
    """A pyramid of three levels, and an anchor of its own size for each."""
    torchvision_models()
    from torchvision.models.detection.anchor_utils import AnchorGenerator

    from .h_vision import kernels_for_torchvision

    kernels_for_torchvision()
    return Pyramid(), AnchorGenerator(((8,), (16,), (32,)), ((0.5, 1.0, 2.0),) * 3)


class Pyramid(nn.Module):
    out_channels = 32

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 32, 3, 4, 1), nn.BatchNorm2d(32), nn.ReLU())
        self.levels = nn.ModuleList([nn.Conv2d(32, 32, 3, stride=2, padding=1) for _ in range(3)])

    def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        x = self.stem(x)
        maps = {}
        for number, level in enumerate(self.levels):
            x = level(x).relu()
            maps[str(number)] = x
        return maps


SCALE = {"min_size": 64, "max_size": 96}


def settled(model: nn.Module) -> nn.Module:
    """Heads start near zero in torchvision; larger weights let a random detector find something."""
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "head" in name or "rpn" in name:
                parameter.mul_(8.0) if parameter.ndim > 1 else parameter.clamp_(min=-1.0)
    model = Detections(model.eval())
    settle_batch_norms(model, IMAGES[0])
    return model


def faster_rcnn() -> nn.Module:
    features, anchors = backbone()
    from torchvision.models.detection.faster_rcnn import FasterRCNN, FastRCNNPredictor
    from torchvision.ops import MultiScaleRoIAlign

    pool = MultiScaleRoIAlign(["0", "1", "2"], output_size=3, sampling_ratio=2)
    head = nn.Sequential(nn.Flatten(), nn.Linear(32 * 9, 24), nn.ReLU())
    return settled(
        FasterRCNN(
            features, rpn_anchor_generator=anchors, box_roi_pool=pool, box_head=head,
            box_predictor=FastRCNNPredictor(24, 4), rpn_pre_nms_top_n_test=40, rpn_post_nms_top_n_test=20,
            box_detections_per_img=30, box_score_thresh=0.36, **SCALE,
        )
    )  # fmt: skip


def retinanet() -> nn.Module:
    features, anchors = backbone()
    from torchvision.models.detection import RetinaNet

    return settled(RetinaNet(features, 4, anchor_generator=anchors, topk_candidates=30, score_thresh=0.33, **SCALE))


def fcos() -> nn.Module:
    features, _ = backbone()
    from torchvision.models.detection import FCOS
    from torchvision.models.detection.anchor_utils import AnchorGenerator

    anchors = AnchorGenerator(((8,), (16,), (32,)), ((1.0,),) * 3)
    return settled(FCOS(features, 4, anchor_generator=anchors, topk_candidates=30, score_thresh=0.62, **SCALE))


def ssd() -> nn.Module:
    features, _ = backbone()
    from torchvision.models.detection.anchor_utils import DefaultBoxGenerator
    from torchvision.models.detection.ssd import SSD, SSDHead

    anchors = DefaultBoxGenerator([[2], [2], [2]], scales=[0.1, 0.3, 0.6, 0.9])
    head = SSDHead([32, 32, 32], anchors.num_anchors_per_location(), 4)
    return settled(SSD(features, anchors, (64, 64), 4, head=head, topk_candidates=20, score_thresh=0.83))


# diffusers


def unet() -> nn.Module:
    torchvision_models()  # diffusers imports transformers, which imports it
    import diffusers

    return Denoiser(
        diffusers.UNet2DModel(
            block_out_channels=(8, 16), down_block_types=("DownBlock2D", "AttnDownBlock2D"), norm_num_groups=4,
            up_block_types=("AttnUpBlock2D", "UpBlock2D"), layers_per_block=1, attention_head_dim=4,
        )
    )  # fmt: skip


class Conditional(nn.Module):
    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, pixels: torch.Tensor, step: torch.Tensor, text: torch.Tensor) -> Any:
        return self.model(pixels, step, text).sample


def conditional_unet() -> nn.Module:
    torchvision_models()
    import diffusers

    return Conditional(
        diffusers.UNet2DConditionModel(
            block_out_channels=(8, 16), down_block_types=("CrossAttnDownBlock2D", "DownBlock2D"), norm_num_groups=4,
            up_block_types=("UpBlock2D", "CrossAttnUpBlock2D"), layers_per_block=1, attention_head_dim=4,
            cross_attention_dim=8,
        )
    )  # fmt: skip


# plain Python


class Recurrent(nn.Module):
    """A recurrent network whose steps are a `for` in Python."""

    def __init__(self) -> None:
        super().__init__()
        self.cell, self.head = nn.LSTMCell(8, 16), nn.Linear(16, 4)

    def forward(self, x: torch.Tensor) -> Any:
        hidden = cell = x.new_zeros(x.shape[0], 16)
        found = []
        for step in range(x.shape[1]):
            hidden, cell = self.cell(x[:, step], (hidden, cell))
            found.append(self.head(hidden))
        return torch.stack(found, 1), hidden


class RealRow(Row):
    @property
    def file(self) -> str:
        """A line of any file is a line of the model."""
        return ".py:"


def row(name: str, build: Callable[[], nn.Module], inputs: tuple[Args, ...], axes: Axes) -> Row:
    return RealRow(name, build, inputs[0], inputs[1:], axes)


def rows() -> list[Row]:
    """The models of the packages that are installed."""
    steps = tuple((noise(batch, length, 8),) for batch, length in [(2, 20), (1, 1), (3, 7), (2, 40)])
    found = [
        row("recurrent", Recurrent, steps, {"x": {0: "batch", 1: "length"}}),
        row("mamba", causal("Mamba", **MAMBA), LENGTHS, SEQUENCE),
        row("rwkv", causal("Rwkv", **RWKV), LENGTHS, SEQUENCE),
        row("xlstm", causal("xLSTM", **XLSTM), LENGTHS, SEQUENCE),
        row("jamba", causal("Jamba", **JAMBA), LENGTHS, SEQUENCE),
        row("mixtral", causal("Mixtral", **MIXTRAL), LENGTHS, SEQUENCE),
        row("dbrx", causal("Dbrx", **DBRX), LENGTHS, SEQUENCE),
        row(
            "llava",
            llava,
            tuple(tokens_and_pictures(batch) for batch in (2, 1, 3, 5)),
            {"input_ids": {0: "batch"}, "pixels": {0: "batch"}},
        ),
        row("detr", detr("Detr"), SIZES, PICTURE),
        row("conditional_detr", detr("ConditionalDetr"), SIZES, PICTURE),
        row("faster_rcnn", faster_rcnn, IMAGES, IMAGE),
        row("retinanet", retinanet, IMAGES, IMAGE),
        row("fcos", fcos, IMAGES, IMAGE),
        row("ssd", ssd, IMAGES, IMAGE),
    ]
    if importlib.util.find_spec("diffusers"):
        latents = tuple((noise(b, 3, h, w), torch.tensor(7)) for b, h, w in [(2, 8, 8), (1, 16, 8), (3, 12, 20)])
        found.append(row("unet", unet, latents, PICTURE))
        others = [(2, 8, 8), (1, 9, 8), (3, 12, 21)]
        prompted = tuple((noise(b, 4, h, w), torch.tensor(7), noise(b, 5, 8)) for b, h, w in others)
        found.append(row("conditional_unet", conditional_unet, prompted, {**PICTURE, "text": {0: "batch"}}))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-k", metavar="TEXT", default="", help="only models with this in their name")
    parser.add_argument("--eager", action="store_true", help="only call them in plain PyTorch, and print the shapes")
    options = parser.parse_args()
    torch.set_num_threads(1)
    chosen = [each for each in rows() if options.k in each.name]
    if options.eager:
        for each in chosen:
            for args in (each.args, *each.others):
                print(each.name, [tuple(arg.shape) for arg in args], [tuple(out.shape) for out in each.expected(args)])
        return
    warm_up()
    for line in report(chosen, lambda each: guarded(each, SECONDS)):
        print(line, flush=True)


if __name__ == "__main__":
    main()
