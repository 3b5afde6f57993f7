"""The caches of transformers (`DynamicCache`, `EncoderDecoderCache`, ...) as containers of tensors.

They are not registered as pytrees unless somebody asks transformers for it, and then under names that say little. Here
a cache is its layers, and a layer is the tensors among its attributes: `past_key_values_0_key`. Nothing is registered:
the process stays as it is. Models write into the cache that they are given, so it is always a copy that they get.
"""

from __future__ import annotations

import copy
import sys
from collections.abc import Callable
from typing import Any

import torch

Parts = tuple[list[tuple[str, Any]], Callable[[list[Any]], Any]]

_NAMES = {"keys": "key", "values": "value", "self_attention_cache": "self", "cross_attention_cache": "cross"}


def is_cache(value: Any) -> bool:
    """Whether this is a cache of transformers, or a layer of one. If transformers is not loaded, nothing is."""
    module = sys.modules.get("transformers.cache_utils")
    kinds = tuple(getattr(module, name) for name in ("Cache", *_LAYERS) if hasattr(module, name))
    return bool(kinds) and isinstance(value, kinds)


COUNT = "cumulative_length"
_LAYERS = ("CacheLayerMixin", "LinearAttentionCacheLayerMixin")


def cache_parts(value: Any, *, counted: bool = False) -> Parts:
    """The children of a cache or of one of its layers, and how to build another with others in their place.

    `counted` makes a child of what a sliding window has counted, whatever it is.
    """
    template = copy.copy(value)
    children: list[tuple[str, Any]] = []
    places: list[tuple[str, Any]] = []  # attribute, and the index inside it
    follows = not counted and _counts_its_keys(value)
    for attribute, content in vars(value).items():
        if attribute.startswith("_"):
            continue
        if _belongs(content) or (attribute == COUNT and not follows and (counted or _values(content) != 0)):
            children.append((_NAMES.get(attribute, attribute), content))
            places.append((attribute, None))
            setattr(template, attribute, None)
        elif isinstance(content, (list, dict)):
            blank = copy.copy(content)
            for index, each in enumerate(content) if isinstance(content, list) else list(content.items()):
                if _belongs(each):
                    stem = () if attribute == "layers" else (_NAMES.get(attribute, attribute),)
                    children.append(("_".join((*stem, str(index))), each))
                    places.append((attribute, index))
                    blank[index] = None
            setattr(template, attribute, blank)

    def build(built: list[Any]) -> Any:
        result = copy.copy(template)
        for attribute, content in vars(template).items():
            if isinstance(content, (list, dict)):
                setattr(result, attribute, copy.copy(content))
        for (attribute, index), child in zip(places, built, strict=True):
            if index is None:
                setattr(result, attribute, child)
            else:
                getattr(result, attribute)[index] = child
        if follows:
            setattr(result, COUNT, result.keys.shape[-2])
        return result

    return children, build


def _belongs(content: Any) -> bool:
    return isinstance(content, torch.Tensor) or is_cache(content)


def _counts_its_keys(layer: Any) -> bool:
    """A sliding window counts what it has seen. Until it is full that is the length of its keys, and must follow it;
    then it is a number of its own, baked in like any other."""
    keys, counted = getattr(layer, "keys", None), getattr(layer, COUNT, None)
    if not isinstance(keys, torch.Tensor) or keys.dim() < 2 or not isinstance(counted, (int, torch.SymInt)):
        return False
    return _values(counted) == _values(keys.shape[-2])


def _values(size: Any) -> Any:
    """A size at all probes, without asking it to decide for one."""
    return size.node.at_probes if isinstance(size, torch.SymInt) else size
