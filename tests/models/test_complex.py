"""Models that compute with complex numbers inside: Fourier mixing, rotary embeddings, spectrograms."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import onward
from onward.verify import Session

from ._torchvision import torchvision_models
from ._weights import seeded

torchvision_models()  # before transformers, some of whose models import torchvision
transformers = pytest.importorskip("transformers")


def agree(model: nn.Module, path: Path, *inputs: torch.Tensor) -> None:
    """The file against eager, at sizes that the export did not see."""
    with torch.no_grad():
        expected = model(*inputs)
    (actual,) = Session(path).run(list(inputs))
    torch.testing.assert_close(actual, expected, rtol=1e-4, atol=1e-5)


class Hidden(nn.Module):
    """A model of transformers as a function from ids to hidden states."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return self.model(input_ids=ids, use_cache=False).last_hidden_state


def ids(*size: int) -> torch.Tensor:
    return torch.randint(0, 96, size, generator=torch.Generator().manual_seed(0))


def fnet() -> nn.Module:
    config = transformers.FNetConfig(
        vocab_size=96, hidden_size=32, num_hidden_layers=2, intermediate_size=48, max_position_embeddings=64
    )

    class Encoder(Hidden):
        def forward(self, ids: torch.Tensor) -> torch.Tensor:
            return self.model(input_ids=ids).last_hidden_state

    return Encoder(transformers.FNetModel(config))


def deepseek() -> nn.Module:
    config = transformers.DeepseekV2Config(
        vocab_size=96, hidden_size=32, intermediate_size=48, moe_intermediate_size=16, num_hidden_layers=2,
        num_attention_heads=2, num_key_value_heads=2, n_routed_experts=4, num_experts_per_tok=2, n_group=1,
        topk_group=1, kv_lora_rank=16, q_lora_rank=16, qk_rope_head_dim=8, qk_nope_head_dim=8, v_head_dim=8,
        first_k_dense_replace=2, max_position_embeddings=64,
    )  # fmt: skip
    return Hidden(transformers.DeepseekV2Model(config))


@pytest.mark.parametrize("build", [fnet, deepseek])
@pytest.mark.parametrize("opset", [14, 20])
def test_transformers(build: Any, opset: int, tmp_path: Path) -> None:
    model, path = seeded(build).eval(), tmp_path / "m.onnx"
    axes = {"ids": {0: "batch", 1: "sequence"}}
    onward.export(model, (ids(2, 7),), path, dynamic_axes=axes, opset_version=opset, verify=True)
    agree(model, path, ids(3, 12))


class Rotary(nn.Module):
    """Attention with rotary embeddings as llama wrote them: pairs as complex numbers, turned by a buffer of angles."""

    def __init__(self, width: int = 32, heads: int = 4, longest: int = 64) -> None:
        super().__init__()
        self.heads, self.head = heads, width // heads
        self.q, self.k, self.v, self.o = (nn.Linear(width, width, bias=False) for _ in range(4))
        frequencies = 1.0 / (10000.0 ** (torch.arange(0, self.head, 2).float() / self.head))
        angles = torch.outer(torch.arange(longest), frequencies)
        self.register_buffer("turns", torch.polar(torch.ones_like(angles), angles), persistent=False)

    def turned(self, x: torch.Tensor, turns: torch.Tensor) -> torch.Tensor:
        pairs = torch.view_as_complex(x.float().reshape(*x.shape[:-1], -1, 2))
        return torch.view_as_real(pairs * turns[None, :, None, :]).flatten(3).type_as(x)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, time, _ = x.shape
        turns = self.turns[:time]
        q, k, v = (each(x).view(batch, time, self.heads, self.head) for each in (self.q, self.k, self.v))
        q, k = self.turned(q, turns), self.turned(k, turns)
        mixed = F.scaled_dot_product_attention(*(each.transpose(1, 2) for each in (q, k, v)), is_causal=True)
        return self.o(mixed.transpose(1, 2).reshape(batch, time, -1))


class Spectral(nn.Module):
    """A layer of a Fourier neural operator: the lowest modes of a picture times complex weights."""

    def __init__(self, channels: int = 3, modes: int = 4) -> None:
        super().__init__()
        self.modes = modes
        self.weight = nn.Parameter(torch.randn(channels, channels, modes, modes, dtype=torch.complex64))
        self.skip = nn.Conv2d(channels, channels, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        spectrum = torch.fft.rfft2(x, norm="ortho")
        kept = torch.zeros_like(spectrum)
        low = spectrum[:, :, : self.modes, : self.modes]
        kept[:, :, : self.modes, : self.modes] = torch.einsum("bixy,ioxy->boxy", low, self.weight)
        return F.gelu(torch.fft.irfft2(kept, s=x.shape[-2:], norm="ortho") + self.skip(x))


class Vocoder(nn.Module):
    """Sound to sound by way of its spectrum: the magnitude is masked, the phase kept."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("window", torch.hann_window(32))
        self.mask = nn.Conv1d(17, 17, 3, padding=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        spectrum = torch.stft(x, 32, 8, window=self.window, return_complex=True)
        size = spectrum.abs()
        masked = torch.polar(size * torch.sigmoid(self.mask(torch.log1p(size))), spectrum.angle())
        return torch.istft(masked, 32, 8, window=self.window, length=x.shape[-1])


def reals(*size: int) -> torch.Tensor:
    return torch.randn(*size, generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize(
    ("build", "size", "axes", "other"),
    [
        (Rotary, (2, 6, 32), {0: "batch", 1: "time"}, (1, 11, 32)),
        (Spectral, (2, 3, 16, 12), {0: "batch", 2: "height", 3: "width"}, (1, 3, 20, 17)),
        (Vocoder, (2, 200), {0: "batch", 1: "time"}, (1, 333)),
    ],
)
@pytest.mark.parametrize("opset", [13, 20])
def test_written_by_hand(build: Any, size: Any, axes: Any, other: Any, opset: int, tmp_path: Path) -> None:
    model, path = seeded(build).eval(), tmp_path / "m.onnx"
    onward.export(model, (reals(*size),), path, dynamic_axes={"x": axes}, opset_version=opset, verify=True)
    agree(model, path, reals(*other))
