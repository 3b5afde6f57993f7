"""Names of dimensions stay only where they are proven.

Capture names a dimension by its sizes at a few probes, so two different sizes may have one name there: `max(n - 5, 0)`
and `n - 5`. onnxruntime believes the names: values of equal names get one buffer. So every dimension is computed anew,
from the inputs on, by what the operators say, at two dozen sizes of each axis, small and large ones. A name whose sizes
differ from what it stands for elsewhere, or that nothing explains, is left out: an unknown dimension is always right.
Sizes at which an operator could not run (a table of 512 rows added to 600) do not count from that operator on.
"""

from __future__ import annotations

import ast
import operator
import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import onnx_ir as ir
import torch

from onward.capture.program.facts import Dim, SymDim
from onward.onnx_operators.dimension_math import Shape, broadcast, combine, product, slice_length
from onward.onnx_operators.elementwise import broadcasts
from onward.onnx_operators.propagation import propagate

_POINTS = 24
_SMALL = (1, 2, 3, 4, 5, 6, 7, 9)
_SIZES: dict[str, Callable[..., Any]] = {
    "Add": operator.add,
    "Sub": operator.sub,
    "Mul": operator.mul,
    "Max": max,
    "Min": min,
    "Div": lambda a, b: (abs(a) // abs(b)) * (1 if (a < 0) == (b < 0) else -1) if b else 0,  # ONNX rounds to zero
    "Mod": lambda a, b: a % b if b else 0,
}
_SAME = frozenset({"Cast", "Identity", "Squeeze", "Unsqueeze", "Reshape"})
_WINDOWS = frozenset({"Conv", "MaxPool", "AveragePool", "LpPool"})
_UNKNOWN = 2**40  # sizes from here on stand for unknown ones
_MOST = 16  # elements of a tensor that may hold sizes


def forget_unproven(
    nodes: Iterable[ir.Node],
    inputs: Sequence[ir.Value],
    outputs: Sequence[ir.Value],
    axes: Sequence[str],
    space: Any,
    tensors: Mapping[ir.Value, torch.Tensor],
) -> None:
    """Leave out names and sizes of intermediate values that are not proven. What the outputs promise stays."""
    _Proof(axes, space, tensors, frozenset(outputs)).over(nodes, inputs)


class _Proof:
    def __init__(
        self,
        axes: Sequence[str],
        space: Any,
        tensors: Mapping[ir.Value, torch.Tensor],
        promised: frozenset[ir.Value],
    ) -> None:
        self._draw = random.Random(0)
        self._tensors, self._promised = tensors, promised
        self._shapes: dict[ir.Value, Shape] = {}
        self._held: dict[ir.Value, list[Dim]] = {}  # sizes that a small tensor holds
        columns = {axis: self._sizes(*space.limits([axis])) for axis in axes}
        points = [space.expand({axis: column[i] for axis, column in columns.items()}) for i in range(_POINTS)]
        self._meaning = {
            name: SymDim(tuple(point[name] for point in points), name) for name in (points[0] if points else ())
        }
        self._axes = dict(self._meaning)
        self._dead: set[int] = set()  # points at which the file does not run

    def _sizes(self, low: int, high: int | None) -> list[int]:
        """Sizes of one axis: the smallest ones, and others of any magnitude."""
        high = 10_000 if high is None else high
        small = [low + each - 1 for each in _SMALL if low + each - 1 <= high]
        large = [self._draw.randint(low, max(low, min(high, low + 2**power))) for power in range(3, 3 + _POINTS)]
        sizes = [*small, *large][:_POINTS]
        self._draw.shuffle(sizes)
        return sizes

    def _unknown(self) -> SymDim:
        """A size of its own: no other has it."""
        return SymDim(tuple(self._draw.randint(_UNKNOWN, 2 * _UNKNOWN) for _ in range(_POINTS)), "")

    def _same(self, one: Dim, other: Dim) -> bool:
        """Whether two sizes are equal wherever the file runs."""
        rows = [dim.values if isinstance(dim, SymDim) else (dim,) * _POINTS for dim in (one, other)]
        return all(a == b for place, (a, b) in enumerate(zip(*rows, strict=True)) if place not in self._dead)

    def _note_misfits(self, shapes: Sequence[Shape]) -> None:
        """Sizes at which these cannot be broadcast."""
        rank = max(map(len, shapes), default=0)
        for axis in range(-rank, 0):
            dims = [shape[axis] for shape in shapes if -axis <= len(shape)]
            if all(dim == dims[0] for dim in dims):
                continue
            for place in range(_POINTS):
                sizes = {dim.values[place] if isinstance(dim, SymDim) else dim for dim in dims} - {1}
                if len(sizes) > 1 and max(sizes) < _UNKNOWN:
                    self._dead.add(place)

    def over(self, nodes: Iterable[ir.Node], inputs: Sequence[ir.Value]) -> None:
        for value in inputs:
            self._settle(value, None, is_input=True)
        for node in nodes:
            for attribute in node.attributes.values():
                if attribute.type == ir.AttributeType.GRAPH and not attribute.is_ref():
                    body = attribute.as_graph()
                    self.over(body, body.inputs)
            self._hold(node)
            for value, shape in zip(node.outputs, self._evaluated(node), strict=False):
                self._settle(value, shape)

    def _settle(self, value: ir.Value, computed: Shape | None, *, is_input: bool = False) -> None:
        """Compare what the file says of a value with what was computed, and keep what agrees."""
        if value.shape is None:
            if computed is not None:
                self._shapes[value] = computed
            return
        said = [dim if isinstance(dim, int) else dim.value for dim in value.shape]
        if computed is not None and len(computed) != len(said):
            computed = None
        kept: list[int | str | None] = []
        found: list[Dim] = []
        for place, dim in enumerate(said):
            known = computed[place] if computed is not None else None
            if isinstance(dim, int):
                found.append(dim if known is None else known)
                kept.append(dim if known is None or self._same(known, dim) else None)
            else:
                size, proven = self._named(dim, known, is_input=is_input)
                found.append(size)
                kept.append(dim if proven else None)
        self._shapes[value] = tuple(found)
        if kept != said and value not in self._promised and not is_input:
            value.shape = ir.Shape(kept)

    def _named(self, name: str | None, known: Dim | None, *, is_input: bool) -> tuple[Dim, bool]:
        if name is None:
            return (self._unknown() if known is None else known), False
        meaning = self._meaning.get(name) or self._formula(name)
        if meaning is None:
            meaning = known if isinstance(known, SymDim) else self._unknown()
            self._meaning[name] = meaning
            return meaning if known is None else known, known is None or self._same(known, meaning)
        if is_input:
            return meaning, True
        return (self._unknown() if known is None else known), known is not None and self._same(known, meaning)

    def _formula(self, name: str) -> SymDim | None:
        """What a name says that is a formula of axes: `2*length - 1`."""
        try:
            tree = ast.parse(name, mode="eval").body
        except (SyntaxError, ValueError):
            return None
        found = self._calculated(tree) if isinstance(tree, ast.BinOp) else None
        if isinstance(found, SymDim):
            self._meaning[name] = found
            return found
        return None

    def _calculated(self, tree: ast.expr) -> Dim | None:
        if isinstance(tree, ast.Constant) and isinstance(tree.value, int):
            return tree.value
        if isinstance(tree, ast.Name):
            return self._axes.get(tree.id)
        signs: dict[type, Callable[..., Any]] = {ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul}
        if not isinstance(tree, ast.BinOp) or type(tree.op) not in signs:
            return None
        left, right = self._calculated(tree.left), self._calculated(tree.right)
        return None if left is None or right is None else combine(signs[type(tree.op)], left, right)

    # What operators give

    def _shape_of(self, value: ir.Value | None) -> Shape | None:
        if value is None:
            return None
        if value in self._tensors:
            return tuple(self._tensors[value].shape)
        known = self._shapes.get(value)
        if known is None and value.producer() is None and value.shape is not None and value.shape.is_static():
            return tuple(value.shape.numpy())  # a weight
        return known

    def _evaluated(self, node: ir.Node) -> Sequence[Shape | None]:
        nothing: list[Shape | None] = [None] * len(node.outputs)
        if node.domain != "" or not node.inputs:
            return nothing
        if node.op_type == "If":
            return self._of_both_sides(node)
        attributes = _plain(node)
        shapes = [self._shape_of(value) for value in node.inputs]
        constants = [None if value is None else self._tensors.get(value) for value in node.inputs]
        if broadcasts(node.op_type) and None not in shapes:
            self._note_misfits(shapes)  # type: ignore[arg-type]
        try:
            if node.op_type in _BY_SIZES and shapes[0] is not None:
                found = _BY_SIZES[node.op_type](self, node, attributes, shapes)
                if found is not None:
                    return [found, *nothing[1:]]
            if node.op_type in _WINDOWS and shapes[0] is not None:
                return [_windows(node.op_type, attributes, shapes), *nothing[1:]]
            return propagate(node.op_type, shapes, constants, attributes, len(node.outputs))
        except (ArithmeticError, IndexError, KeyError, TypeError, ValueError):
            return nothing  # a rule that was made for sizes that fit

    def _of_both_sides(self, node: ir.Node) -> list[Shape | None]:
        """The shapes of an If, as far as its sides agree."""
        sides = [node.attributes[name].as_graph().outputs for name in ("then_branch", "else_branch")]
        found: list[Shape | None] = []
        for one, other in zip(*sides, strict=True):
            first, second = self._shape_of(one), self._shape_of(other)
            agree = first is not None and second is not None and len(first) == len(second)
            agree = agree and all(map(self._same, first or (), second or ()))
            found.append(first if agree else None)
        return found

    # Tensors that hold sizes

    def sizes(self, value: ir.Value | None) -> list[Dim] | None:
        """The numbers in a small tensor, as dimensions."""
        if value is None:
            return None
        tensor = self._tensors.get(value)
        if tensor is None:
            return self._held.get(value)
        if tensor.device.type == "meta" or tensor.numel() > _MOST or tensor.dtype not in (torch.int64, torch.int32):
            return None
        return [int(each) for each in tensor.reshape(-1).tolist()]

    def _hold(self, node: ir.Node) -> None:
        if node.domain != "" or len(node.outputs) != 1:
            return
        kind, attributes = node.op_type, _plain(node)
        held: list[Dim] | None = None
        if kind == "Shape":
            shape = self._shape_of(node.inputs[0])
            held = None if shape is None else list(shape[attributes.get("start", 0) : attributes.get("end")])
        elif kind == "Size":
            shape = self._shape_of(node.inputs[0])
            held = None if shape is None else [product(shape)]
        else:
            given = [self.sizes(value) for value in node.inputs]
            held = _computed(kind, given, attributes) if given and None not in given else None
            if held is None and kind in _SAME and given and given[0] is not None:
                held = given[0]
        if held is not None and len(held) <= _MOST:
            self._held[node.outputs[0]] = held


def _computed(kind: str, given: Sequence[Any], attributes: Mapping[str, Any]) -> list[Dim] | None:
    """What an operator makes of sizes."""
    if kind in _SIZES:
        count = max(map(len, given))
        rows = [each * count if len(each) == 1 else each for each in given]
        return [combine(_SIZES[kind], *row) for row in zip(*rows, strict=True)] if len(given) > 1 else given[0]
    if kind == "Concat":
        return [dim for each in given for dim in each]
    if kind == "Gather" and attributes.get("axis", 0) == 0 and all(isinstance(place, int) for place in given[1]):
        return [given[0][place] for place in given[1] if -len(given[0]) <= place < len(given[0])]
    if kind == "Slice" and len(given) >= 3 and all(isinstance(each[0], int) for each in given[1:]):
        step = given[4][0] if len(given) > 4 else 1
        return given[0][given[1][0] : given[2][0] : step]
    if kind == "Neg":
        return [combine(operator.neg, dim) for dim in given[0]]
    return None


def _plain(node: ir.Node) -> dict[str, Any]:
    kinds = (ir.AttributeType.INT, ir.AttributeType.INTS, ir.AttributeType.STRING, ir.AttributeType.FLOAT)
    return {name: each.value for name, each in node.attributes.items() if not each.is_ref() and each.type in kinds}


# Operators whose result depends on sizes that tensors hold


def _reshaped(proof: _Proof, node: ir.Node, attributes: Mapping[str, Any], shapes: Sequence[Any]) -> Shape | None:
    wanted = proof.sizes(node.inputs[1])
    if wanted is None:
        return None
    keep = not attributes.get("allowzero")
    sizes = [shapes[0][axis] if size == 0 and keep else size for axis, size in enumerate(wanted)]
    if -1 in sizes:
        rest = product([size for size in sizes if size != -1])
        sizes[sizes.index(-1)] = combine(lambda a, b: a // b if b else 0, product(shapes[0]), rest)
    return tuple(sizes)


def _expanded(proof: _Proof, node: ir.Node, attributes: Mapping[str, Any], shapes: Sequence[Any]) -> Shape | None:
    wanted = proof.sizes(node.inputs[1])
    return None if wanted is None else broadcast(shapes[0], tuple(wanted))


def _filled(proof: _Proof, node: ir.Node, attributes: Mapping[str, Any], shapes: Sequence[Any]) -> Shape | None:
    wanted = proof.sizes(node.inputs[0])
    return None if wanted is None else tuple(wanted)


def _padded(proof: _Proof, node: ir.Node, attributes: Mapping[str, Any], shapes: Sequence[Any]) -> Shape | None:
    pads = proof.sizes(node.inputs[1]) if len(node.inputs) > 1 else None
    rank = len(shapes[0])
    if pads is None or len(pads) != 2 * rank or len(node.inputs) > 3:
        return None
    add = lambda *sizes: sum(sizes)  # noqa: E731
    return tuple(combine(add, dim, pads[axis], pads[axis + rank]) for axis, dim in enumerate(shapes[0]))


def _sliced(proof: _Proof, node: ir.Node, attributes: Mapping[str, Any], shapes: Sequence[Any]) -> Shape | None:
    given = [proof.sizes(value) for value in node.inputs[1:]]
    if len(given) < 2 or None in given:
        return None
    starts, ends, axes, steps = (given[place] if place < len(given) else None for place in range(4))
    assert starts is not None and ends is not None
    sizes = list(shapes[0])
    for place, (start, end) in enumerate(zip(starts, ends, strict=True)):
        axis = axes[place] if axes else place
        step = steps[place] if steps else 1
        if not isinstance(axis, int) or not isinstance(step, int):
            return None
        sizes[axis] = combine(lambda n, a, b, t=step: slice_length(n, a, b, t), sizes[axis], start, end)
    return tuple(sizes)


def _ranged(proof: _Proof, node: ir.Node, attributes: Mapping[str, Any], shapes: Sequence[Any]) -> Shape | None:
    given = [proof.sizes(value) for value in node.inputs]
    if None in given or any(len(each) != 1 for each in given if each is not None):
        return None
    start, end, step = (each[0] for each in given if each is not None)
    # Not len(range(...)), which refuses what does not fit into 64 bits: products of sizes at the points may not.
    return (combine(lambda a, b, s: max(0, -((a - b) // s)), start, end, step),)


def _picked(proof: _Proof, node: ir.Node, attributes: Mapping[str, Any], shapes: Sequence[Any]) -> Shape | None:
    if shapes[1] is None or not isinstance(shapes[1][-1], int):
        return None
    return (*shapes[1][:-1], *shapes[0][attributes.get("batch_dims", 0) + shapes[1][-1] :])


def _pooled(proof: _Proof, node: ir.Node, attributes: Mapping[str, Any], shapes: Sequence[Any]) -> Shape:
    return (*shapes[0][:2], *(1 for _ in shapes[0][2:]))


_BY_SIZES: dict[str, Callable[..., Shape | None]] = {
    "Reshape": _reshaped,
    "Expand": _expanded,
    "ConstantOfShape": _filled,
    "Pad": _padded,
    "Slice": _sliced,
    "Range": _ranged,
    "GatherND": _picked,
    "GlobalAveragePool": _pooled,
    "GlobalMaxPool": _pooled,
}


def _windows(kind: str, attributes: Mapping[str, Any], shapes: Sequence[Any]) -> Shape | None:
    """A convolution or a pool: how often its window fits."""
    x, weight = shapes[0], shapes[1] if kind == "Conv" else None
    window = attributes.get("kernel_shape") or (weight[2:] if weight is not None else None)
    plain = attributes.get("auto_pad", "NOTSET") == "NOTSET" and not attributes.get("ceil_mode")
    if window is None or (kind == "Conv" and weight is None):
        return None
    rank = len(x) - 2
    strides = attributes.get("strides") or [1] * rank
    dilations = attributes.get("dilations") or [1] * rank
    pads = attributes.get("pads") or [0] * (2 * rank)
    channels = x[1] if weight is None else weight[0]
    if not plain:
        return None
    sizes = []
    for i in range(rank):
        more = pads[i] + pads[i + rank] - dilations[i] * (window[i] - 1) - 1
        sizes.append(combine(lambda n, p=more, s=strides[i]: max(0, (n + p) // s + 1), x[i + 2]))
    return (x[0], channels, *sizes)
