"""Nested arguments and results, flattened to named leaves and put together again.

Tuples, lists, dicts, named tuples, dataclasses, caches of transformers, and whatever is registered as a PyTorch pytree.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

import torch
from torch.utils import _pytree as pytree

from .caches import COUNT, Parts, cache_parts, is_cache

Rebuild = Callable[[Iterator[Any]], Any]
Path = tuple[str, ...]


@dataclasses.dataclass(frozen=True)
class Structure:
    """The shape of a nested value: the paths of its leaves, and how to build it from others."""

    paths: tuple[Path, ...]
    _rebuild: Rebuild

    def unflatten(self, leaves: list[Any] | tuple[Any, ...]) -> Any:
        if len(leaves) != len(self.paths):
            raise ValueError(f"{len(self.paths)} leaves expected, {len(leaves)} given")
        return self._rebuild(iter(leaves))


def flatten(value: Any, whole: Collection[Path] = ()) -> tuple[list[Any], Structure]:
    """All leaves in order, and the structure that puts them back; what is at the paths in `whole` is a leaf each."""
    leaves: list[Any] = []
    paths: list[Path] = []
    rebuild = _walk(value, (), leaves, paths, whole)
    return leaves, Structure(tuple(paths), rebuild)


def _walk(value: Any, path: Path, leaves: list[Any], paths: list[Path], whole: Collection[Path]) -> Rebuild:
    parts = None if path in whole else _parts(value, counted=(*path, COUNT) in whole)
    if parts is None:
        leaves.append(value)
        paths.append(path)
        return lambda rest: next(rest)
    children, build = parts
    rebuilds = [_walk(child, (*path, name), leaves, paths, whole) for name, child in children]
    return lambda rest: build([rebuild(rest) for rebuild in rebuilds])


def children_of(value: Any) -> list[tuple[str, Any]] | None:
    """The named children of a container; None for a leaf."""
    parts = _parts(value)
    return None if parts is None else parts[0]


def _parts(value: Any, *, counted: bool = False) -> Parts | None:
    """The named children of a container and how to build it again; None for a leaf."""
    kind = type(value)
    if isinstance(value, (torch.Tensor, str, bytes, int, float, bool, complex, type(None), type)):
        return None
    if kind in (tuple, list, torch.Size):
        return [(str(i), child) for i, child in enumerate(value)], (list if kind is list else tuple)
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return list(zip(value._fields, value, strict=True)), lambda children: kind(*children)
    if is_cache(value):
        return cache_parts(value, counted=counted)
    if kind in pytree.SUPPORTED_NODES and not isinstance(value, Mapping):
        return _registered(pytree.SUPPORTED_NODES[kind], value)
    if isinstance(value, tuple):  # torch.return_types
        return [(str(i), child) for i, child in enumerate(value)], lambda children: kind(children)
    if isinstance(value, Mapping):
        keys = list(value.keys())
        return [(str(key), value[key]) for key in keys], lambda children: _mapping(kind, keys, children)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        names = [field.name for field in dataclasses.fields(value)]
        return [(name, getattr(value, name)) for name in names], lambda children: dataclasses.replace(
            value, **dict(zip(names, children, strict=True))
        )
    return None


def _registered(node: pytree.NodeDef, value: Any) -> Parts:
    """A container of the user's own, with the names that it has for its parts, if it has any."""
    children, context = node.flatten_fn(value)
    names = [str(i) for i in range(len(children))]
    if node.flatten_with_keys_fn is not None:  # for the names alone: its context need not be what unflatten_fn takes
        keys = [_key_name(key) for key, _ in node.flatten_with_keys_fn(value)[0]]
        names = keys if len(set(keys)) == len(names) else names
    return list(zip(names, children, strict=True)), lambda built: node.unflatten_fn(built, context)


def _key_name(key: Any) -> str:
    """`MappingKey("a")`, `GetAttrKey("a")` and `SequenceKey(0)` without the syntax around them."""
    for field in ("key", "name", "idx"):
        if hasattr(key, field):
            return str(getattr(key, field))
    return re.sub(r"\W+", "_", str(key)).strip("_")


def _mapping(kind: type, keys: list[Any], children: list[Any]) -> Any:
    pairs = dict(zip(keys, children, strict=True))
    return pairs if kind is dict else kind(**pairs) if dataclasses.is_dataclass(kind) else kind(pairs)


__all__ = ["Path", "Structure", "children_of", "flatten", "is_cache"]
