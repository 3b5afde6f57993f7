"""What capture knows about every value: the vocabulary between capture and lowering.

A captured program is a `torch.fx.Graph` of functional ATen overloads. Each node carries

    meta["val"]     TensorFact, a tuple/list of them (multi-output ops), SizeFact (a number computed from sizes), or
                    ListFact (a list of tensors whose length depends on data or sizes)
    meta["scope"]   Scope: the module that was running
    meta["call"]    ModuleCall: which call of that module, or absent if the front end does not tell
    meta["source"]  Source: the line of the user's code, or None

Multi-output ops are followed by `operator.getitem` nodes. Numbers computed from sizes are nodes of
`aten.sym_size.int(tensor, axis)` and of functions from `operator`, `math` and `torch` (`operator.mul`, ...). A call of
an `autograd.Function` with a `symbolic` is a node whose target is a `FunctionCall`.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import torch
from torch import fx

from ..call.inputs import Call
from ..call.weights import Weights
from ..ground.axes import AxisSpace, Bounds
from ..ground.axes import Expression as Expression
from ..ground.caches import COUNT
from ..ground.places import ModuleCall as ModuleCall
from ..ground.places import Scope as Scope
from ..ground.places import Source as Source
from ..ground.tree import Path, Structure, flatten
from .derived import Derived


@dataclass(frozen=True, slots=True)
class SymDim:
    """A dimension whose size differs between the probes or the points (`points.py`), at which `values` has it. Its
    identity is these values, not its name."""

    values: tuple[int, ...] = field(repr=False)
    name: str = field(compare=False)

    def __str__(self) -> str:
        return self.name


Dim = int | SymDim

# A quantised tensor is its integers; the scale belongs to the op that made it.
STORED = {torch.quint8: torch.uint8, torch.qint8: torch.int8, torch.qint32: torch.int32}


@dataclass(frozen=True, slots=True)
class TensorFact:
    """A tensor's dtype and dimensions: an int where static, a SymDim where not."""

    dtype: torch.dtype
    shape: tuple[Dim, ...]

    @property
    def rank(self) -> int:
        return len(self.shape)

    @property
    def is_static(self) -> bool:
        return all(isinstance(dim, int) for dim in self.shape)


def is_complex(value: Any) -> bool:
    """Whether arguments of a call hold a complex tensor, number or dtype, or the node of one."""
    if isinstance(value, (list, tuple)):
        return any(map(is_complex, value))
    if isinstance(value, dict):
        return any(map(is_complex, value.values()))
    if isinstance(value, fx.Node):
        return is_complex(value.meta.get("val"))
    if isinstance(value, (TensorFact, torch.Tensor)):
        return value.dtype.is_complex
    return isinstance(value, complex) or (isinstance(value, torch.dtype) and value.is_complex)


def pair_tensor(tensor: torch.Tensor) -> torch.Tensor:
    """A tensor as the file has it: a complex one is real, with a last axis of 2."""
    return torch.view_as_real(tensor.detach().resolve_conj()) if tensor.is_complex() else tensor


@dataclass(frozen=True, slots=True)
class ListFact:
    """A list of tensors that nobody knows the length of: their dtype, their dimensions, None where they differ."""

    dtype: torch.dtype
    shape: tuple[Dim | None, ...]

    @property
    def rank(self) -> int:
        return len(self.shape)

    def joined(self, other: TensorFact | ListFact) -> ListFact:
        """What holds for elements of both; the ranks are equal."""
        pairs = zip(self.shape, other.shape, strict=True)
        return ListFact(self.dtype, tuple(a if a == b else None for a, b in pairs))


@dataclass(frozen=True, slots=True)
class SizeFact:
    """A number computed from sizes, one value per probe (int, float or bool)."""

    values: tuple[Any, ...]

    @property
    def kind(self) -> type:
        return type(self.values[0])


@dataclass(frozen=True, slots=True)
class Slot:
    """The place of a graph value among the arguments of a FunctionCall."""

    index: int


@dataclass(frozen=True, eq=False)
class FunctionCall:
    """A call of a `torch.autograd.Function` that says itself what it is in ONNX: one node of the captured graph.

    The node's arguments are the tensors and the sizes that vary, flat; everything else that the function was called
    with is here, as it was. Calling it runs the function.
    """

    function: type  # the autograd.Function
    arguments: tuple[Any, ...]  # as it was called, with a Slot for every argument of the node
    run: Callable[[FunctionCall, tuple[Any, ...]], Any] = field(repr=False)

    @property
    def __name__(self) -> str:
        return self.function.__name__

    def filled(self, values: Sequence[Any]) -> Any:
        """The arguments with these values in their places."""
        return _fill(self.arguments, values)

    def __call__(self, *values: Any) -> Any:
        return self.run(self, values)


def _fill(template: Any, values: Sequence[Any]) -> Any:
    if isinstance(template, Slot):
        return values[template.index]
    if type(template) in (list, tuple):
        return type(template)(_fill(each, values) for each in template)
    if type(template) is dict:
        return {key: _fill(each, values) for key, each in template.items()}
    return template


@dataclass(frozen=True, slots=True)
class Constant:
    """A tensor the graph reads through `get_attr`: a parameter, a buffer, or one made while tracing."""

    name: str
    tensor: torch.Tensor
    kind: str  # "parameter" | "buffer" | "constant"
    live: bool = False  # a weight that the graph reads as it is: not folded into anything
    origin: str | None = None  # of one made of weights: the first of these, and how (`conv.weight.mul`)


@dataclass(frozen=True, slots=True)
class Port:
    """One input or output of the program: its name and what is known of it."""

    name: str
    fact: TensorFact | ListFact
    bounds: Mapping[int, Bounds] = field(default_factory=dict, compare=False)  # {axis: (smallest, largest or None)}

    @property
    def dtype(self) -> torch.dtype:
        return self.fact.dtype

    @property
    def is_list(self) -> bool:
        """Whether it is a list of tensors, a sequence in ONNX; dtype, shape and axes are then those of its elements."""
        return isinstance(self.fact, ListFact)

    @property
    def shape(self) -> tuple[int | str, ...]:
        """Sizes, and names where an axis is dynamic; `?` where the elements of a list differ."""
        return tuple("?" if dim is None else dim if isinstance(dim, int) else dim.name for dim in self.fact.shape)

    @property
    def axes(self) -> dict[int, str]:
        """The dynamic axes by position."""
        return {axis: dim.name for axis, dim in enumerate(self.fact.shape) if isinstance(dim, SymDim)}

    def __str__(self) -> str:
        text = f"{str(self.dtype).removeprefix('torch.')}[{', '.join(map(str, self.shape))}]"
        return f"list of {text}" if self.is_list else text


Output = torch.Tensor | list[torch.Tensor]  # what a program returns at one port


@dataclass(frozen=True)
class Results:
    """What the model returned: every tensor is an output, everything else is given back as it was."""

    leaves: tuple[Any, ...]
    structure: Structure
    positions: tuple[int, ...]  # of the outputs among the leaves
    lists: Mapping[Path, torch.dtype | None] = field(default_factory=dict)  # lists of unknown length; of numbers: dtype
    has_vectors: bool = False  # eigenvectors or singular vectors had a part in it, whose signs are a matter of choice
    numbers: frozenset[int] = frozenset()  # positions of outputs that the model returns as plain numbers

    def assemble(self, outputs: Sequence[Any]) -> Any:
        leaves = list(self.leaves)
        for position, output in zip(self.positions, outputs, strict=True):
            leaves[position] = output.item() if position in self.numbers else output
        return self.structure.unflatten(leaves)

    def select(self, result: Any) -> list[Output]:
        """The outputs among what another call of the model returned.

        Raises OtherResults if the call returned something else than values for these outputs: other containers, or
        another plain number or text beside them.
        """
        counts = (path for path in self.structure.paths if path[-1:] == (COUNT,))  # of a window that may not be full
        leaves, structure = flatten(result, {*self.lists, *counts})
        if structure.paths != self.structure.paths:
            raise OtherResults(
                f"PyTorch returns {_counted(len(leaves))} here ({_paths(structure)}), and the file was made for "
                f"{_counted(len(self.leaves))} ({_paths(self.structure)})"
            )
        for position, (leaf, kept) in enumerate(zip(leaves, self.leaves, strict=True)):
            if position in self.positions:
                if leaf is None or isinstance(leaf, (str, bytes)):
                    raise OtherResults(f"PyTorch returns {leaf!r}{_at(structure, position)}, and the file has a tensor")
            elif isinstance(leaf, torch.Tensor):
                raise OtherResults(f"PyTorch returns a tensor{_at(structure, position)}, and the file keeps {kept!r}")
            elif isinstance(kept, _COMPARABLE) and not _same(leaf, kept):
                raise OtherResults(f"PyTorch returns {leaf!r}{_at(structure, position)}, and the file keeps {kept!r}")
        return [self._output(structure.paths[position], leaves[position]) for position in self.positions]

    def _output(self, path: Path, leaf: Any) -> Output:
        if path not in self.lists:
            return torch.as_tensor(leaf)
        dtype = self.lists[path]
        return [torch.as_tensor(each) for each in leaf] if dtype is None else torch.tensor(leaf, dtype=dtype)


_COMPARABLE = (bool, int, float, str, bytes, type(None))


class OtherResults(Exception):
    """A call of the model returned values that the outputs of the program cannot stand for."""


def _same(first: Any, second: Any) -> bool:
    """Whether two plain values are equal; NaN equals NaN."""
    both_nan = isinstance(first, float) and isinstance(second, float) and first != first and second != second
    return both_nan or bool(first == second)


def _counted(many: int) -> str:
    return f"{many} value{'s' * (many != 1)}"


def _paths(structure: Structure) -> str:
    names = [".".join(path) or "alone" for path in structure.paths]
    return ", ".join(names if len(names) <= 8 else [*names[:8], "..."]) or "nothing"


def _at(structure: Structure, position: int) -> str:
    path = ".".join(structure.paths[position])
    return f" at {path!r}" if path else ""


def caution(what: str, means: str, instead: str) -> str:
    """The form of every warning: what happened, what it means for the file, what to do instead."""
    return f"{what}. {means}. To avoid this, {instead}."


@dataclass(frozen=True, slots=True)
class Assumption:
    """A branch on sizes, or a number made of them, that all probes agreed on, and sizes nearby that would not."""

    expression: str
    value: int | float | bool
    source: Source | None
    elsewhere: tuple[Mapping[str, int], ...]  # sizes by axis
    question: Expression | None = field(default=None, compare=False)  # the same of the named axes, where it is known

    def limit(self, example: Mapping[str, int], elsewhere: Mapping[str, int]) -> Limit | None:
        """The sizes at which the file holds, in a form that the file itself can check; None if there is none."""
        if self.question is None or not self.question.functions <= CHECKED:
            return None
        found = Limit(self.question, self.value, f"`{self.expression}` is {self.value}", self.source)
        return found if found.allows(example) and not found.allows({**example, **elsewhere}) else None

    def text(self, sizes: Mapping[str, int], *, is_refused: bool = False) -> str:
        if isinstance(self.value, bool):
            what, other = "a branch", "would take the other branch"
            hint = "use torch.cond, or keep to sizes on this side of the branch"
        else:
            what, other = "a number", "gives another"
            hint = "use an example of another size, or keep to sizes where it holds"
        axes = " and ".join(map(repr, sizes))
        example = ", ".join(f"{axis} = {size}" for axis, size in sizes.items())
        return caution(
            f"{self.source or 'unknown line'}: {what} depends on the size of axis {axes}: the file holds where "
            f"`{self.expression}` is {self.value}, and {example} {other}",
            "The file refuses such inputs" if is_refused else "Such inputs are computed wrongly",
            hint,
        )


# The functions that a file can check a size with.
CHECKED = frozenset({
    operator.add, operator.sub, operator.mul, operator.truediv, operator.floordiv, operator.mod, operator.pow,
    operator.neg, operator.abs, operator.eq, operator.ne, operator.lt, operator.gt, operator.le, operator.ge,
    operator.and_, operator.or_, operator.xor, operator.invert, operator.lshift, operator.rshift, operator.not_,
    torch.sym_not, torch.sym_max, torch.sym_min, torch.sym_int, torch.sym_float, torch.sym_ite, abs, max, min, int,
    float, round, math.floor, math.ceil, math.trunc, math.sqrt, math.isqrt,
})  # fmt: skip


@dataclass(frozen=True)
class Limit:
    """Sizes that a program is for: those at which a question has its answer for the example."""

    question: Expression
    answer: int | float | bool
    text: str
    source: Source | None

    def allows(self, sizes: Mapping[str, int]) -> bool:
        """Whether the program is for these sizes; a question that names others has no answer, and limits nothing."""
        found = self.question.at(sizes)
        return found is None or bool(found == self.answer)

    def __str__(self) -> str:
        return f"{self.text} ({self.source.short})" if self.source is not None else self.text


@dataclass(frozen=True)
class CapturedProgram:
    """A model, followed once: what every front end produces and lowering consumes."""

    graph: fx.Graph  # placeholders in the order of `inputs`; the output node holds a flat tuple
    constants: dict[str, Constant]  # by get_attr target
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    call: Call  # how the inputs were passed
    results: Results  # how the outputs are given back
    example_inputs: tuple[torch.Tensor, ...]  # the tensors that the eager run saw, in the order of `inputs`
    example_outputs: tuple[Output, ...]  # what it answered, in the order of `outputs`
    model_name: str
    axes: dict[str, tuple[int, ...]]  # every independent dynamic axis by name: its fingerprint
    warnings: tuple[str, ...] = ()
    assumptions: tuple[Assumption, ...] = ()
    sides: tuple[Assumption, ...] = ()  # branches of which the graph has one side, taken to serve for both
    other_way: Mapping[str, int] | None = None  # sizes at which the model takes the other side of most of these
    as_traced: tuple[Mapping[str, int], ...] = ()  # sizes of these at which all questions had the graph's answers
    weights: Weights = field(default_factory=Weights)  # the model's state
    derived: Derived = field(default_factory=Derived)  # how constants were made of it
    space: AxisSpace = field(default_factory=AxisSpace)  # the sizes that the axes may have
    turning_points: tuple[Mapping[str, int], ...] = ()  # sizes at which a decision of the model's Python code changes
    counts_data: bool = False  # whether sizes depend on data
    changed: frozenset[str] = frozenset()  # the weights that the model writes to, by their names in the state dict
    remarks: tuple[str, ...] = ()  # what was worked out and limits nothing
    read_at: tuple[Source, ...] = ()  # lines at which Python went on with the example's values or sizes
    born_at: Mapping[str, Source] = field(default_factory=dict)  # constants that the model made, and where
    limits: tuple[Limit, ...] = ()  # sizes at which it would be wrong are refused by the file
    may_not_end: bool = False  # whether it has a loop that goes on as long as data says so
    decided_by_data: bool = False  # whether Python went one of several ways because of what the example holds

    def can_check(self, limit: Limit) -> bool:
        """Whether the file can refuse sizes: they are sizes of its inputs, and there is a tensor to withhold."""
        sizes = {dim.name for port in self.inputs for dim in port.fact.shape if isinstance(dim, SymDim)}
        return limit.question.names <= sizes and not all(port.is_list for port in self.outputs)

    def declares(self, shapes: Sequence[Sequence[int] | None]) -> bool:
        """Whether outputs may have these shapes, as far as their sizes are fixed; None says nothing of an output."""
        for port, shape in zip(self.outputs, shapes, strict=False):
            if shape is None or port.is_list:
                continue
            fixed = port.fact.shape
            if len(fixed) != len(shape) or any(type(a) is int and a != b for a, b in zip(fixed, shape, strict=True)):
                return False
        return True


def bit_length(number: int) -> int:
    """`number.bit_length()`, as a function that a graph can name."""
    return number.bit_length()


def length_of_slice(size: int, *bounds: int | None) -> int:
    """How long `x[start:end:step]` is."""
    start, stop, step = slice(*bounds).indices(size)
    return max(0, -(-(stop - start) // step))


def line(x: tuple[int, ...], y: tuple[int, ...]) -> tuple[Fraction | None, Fraction]:
    """The line through all points (x, y), if there is one."""
    other = next((i for i, value in enumerate(x) if value != x[0]), None)
    if other is None:
        return None, Fraction(0)
    rise, run, x0, y0 = y[other] - y[0], x[other] - x[0], x[0], y[0]
    if not rise or len(x) != len(y) or any(rise * (a - x0) != run * (b - y0) for a, b in zip(x, y, strict=True)):
        return None, Fraction(0)
    slope = Fraction(rise, run)
    return slope, y0 - slope * x0
