"""Real networks, small: what mismatches are hunted in."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from tests.models._torchvision import torchvision_models


class Field(nn.Module):
    """A model of transformers that answers with one tensor."""

    def __init__(self, model: nn.Module, field: str, **settings: Any) -> None:
        super().__init__()
        self.model, self.field, self.settings = model, field, settings

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        answer: torch.Tensor = getattr(self.model(tokens, **self.settings), self.field)
        return answer


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(50, 16)
        self.lstm = nn.LSTM(16, 24, 2, batch_first=True, bidirectional=True)
        self.head = nn.Linear(48, 5)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        hidden, _ = self.lstm(self.words(tokens))
        return torch.log_softmax(self.head(torch.tanh(hidden)).mean(1), -1)


def _block(before: int, after: int) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(before, after, 3, padding=1), nn.BatchNorm2d(after), nn.ReLU(),
        nn.Conv2d(after, after, 3, padding=1), nn.GroupNorm(4, after), nn.SiLU(),
    )  # fmt: skip


class UNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.down1, self.down2, self.middle = _block(3, 8), _block(8, 16), _block(16, 32)
        self.up = nn.ConvTranspose2d(32, 16, 2, stride=2)
        self.up2, self.up1, self.head = _block(32, 16), _block(24, 8), nn.Conv2d(8, 2, 1)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        first = self.down1(image)
        second = self.down2(F.max_pool2d(first, 2))
        wide = self.up2(torch.cat([self.up(self.middle(F.avg_pool2d(second, 2))), second], 1))
        wide = F.interpolate(wide, scale_factor=2, mode="bilinear")
        return torch.sigmoid(self.head(self.up1(torch.cat([wide, first], 1))))


def _transformer(kind: str, field: str, settings: dict[str, Any], **sizes: int) -> nn.Module:
    package = importlib.import_module("transformers")
    config = getattr(package, f"{kind.split('For')[0].removesuffix('Model').removesuffix('LMHead')}Config")
    return Field(
        getattr(package, kind)(config(vocab_size=99, bos_token_id=1, eos_token_id=2, **sizes)), field, **settings
    )


def _tokens() -> tuple[torch.Tensor]:
    return (torch.randint(0, 50, (2, 9)),)


_SMALL = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64}
_NO_CACHE = {"use_cache": False}

MODELS: dict[str, Callable[[], tuple[nn.Module, tuple[torch.Tensor]]]] = {
    "resnet18": lambda: (torchvision_models().resnet18(), (torch.randn(2, 3, 64, 64),)),
    "mobilenet_v2": lambda: (torchvision_models().mobilenet_v2(), (torch.randn(1, 3, 64, 64),)),
    "vit": lambda: (
        importlib.import_module("timm").create_model("vit_tiny_patch16_224", img_size=32, depth=3),
        (torch.randn(2, 3, 32, 32),),
    ),
    "bert": lambda: (_transformer("BertModel", "pooler_output", {}, **_SMALL), _tokens()),
    "gpt2": lambda: (
        _transformer("GPT2LMHeadModel", "logits", _NO_CACHE, n_embd=32, n_layer=2, n_head=4),
        _tokens(),
    ),
    "llama": lambda: (
        _transformer("LlamaForCausalLM", "logits", _NO_CACHE, **_SMALL, num_key_value_heads=2),
        _tokens(),
    ),
    "lstm": lambda: (Recurrent(), _tokens()),
    "unet": lambda: (UNet(), (torch.randn(1, 3, 32, 32),)),
}
