"""The shapes of every value for one call: what FLOPs, bytes and times on the page are worked out for.

The inputs' sizes are written into a copy of the model, and what follows from them is inferred (`files/shapes.py`).
Whatever is left over, after operators of other domains for instance, is read off the names of axes: where `height_1`
was found to be 6 once, it is 6 everywhere, and what follows from that is inferred. What depends on data stays unknown
until a run says it (`profile.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import onnx_ir as ir

from onward.errors import ExportError
from onward.files.inputs import axis_bounds
from onward.files.shapes import forget_shapes, infer, infer_from_inputs
from onward.write.type_texts import dimensions

Sizes = tuple[int, ...]
_ROUNDS = 3  # of inference: what axes tell by their names leads to more


@dataclass
class Sized:
    """A model with the types and shapes of its values, and the same for one call.

    model    a copy, shapes filled in with the names of axes
    sizes    numbers in place of names, where they are known
    problem  why they are not, if inference refuses the model
    """

    model: ir.Model
    sizes: dict[ir.Value, Sizes] = field(default_factory=dict)
    problem: str | None = None

    def complete(self, observe: Callable[[], Mapping[str, Sizes]]) -> None:
        """Fill in what a run says of the values that inference says nothing of."""
        unknown = [value for value in _values(self.model.graph) if value.name and value not in self.sizes]
        unknown = [value for value in unknown if isinstance(value.type, ir.TensorType | None)]
        seen = observe() if unknown else {}
        self.sizes.update((value, seen[str(value.name)]) for value in unknown if str(value.name) in seen)


def with_sizes(model: ir.Model, inputs: Mapping[str, Sequence[int]]) -> Sized:
    """The model at these sizes of its inputs; `model` is only read."""
    named = model.clone()
    problem = None
    if any(value.type is None or value.shape is None for value in _values(named.graph)):
        try:
            infer(named)
        except ExportError as error:
            named, problem = model.clone(), error.what
    return Sized(named, _sizes(named, inputs), problem)


def assumed_axes(model: ir.Model) -> dict[str, int]:
    """A size for every dynamic axis of the inputs: the smallest that the file allows, or 1 if it says nothing."""
    bounds = axis_bounds(model)
    names = [size for value in model.graph.inputs if not value.is_initializer() for size in dimensions(value.shape)]
    return {name: max(1, bounds.get(name, (1, None))[0]) for name in names if isinstance(name, str)}


def assumed_sizes(model: ir.Model) -> dict[str, Sizes]:
    """Sizes of the inputs of a file that nobody has an example for."""
    axes = assumed_axes(model)
    return {
        str(value.name): tuple(size if isinstance(size, int) else axes[size] for size in dimensions(value.shape))
        for value in model.graph.inputs
        if value.shape is not None and not value.is_initializer()
    }


def _sizes(named: ir.Model, inputs: Mapping[str, Sequence[int]]) -> dict[ir.Value, Sizes]:
    concrete = named.clone()
    for value in concrete.graph.inputs:
        if str(value.name) in inputs and isinstance(value.type, ir.TensorType | None):
            value.shape = ir.Shape(inputs[str(value.name)])
    forget_shapes(concrete)
    found: dict[ir.Value, Sizes] = {}
    for _ in range(_ROUNDS):
        if not _infers(concrete):
            return found or _read_off(named, named)
        found = _read_off(named, concrete)
        pairs = zip(_values(named.graph), _values(concrete.graph), strict=True)
        by_name = [(same, found[value]) for value, same in pairs if value in found and _static(same) is None]
        if not by_name:
            break
        for same, sizes in by_name:
            same.shape = ir.Shape(sizes)
    return found


def _infers(model: ir.Model) -> bool:
    """Add what follows from the shapes that are there; whether it can be so."""
    try:
        infer_from_inputs(model)
        return all(map(_has_a_place, model.graph.all_nodes()))
    except (ExportError, TypeError):  # TypeError: an attribute of another type, for the checker to tell of
        return False


def _read_off(named: ir.Model, concrete: ir.Model) -> dict[ir.Value, Sizes]:
    """The sizes of the values of one model, by the shapes of the other, and by axes that have a size somewhere."""
    pairs = list(zip(_values(named.graph), _values(concrete.graph), strict=True))
    axes: dict[str, int] = {}
    for value, same in pairs:
        if value.shape is not None and same.shape is not None and len(value.shape) == len(same.shape):
            for name, size in zip(value.shape, same.shape, strict=True):
                if not isinstance(name, int) and name.value and isinstance(size, int):
                    axes.setdefault(name.value, size)
    found = {}
    for value, same in pairs:
        sizes = _filled(same.shape, axes) or _filled(value.shape, axes)
        if sizes is not None:
            found[value] = sizes
    return found


_WINDOWS = {  # operators that put a window on their first input, and the input that has its size
    "Conv": 1, "ConvInteger": 1, "QLinearConv": 3, "MaxPool": None, "AveragePool": None, "LpPool": None,
}  # fmt: skip


def _has_a_place(node: ir.Node) -> bool:
    """Whether the window fits into what it goes over. onnx infers one place for some that do not: 1 + -7 / 8 in C++."""
    if node.op_type not in _WINDOWS or node.domain or not node.inputs:
        return True
    place = _WINDOWS[node.op_type]
    weight = node.inputs[place] if place is not None and place < len(node.inputs) else None
    x = _static(node.inputs[0])
    window = node.attributes.get_ints("kernel_shape") or (_static(weight) or ())[2:]
    if not x or node.attributes.get_string("auto_pad", "NOTSET") in ("SAME_UPPER", "SAME_LOWER"):
        return True
    pads = node.attributes.get_ints("pads") or [0] * 2 * len(window)
    steps = node.attributes.get_ints("dilations") or [1] * len(window)
    around = zip(pads[: len(window)], pads[len(window) :], strict=False)
    return all(
        size + sum(pad) > step * (width - 1)
        for size, pad, step, width in zip(x[2:], around, steps, window, strict=False)
    )


def _static(value: ir.Value | None) -> Sizes | None:
    return _filled(value.shape, {}) if value is not None else None


def _filled(shape: ir.Shape | None, axes: Mapping[str, int]) -> Sizes | None:
    if shape is None:
        return None
    sizes = [size if isinstance(size, int) else axes.get(size.value or "") for size in shape]
    return None if None in sizes else tuple(size for size in sizes if size is not None)


def _values(graph: ir.Graph) -> Iterator[ir.Value]:
    """Every value of a graph and of the bodies in it, in an order that a copy has too."""
    yield from graph.inputs
    yield from graph.initializers.values()
    for node in graph:
        yield from node.outputs
        for body in bodies(node):
            yield from _values(body)


def bodies(node: ir.Node) -> Iterator[ir.Graph]:
    """The graphs that a node holds."""
    for _, graph in named_bodies(node):
        yield graph


def named_bodies(node: ir.Node) -> Iterator[tuple[str, ir.Graph]]:
    """The same with the names of the attributes that hold them."""
    for name, attribute in node.attributes.items():
        if attribute.is_ref():
            continue
        if attribute.type == ir.AttributeType.GRAPH:
            yield name, attribute.as_graph()
        elif attribute.type == ir.AttributeType.GRAPHS:
            yield from ((f"{name}[{place}]", graph) for place, graph in enumerate(attribute.as_graphs()))


def called(node: ir.Node, model: ir.Model) -> ir.Function | None:
    """The function of the file that a node calls."""
    return model.functions.get((node.domain, node.op_type, node.overload))


def opened(node: ir.Node, function: ir.Function, sized: Sized) -> Sized:
    """The body of a function for one call of it: a model whose inputs are what the call gives."""
    body = function.clone()
    bind_attributes(body.graph, node, function)
    graph = body.graph
    for value, given in zip(graph.inputs, node.inputs, strict=False):
        if given is not None:
            value.type, value.shape = given.type, given.shape.copy() if given.shape is not None else None
    graph.opset_imports.update({**sized.model.opset_imports, **function.opset_imports})
    model = ir.Model(graph, ir_version=sized.model.ir_version, functions=list(sized.model.functions.values()))
    inputs = {
        str(value.name): sized.sizes[given]
        for value, given in zip(graph.inputs, node.inputs, strict=False)
        if given is not None and given in sized.sizes
    }
    return with_sizes(model, inputs)


def bind_attributes(graph: ir.Graph, call: ir.Node, function: ir.Function) -> None:
    """What the body reads of the call's attributes, and of their defaults, written out."""
    for node in graph:
        for name, attribute in list(node.attributes.items()):
            if attribute.is_ref():
                source = call.attributes.get(attribute.ref_attr_name or "") or function.attributes.get(
                    attribute.ref_attr_name or ""
                )
                if source is not None and source.value is not None:
                    node.attributes[name] = ir.Attr(name, source.type, source.value)
                else:
                    del node.attributes[name]
        for body in bodies(node):
            bind_attributes(body, call, function)
