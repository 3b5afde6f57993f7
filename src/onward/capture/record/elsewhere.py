"""What an op's results look like at the other probes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import fx
from torch._ops import OpOverload

from ...errors import CaptureError
from ..functions.autograd_functions import function_layouts
from ..ground.attempts import may_survive, surviving_try
from ..ground.source import user_source
from ..memory.tensor import Traced
from ..program.facts import Dim, FunctionCall, Source
from ..sizes.arithmetic import is_astray
from ..sizes.data_sizes import DataSizes, Freedom, is_data_sized
from ..sizes.layouts import Layout, LayoutKernels, ProbeFailure, dense_like
from ..sizes.queries import size_of
from ..sizes.shape_tensors import RESHAPE, DependsOnData, sizes_at
from ..sizes.sizes import SYMBOLIC, is_from_data, size_lines
from .following import Formulas

if TYPE_CHECKING:
    from .tracer import Tracer

aten = torch.ops.aten
_RESHAPES = (aten.reshape.default, aten.view.default, aten._unsafe_view.default, aten.unflatten.int)


class ProbeRejected(Exception):
    """The model works on the example and refuses the other sizes that were tried."""

    def __init__(self, op: str, source: Source | None, scope: str, reason: str, less: Freedom | None = None) -> None:
        super().__init__(reason)
        self.op, self.source, self.scope, self.reason = op, source, scope, reason
        self.less = less  # with less freedom for numbers that depend on data it may work
        self.is_the_models = False  # whether the model itself comes here at these sizes, and is refused


class Elsewhere:
    """Asks PyTorch's kernels, through layouts, and answers itself where a size depends on data."""

    def __init__(self, tracer: Tracer, kernels: LayoutKernels, freedom: Freedom) -> None:
        self._tracer, self._kernels = tracer, kernels
        self.data_sizes = DataSizes(tracer, freedom)
        self.formulas = Formulas(tracer, kernels)
        self._is_followed = True
        self.swallowed: Exception | None = None  # an error of ours that a `try` of the model's has survived

    def failed(self, op: OpOverload, args: tuple, kwargs: dict[str, Any], error: Exception) -> None:
        """An operator fails. If the model survives that, it takes another way than at sizes where it works."""
        survivor = surviving_try()
        if survivor is None:
            return
        if isinstance(error, (ProbeRejected, CaptureError)):
            self.swallowed = error
        else:
            self._tracer.decisions.branches.note_try(survivor, self.formulas.accepting(op, args, kwargs), works=False)

    def number_failed(self, error: Exception, failing: set[int]) -> None:
        """Python's arithmetic fails at these probes and points. Raises ProbeRejected if it works in the example."""
        survivor, dims = surviving_try(), self._tracer.dims
        if 0 in failing:
            if survivor is not None:
                works = [place for place in range(1, dims.width) if place not in failing | dims.dead]
                self._tracer.decisions.branches.note_try(survivor, works, works=False)
        elif min(failing) < dims.probes:
            rejected = ProbeRejected("arithmetic on sizes", user_source(), self._tracer.scopes.current.path, str(error))
            self.swallowed = rejected if survivor is not None else self.swallowed
            raise rejected from error

    def index_fails(self, places: set[int]) -> None:
        """An element is asked for that is not there at these probes and points."""
        survivor, dims = surviving_try() if places else None, self._tracer.dims
        if survivor is not None:
            alive = [place for place in range(1, dims.width) if place not in dims.dead]
            other = [place for place in alive if (place in places) is not (0 in places)]
            self._tracer.decisions.branches.note_try(survivor, other, works=0 not in places)

    def results(
        self, op: OpOverload, args: tuple, kwargs: dict[str, Any], nodes: tuple, out: Any
    ) -> tuple[tuple[Any, ...], list[tuple[Dim, ...]] | None]:
        """For every other probe, the layout of each result, and the dimensions of each, where an operator's formulas or
        its kernels tell what they are at the points. `nodes` are the arguments as fx has them."""
        self._is_followed = True
        layouts = self._layouts(op, args, kwargs, nodes, out)
        if not self._is_followed:
            return layouts, None
        if op is RESHAPE:
            op, args = aten.reshape.default, (args[0], self._sizes_in(nodes[1]))
        return layouts, self.formulas.dims(op, args, kwargs, out, layouts)

    def _sizes_in(self, node: fx.Node) -> list[Any]:
        """The numbers that a tensor made of sizes holds."""
        tracer = self._tracer
        columns = zip(
            *(sizes_at(node, place, tracer.plain.constants) for place in range(tracer.dims.width)), strict=True
        )
        return [tracer.symbol(values, None) for values in columns]

    def _layouts(self, op: OpOverload, args: tuple, kwargs: dict[str, Any], nodes: tuple, out: Any) -> tuple[Any, ...]:
        if op is aten.masked_select.default:  # tensor and mask must fit together, wherever its size comes from
            fitting = torch.broadcast_shapes(*(_at_probe(each, 0).size for each in args))
            self.probe(aten.logical_and.default, args, {}, torch.empty(fitting, device="meta"))
        if is_data_sized(op, nodes):
            self._is_followed = False
            asked = fx.map_arg(nodes, self._tracer.here)
            return self.data_sizes.layouts(
                self._tracer.graph, op, asked, lambda place, probe: _at_probe(args[place], probe), out
            )
        if op is aten.slice.Tensor and any(self._lines(each) for each in args[2:4]):
            self._is_followed = False
            return self._sliced_by_data(args, fx.map_arg(nodes, self._tracer.here), out)
        if op is RESHAPE:
            return self._reshaped(args, nodes, out)
        try:
            return self.probe(op, args, kwargs, out)
        except ProbeRejected:
            self._is_followed = False
            from_data = op in _RESHAPES and any(map(is_from_data, args[-1]))
            unfit = op in _RESHAPES and is_astray(self._tracer) and -1 in _asked_sizes(args, 0)
            if from_data or unfit:
                return self._reshaped_by_data(args, fx.map_arg(nodes, self._tracer.here), out)
            if op is aten.split_with_sizes.default and any(map(is_from_data, args[1])):
                return self._split_by_data(args, out)
            raise

    def probe(self, op: OpOverload, args: tuple, kwargs: dict[str, Any], out: Any) -> tuple[Any, ...]:
        """What the other probes' results look like."""
        if not _is_dynamic((*args, *kwargs.values())):
            layout = _layout_of(out)
            return (layout,) * (self._tracer.probes - 1)
        of_data = op is aten.select.int and is_from_data(args[2])
        if of_data:
            args = (*args[:2], 0)  # whichever it is, the sizes are the same, and the probes' index may not exist
        calls = [
            ([_at_probe(value, probe) for value in args], {name: _at_probe(v, probe) for name, v in kwargs.items()})
            for probe in range(self._tracer.probes)
        ]
        if of_data:  # nor need there be anything to select: in a loop that has no turn there
            calls = [([_with_some(at_args[0], args[1]), *at_args[1:]], named) for at_args, named in calls]
        if op is aten.unbind.int:  # counted first, for some sizes make many tensors
            for at_args, at_kwargs in calls[1:]:
                self._same_number(op, args, len(out), at_args[0].size[_along(*at_args[1:], **at_kwargs)])
        try:
            if isinstance(op, FunctionCall):
                results: list[Any] | None = [function_layouts(op, args, at_args) for at_args, _ in calls[1:]]
            else:
                results = self._kernels.shortcut(op, calls, out)
            if results is None:
                results = [self._kernels.run(op, tuple(at_args), at_kwargs) for at_args, at_kwargs in calls[1:]]
        except ProbeFailure as failure:
            rejected = self._rejected(op, args, str(failure))
            rejected.is_the_models = self._comes_here(op, calls)
            raise rejected from failure
        for result in results:
            self._same_structure(op, args, out, result)
        return tuple(results)

    def _comes_here(self, op: Any, calls: list[tuple[list[Any], dict[str, Any]]]) -> bool:
        """Whether the model itself takes the way of the trace to this operator at all probes, and the operator needs no
        data: so far all questions had the same answer at all of them, and in the example it works without data."""
        tracer = self._tracer
        decisions = tracer.decisions
        is_asked = bool(decisions.freezes or decisions.by_data or decisions.branches.sides())
        if is_asked or tracer.recorder is not None or tracer.pen is not None or self.data_sizes.has_sizes:
            return False
        if isinstance(op, FunctionCall) or may_survive():
            return False
        try:
            self._kernels.run(op, tuple(calls[0][0]), calls[0][1])
        except ProbeFailure:
            return False
        return True

    def _rejected(self, op: Any, args: Any, reason: str) -> ProbeRejected:
        name = op.__name__ if isinstance(op, FunctionCall) else str(op)
        data = self.data_sizes
        lines = self._lines(args) or self._tracer.dims.data_lines()
        less = data.freedom.less(lines, has_slices=data.has_slices, has_sizes=data.has_sizes)
        return ProbeRejected(name, user_source(), self._tracer.scopes.current.path, reason, less)

    def _lines(self, value: Any) -> frozenset[Any]:
        """The lines at which data was asked that a value's sizes depend on."""
        dims = self._tracer.dims
        if isinstance(value, (list, tuple)):
            return frozenset[Any]().union(*map(self._lines, value))
        if isinstance(value, Traced):
            return frozenset[Any]().union(
                *(dims.lines_of(d.values) for d in value.fact.shape if not isinstance(d, int))
            )
        return size_lines(value.node) if isinstance(value, SYMBOLIC) else frozenset()

    def _reshaped(self, args: tuple, node_args: tuple, out: torch.Tensor) -> tuple[Layout, ...]:
        """A reshape to sizes that a tensor holds, at the other probes."""
        constants = self._tracer.plain.constants
        try:
            sizes = [sizes_at(node_args[1], probe, constants) for probe in range(1, self._tracer.probes)]
        except DependsOnData:
            self._is_followed = False
            if _is_dynamic(args):
                what = "the sizes of a reshape depend on the data of a tensor"
                raise CaptureError(what, op=str(RESHAPE), source=self._tracer.where()) from None
            return (Layout.of(out),) * (self._tracer.probes - 1)
        calls = [(_at_probe(args[0], probe), size) for probe, size in enumerate(sizes, 1)]
        try:
            return tuple(self._kernels.run(aten.reshape.default, call, {}) for call in calls)
        except ProbeFailure as failure:
            raise self._rejected(RESHAPE, args, str(failure)) from failure

    def _sliced_by_data(self, args: tuple, nodes: tuple, out: torch.Tensor) -> tuple[Layout, ...]:
        """`x[:n]` with n from a tensor is as long as n, or as x if that is shorter: a size of its own."""
        if self.data_sizes.freedom.slices_fit:
            self._is_followed = True
            self._refuse_unfitting(args)
            return self.probe(aten.slice.Tensor, args, {}, out)
        self.data_sizes.has_slices = True
        axis = args[1] % args[0].dim()
        key = (aten.slice.Tensor, args[0].fact.shape[axis], self.data_sizes.form(self._tracer.graph, nodes[2:]))
        layouts = self.probe(aten.slice.Tensor, (*args[:2], 0, 1), {}, out.narrow(axis, 0, min(out.size(axis), 1)))
        fresh = self.data_sizes.fresh(key, out.size(axis), "slice")
        return tuple(
            dense_like((*layout.size[:axis], size, *layout.size[axis + 1 :]), out)
            for layout, size in zip(layouts, fresh, strict=True)
        )

    def _refuse_unfitting(self, args: tuple) -> None:
        """Points at which a slice ends beyond its tensor are no sizes that the model is for."""
        dims = self._tracer.dims
        length = size_of(self._tracer, args[0], args[1])
        for bound in (each.node for each in args[2:4] if isinstance(each, torch.SymInt)):
            beyond = [p for p in range(dims.probes, dims.width) if bound.values[p] > length.values[p]]
            self._tracer.dims.refuse(beyond)

    def _reshaped_by_data(self, args: tuple, nodes: tuple, out: torch.Tensor) -> tuple[Layout, ...]:
        """`x.reshape(n, -1)`: numbers that stand for n need not divide x. What is left to -1 is a size of its own."""
        left = [axis for axis, size in enumerate(_asked_sizes(args, 0)) if size == -1]
        key = (aten.reshape.default, args[0].fact.shape, self.data_sizes.form(self._tracer.graph, nodes[1:]))
        rest = self.data_sizes.fresh(key, out.size(left[0]), "reshape") if left else (0,) * (self._tracer.probes - 1)
        sizes = [_asked_sizes(args, 1 + place) for place in range(len(rest))]
        return tuple(
            dense_like(tuple(other if size == -1 else size for size in asked), out)
            for asked, other in zip(sizes, rest, strict=True)
        )

    def _split_by_data(self, args: tuple, out: Sequence[torch.Tensor]) -> tuple[list[Layout], ...]:
        """`x.split(lengths.tolist())`: nobody told the numbers that stand for the lengths what they add up to."""
        axis = (args[2] if len(args) > 2 else 0) % args[0].dim()
        results = []
        for probe in range(1, self._tracer.probes):
            whole = _at_probe(args[0], probe).size
            sizes = [(*whole[:axis], _at_probe(each, probe), *whole[axis + 1 :]) for each in args[1]]
            results.append([dense_like(size, part) for size, part in zip(sizes, out, strict=True)])
        return tuple(results)

    def _same_structure(self, op: OpOverload, args: tuple, out: Any, layout: Any) -> None:
        if isinstance(out, torch.Tensor):
            ranks = out.dim(), len(layout.size)
            if ranks[0] != ranks[1]:
                reason = f"its result has {ranks[0]} axes at the example's sizes and {ranks[1]} at others"
                raise self._rejected(op, args, reason)
        elif isinstance(out, (tuple, list)):
            self._same_number(op, args, len(out), len(layout))
            for each, other in zip(out, layout, strict=True):
                self._same_structure(op, args, each, other)

    def _same_number(self, op: OpOverload, args: tuple, here: int, there: int) -> None:
        if here != there:
            raise self._rejected(op, args, f"it returns {here} tensors at the example's sizes and {there} at others")


def _along(dim: int = 0) -> int:
    """The axis that `unbind` takes apart."""
    return dim


def _is_dynamic(values: tuple | list) -> bool:
    for value in values:
        if isinstance(value, Traced):
            if not value.fact.is_static:
                return True
        elif isinstance(value, SYMBOLIC) or (isinstance(value, (list, tuple)) and _is_dynamic(value)):
            return True
    return False


def _with_some(layout: Layout, axis: int) -> Layout:
    """A layout that is not empty along an axis."""
    size = list(layout.size)
    if size[axis]:
        return layout
    size[axis] = 1
    return Layout.of(torch.empty(size, dtype=layout.dtype, device="meta"))


def _layout_of(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return Layout.of(value)
    return [_layout_of(each) for each in value] if isinstance(value, (list, tuple)) else value


def _asked_sizes(args: tuple, probe: int) -> list[int]:
    """The sizes that a reshape is to give: all of them, or those that one axis is divided into."""
    sizes = _at_probe(args[-1], probe)
    if len(args) == 2:
        return sizes
    whole = _at_probe(args[0], probe).size
    axis = args[1] % len(whole)
    return [*whole[:axis], *sizes, *whole[axis + 1 :]]


def _at_probe(value: Any, probe: int) -> Any:
    if isinstance(value, Traced):
        return value.layouts[probe - 1] if probe else Layout.of(value.example)
    if isinstance(value, torch.Tensor):
        return Layout.of(value)
    if isinstance(value, SYMBOLIC):
        return value.node.values[probe]
    if isinstance(value, (list, tuple)):
        return [_at_probe(each, probe) for each in value]
    return value
