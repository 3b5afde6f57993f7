"""The families of timm: the smallest model of each, with a dynamic batch, and again with dynamic height and width."""

from __future__ import annotations

import functools
from types import ModuleType
from typing import Any

import torch
from torch import Tensor, nn

from tests.models._torchvision import torchvision_models
from tests.models._weights import seeded

from .case import Case, Sizes

ANY_SIZE = "+size"
# What the names of small models contain, the smallest first.
SMALL = (
    "test_", "zepto", "atto", "femto", "pico", "nano", "micro", "xxs", "xxtiny", "_tiny", "tiny", "t0", "xs", "_s0",
    "mini", "_x0", "050", "035", "p0", "a0", "b0", "l0", "lite", "small", "_s_", "_s", "12", "18", "26", "39a", "base",
)  # fmt: skip
SIDES = (64, 96, 128, 160)  # of the example, where the model takes pictures of this size


def names() -> list[str]:
    """Each family twice: with a dynamic batch, and with dynamic height and width where the model takes other sizes."""
    timm = _timm()
    families = [family for family in timm.list_modules() if timm.list_models(module=family)]
    return [f"{family}{suffix}" for family in sorted(families) for suffix in ("", ANY_SIZE)]


def case(name: str) -> Case:
    family, _, any_size = name.partition(ANY_SIZE[0])
    model = _with_settings(_smallest(family), bool(any_size))
    default: tuple[int, ...] = model.default_cfg["input_size"]
    channels, side = default[0], _side(model, default)

    def at(sizes: Sizes) -> dict[str, Tensor]:
        return {"pictures": torch.randn(sizes["batch"], channels, sizes.get("height", side), sizes.get("width", side))}

    if not any_size:
        others: tuple[Sizes, ...] = ({"batch": 1}, {"batch": 3})
        return Case(model, at, {"pictures": {0: "batch"}}, {"batch": 2}, others)
    axes = {0: "batch", 2: "height", 3: "width"}
    sizes = {"batch": 2, "height": side, "width": side}
    others = (
        {"batch": 1, "height": side * 3 // 2, "width": side},
        {"batch": 3, "height": side, "width": side * 2},
        {"batch": 1, "height": side + 7, "width": side + 13},
    )
    _require_any_size(model, at, others)
    return Case(model, at, {"pictures": axes}, sizes, others)


def _require_any_size(model: nn.Module, at: Any, others: tuple[Sizes, ...]) -> None:
    """Raise what the model raises if it takes pictures of one size only."""
    failures = []
    for sizes in others:
        try:
            with torch.no_grad():
                model(*at(sizes).values())
        except Exception as error:  # models refuse sizes in many ways
            failures.append(error)
    if len(failures) == len(others):
        raise failures[0]


def _smallest(family: str) -> str:
    """The name of the model of a family that promises to be the smallest."""
    models = _timm().list_models(module=family)
    rank = {text: index for index, text in enumerate(SMALL)}
    return min(models, key=lambda name: (min((rank[text] for text in SMALL if text in name), default=len(rank)), name))


def _with_settings(name: str, any_size: bool) -> nn.Module:
    """The model, told to take any size where it has such a setting."""
    create = _timm().create_model
    settings: tuple[dict[str, Any], ...] = ({"dynamic_img_size": True}, {"strict_img_size": False}) if any_size else ()
    for each in settings:
        try:
            return seeded(functools.partial(create, name, pretrained=False, **each)).eval()
        except TypeError:  # the model has no such setting
            continue
    return seeded(functools.partial(create, name, pretrained=False)).eval()


def _side(model: nn.Module, default: tuple[int, ...]) -> int:
    """A small side of pictures that the model takes."""
    for side in SIDES:
        if side < default[1]:
            try:
                with torch.no_grad():
                    model(torch.randn(2, default[0], side, side))
            except Exception:  # models refuse sizes in many ways; the next one is tried
                continue
            return side
    return default[1]


def _timm() -> ModuleType:
    torchvision_models()  # timm imports it
    import timm

    return timm
