"""The ten models that are measured, with random weights, plain tensors in and out, and their dynamic axes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from tests.models._torchvision import torchvision_models
from tests.models._weights import keep_signal, seeded

Sizes = Mapping[str, int]


@dataclass(frozen=True)
class BenchModel:
    """One model and the sizes at which it is exported, compared again, and timed."""

    name: str
    title: str
    build: Callable[[], nn.Module]
    make_args: Callable[[Sizes, torch.Generator], tuple[Any, ...]]
    input_names: tuple[str, ...]
    dynamic_axes: Mapping[str, Mapping[int, str]]
    sizes: Sizes  # of the example; never 1, which torch.export would freeze
    other_sizes: Sizes  # where the file is compared with eager again
    latency_sizes: Sizes  # where onnxruntime is timed

    def args(self, sizes: Sizes, seed: int) -> tuple[Any, ...]:
        return self.make_args(sizes, torch.Generator().manual_seed(seed))


def _vision(name: str, title: str, *, side: int = 224, settle: int = 0, **options: Any) -> BenchModel:
    """A torchvision classifier. Batch norms are measured on small pictures: the export still meets its sizes first."""

    def make() -> nn.Module:
        model = getattr(torchvision_models(), name)(weights=None, **options)
        return model if settle else keep_signal(model)

    def build() -> nn.Module:
        small = (torch.randn(4, 3, settle, settle, generator=torch.Generator().manual_seed(7)),) if settle else None
        return seeded(make, settle_on=small)

    def make_args(sizes: Sizes, rng: torch.Generator) -> tuple[Any, ...]:
        return (torch.randn(sizes["batch"], 3, side, side, generator=rng),)

    return BenchModel(
        name=name,
        title=title,
        build=build,
        make_args=make_args,
        input_names=("input",),
        dynamic_axes={"input": {0: "batch"}},
        sizes={"batch": 2},
        other_sizes={"batch": 3},
        latency_sizes={"batch": 1},
    )


def _bidirectional_lstm() -> BenchModel:
    layers, features, hidden = 4, 128, 256

    def make_args(sizes: Sizes, rng: torch.Generator) -> tuple[Any, ...]:
        h0, c0 = (torch.randn(2 * layers, sizes["batch"], hidden, generator=rng) for _ in range(2))
        return torch.randn(sizes["sequence"], sizes["batch"], features, generator=rng), (h0, c0)

    return BenchModel(
        name="bilstm",
        title="4-layer BiLSTM",
        build=lambda: seeded(lambda: nn.LSTM(features, hidden, num_layers=layers, bidirectional=True)),
        make_args=make_args,
        input_names=("input", "h0", "c0"),
        dynamic_axes={"input": {0: "sequence", 1: "batch"}, "h0": {1: "batch"}, "c0": {1: "batch"}},
        sizes={"sequence": 12, "batch": 2},
        other_sizes={"sequence": 19, "batch": 3},
        latency_sizes={"sequence": 32, "batch": 1},
    )


class _Encoder(nn.Module):
    """A transformers encoder that takes and gives plain tensors."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> tuple[Tensor, Tensor]:
        output = self.model(input_ids=input_ids, attention_mask=attention_mask)
        return output.last_hidden_state, output.pooler_output


class _CausalModel(nn.Module):
    """A transformers language model without its cache: tokens in, logits out."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        return self.model(input_ids=input_ids, attention_mask=attention_mask, use_cache=False).logits


def _bert() -> nn.Module:
    from transformers import BertConfig, BertModel

    return _Encoder(BertModel(BertConfig()))


def _gpt2() -> nn.Module:
    from transformers import GPT2Config, GPT2LMHeadModel

    return _CausalModel(GPT2LMHeadModel(GPT2Config(use_cache=False)))


def _llama() -> nn.Module:
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        hidden_size=512,
        intermediate_size=1376,
        num_hidden_layers=16,
        num_attention_heads=8,
        num_key_value_heads=4,
        vocab_size=32000,
        max_position_embeddings=2048,
        use_cache=False,
    )
    return _CausalModel(LlamaForCausalLM(config))


def _tokens(sizes: Sizes, rng: torch.Generator) -> tuple[Any, ...]:
    """Token ids and a mask whose last row ends in padding, so that a mask that is ignored shows as an error."""
    batch, sequence = sizes["batch"], sizes["sequence"]
    mask = torch.ones(batch, sequence, dtype=torch.int64)
    mask[-1, -(sequence // 4) :] = 0
    return torch.randint(30000, (batch, sequence), generator=rng), mask


def _transformer(name: str, title: str, make: Callable[[], nn.Module]) -> BenchModel:
    axes = {0: "batch", 1: "sequence"}

    def build() -> nn.Module:
        torchvision_models()  # transformers imports torchvision by itself, and fails where that fails
        return seeded(make)

    return BenchModel(
        name=name,
        title=title,
        build=build,
        make_args=_tokens,
        input_names=("input_ids", "attention_mask"),
        dynamic_axes={"input_ids": axes, "attention_mask": axes},
        sizes={"batch": 2, "sequence": 16},
        other_sizes={"batch": 3, "sequence": 29},
        latency_sizes={"batch": 1, "sequence": 64},
    )


MODELS: Mapping[str, BenchModel] = {
    model.name: model
    for model in (
        _vision("alexnet", "AlexNet"),
        _vision("resnet50", "ResNet-50", settle=64),
        _vision("densenet121", "DenseNet-121", settle=64),
        _vision("inception_v3", "Inception v3", side=299, settle=96, init_weights=False),
        _vision("mobilenet_v2", "MobileNetV2", settle=64),
        _vision("vit_b_16", "ViT-B/16"),
        _bidirectional_lstm(),
        _transformer("bert_base", "BERT-base", _bert),
        _transformer("gpt2", "GPT-2", _gpt2),
        _transformer("llama_16", "llama, 16 layers", _llama),
    )
}

QUICK = ("alexnet", "mobilenet_v2", "bilstm")
