"""Every model of torchvision that needs no download: a dynamic batch, and dynamic sides where the model takes them."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from tests.models._torchvision import torchvision_models
from tests.models._weights import seeded

from .case import Case, Sizes

ANY_SIZE = "+size"
SIDE = {"inception_v3": 299, "googlenet": 224, "maxvit_t": 224}


class Results(nn.Module):
    """A model that returns its tensors in a dict; a detector gets one picture, as a list."""

    def __init__(self, model: nn.Module, detects: bool) -> None:
        super().__init__()
        self.model, self.detects = model, detects

    def forward(self, *pictures: Tensor) -> Any:
        return self.model(list(pictures))[0] if self.detects else self.model(*pictures)


def names() -> list[str]:
    """Each model with a dynamic batch; classifiers, segmenters and detectors again with dynamic height and width."""
    known = torchvision_models().list_models()
    return [f"{name}{suffix}" for name in known for suffix in (("",) if _is_film(name) else ("", ANY_SIZE))]


def case(name: str) -> Case:
    kind, _, any_size = name.partition(ANY_SIZE[0])
    detects = kind in torchvision_models().list_models(torchvision_models().detection)
    model = Results(seeded(lambda: _built(kind)), detects).eval()
    if kind.startswith("raft"):
        return _flow(model)
    if _is_film(kind):
        return _film(model, kind)
    side = 320 if detects else SIDE.get(kind, 224 if kind.startswith(("vit", "swin")) else 96)
    sizes = {"batch": 2, "height": side, "width": side}
    if detects:
        other = side * 3 // 4 if any_size else side
        others: tuple[Sizes, ...] = ({"height": side, "width": side}, {"height": other, "width": side})

        def picture(sizes: Sizes) -> dict[str, Tensor]:
            return {"picture": torch.rand(3, sizes["height"], sizes["width"])}

        axes = {"picture": {1: "height", 2: "width"}} if any_size else {}
        return Case(model, picture, axes, {"height": side, "width": side}, others)

    def pictures(sizes: Sizes) -> dict[str, Tensor]:
        return {"pictures": torch.rand(sizes["batch"], 3, sizes["height"], sizes["width"])}

    others = tuple({**sizes, "batch": batch} for batch in (1, 3))
    if not any_size:
        return Case(model, pictures, {"pictures": {0: "batch"}}, sizes, others)
    taller = {"batch": 1, "height": side * 3 // 2, "width": side}
    with torch.no_grad():
        model(*pictures(taller).values())  # raises where the model takes one size only
    axes = {"pictures": {0: "batch", 2: "height", 3: "width"}}
    return Case(model, pictures, axes, sizes, (*others, taller, {"batch": 2, "height": side + 7, "width": side * 2}))


def _built(name: str) -> nn.Module:
    models = torchvision_models()
    options: dict[str, Any] = {"weights": None}
    if name in models.list_models(models.detection) or name in models.list_models(models.segmentation):
        options["weights_backbone"] = None
    if name in ("inception_v3", "googlenet"):
        options["init_weights"] = False  # takes minutes otherwise
    model: nn.Module = models.get_model(name, **options)
    return model


def _is_film(name: str) -> bool:
    models = torchvision_models()
    return name in models.list_models(models.video) or name in models.list_models(models.optical_flow)


def _film(model: nn.Module, name: str) -> Case:
    side, frames = (224, 16) if name.startswith(("mvit", "swin3d", "s3d")) else (64, 8)

    def films(sizes: Sizes) -> dict[str, Tensor]:
        return {"films": torch.rand(sizes["batch"], 3, frames, side, side)}

    return Case(model, films, {"films": {0: "batch"}}, {"batch": 2}, ({"batch": 1}, {"batch": 3}))


def _flow(model: nn.Module) -> Case:
    def pairs(sizes: Sizes) -> dict[str, Tensor]:
        shape = sizes["batch"], 3, 128, 128
        return {"first": torch.rand(shape), "second": torch.rand(shape)}

    axes = {"first": {0: "batch"}, "second": {0: "batch"}}
    return Case(model, pairs, axes, {"batch": 2}, ({"batch": 1}, {"batch": 3}))
