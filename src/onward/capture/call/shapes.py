"""`dynamic_shapes` in all the forms that `torch.export` takes, merged with `dynamic_axes`.

Both become the same thing: names for the axes of the inputs, and an `AxisSpace` that says what else is asked of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils import _pytree as pytree

from ...errors import InputError, UnknownNameError
from ..ground.axes import AxisSpace
from ..ground.tree import Path, children_of, is_cache
from .dim_specs import DimReader, is_hint, written
from .inputs import AxisNames, Call, bind_call, dynamic_inputs

_NESTING = "dynamic_shapes is nested like the arguments, with {axis: Dim} or one entry per axis for every tensor"


@dataclass(frozen=True)
class AskedAxes:
    """The axes that shall be dynamic, by input and by output, and what else is asked of them."""

    inputs: dict[str, AxisNames]
    outputs: dict[str, AxisNames]
    space: AxisSpace
    fixed: frozenset[tuple[str, int]] = frozenset()  # axes that are said not to be


def asked_axes(
    model: Any,
    call: Call,
    dynamic_axes: Mapping[str, Any] | None,
    dynamic_shapes: Any,
    output_names: Sequence[str] | None,
) -> AskedAxes:
    """What `dynamic_axes` and `dynamic_shapes` ask for together; a contradiction between them is an error."""
    inputs, outputs = dynamic_inputs(call, dynamic_axes, output_names)
    reader = DimReader(call, {name: dict(named) for name, named in inputs.items()})
    for name, spec in _by_input(model, call, dynamic_shapes):
        reader.tensor(name, spec.value, spec.where)
    return AskedAxes(reader.axes, outputs, reader.space(), frozenset(reader.fixed))


@dataclass(frozen=True)
class _Spec:
    """A part of `dynamic_shapes`, and how to write where it stands."""

    value: Any
    where: str

    def __getitem__(self, key: Any) -> _Spec:
        return _Spec(self.value[key], f"{self.where}[{key!r}]")


@dataclass(frozen=True)
class _Node:
    """A part of the arguments: the name it has inside its container, its value, and its path from (args, kwargs)."""

    name: str
    value: Any
    path: Path

    def children(self) -> list[_Node] | None:
        found = children_of(self.value)
        return None if found is None else [_Node(name, child, (*self.path, name)) for name, child in found]


@dataclass(frozen=True)
class _Group(_Node):
    """What `*args` or `**kwargs` of the signature took: a container that is none among the arguments."""

    members: tuple[_Node, ...] = ()

    def children(self) -> list[_Node]:
        return list(self.members)


# Which specification belongs to which tensor ------------------------------------------------------------------------


def _by_input(model: Any, call: Call, shapes: Any) -> Iterator[tuple[str, _Spec]]:
    """The specification of every input that has one."""
    names = {call.structure.paths[i]: name for i, name in zip(call.positions, call.own_names, strict=True)}
    if shapes is None:
        return
    if isinstance(shapes, torch.export.ShapesCollection):
        yield from _collected(call, shapes)
    elif isinstance(shapes, torch.export.AdditionalInputs):
        yield from _that_differ(model, call, shapes)
    else:
        for path, spec in _top(call, _Spec(shapes, "dynamic_shapes")):
            yield names[path], spec


def _collected(call: Call, shapes: Any) -> Iterator[tuple[str, _Spec]]:
    """`ShapesCollection` knows tensors by their identity."""
    found = dict(shapes._shapes)
    used = set()
    for name, tensor in zip(call.names, call.tensors, strict=True):
        if id(tensor) in found:
            used.add(id(tensor))
            yield name, _Spec(found[id(tensor)], f"dynamic_shapes (a ShapesCollection) for {name!r}")
    if len(used) < len(found):
        raise InputError(
            f"dynamic_shapes, a ShapesCollection, has {len(found) - len(used)} that are no tensors among the arguments",
            hint="index it with the very tensors that are passed in args or kwargs, not with copies",
        )


def _that_differ(model: Any, call: Call, shapes: Any) -> Iterator[tuple[str, _Spec]]:
    """`AdditionalInputs`: an axis is dynamic if some other call has another size there."""
    varying: dict[str, dict[int, Any]] = {}
    for number, (args, kwargs) in enumerate(shapes._examples):
        other = bind_call(model, args, kwargs, None, call.signature).by_parameter
        for position, name in zip(call.positions, call.own_names, strict=True):
            key, tensor = call.keys[position], call.leaves[position]
            given = other.get(key)
            if not isinstance(given, torch.Tensor) or given.dim() != tensor.dim():
                what = f"{given.dim()} axes" if isinstance(given, torch.Tensor) else "no tensor"
                raise InputError(
                    f"dynamic_shapes, an AdditionalInputs, has {what} for {key!r} in its call {number}, and the "
                    f"example has {tensor.dim()} axes there",
                    hint="every additional call must be like the example but for sizes",
                )
            for axis, (here, there) in enumerate(zip(tensor.shape, given.shape, strict=True)):
                if here != there:
                    varying.setdefault(name, {})[axis] = torch.export.Dim.DYNAMIC
    for name, spec in varying.items():
        yield name, _Spec(spec, f"dynamic_shapes (an AdditionalInputs) for {name!r}")


def _top(call: Call, spec: _Spec) -> Iterator[tuple[Path, _Spec]]:
    """A dict by parameter, or one entry per argument in order."""
    arguments = _arguments(call)
    shapes = spec.value
    if isinstance(shapes, Mapping):
        rest = next((each for each in arguments if isinstance(each, _Group) and each.path == ("1",)), None)
        more = {each.name: each for each in rest.members} if rest else {}
        nodes = {**more, **{each.name: each for each in arguments}}
        inputs = {name: call.structure.paths[i] for i, name in zip(call.positions, call.own_names, strict=True)}
        for key in shapes:
            if key in nodes:
                yield from _match(nodes[key], spec[key])
            elif key in inputs:
                yield inputs[key], spec[key]
            elif key in call.defaults:
                if shapes[key] is not None:
                    raise UnknownNameError(
                        f"dynamic_shapes has {key!r}, which the example call leaves at its default",
                        name=key,
                        known="left at its default in the example",
                        hint=f"pass a tensor for {key!r} in args or kwargs, or give None for it here",
                    )
            else:
                raise UnknownNameError(
                    f"dynamic_shapes has {key!r}, and the arguments are {', '.join(each.name for each in arguments)}",
                    name=key,
                    known=f"no input ({', '.join(inputs)})",
                    hint="its keys are parameters of forward; wrap it in a tuple if it describes the one argument",
                )
    elif isinstance(shapes, (tuple, list)):
        if len(shapes) != len(arguments):
            raise InputError(
                f"dynamic_shapes has {len(shapes)} entr{'y' if len(shapes) == 1 else 'ies'}, and there are "
                f"{len(arguments)} arguments ({', '.join(each.name for each in arguments)})",
                hint="give one entry per argument, None for those that are fixed, or a dict by parameter",
            )
        for position, node in enumerate(arguments):
            yield from _match(node, spec[position])
    else:
        raise InputError(
            f"dynamic_shapes must be a dict by parameter or a tuple in the order of the arguments, not {shapes!r}",
            hint='for example dynamic_shapes={"x": {0: Dim("batch")}}',
        )


def _arguments(call: Call) -> list[_Node]:
    """The arguments by parameter, in the signature's order."""
    args, kwargs = call.arguments(call.tensors)
    positional = [_Node(f"input_{i}", value, ("0", str(i))) for i, value in enumerate(args)]
    named = {name: _Node(name, value, ("1", name)) for name, value in kwargs.items()}
    if call.signature is None:
        return [*positional, *named.values()]
    nodes: list[_Node] = []
    for parameter in call.signature.parameters.values():
        name = parameter.name
        if parameter.kind is parameter.VAR_POSITIONAL:
            if positional:
                nodes.append(_Group(name, None, ("0",), tuple(positional)))
                positional = []
        elif parameter.kind is parameter.VAR_KEYWORD:
            if named:
                nodes.append(_Group(name, None, ("1",), tuple(named.values())))
        elif parameter.kind is not parameter.KEYWORD_ONLY and positional:
            first = positional.pop(0)
            nodes.append(_Node(name, first.value, first.path))
        elif name in named:
            nodes.append(named.pop(name))
    return nodes


def _match(node: _Node, spec: _Spec) -> Iterator[tuple[Path, _Spec]]:
    """Walk arguments and specification together."""
    if spec.value is None:
        return
    if isinstance(node.value, torch.Tensor):
        yield node.path, spec
        return
    children = node.children()
    if children is None:
        if not is_hint(spec.value, "AUTO", "STATIC") and spec.value != node.value:
            raise InputError(
                f"{spec.where} is {written(spec.value)}, and the argument there is {node.value!r}, which is no tensor",
                hint="what is not a tensor is baked in: write None there, or pass a tensor to have it as an input",
            )
        return
    if is_cache(node.value) and isinstance(spec.value, (tuple, list)):
        children, spec = _like_cache(_with_shapes(children), spec, node.value)
    yield from _match_children(node, children, spec)


def _match_children(node: _Node, children: list[_Node], spec: _Spec) -> Iterator[tuple[Path, _Spec]]:
    shapes = spec.value
    if isinstance(shapes, Mapping):
        by_name = {each.name: each for each in children}
        for key in shapes:
            if str(key) not in by_name:
                raise InputError(
                    f"{spec.where} has {key!r}, and the argument there has {', '.join(by_name) or 'nothing'}",
                    hint=_NESTING,
                )
            yield from _match(by_name[str(key)], spec[key])
        return
    parts = [each for _, each in children_of(shapes) or []]
    if isinstance(shapes, str) or not parts or len(parts) != len(children):
        what = f"has {len(parts)} entr{'y' if len(parts) == 1 else 'ies'}" if parts else f"is {written(shapes)}"
        kind = type(node.value).__name__ if node.value is not None else f"*{node.name}"
        raise InputError(
            f"{spec.where} {what}, and the argument there is a {kind} of {len(children)}",
            hint=_NESTING,
        )
    for position, (child, part) in enumerate(zip(children, parts, strict=True)):
        yield from _match(child, _Spec(part, f"{spec.where}[{position}]"))


def _like_cache(layers: list[_Node], spec: _Spec, cache: Any) -> tuple[list[_Node], _Spec]:
    """A cache may be described layer by layer, as all keys and all values, or as one flat list of both."""
    shapes = spec.value
    tensors = [tensor for layer in layers for tensor in _with_shapes(layer.children() or [])]
    nested = [each for each in shapes if isinstance(each, (tuple, list)) and any(map(_is_shape, each))]
    if not nested and len(shapes) == len(tensors) != len(layers):
        return tensors, spec
    by_kind = len(nested) == len(shapes) == 2 and all(len(each) == len(layers) for each in nested)
    if by_kind and len(tensors) == 2 * len(layers) and (len(layers) != 2 or _flattens_by_kind(cache)):
        return tensors, _Spec([each for pair in zip(*shapes, strict=True) for each in pair], spec.where)
    return layers, spec


def _with_shapes(children: list[_Node]) -> list[_Node]:
    """Without the numbers that layers count with."""
    return [each for each in children if isinstance(each.value, torch.Tensor) or is_cache(each.value)]


def _is_shape(spec: Any) -> bool:
    return isinstance(spec, (Mapping, tuple, list))


def _flattens_by_kind(cache: Any) -> bool:
    """Whether the cache is registered as a pytree of two lists, keys and values, as `torch.export` sees it then."""
    node = pytree.SUPPORTED_NODES.get(type(cache))
    return node is not None and [type(each) for each in node.flatten_fn(cache)[0]] == [list, list]


__all__ = ["AskedAxes", "asked_axes"]
