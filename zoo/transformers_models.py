"""The causal language models of transformers, from token ids (and a mask) to logits."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from tests.models._torchvision import torchvision_models
from tests.models._weights import seeded

from .case import Case, Sizes
from .small import LEVELS, small

VOCABULARY = 64  # ids below this one, and above the special ones, are drawn
AXES = {0: "batch", 1: "sequence"}
EXAMPLE: Sizes = {"batch": 2, "sequence": 5}
MOST_PARAMETERS = 100_000_000
OTHERS: tuple[Sizes, ...] = (
    {"batch": 1, "sequence": 1},
    {"batch": 3, "sequence": 12},
    {"batch": 1, "sequence": 2},
    {"batch": 2, "sequence": 31},
)


class ByPosition(nn.Module):
    """A model that takes keywords, called with tensors by position and without a cache."""

    def __init__(self, model: nn.Module, names: tuple[str, ...]) -> None:
        super().__init__()
        self.model = model
        self.names = names

    def forward(self, *tensors: Tensor) -> Any:
        return self.model(**dict(zip(self.names, tensors, strict=True)), use_cache=False).logits


def names() -> list[str]:
    """Every causal model, and every one again with a mask."""
    torchvision_models()  # some models import torchvision
    from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

    return [f"{name}{suffix}" for name in MODEL_FOR_CAUSAL_LM_MAPPING_NAMES for suffix in ("", "+mask")]


def case(name: str) -> Case:
    torchvision_models()
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING
    from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING

    kind, _, mask = name.partition("+")
    inputs = ("input_ids", "attention_mask") if mask else ("input_ids",)

    def at(sizes: Sizes) -> dict[str, Tensor]:
        shape = sizes["batch"], sizes["sequence"]
        every = {
            "input_ids": torch.randint(3, VOCABULARY, shape),
            "attention_mask": torch.ones(shape, dtype=torch.long),
        }
        return {each: every[each] for each in inputs}

    def build(configuration: Any) -> nn.Module:
        return ByPosition(MODEL_FOR_CAUSAL_LM_MAPPING[type(configuration)](configuration), inputs).eval()

    return Case(
        model=_smallest_that_runs(CONFIG_MAPPING[kind], build, at),
        inputs=at,
        axes=dict.fromkeys(inputs, AXES),
        sizes=EXAMPLE,
        others=OTHERS,
    )


def _smallest_that_runs(
    kind: type, build: Callable[[Any], nn.Module], at: Callable[[Sizes], dict[str, Tensor]]
) -> nn.Module:
    """The model in the smallest configuration in which PyTorch runs it; raises what the smallest raised."""
    first: Exception | None = None
    for level in range(len(LEVELS)):
        try:
            configuration = small(kind, level)
            with torch.device("meta"):
                count = sum(each.numel() for each in build(configuration).parameters())
            if count > MOST_PARAMETERS:
                raise ValueError(f"the configuration has {count} parameters")
            model = seeded(functools.partial(build, configuration))
            with torch.no_grad():
                model(*at(EXAMPLE).values())
        except Exception as error:  # configurations refuse sizes in many ways; the next one is tried
            first = first or error
        else:
            return model
    assert first is not None
    raise first
