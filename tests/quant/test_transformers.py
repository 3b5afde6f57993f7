"""Small transformers from the library of that name, through everything, at other sizes than they were exported at.

All of them agree with onnxruntime on every element here. What can differ are roundings next to a tie behind layer
norms, softmaxes and GELUs, which both compute in float: one step, and what follows from it.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from ..models._torchvision import torchvision_models
from .harness import left_in_float, products_of_activations, quantized, through_onnxruntime

torchvision_models()  # transformers imports it
transformers: Any = pytest.importorskip("transformers")

SIZES = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64}
WORDS = {"vocab_size": 50, "bos_token_id": 0, "eos_token_id": 1}


def bert() -> nn.Module:
    return transformers.BertModel(transformers.BertConfig(vocab_size=50, max_position_embeddings=32, **SIZES))


def distilbert() -> nn.Module:
    config = transformers.DistilBertConfig(
        vocab_size=50, max_position_embeddings=32, dim=32, n_layers=2, n_heads=4, hidden_dim=64
    )
    return transformers.DistilBertModel(config)


def gpt2() -> nn.Module:
    config = transformers.GPT2Config(**WORDS, n_positions=32, n_embd=32, n_layer=2, n_head=4, use_cache=False)
    return transformers.GPT2Model(config)


def llama() -> nn.Module:
    config = transformers.LlamaConfig(
        **WORDS, max_position_embeddings=32, num_key_value_heads=2, use_cache=False, **SIZES
    )
    return transformers.LlamaModel(config)


def mpnet() -> nn.Module:
    """Its scores have something added by position, and then a mask, which is there only while it is traced."""
    return transformers.MPNetModel(transformers.MPNetConfig(vocab_size=50, max_position_embeddings=32, **SIZES))


def vit() -> nn.Module:
    return transformers.ViTModel(transformers.ViTConfig(image_size=16, patch_size=4, **SIZES))


def whisper() -> nn.Module:
    from transformers.models.whisper.modeling_whisper import WhisperEncoder

    config = transformers.WhisperConfig(
        num_mel_bins=8,
        encoder_layers=2,
        encoder_attention_heads=4,
        d_model=32,
        encoder_ffn_dim=64,
        max_source_positions=16,
    )
    return WhisperEncoder(config)


class Hidden(nn.Module):
    """The last hidden state alone."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.model(x, return_dict=False)[0]
        return result


def words(batch: int, length: int) -> Tensor:
    return torch.randint(0, 50, (batch, length))


# the model, its input of a batch and a length (of 9, where it has none), whether the length may change
MODELS: dict[str, tuple[Callable[[], nn.Module], Callable[[int, int], Tensor], bool]] = {
    "bert": (bert, words, True),
    "distilbert": (distilbert, words, True),
    "gpt2": (gpt2, words, True),
    "llama": (llama, words, True),
    "mpnet": (mpnet, words, True),
    "vit": (vit, lambda batch, _: torch.randn(batch, 3, 16, 16), False),
    "whisper": (whisper, lambda batch, _: torch.randn(batch, 8, 32), False),
}


@pytest.mark.parametrize("name", MODELS)
def test_export(name: str, tmp_path: Path) -> None:
    torch.manual_seed(0)
    make, example, is_sequence = MODELS[name]
    model = quantized(Hidden(make().eval()), lambda: example(2, 9))
    axes = {0: "batch", 1: "length"} if is_sequence else {0: "batch"}
    outcome = through_onnxruntime(model, example(2, 9), tmp_path, fresh=example(3, 7), dynamic_axes={"x": axes})
    assert outcome.close >= 0.999
    assert outcome.steps < 1.01
    assert left_in_float(outcome) == {}
    assert products_of_activations(outcome) == 4
    norms = outcome.fused["LayerNormalization"] + outcome.fused["SimplifiedLayerNormalization"]
    assert norms == 5
    assert outcome.fused["Pow"] == outcome.fused["Tanh"] == 0  # norms and GELUs that are written out are one node


@pytest.mark.parametrize("name", ["bert", "distilbert", "gpt2", "vit"])
def test_masks_that_are_there_only_while_a_model_is_traced(name: str, tmp_path: Path) -> None:
    """Written out, attention without a mask adds none when it runs, and one that masks nothing when it is traced."""
    torch.manual_seed(0)
    make, example, _ = MODELS[name]
    plain = make().eval()
    plain.set_attn_implementation("eager")
    model = quantized(Hidden(plain), lambda: example(2, 9))
    outcome = through_onnxruntime(model, example(2, 9), tmp_path, fresh=example(2, 9))
    assert outcome.steps < 1.01
    assert left_in_float(outcome) == {}


class Padded(Hidden):
    def forward(self, x: Tensor, mask: Tensor) -> Tensor:  # type: ignore[override]
        result: Tensor = self.model(x, attention_mask=mask, return_dict=False)[0]
        return result


def test_masks_that_mask_nothing_in_calibration() -> None:
    """As with the other way of attention, whose masks never pass through a grid."""
    results = []
    for way in ("eager", "sdpa"):
        torch.manual_seed(0)
        plain = bert().eval()
        plain.set_attn_implementation(way)
        for name, weight in plain.named_parameters():
            weight.data *= 20 if "attention" in name and weight.dim() == 2 else 1  # else it hardly matters who attends
        model = quantized(Padded(plain), lambda: (words(2, 9), torch.ones(2, 9, dtype=torch.int64)))
        x, mask = words(2, 9), torch.tensor([[1] * 9, [1] * 4 + [0] * 5])
        results.append(model(x, mask))
    lost = float((results[1] - model(x, torch.ones_like(mask))).std())
    assert lost > 0.1 * float(results[1].std())
    assert float((results[0] - results[1]).std()) < 0.1 * lost


@pytest.mark.parametrize("name", MODELS)
def test_training(name: str) -> None:
    torch.manual_seed(0)
    make, example, _ = MODELS[name]
    model = quantized(Hidden(make()), lambda: example(2, 9)).train()
    optimizer = torch.optim.Adam(model.parameters(), 3e-4)
    target = torch.randn_like(model(example(2, 9)))
    x, losses = example(2, 9), []
    for _ in range(12):
        loss = (model(x) - target).square().mean()
        losses.append(float(loss.detach()))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    used = [name for name, each in model.named_parameters() if each.grad is not None and bool(each.grad.any())]
    assert len(used) >= 0.85 * len(list(model.parameters()))  # a pooler is not part of what is asked for
    assert losses[-1] < losses[0]


class Step(nn.Module):
    """One step of a decoder, keys and values of the steps before given and returned."""

    def __init__(self) -> None:
        super().__init__()
        config = transformers.LlamaConfig(**WORDS, max_position_embeddings=32, num_key_value_heads=2, **SIZES)
        self.model = transformers.LlamaForCausalLM(config)

    def forward(self, x: Tensor, k0: Tensor, v0: Tensor, k1: Tensor, v1: Tensor) -> tuple[Tensor, ...]:
        cache = transformers.DynamicCache()
        cache.update(k0, v0, 0)
        cache.update(k1, v1, 1)
        result = self.model(x, past_key_values=cache, use_cache=True)
        return result.logits, *(part for each in result.past_key_values.layers for part in (each.keys, each.values))


def test_a_decoder_with_its_cache(tmp_path: Path) -> None:
    torch.manual_seed(0)

    def example(batch: int = 2, past: int = 5) -> tuple[Tensor, ...]:
        return words(batch, 1), *(torch.randn(batch, 2, past, 8) for _ in range(4))

    model = quantized(Step().eval(), example)
    axes = {name: {0: "batch", 2: "past"} for name in ("k0", "v0", "k1", "v1")} | {"x": {0: "batch"}}
    outcome = through_onnxruntime(model, example(), tmp_path, fresh=example(3, 9), dynamic_axes=axes)
    assert outcome.close >= 0.999
    assert outcome.steps < 1.01
    assert left_in_float(outcome) == {}
