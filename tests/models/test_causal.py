"""Tiny causal models of transformers: exported without a word, right at other sizes, with padding, and packed.

Such a model asks whether its positions are consecutive. Where it makes them itself (`arange`), that is a question of
sizes, and the answer is yes at all of them. Where they are an input the answer is computed in the graph.
"""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import onward
from onward.capture.ground.threads import is_tracing

from ._torchvision import torchvision_models
from ._weights import seeded

torchvision_models()  # before transformers, some of whose models import torchvision
transformers = pytest.importorskip("transformers")

COMMON = {
    "vocab_size": 64,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 64,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
HEADS, WINDOW = {"head_dim": 8}, {"sliding_window": 8}
EXPERTS = {"num_local_experts": 4, "num_experts_per_tok": 2}
GPT = {
    "vocab_size": 64,
    "n_embd": 32,
    "n_layer": 2,
    "n_head": 4,
    "n_positions": 64,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
FEW = {"vocab_size": 64, "hidden_size": 32, "n_layer": 2, "n_head": 4, "bos_token_id": 1, "eos_token_id": 2}
OPT = {"vocab_size": 64, "hidden_size": 32, "ffn_dim": 48, "word_embed_proj_dim": 32, "num_hidden_layers": 2}

# By the name of its configuration: the settings, and whether the model takes positions.
MODELS: dict[str, tuple[dict[str, Any], bool]] = {
    "Llama": (COMMON, True),
    "Mistral": (COMMON | WINDOW, True),
    "Qwen2": (COMMON, True),
    "Qwen3": (COMMON | HEADS, True),
    "Gemma": (COMMON | HEADS, True),
    "Gemma2": (COMMON | HEADS | WINDOW, True),
    "Gemma3Text": (COMMON | HEADS | WINDOW, True),
    "Phi": (COMMON, True),
    "Phi3": (COMMON, True),
    "GPT2": (GPT, True),
    "GPTNeoX": (COMMON, True),
    "GPTJ": (GPT | {"rotary_dim": 4}, True),
    "OPT": (OPT | {"num_attention_heads": 4, "max_position_embeddings": 64, "pad_token_id": 1}, False),
    "Bloom": (FEW, False),
    "Falcon": (COMMON, True),
    "Olmo": (COMMON, True),
    "Starcoder2": (COMMON | WINDOW, True),
    "StableLm": (COMMON, True),
    "Cohere": (COMMON, True),
    "Granite": (COMMON, True),
    "Mixtral": (COMMON | EXPERTS, True),
    "GptOss": (COMMON | HEADS | WINDOW | EXPERTS, True),
    "Lfm2": (COMMON, True),
}
CLASSES = {"Gemma3Text": "Gemma3ForCausalLM", "GPT2": "GPT2LMHeadModel"}


class Logits(nn.Module):
    """A causal model with tensors by position in and logits out."""

    def __init__(self, name: str, names: tuple[str, ...]) -> None:
        super().__init__()
        config = getattr(transformers, f"{name}Config")(**MODELS[name][0])
        self.model = getattr(transformers, CLASSES.get(name, f"{name}ForCausalLM"))(config)
        self.names = names

    def forward(self, *tensors: Tensor) -> Tensor:
        return self.model(**dict(zip(self.names, tensors, strict=True)), use_cache=False).logits


def _inputs(names: tuple[str, ...], batch: int, length: int, *, is_odd: bool = False) -> tuple[Tensor, ...]:
    """Inputs; odd ones have padding in front of a sequence, or two sequences packed in one row."""
    mask, positions = torch.ones(batch, length, dtype=torch.long), torch.arange(length).expand(batch, length).clone()
    if is_odd:
        mask[0, : length // 2] = 0
        positions[:, length // 2 :] -= length // 2
    every = {"input_ids": torch.randint(3, 64, (batch, length)), "attention_mask": mask, "position_ids": positions}
    return tuple(every[name] for name in names)


def _export(name: str, names: tuple[str, ...], path: Path | None = None) -> tuple[nn.Module, onward.Program]:
    model = seeded(lambda: Logits(name, names))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        axes = {each: {0: "batch", 1: "sequence"} for each in names}
        program = onward.export(model, _inputs(names, 2, 5), path, input_names=list(names), dynamic_axes=axes)
    return model, program


def _check(model: nn.Module, program: onward.Program, names: tuple[str, ...], *, is_odd: bool) -> None:
    for batch, length in ((2, 5), (1, 1), (3, 12), (1, 20)):
        inputs = _inputs(names, batch, length, is_odd=is_odd and length > 1)
        with torch.no_grad():
            wanted = model(*inputs)
        seen = inputs[1].bool() if "attention_mask" in names else torch.ones_like(inputs[0], dtype=torch.bool)
        torch.testing.assert_close(program(*inputs)[seen], wanted[seen], rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("name", MODELS)
def test_ids_alone(name: str) -> None:
    names = ("input_ids",)
    _check(*_export(name, names), names, is_odd=False)


@pytest.mark.parametrize("name", MODELS)
def test_with_a_mask(name: str) -> None:
    names = ("input_ids", "attention_mask")
    _check(*_export(name, names), names, is_odd=True)


@pytest.mark.parametrize("name", [name for name, (_, takes_positions) in MODELS.items() if takes_positions])
def test_with_positions(name: str) -> None:
    """Sequences may be packed: several in one row, whose positions start again."""
    names = ("input_ids", "position_ids")
    _check(*_export(name, names), names, is_odd=name not in ("GPTJ", "Falcon", "Lfm2"))


def test_positions_of_its_own_cost_nothing() -> None:
    """The question is answered while the model is traced: nothing of it is in the file."""
    _, program = _export("Llama", ("input_ids",))
    assert not {"CumSum", "ReduceMin", "If"} & {node.op_type for node in program.model.graph}
    assert not program.warnings


@pytest.mark.parametrize("name", ["Llama", "Mistral", "Gemma3Text", "GPT2"])
def test_with_the_cache_that_it_returns(name: str) -> None:
    """A sliding window of 8 that is full at some sizes, and not at others."""
    model = seeded(lambda: Logits(name, ("input_ids",)).model)
    axes = {"input_ids": {0: "batch", 1: "sequence"}}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ids = torch.randint(3, 64, (2, 5))
        program = onward.export(model, (ids,), input_names=["input_ids"], dynamic_axes=axes, verify=True)
    for length in (1, 7, 8, 9, 20):
        ids = torch.randint(3, 64, (1, length))
        with torch.no_grad():
            wanted = model(ids)
        found = program(ids)
        torch.testing.assert_close(found.logits, wanted.logits, rtol=1e-3, atol=1e-4)
        for got, want in zip(found.past_key_values.layers, wanted.past_key_values.layers, strict=True):
            torch.testing.assert_close(got.keys, want.keys, rtol=1e-3, atol=1e-4)


class Counted(Logits):
    """A causal model that counts its runs on data, other than the trace."""

    with_data = 0

    def forward(self, *tensors: Tensor) -> Tensor:
        if not is_tracing() and type(tensors[0]) is torch.Tensor:
            Counted.with_data += 1
        return super().forward(*tensors)


@pytest.mark.parametrize("name", ["GPT2", "Llama"])
def test_a_masked_model_is_not_run_again_on_data(name: str) -> None:
    """Plain PyTorch looks into the mask, and the program does not. The question whether there is more than one token is
    settled without data all the same."""
    names = ("input_ids", "attention_mask")
    model = seeded(lambda: Counted(name, names))
    Counted.with_data = 0
    axes = {each: {0: "batch", 1: "sequence"} for each in names}
    onward.export(model, _inputs(names, 2, 5), input_names=list(names), dynamic_axes=axes)
    assert Counted.with_data == 0
