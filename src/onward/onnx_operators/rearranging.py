"""Tensors reshaped, turned around, repeated and taken apart: no element is computed."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import onnx_ir as ir
import torch
from torch import Tensor

from .dimension_math import Operands, combine, product, slice_length, total
from .python_numbers import ints
from .record import record
from .seen_node import TO_THE_END, SeenNode, maker
from .shared_rules import MAX_BYTES, Moves, first_of_one, keeps_dimensions

_IN_ORDER = ("Reshape", "Unsqueeze", "Squeeze")  # they keep the order of elements


class InOrder(Moves):
    """Elements keep their order, so a result with the dimensions of the input is the input. So is what a second step
    makes of the result of a first one, if it takes the first one back."""

    def repeats(self, node: SeenNode) -> ir.Value | None:
        after, before = node.result_dims(), node.dims(node.inputs[0])
        if after is None or before is None:
            return None
        if after == before:
            return node.inputs[0]
        inner = maker(node.inputs[0], *_IN_ORDER)
        origin = inner.inputs[0] if inner is not None else None
        return origin if origin is not None and node.dims(origin) == after else None


@record("Identity")
class Identity(Moves):
    """A copy under another name."""

    folds_without_data = True

    @staticmethod
    def evaluate(x: Any) -> Any:
        return x

    def dimensions(self, operands: Operands) -> Any:
        return [operands.shapes[0]]

    def repeats(self, node: SeenNode) -> ir.Value | None:
        return node.inputs[0]


@record("Transpose")
class Transpose(Moves):
    """The axes in another order: reversed, if none is given."""

    folds_without_data = True

    @staticmethod
    def evaluate(x: Any, *, perm: list[int] | None = None) -> Any:
        order = perm or list(range(len(x.shape)))[::-1]
        return x.transpose(order) if isinstance(x, np.ndarray) else x.permute(order)

    def dimensions(self, operands: Operands) -> Any:
        shape = operands.shapes[0]
        return tuple(shape[axis] for axis in operands.attributes.get("perm") or range(len(shape))[::-1])

    def repeats(self, node: SeenNode) -> ir.Value | None:
        order = node.attribute("perm")
        return node.inputs[0] if order is not None and list(order) == list(range(len(order))) else None


@record("Reshape")
class Reshape(InOrder):
    """Other sizes for the same elements. A 0 keeps a size, and -1 stands for what is left."""

    numbers = ("shape",)

    @staticmethod
    def evaluate(x: Any, shape: Any, *, allowzero: int = 0) -> Any:
        sizes = ints(shape)
        if not allowzero:
            sizes = [x.shape[axis] if each == 0 else each for axis, each in enumerate(sizes)]
        return x.reshape(sizes)

    def fold(self, inputs: Any, attributes: dict[str, Any], opset: int) -> Any:
        is_open = inputs[0].numel() == 0 and -1 in ints(inputs[1])  # PyTorch leaves open what -1 is then
        return None if is_open else super().fold(inputs, attributes, opset)

    def dimensions(self, operands: Operands) -> Any:
        wanted, shape = operands.ints(1), operands.shapes[0]
        if wanted is None:
            return None
        keep = not operands.attributes.get("allowzero")
        sizes = [shape[axis] if size == 0 and keep else size for axis, size in enumerate(wanted)]
        if -1 in sizes:
            rest = product([size for size in sizes if size != -1])
            if rest == 0:
                return None
            sizes[sizes.index(-1)] = combine(lambda a, b: a // b if b else 0, product(shape), rest)
        return tuple(sizes)


@record("Flatten")
class Flatten(Moves):
    """A matrix: the axes before one, and the rest."""

    folds_without_data = True

    @staticmethod
    def evaluate(x: Any, *, axis: int = 1) -> Any:
        axis = axis + len(x.shape) if axis < 0 else axis
        if axis == 1 and len(x.shape) > 1 and isinstance(x, Tensor):
            return x.flatten(1)
        return x.reshape(math.prod(x.shape[:axis]), math.prod(x.shape[axis:]))

    def dimensions(self, operands: Operands) -> Any:
        axis, shape = operands.attributes.get("axis", 1), operands.shapes[0]
        axis += len(shape) if axis < 0 else 0
        return product(shape[:axis]), product(shape[axis:])

    def repeats(self, node: SeenNode) -> ir.Value | None:
        return keeps_dimensions(node)


@record("Squeeze")
class Squeeze(InOrder):
    """Axes of size 1 go: some, or all."""

    numbers = ("axes",)
    folds_without_data = True

    @staticmethod
    def evaluate(x: Any, axes: Any = None) -> Any:
        if axes is None:
            return x.reshape([size for size in x.shape if size != 1])
        chosen = {axis % len(x.shape) for axis in ints(axes)}
        if any(x.shape[axis] != 1 for axis in chosen):
            raise ValueError(f"Squeeze of axes {sorted(chosen)} that are not all of size 1: {list(x.shape)}")
        if isinstance(x, np.ndarray):
            return np.squeeze(x, tuple(chosen))
        return x.squeeze(tuple(sorted(chosen)))

    def fold(self, inputs: Any, attributes: dict[str, Any], opset: int) -> Any:
        """An axis of another size is for the runtime to refuse."""
        axes = attributes.get("axes") or (ints(inputs[1]) if len(inputs) > 1 else ())
        is_right = all(inputs[0].shape[axis] == 1 for axis in axes)
        return super().fold(inputs, attributes, opset) if is_right else None

    def dimensions(self, operands: Operands) -> Any:
        known, axes = operands.axes()
        if not known or axes is None:
            return None
        gone = {axis % len(operands.shapes[0]) for axis in axes}
        return tuple(dim for axis, dim in enumerate(operands.shapes[0]) if axis not in gone)


@record("Unsqueeze")
class Unsqueeze(InOrder):
    """New axes of size 1, counted in the result."""

    numbers = ("axes",)
    folds_without_data = True

    @staticmethod
    def evaluate(x: Any, axes: Any) -> Any:
        chosen = ints(axes)
        rank = len(x.shape) + len(chosen)
        for axis in sorted(axis % rank for axis in chosen):
            x = np.expand_dims(x, axis) if isinstance(x, np.ndarray) else x.unsqueeze(axis)
        return x

    def dimensions(self, operands: Operands) -> Any:
        known, axes = operands.axes()
        if not known or axes is None:
            return None
        rank = len(operands.shapes[0]) + len(axes)
        places, rest = {axis % rank for axis in axes}, iter(operands.shapes[0])
        return tuple(1 if axis in places else next(rest) for axis in range(rank))


@record("Expand")
class Expand(Moves):
    """Broadcasting to a shape. A 1 that is asked for leaves the size as it is."""

    numbers = ("shape",)
    holds_at_any_size = False

    @staticmethod
    def evaluate(x: Any, shape: Any) -> Any:
        wanted = ints(shape)
        if isinstance(x, np.ndarray):
            return np.broadcast_to(x, np.broadcast_shapes(x.shape, tuple(wanted)))
        rank = max(x.dim(), len(wanted))
        have, want = [1] * (rank - x.dim()) + list(x.shape), [1] * (rank - len(wanted)) + wanted
        # Sizes that cannot meet are for PyTorch to refuse.
        return x.expand([old if type(new) is int and new == 1 else new for old, new in zip(have, want, strict=True)])

    def dimensions(self, operands: Operands) -> Any:
        wanted = operands.ints(1)
        return None if wanted is None else operands.broadcast(operands.shapes[0], tuple(wanted))

    def repeats(self, node: SeenNode) -> ir.Value | None:
        return keeps_dimensions(node)


@record("Tile")
class Tile(Moves):
    """The tensor repeated along each axis."""

    numbers = ("repeats", "axis")

    @staticmethod
    def evaluate(x: Tensor, repeats: Any, axis: Any = None) -> Tensor:
        if axis is None:
            return x.repeat(ints(repeats))
        counts = [1] * x.dim()  # the first version: how often, along one axis
        counts[ints(axis)[0]] = ints(repeats)[0]
        return x.repeat(counts)

    def fold(self, inputs: Any, attributes: dict[str, Any], opset: int) -> Any:
        too_large = inputs[0].nbytes * math.prod(ints(inputs[1])) > MAX_BYTES
        return None if too_large else super().fold(inputs, attributes, opset)

    def dimensions(self, operands: Operands) -> Any:
        repeats = operands.ints(1)
        if repeats is None:
            return None
        return tuple(product([dim, times]) for dim, times in zip(operands.shapes[0], repeats, strict=False))

    def repeats(self, node: SeenNode) -> ir.Value | None:
        times = node.numbers(node.inputs[1]) if len(node.inputs) == 2 else None
        return node.inputs[0] if times and set(times) == {1} else None


@record("Concat")
class Concat(Moves):
    """Tensors joined along an axis."""

    @staticmethod
    def evaluate(*xs: Any, axis: int = 1) -> Any:
        return np.concatenate(xs, axis) if isinstance(xs[0], np.ndarray) else torch.cat(xs, axis)

    def fold(self, inputs: Any, attributes: dict[str, Any], opset: int) -> Any:
        too_large = sum(x.nbytes for x in inputs) > MAX_BYTES
        return None if too_large else super().fold(inputs, attributes, opset)

    def dimensions(self, operands: Operands) -> Any:
        shapes = operands.shapes
        if None in shapes:
            return None
        axis = operands.attributes["axis"] % len(shapes[0])
        return (*shapes[0][:axis], total([shape[axis] for shape in shapes]), *shapes[0][axis + 1 :])

    def repeats(self, node: SeenNode) -> ir.Value | None:
        return first_of_one(node)


@record("Split")
class Split(Moves):
    """Parts of an axis, of given sizes or of equal ones."""

    numbers = ("split",)

    @staticmethod
    def evaluate(
        x: Any, split: Any = None, *, axis: int = 0, num_outputs: int | None = None, outputs: int
    ) -> tuple[Any, ...]:
        if num_outputs not in (None, outputs):
            raise ValueError(f"Split has {outputs} outputs, and num_outputs={num_outputs}")
        length = x.shape[axis]
        if split is not None:
            sizes = ints(split)
        else:
            chunk = -(-length // outputs)
            sizes = [max(0, min(chunk, length - chunk * place)) for place in range(outputs)]
        return tuple(torch.split(x, sizes, axis))

    def fold(self, inputs: Any, attributes: dict[str, Any], opset: int) -> Any:
        given = attributes.get("split") or (len(inputs) > 1 and inputs[1] is not None)
        return self.evaluate(*inputs, **attributes, outputs=0) if given else None

    def dimensions(self, operands: Operands) -> Any:
        shape = operands.shapes[0]
        axis = operands.attributes.get("axis", 0) % len(shape)
        sizes = operands.attributes.get("split") or operands.ints(1)
        return None if sizes is None else [(*shape[:axis], size, *shape[axis + 1 :]) for size in sizes]


@record("Slice")
class Slice(Moves):
    """Some elements of axes, from a start up to an end, in steps."""

    numbers = ("starts", "ends", "axes", "steps")
    holds_at_any_size = False

    @staticmethod
    def evaluate(x: Any, starts: Any, ends: Any, axes: Any = None, steps: Any = None) -> Any:
        first, last = ints(starts), ints(ends)
        along = list(range(len(first))) if axes is None else [axis % len(x.shape) for axis in ints(axes)]
        strides = [1] * len(first) if steps is None else ints(steps)
        for axis, start, end, step in zip(along, first, last, strides, strict=True):
            if not isinstance(x, np.ndarray) and step > 0:
                index = [slice(None)] * axis + [slice(start, end, step)]
                x = x[tuple(index)]  # PyTorch clamps as ONNX does
                continue
            picked = range(x.shape[axis])[start:end:step]
            if isinstance(x, np.ndarray):
                x = np.take(x, list(picked), axis)
            elif step == -1 and len(picked) == x.shape[axis]:
                x = x.flip(axis)
            else:
                x = x.index_select(axis, torch.tensor(list(picked), dtype=torch.int64, device=x.device))
        return x

    def dimensions(self, operands: Operands) -> Any:
        starts: Any
        ends: Any
        if "starts" in operands.attributes:
            starts, ends, axes = (operands.attributes.get(name) for name in ("starts", "ends", "axes"))
            steps = None
        else:
            starts, ends, axes, steps = map(operands.ints, range(1, 5))
            given = len(operands.constants)
            if starts is None or ends is None or (given > 3 and axes is None) or (given > 4 and steps is None):
                return None
        sizes = list(operands.shapes[0])
        for place, (start, end) in enumerate(zip(starts, ends, strict=True)):
            axis = axes[place] if axes else place
            step = steps[place] if steps else 1
            sizes[axis] = combine(lambda n, s=start, e=end, t=step: slice_length(n, s, e, t), sizes[axis])
        return tuple(sizes)

    def repeats(self, node: SeenNode) -> ir.Value | None:
        """A slice from the first to the last element of each axis."""
        steps: list[Any] | None
        if node.attribute("starts") is not None:
            starts, ends, steps = node.attribute("starts"), node.attribute("ends"), [1]
        elif len(node.inputs) > 2:
            starts, ends = node.numbers(node.inputs[1]), node.numbers(node.inputs[2])
            given = len(node.inputs) > 4 and node.inputs[4] is not None
            steps = node.numbers(node.inputs[4]) if given else [1]
        else:
            return None
        if starts is None or ends is None or steps is None:
            return None
        is_whole = not any(starts) and all(end >= TO_THE_END for end in ends) and set(steps) == {1}
        return node.inputs[0] if is_whole else None


@record("Pad")
class Pad(Moves):
    """More elements around a tensor, or fewer."""

    holds_at_any_size = False

    def dimensions(self, operands: Operands) -> Any:
        pads, shape = operands.attributes.get("pads") or operands.ints(1), operands.shapes[0]
        if pads is None or len(pads) != 2 * len(shape):
            return None
        return tuple(
            combine(lambda n, a=before, b=after: n + a + b, dim)
            for dim, before, after in zip(shape, pads[: len(shape)], pads[len(shape) :], strict=True)
        )

    def repeats(self, node: SeenNode) -> ir.Value | None:
        pads = node.attribute("pads")
        if pads is None and len(node.inputs) > 1:
            pads = node.numbers(node.inputs[1])
        return node.inputs[0] if pads is not None and not any(pads) else None
