"""The architectures of transformers: language models, encoders, and networks for pictures and sound."""

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
CAUSAL, BASE = "causal/", "base/"
TEXT = ("input_ids", "inputs", "inputs_embeds")
# The length of what is no text, and what it is at least at other sizes.
SOUND, FRAMES = 2000, 64


class ByPosition(nn.Module):
    """A model that takes keywords, called with tensors by position and without a cache."""

    def __init__(self, model: nn.Module, names: tuple[str, ...], **always: Any) -> None:
        super().__init__()
        self.model, self.names, self.always = model, names, always

    def forward(self, *tensors: Tensor) -> Any:
        result = self.model(**dict(zip(self.names, tensors, strict=True)), **self.always)
        logits = getattr(result, "logits", None)
        return (
            logits if logits is not None else {name: each for name, each in result.items() if isinstance(each, Tensor)}
        )


def names() -> list[str]:
    """Every causal model with and without a mask, and every other architecture by its base model."""
    torchvision_models()  # some models import torchvision
    from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES, MODEL_MAPPING_NAMES

    causal = [f"{CAUSAL}{name}{suffix}" for name in MODEL_FOR_CAUSAL_LM_MAPPING_NAMES for suffix in ("", "+mask")]
    return causal + [f"{BASE}{name}" for name in MODEL_MAPPING_NAMES if name not in MODEL_FOR_CAUSAL_LM_MAPPING_NAMES]


def case(name: str) -> Case:
    torchvision_models()
    return _causal(name.removeprefix(CAUSAL)) if name.startswith(CAUSAL) else _base(name.removeprefix(BASE))


def _causal(name: str) -> Case:
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING
    from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING

    kind, _, mask = name.partition("+")
    inputs = ("input_ids", "attention_mask") if mask else ("input_ids",)

    def build(configuration: Any) -> nn.Module:
        kind = MODEL_FOR_CAUSAL_LM_MAPPING[type(configuration)]
        return ByPosition(kind(configuration), inputs, use_cache=False).eval()

    at = functools.partial(_text, inputs)
    model = _smallest_that_runs(CONFIG_MAPPING[kind], build, at, EXAMPLE)
    return Case(model, functools.partial(at, None), dict.fromkeys(inputs, AXES), EXAMPLE, OTHERS)


def _text(inputs: tuple[str, ...], configuration: Any, sizes: Sizes) -> dict[str, Tensor]:
    shape = sizes["batch"], sizes["sequence"]
    every = {
        "input_ids": torch.randint(3, VOCABULARY, shape),
        "attention_mask": torch.ones(shape, dtype=torch.long),
    }
    return {each: every[each] for each in inputs}


def _base(name: str) -> Case:
    """The base model, called with the input that it names as its main one."""
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING
    from transformers.models.auto.modeling_auto import MODEL_MAPPING

    kind = CONFIG_MAPPING[name]
    of_model = MODEL_MAPPING[kind]
    of_model = of_model[0] if isinstance(of_model, tuple) else of_model
    main = of_model.main_input_name
    decodes = bool(getattr(kind(), "is_encoder_decoder", False))

    def build(configuration: Any) -> nn.Module:
        inputs = (main, *(("decoder_input_ids",) if decodes else ()))
        return ByPosition(of_model(configuration), inputs, **({"use_cache": False} if decodes else {})).eval()

    at, axes, example, others = _kind_of_input(main, decodes)
    model = _smallest_that_runs(kind, build, at, example)
    return Case(model, functools.partial(at, model.model.config), axes, example, others)


def _kind_of_input(main: str, decodes: bool) -> tuple[Any, dict[str, dict[int, str]], Sizes, tuple[Sizes, ...]]:
    """How the main input is made, its axes, the example's sizes, and others."""
    target = {"decoder_input_ids": {0: "batch", 1: "target"}} if decodes else {}
    more = {"target": 4} if decodes else {}

    def words(sizes: Sizes) -> dict[str, Tensor]:
        shape = sizes["batch"], sizes.get("target", 0)
        return {"decoder_input_ids": torch.randint(3, VOCABULARY, shape)} if decodes else {}

    def text(configuration: Any, sizes: Sizes) -> dict[str, Tensor]:
        return {main: torch.randint(3, VOCABULARY, (sizes["batch"], sizes["sequence"]))} | words(sizes)

    def pictures(configuration: Any, sizes: Sizes) -> dict[str, Tensor]:
        vision = getattr(configuration, "vision_config", configuration)
        channels, side = getattr(vision, "num_channels", 3), getattr(vision, "image_size", 64)
        side = side[0] if isinstance(side, (list, tuple)) else side
        return {main: torch.randn(sizes["batch"], channels, side, side)} | words(sizes)

    def sound(configuration: Any, sizes: Sizes) -> dict[str, Tensor]:
        return {main: torch.randn(sizes["batch"], sizes["samples"])} | words(sizes)

    def spectrum(configuration: Any, sizes: Sizes) -> dict[str, Tensor]:
        bands = getattr(configuration, "num_mel_bins", None) or getattr(configuration, "feature_size", 16)
        length = 2 * getattr(configuration, "max_source_positions", FRAMES // 2)
        shape = (sizes["batch"], bands, length) if _bands_first(configuration) else (sizes["batch"], length, bands)
        return {main: torch.randn(shape)} | words(sizes)

    only = ({"batch": 1}, {"batch": 3})
    if main == "pixel_values":
        return pictures, {main: {0: "batch"}} | target, {"batch": 2} | more, tuple(each | more for each in only)
    if main in ("input_values", "waveform"):
        lengths = ((1, SOUND), (3, 2 * SOUND), (2, SOUND + 777))
        axes = {main: {0: "batch", 1: "samples"}} | target
        others = tuple({"batch": batch, "samples": samples} | more for batch, samples in lengths)
        return sound, axes, {"batch": 2, "samples": SOUND} | more, others
    if main == "input_features":
        return spectrum, {main: {0: "batch"}} | target, {"batch": 2} | more, tuple(each | more for each in only)
    if main not in TEXT:
        raise NotImplementedError(f"the sweep has no form for an input called {main!r}")
    others = tuple({**each, **({"target": each["sequence"]} if decodes else {})} for each in OTHERS)
    return text, {main: AXES} | target, {**EXAMPLE, **more}, others


def _bands_first(configuration: Any) -> bool:
    return configuration.model_type in ("whisper",)


def _smallest_that_runs(
    kind: type, build: Callable[[Any], nn.Module], at: Callable[..., dict[str, Tensor]], example: Sizes
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
                model(*at(configuration, example).values())
        except Exception as error:  # configurations refuse sizes in many ways; the next one is tried
            first = first or error
        else:
            return model
    assert first is not None
    raise first
