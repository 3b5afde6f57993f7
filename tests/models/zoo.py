"""The zoo of contract row D2: real architectures, seeded weights, example inputs at any size, natural dynamic axes.

An entry's inputs are made from sizes by axis name, so one call gives the example (`entry.args()`) and another the same
inputs at other sizes (`entry.args(batch=3)`). Axis names are shared: where two inputs name the same axis, they agree.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from ._torchvision import torchvision_models
from ._weights import keep_signal, seeded
from .architectures import Discriminator, Generator, PillarFeatures, SuperResolution, TextCNN, WordLanguageModel

Sizes = Mapping[str, int]
DynamicAxes = Mapping[str, Mapping[int, str]]


@dataclass(frozen=True)
class Entry:
    """One model, how to feed it, and which of its axes may change."""

    name: str
    build: Callable[[], nn.Module]
    make_args: Callable[[Sizes, torch.Generator], tuple[Any, ...]]
    input_names: tuple[str, ...]
    dynamic_axes: DynamicAxes
    sizes: Sizes  # of the example, for every dynamic axis
    minimum: Sizes  # the smallest size at which the model itself still runs
    other_sizes: tuple[Sizes, ...]  # where the exported file is compared with eager again

    def args(self, seed: int = 0, **sizes: int) -> tuple[Any, ...]:
        """The example inputs, or the same ones at other sizes of some axes."""
        unknown = sizes.keys() - self.sizes.keys()
        if unknown:
            raise ValueError(f"{self.name} has no dynamic axis {sorted(unknown)}; it has {sorted(self.sizes)}")
        return self.make_args({**self.sizes, **sizes}, torch.Generator().manual_seed(seed))


def _picture(side: int, channels: int = 3) -> Callable[[Sizes, torch.Generator], tuple[Any, ...]]:
    def make(sizes: Sizes, rng: torch.Generator) -> tuple[Any, ...]:
        height, width = sizes.get("height", side), sizes.get("width", side)
        return (torch.randn(sizes["batch"], channels, height, width, generator=rng),)

    return make


def _vision(name: str, *, settle: int = 0, narrow: bool = False, **options: Any) -> Callable[[], nn.Module]:
    """A torchvision classifier with 10 classes; `settle` is the picture size on which batch norms are measured."""

    def make() -> nn.Module:
        model = getattr(torchvision_models(), name)(weights=None, num_classes=10, **options)
        return _with_narrow_classifier(model) if narrow else model

    def build() -> nn.Module:
        rng = torch.Generator().manual_seed(7)
        pictures = (torch.randn(4, 3, settle, settle, generator=rng),) if settle else None
        return seeded(make, settle_on=pictures)

    return build


def _with_narrow_classifier(model: nn.Module, width: int = 64) -> nn.Module:
    """Shrink the 4096-wide layers of AlexNet and VGG: the same operators, a file a tenth of the size."""
    layers = [layer for layer in model.get_submodule("classifier").children() if isinstance(layer, nn.Linear)]
    for index, layer in enumerate(layers):
        inputs = layer.in_features if index == 0 else width
        outputs = layer.out_features if layer is layers[-1] else width
        layer.in_features, layer.out_features = inputs, outputs
        layer.weight = nn.Parameter(torch.empty(outputs, inputs))
        layer.bias = nn.Parameter(torch.randn(outputs) / 10)
    return keep_signal(model)


def _fixed_picture(name: str, build: Callable[[], nn.Module], side: int, rename: str = "input") -> Entry:
    """Pictures of one size in any number: the model's own classifier fixes height and width."""
    return Entry(
        name=name,
        build=build,
        make_args=_picture(side),
        input_names=(rename,),
        dynamic_axes={rename: {0: "batch"}},
        sizes={"batch": 2},
        minimum={"batch": 1},
        other_sizes=({"batch": 1}, {"batch": 3}),
    )


def _any_picture(name: str, build: Callable[[], nn.Module], side: int, minimum: int, channels: int = 3) -> Entry:
    """Pictures of any size in any number: the model averages over the whole picture before it classifies."""
    return Entry(
        name=name,
        build=build,
        make_args=_picture(side, channels),
        input_names=("input",),
        dynamic_axes={"input": {0: "batch", 2: "height", 3: "width"}},
        sizes={"batch": 2, "height": side, "width": side},
        minimum={"batch": 1, "height": minimum, "width": minimum},
        other_sizes=({"batch": 1}, {"batch": 3, "height": side + 19, "width": side + 34}),
    )


def _generator_args(sizes: Sizes, rng: torch.Generator) -> tuple[Any, ...]:
    return (torch.randn(sizes["batch"], 100, 1, 1, generator=rng),)


def _build_generator() -> nn.Module:
    noise = torch.randn(8, 100, 1, 1, generator=torch.Generator().manual_seed(7))
    return seeded(Generator, settle_on=(noise,))


def _build_discriminator() -> nn.Module:
    pictures = torch.randn(8, 3, 64, 64, generator=torch.Generator().manual_seed(7))
    return seeded(Discriminator, settle_on=(pictures,))


def _generator() -> Entry:
    return Entry(
        name="dcgan_generator",
        build=_build_generator,
        make_args=_generator_args,
        input_names=("noise",),
        dynamic_axes={"noise": {0: "batch"}},
        sizes={"batch": 2},
        minimum={"batch": 1},
        other_sizes=({"batch": 1}, {"batch": 3}),
    )


def _word_language_model(kind: str) -> Entry:
    layers, hidden, vocabulary = 2, 24, 97
    has_cell = kind == "LSTM"

    def make_args(sizes: Sizes, rng: torch.Generator) -> tuple[Any, ...]:
        tokens = torch.randint(vocabulary, (sizes["sequence"], sizes["batch"]), generator=rng)
        state = [torch.randn(layers, sizes["batch"], hidden, generator=rng) for _ in range(2 if has_cell else 1)]
        return tokens, (tuple(state) if has_cell else state[0])

    states = ("h0", "c0") if has_cell else ("h0",)
    return Entry(
        name=f"word_language_model_{kind.lower()}",
        build=lambda: seeded(lambda: WordLanguageModel(kind, vocabulary, hidden=hidden, layers=layers)),
        make_args=make_args,
        input_names=("tokens", *states),
        dynamic_axes={"tokens": {0: "sequence", 1: "batch"}, **{state: {1: "batch"} for state in states}},
        sizes={"sequence": 5, "batch": 2},
        minimum={"sequence": 1, "batch": 1},
        other_sizes=({"sequence": 1, "batch": 1}, {"sequence": 9, "batch": 3}, {"batch": 1}),
    )


def _pillar_args(sizes: Sizes, rng: torch.Generator) -> tuple[Any, ...]:
    pillars, slots = sizes["effective_pillar_num"], 20
    num_points = torch.randint(1, slots + 1, (pillars,), generator=rng, dtype=torch.int32)
    voxels = torch.randn(pillars, slots, 4, generator=rng)
    voxels = voxels * (torch.arange(slots).view(1, -1, 1) < num_points.view(-1, 1, 1))
    coords = torch.randint(0, 400, (pillars, 4), generator=rng, dtype=torch.int32)
    return voxels, num_points, coords


def _pillar_features() -> Entry:
    inputs = ("voxels", "num_points", "coords")
    calibration = {"effective_pillar_num": 64}
    return Entry(
        name="pillar_features",
        build=lambda: seeded(PillarFeatures, settle_on=_pillar_args(calibration, torch.Generator().manual_seed(7))),
        make_args=_pillar_args,
        input_names=inputs,
        dynamic_axes={name: {0: "effective_pillar_num"} for name in inputs},
        sizes={"effective_pillar_num": 12},
        minimum={"effective_pillar_num": 1},
        other_sizes=({"effective_pillar_num": 1}, {"effective_pillar_num": 37}),
    )


def _text_args(sizes: Sizes, rng: torch.Generator) -> tuple[Any, ...]:
    return (torch.randint(97, (sizes["batch"], sizes["sequence"]), generator=rng),)


def _text_cnn() -> Entry:
    return Entry(
        name="text_cnn",
        build=lambda: seeded(TextCNN),
        make_args=_text_args,
        input_names=("tokens",),
        dynamic_axes={"tokens": {0: "batch", 1: "sequence"}},
        sizes={"batch": 2, "sequence": 12},
        minimum={"batch": 1, "sequence": 5},  # the widest convolution
        other_sizes=({"batch": 1}, {"batch": 3, "sequence": 31}, {"sequence": 5}),
    )


def _bidirectional_lstm(name: str, *, dynamic_batch: bool) -> Entry:
    """The documents' own example: four bidirectional layers, state passed in, `nn.LSTM` itself as the model."""
    layers = 4

    def make_args(sizes: Sizes, rng: torch.Generator) -> tuple[Any, ...]:
        batch = sizes.get("batch", 3)
        h0, c0 = (torch.randn(layers * 2, batch, 20, generator=rng) for _ in range(2))
        return torch.randn(sizes["sequence"], batch, 10, generator=rng), (h0, c0)

    sequence_only: DynamicAxes = {"input": {0: "sequence"}}
    both: DynamicAxes = {"input": {0: "sequence", 1: "batch"}, "h0": {1: "batch"}, "c0": {1: "batch"}}
    batch = {"batch": 3} if dynamic_batch else {}
    single = {"batch": 1} if dynamic_batch else {}
    return Entry(
        name=name,
        build=lambda: seeded(lambda: nn.LSTM(10, 20, num_layers=layers, bidirectional=True)),
        make_args=make_args,
        input_names=("input", "h0", "c0"),
        dynamic_axes=both if dynamic_batch else sequence_only,
        sizes={"sequence": 5, **batch},
        minimum={"sequence": 1, **single},
        other_sizes=({"sequence": 1, **single}, {"sequence": 8, **({"batch": 2} if dynamic_batch else {})}),
    )


def _entries() -> tuple[Entry, ...]:
    inception = {"init_weights": False, "transform_input": True}
    return (
        _fixed_picture("alexnet", _vision("alexnet", narrow=True), 224),
        _any_picture("densenet121", _vision("densenet121", settle=64), 64, minimum=29),
        _any_picture("inception_v3", _vision("inception_v3", settle=96, **inception), 96, minimum=75),
        _any_picture("resnet18", _vision("resnet18", settle=64), 64, minimum=1),
        _any_picture("resnet50", _vision("resnet50", settle=64), 64, minimum=1),
        _fixed_picture("vgg11", _vision("vgg11", narrow=True), 224),
        _fixed_picture("vgg16_small_picture", _vision("vgg16", narrow=True), 64),
        _any_picture("mobilenet_v2", _vision("mobilenet_v2", settle=64), 64, minimum=1),
        _generator(),
        _fixed_picture("dcgan_discriminator", _build_discriminator, 64, rename="picture"),
        _any_picture("super_resolution", lambda: seeded(SuperResolution), 24, minimum=1, channels=1),
        *(_word_language_model(kind) for kind in ("LSTM", "GRU", "RNN_TANH", "RNN_RELU")),
        _pillar_features(),
        _text_cnn(),
        _bidirectional_lstm("bilstm_sequence", dynamic_batch=False),
        _bidirectional_lstm("bilstm_sequence_and_batch", dynamic_batch=True),
    )


ZOO: Mapping[str, Entry] = {entry.name: entry for entry in _entries()}
