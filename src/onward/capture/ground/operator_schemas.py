"""What an operator's schema says of it, looked up once per overload."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch._ops import OpOverload

aten = torch.ops.aten

SQUEEZES = frozenset(
    getattr(packet, name) for packet in (aten.squeeze, aten.squeeze_copy) for name in ("default", "dim", "dims")
)

_CACHE: dict[OpOverload, Traits] = {}


@dataclass(frozen=True, slots=True)
class Traits:
    """Facts about one overload that tracing needs."""

    name: str
    writes: tuple[tuple[int, str], ...]  # (position, name) of every argument that is written
    is_out: bool  # writes through an `out=` argument
    functional: OpOverload | None  # the same computation without the write
    takes_device: bool
    is_random: bool
    takes_layout: bool
    is_view: bool  # its result lives in the memory of its first argument
    hides_views: bool  # its results live in the memory of its arguments, and its schema does not say so


def traits(op: OpOverload) -> Traits:
    """The traits of an overload."""
    known = _CACHE.get(op)
    if known is None:
        known = _CACHE[op] = _read(op)
    return known


def draws(op: OpOverload, args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
    """Whether a call draws random numbers: dropout, and layers with a dropout, do so in training alone."""
    if not traits(op).is_random:
        return False
    given = {each.name: each.default_value for each in op._schema.arguments}
    given.update(zip(given, args, strict=False))
    given.update(kwargs)
    trains = given.get("training", given.get("train", True))
    share = given.get("dropout", given.get("dropout_p", given.get("p") if "train" in given else None))
    return trains is not False and share != 0


def _read(op: OpOverload) -> Traits:
    arguments = op._schema.arguments
    writes = tuple((i, a.name) for i, a in enumerate(arguments) if a.alias_info is not None and a.alias_info.is_write)
    is_out = bool(writes) and all(arguments[i].kwarg_only for i, _ in writes)
    return Traits(
        name=str(op),
        writes=writes,
        is_out=is_out,
        functional=_functional(op, is_out) if writes else None,
        takes_device=any(a.name == "device" and a.kwarg_only for a in arguments),
        is_random=torch.Tag.nondeterministic_seeded in op.tags or op in _RANDOM,
        takes_layout=any(a.name == "layout" for a in arguments),
        is_view=bool(arguments)
        and arguments[0].alias_info is not None
        and not writes
        and any(each.alias_info is not None for each in op._schema.returns),
        hides_views=op in _HIDING_VIEWS,
    )


def _functional(op: OpOverload, is_out: bool) -> OpOverload | None:
    """`add_.Tensor` -> `add.Tensor`; `add.out` -> the overload of `add` with the same arguments but `out`."""
    namespace = getattr(torch.ops, op.namespace)
    name = op._schema.name.split("::")[1]
    wanted = _signature([a for a in op._schema.arguments if not (is_out and a.alias_info)])
    name = _RENAMED.get(name, name.removesuffix("_") if not is_out and not name.startswith("__") else name)
    packet = getattr(namespace, name, None)
    if packet is None:
        return None
    overloads = [getattr(packet, each) for each in packet.overloads()]
    overloads.sort(key=lambda each: each._overloadname != op._overloadname)
    for candidate in overloads:
        schema = candidate._schema
        if schema.is_mutable:
            continue
        if _signature(schema.arguments) == wanted:
            return candidate
    return None


def _signature(arguments: Sequence[torch._C.Argument]) -> list[tuple[str, str]]:
    """Names and types; the first argument goes by its type, for `dropout_(self, ...)` is `dropout(input, ...)`."""
    return [("" if place == 0 else a.name, str(a.type)) for place, a in enumerate(arguments)]


_RENAMED = {
    "normal_": "normal_functional",
    "set_": "",
    "resize_": "",
    "__iand__": "bitwise_and",
    "__ior__": "bitwise_or",
    "__ixor__": "bitwise_xor",
    "__ilshift__": "__lshift__",
    "__irshift__": "__rshift__",
}

_HIDING_VIEWS = {aten.broadcast_tensors.default, aten.meshgrid.default, aten.meshgrid.indexing}
# Random ops that PyTorch does not tag as such in every release.
_RANDOM = {
    aten.rand.default,
    aten.randn.default,
    aten.randint.default,
    aten.randint.low,
    aten.randperm.default,
    aten.rand_like.default,
    aten.randn_like.default,
    aten.bernoulli.default,
    aten.multinomial.default,
    aten.normal.Tensor_Tensor,
    aten.normal.Tensor_float,
    aten.normal.float_Tensor,
}
