"""Models beyond contract row D2, each there for something the others do not have.

Small configurations with seeded weights and natural dynamic axes; each is verified by the export, and compared with
eager once more at sizes that the export did not try, all axes at once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
import torch
from torch import nn
from torch.utils import _pytree as pytree

import onward

from ._torchvision import torchvision_models
from ._weights import seeded

vision = torchvision_models()  # before timm, which imports torchvision too
timm = pytest.importorskip("timm")
transformers = pytest.importorskip("transformers")

TOLERANCE = 1e-4  # of the output's largest magnitude

Axes = Mapping[int, str]


@dataclass(frozen=True)
class Model:
    """A model, its inputs by size, and where to compare it."""

    name: str
    build: Callable[[], nn.Module]
    inputs: Callable[..., tuple[torch.Tensor, ...]]
    axes: Mapping[str, Axes]
    elsewhere: tuple[Mapping[str, int], ...]
    opset: int = onward.parameters.DEFAULT_OPSET

    def __str__(self) -> str:
        return self.name


class Tensors(nn.Module):
    """A model of transformers with tensors by position in and a tuple of tensors out."""

    def __init__(self, model: nn.Module, names: tuple[str, ...], **fixed: Any) -> None:
        super().__init__()
        self.model, self.names, self.fixed = model, names, fixed

    def forward(self, *args: torch.Tensor) -> tuple[torch.Tensor, ...]:
        result = self.model(**dict(zip(self.names, args, strict=True)), **self.fixed)
        return tuple(each for each in pytree.tree_leaves(result.to_tuple()) if isinstance(each, torch.Tensor))


def picture(name: str, build: Callable[[], nn.Module], side: int, *, any_size: bool, opset: int | None = None) -> Model:
    def inputs(batch: int = 2, height: int = side, width: int = side) -> tuple[torch.Tensor, ...]:
        return (torch.randn(batch, 3, height, width, generator=torch.Generator().manual_seed(batch)),)

    axes: Axes = {0: "batch", 2: "height", 3: "width"} if any_size else {0: "batch"}
    larger = {"batch": 3, "height": side + 19, "width": side + 38} if any_size else {"batch": 3}
    return Model(
        name,
        lambda: seeded(build, settle_on=inputs(batch=4)),
        inputs,
        {"input": axes},
        (larger, {"batch": 1}),
        opset or onward.parameters.DEFAULT_OPSET,
    )


TEXT = {
    "vocab_size": 97,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 64,
    "max_position_embeddings": 64,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
FEW_HEADS = {**TEXT, "num_key_value_heads": 2}
T5 = {"vocab_size": 97, "d_model": 32, "d_kv": 8, "num_layers": 2, "num_heads": 4, "d_ff": 64}


def text(name: str, family: str, config: Mapping[str, Any], *, kind: str = "Model", opset: int | None = None) -> Model:
    """Tokens and a mask in which the first sequence ends early."""
    names = ("input_ids", "attention_mask")

    def build() -> nn.Module:
        settings = getattr(transformers, f"{family}Config")(**config)
        return Tensors(getattr(transformers, family + kind)(settings), names, **_without_cache(family))

    def inputs(batch: int = 2, sequence: int = 8) -> tuple[torch.Tensor, ...]:
        rng = torch.Generator().manual_seed(batch + sequence)
        mask = torch.ones(batch, sequence, dtype=torch.int64)
        mask[0, sequence // 2 + 1 :] = 0
        return torch.randint(3, 97, (batch, sequence), generator=rng), mask

    axes = {each: {0: "batch", 1: "sequence"} for each in names}
    elsewhere = ({"batch": 3, "sequence": 13}, {"batch": 1, "sequence": 5})
    return Model(name, lambda: seeded(build), inputs, axes, elsewhere, opset or onward.parameters.DEFAULT_OPSET)


def _without_cache(family: str) -> dict[str, bool]:
    return {"use_cache": False} if family in ("Mixtral", "Gemma2", "Bloom") else {}


def t5() -> Model:
    names = ("input_ids", "attention_mask", "decoder_input_ids")

    def inputs(batch: int = 2, sequence: int = 8, target: int = 5) -> tuple[torch.Tensor, ...]:
        rng = torch.Generator().manual_seed(batch)
        source = torch.randint(3, 97, (batch, sequence), generator=rng)
        return source, torch.ones_like(source), torch.randint(3, 97, (batch, target), generator=rng)

    return Model(
        "t5",
        lambda: seeded(lambda: Tensors(transformers.T5Model(transformers.T5Config(**T5)), names, use_cache=False)),
        inputs,
        {
            "input_ids": {0: "batch", 1: "sequence"},
            "attention_mask": {0: "batch", 1: "sequence"},
            "decoder_input_ids": {0: "batch", 1: "target"},
        },
        ({"batch": 3, "sequence": 11, "target": 7}, {"batch": 1, "target": 2}),
    )


def sew() -> Model:
    """Speech: lengths that strided convolutions round, and padding by what they lost."""
    config = {
        "hidden_size": 32,
        "num_hidden_layers": 1,
        "num_attention_heads": 4,
        "intermediate_size": 64,
        "conv_dim": (8, 8),
        "conv_kernel": (10, 3),
        "conv_stride": (5, 2),
        "num_feat_extract_layers": 2,
        "num_conv_pos_embeddings": 16,
        "num_conv_pos_embedding_groups": 4,
        "squeeze_factor": 2,
    }

    def inputs(batch: int = 2, samples: int = 400) -> tuple[torch.Tensor, ...]:
        return (torch.randn(batch, samples, generator=torch.Generator().manual_seed(samples)),)

    return Model(
        "sew",
        lambda: seeded(lambda: Tensors(transformers.SEWModel(transformers.SEWConfig(**config)), ("input_values",))),
        inputs,
        {"input_values": {0: "batch", 1: "samples"}},
        ({"batch": 3, "samples": 731}, {"samples": 399}, {"samples": 411}),
    )


def interpolated_vit() -> nn.Module:
    """Position embeddings of one picture size, stretched to others; the example has exactly that size."""
    config = transformers.ViTConfig(
        image_size=32, patch_size=8, hidden_size=32, num_hidden_layers=1, num_attention_heads=4, intermediate_size=64
    )
    return Tensors(transformers.ViTModel(config), ("pixel_values",), interpolate_pos_encoding=True)


def bit() -> nn.Module:
    config = transformers.BitConfig(
        embedding_size=8, hidden_sizes=[32, 32, 32, 32], depths=[1, 1, 1, 1], num_groups=4, layer_type="preactivation"
    )
    return Tensors(transformers.BitModel(config), ("pixel_values",))


def maxvit() -> nn.Module:
    return vision.maxvit.MaxVit(
        input_size=(64, 64),
        stem_channels=16,
        partition_size=4,
        block_channels=[16, 32],
        block_layers=[1, 1],
        head_dim=8,
        stochastic_depth_prob=0.0,
    )


MODELS = (
    picture("bit", bit, 64, any_size=True, opset=13),  # zeros around before a MaxPool, standardised weights
    # padding that depends on whether height and width are odd
    picture("tf_mobilenet_v3", lambda: timm.create_model("tf_mobilenetv3_small_minimal_100"), 64, any_size=True),
    picture("davit", lambda: timm.create_model("davit_tiny", depths=(1, 1), embed_dims=(16, 32), num_heads=(2, 4)), 32,
            any_size=True, opset=23),  # windows, with one window in the example
    picture("mobilenet_v3", lambda: vision.mobilenet_v3_small(weights=None, num_classes=10), 32,
            any_size=True, opset=11),  # dropout in place, squeeze and excitation
    picture("maxvit", maxvit, 64, any_size=False),  # grids of windows, relative positions
    # LSTMs along rows and columns
    picture("sequencer", lambda: timm.create_model("sequencer2d_s", layers=(1, 1, 1, 1), embed_dims=(16, 16, 16, 16),
                                                   hidden_sizes=(4, 4, 4, 4), img_size=56), 56, any_size=False),
    picture("interpolated_vit", interpolated_vit, 32, any_size=True),
    text("roberta", "Roberta", {**TEXT, "pad_token_id": 1}, opset=11),  # positions counted by cumsum
    text("deberta_v2", "DebertaV2", {**TEXT, "relative_attention": True, "pos_att_type": ["c2p", "p2c"],
                                     "position_buckets": 8, "share_att_key": True}),  # gathers by relative position
    text("bloom", "Bloom", {"vocab_size": 97, "hidden_size": 32, "n_layer": 2, "n_head": 4}, opset=17),  # ALiBi
    text("gemma2", "Gemma2", {**FEW_HEADS, "head_dim": 8, "sliding_window": 4}),  # sliding windows, soft caps
    text("mixtral", "Mixtral", {**FEW_HEADS, "num_local_experts": 4, "num_experts_per_tok": 2}),  # experts
    t5(),
    sew(),
)  # fmt: skip


@pytest.fixture(autouse=True)
def _one_thread() -> Any:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.mark.filterwarnings("error::onward.CaptureWarning")
@pytest.mark.parametrize("model", MODELS, ids=str)
def test_model_exports_and_agrees_with_eager(model: Model, tmp_path: Path) -> None:
    built, path, names = model.build(), tmp_path / "model.onnx", list(model.axes)
    axes = {name: dict(named) for name, named in model.axes.items()}
    onward.export(
        built, model.inputs(), path, input_names=names, dynamic_axes=axes, opset_version=model.opset, verify=True
    )
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    for sizes in ({}, *model.elsewhere):
        args = model.inputs(**sizes)
        with torch.no_grad():
            wanted = [each.numpy() for each in pytree.tree_leaves(built(*args))]
        got = session.run(None, {name: arg.numpy() for name, arg in zip(names, args, strict=True)})
        for index, (have, want) in enumerate(zip(got, wanted, strict=True)):
            where = f"output {index} at {dict(sizes) or 'the example size'}"
            assert have.shape == want.shape, where
            assert np.abs(have - want).max() <= TOLERANCE * np.abs(want).max(), where
