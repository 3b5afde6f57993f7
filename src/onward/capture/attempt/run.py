"""One run of a model under the tracer, at the sizes of one plan."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch._ops import OpOverload

from ...errors import CaptureError, ExportError
from ..bodies.traced_list import TracedList, TracedNumbers
from ..call.inputs import AxisNames, Call, solve_roots
from ..call.resizing import resized
from ..call.weights import Weights
from ..decisions.assumptions import alike
from ..decisions.decisions import Freeze
from ..decisions.journal import CannotThaw, Comparison, Journal
from ..explore.items import CannotExplore
from ..ground.axes import AxisSpace, Bounds, Formula
from ..ground.memory import storage
from ..ground.source import user_source
from ..ground.tree import Path, Structure, flatten
from ..program.execute import execute
from ..program.facts import CapturedProgram, ListFact, Port, Results, SizeFact, SymDim, TensorFact, caution
from ..program.regions import Body
from ..record.complaints import model_raised, places_of
from ..record.elsewhere import ProbeRejected
from ..record.outputs import name_output_axes, name_outputs
from ..record.tracer import Tracer
from ..sizes.data_sizes import FREE, Freedom
from ..sizes.layouts import Layout, LayoutKernels, dense_like
from ..sizes.points import points_for
from ..sizes.probes import PROBES, Plan
from ..sizes.sizes import SYMBOLIC
from ..state.cached_calls import caches_emptied
from ..state.state import state_kept
from .mutable import (
    answers,
    assigned,
    check_state,
    error_when_called,
    note_lost_writes,
    parameter_writes,
    place_state,
    state_after,
    state_names,
)
from .second_look import Watch
from .session import session


class Frozen(Exception):
    """A trace went through, but it froze a dynamic axis."""

    def __init__(self, freezes: list[Freeze], freedom: Freedom) -> None:
        super().__init__(freezes[0].expression)
        self.freezes, self.freedom = freezes, freedom


class Stuck(Exception):
    """The model itself raised an error while it was traced; perhaps because a size was no plain number."""

    def __init__(self, error: CaptureError) -> None:
        super().__init__(str(error))
        self.error = error


FAILURES = (CaptureError, CannotThaw, ProbeRejected, Frozen, Stuck)  # of one run among several


@dataclass(frozen=True)
class Request:
    """What is to be captured."""

    model: Any
    call: Call
    axes: dict[str, AxisNames]
    is_primitive: Callable[[OpOverload, bool], bool]
    kernels: LayoutKernels
    output_names: Sequence[str] | None
    output_axes: Mapping[str, AxisNames]
    weights: Weights = field(default_factory=Weights)
    space: AxisSpace = field(default_factory=AxisSpace)
    # Of the model called without the export, once somebody asks: shared by all copies of a request.
    _plain_errors: list[Exception | None] = field(default_factory=list, compare=False)
    watch: Watch = field(default_factory=Watch)
    given_up: list[str] = field(default_factory=list, compare=False)  # why exploring takes too much; shared as well
    explored: list[int] = field(default_factory=list, compare=False)  # items of the runs of all searches; likewise

    def plain_error(self) -> Exception | None:
        """What the model raises for the example when it is called outside of everything of ours; None if nothing."""
        if not self._plain_errors:
            self._plain_errors.append(error_when_called(self.model, self.call))
        return self._plain_errors[0]

    @property
    def name(self) -> str:
        model = self.model
        return type(model).__name__ if isinstance(model, torch.nn.Module) else getattr(model, "__name__", "function")

    def without(self, fixed: Collection[str]) -> Request:
        """The same with some axes, and those that follow them, fixed at the example's size."""
        axes = {
            name: {i: axis for i, axis in named.items() if not set(self.space.roots(axis)) & set(fixed)}
            for name, named in self.axes.items()
        }
        return replace(self, axes=axes, space=self.space.without(fixed))

    def from_two_on(self, axis: str) -> Request:
        """The same with an axis that is never 1."""
        high = self.space.limits([axis])[1]
        return replace(self, space=replace(self.space, bounds={**self.space.bounds, axis: (2, high)}))

    def following(self, formulas: Mapping[str, Formula]) -> Request:
        """The same with some axes following others."""
        return replace(self, space=replace(self.space, formulas={**self.space.formulas, **formulas}))

    def example_sizes(self) -> dict[str, int]:
        """The example's size of every independent axis."""
        return solve_roots(self.call, self.axes, self.space)

    def examples(self, plan: Plan) -> tuple[torch.Tensor, ...]:
        """What the traced run sees: copies, so that verification does not depend on what the caller does to his."""
        return self.at_sizes({axis: plan.sizes[axis][0] for axis in plan.enlarged})

    def at_sizes(self, sizes: Mapping[str, int]) -> tuple[torch.Tensor, ...]:
        """The example's inputs with other sizes of the named axes."""
        sizes = self.space.expand({**self.example_sizes(), **sizes})
        result = []
        for label, tensor in zip(self.call.names, self.call.tensors, strict=True):
            wanted = {i: sizes[axis] for i, axis in self.axes.get(label, {}).items()}
            result.append(resized(tensor.detach(), wanted).clone())
        return tuple(result)

    def empty_at_sizes(self, sizes: Mapping[str, int]) -> tuple[torch.Tensor, ...]:
        """Inputs of these sizes, each with one element for all: only for what asks for sizes alone."""
        sizes = self.space.expand({**self.example_sizes(), **sizes})
        result = []
        for label, tensor in zip(self.call.names, self.call.tensors, strict=True):
            axes = self.axes.get(label, {})
            result.append(
                tensor.new_empty(()).expand([sizes[axes[i]] if i in axes else n for i, n in enumerate(tensor.shape)])
            )
        return tuple(result)


def write_journal(request: Request, sizes: Mapping[str, int], *, sizes_as_numbers: bool = False) -> Journal:
    """Run the model with every axis fixed at these sizes, and write down what it does."""
    inputs = request.at_sizes(sizes)
    freedom: Freedom | None = FREE
    while True:
        tracer = tracer_for(request, {}, 1, freedom=freedom)
        tracer.sizes_as_numbers = sizes_as_numbers
        tracer.pen = journal = Journal(request.space.expand(sizes))
        traced = [tracer.input(label, tensor, []) for label, tensor in zip(request.call.names, inputs, strict=True)]
        args, kwargs = request.call.arguments(traced)
        try:
            with followed_model(tracer, request.model):
                place_state(tracer, request.model, request.call, traced)
                journal.leave(tracer, flatten(request.model(*args, **kwargs))[0])
            return journal
        except Exception:
            data_sizes = tracer.elsewhere.data_sizes
            freedom = data_sizes.without_conversions() or data_sizes.without_numbers()
            if freedom is None:
                raise


Instead = Callable[[Tracer, Sequence[Any]], tuple[list[Any], Structure]]


def run(
    request: Request,
    plan: Plan,
    pen: Comparison | None = None,
    instead: Instead | None = None,
    on_side: Callable[[], Any] | None = None,
) -> CapturedProgram:
    """Trace the model once. With a pen, sizes that Python froze are thawed as the journals say.

    `instead` is called in place of the model, with the inputs; it gives the leaves of the result and how they are
    nested. `on_side` is called whenever one side of a branch is taken for both.
    """
    call, name = request.call, request.name
    leaders = {axis: values for axis, values in plan.sizes.items() if axis not in plan.tied}
    space = request.space.tied(plan.tied)
    tracer = tracer_for(request, leaders, PROBES, space, plan.freedom)
    tracer.pen = pen
    tracer.decisions.side, tracer.sizes_as_numbers = plan.side, plan.sizes_as_numbers
    tracer.decisions.thawing = pen is not None
    tracer.decisions.branches.on_side = on_side or tracer.decisions.branches.on_side
    examples = request.examples(plan)
    elsewhere = [
        request.space.expand({axis: values[probe] for axis, values in plan.sizes.items()}) for probe in range(1, PROBES)
    ]
    traced = []
    for label, tensor in zip(call.names, examples, strict=True):
        layouts = [layout_at(tensor, request.axes.get(label, {}), sizes) for sizes in elsewhere]
        traced.append(tracer.input(label, tensor.clone(), layouts))
    inputs = [each.fact for each in traced]  # as they are before the model turns them in place
    args, kwargs = call.arguments(traced)
    try:
        with followed_model(tracer, request.model):
            place_state(tracer, request.model, call, traced)
            if instead is None:
                leaves, structure = flatten(request.model(*args, **kwargs))
            else:
                leaves, structure = instead(tracer, traced)
            if tracer.elsewhere.swallowed is not None:
                raise tracer.elsewhere.swallowed
            if pen is not None:
                pen.to_be_told = tracer.decisions.keys.settle()
                leaves = pen.leave(tracer, leaves)
            results = [
                (position, tracer.output_node(leaf))
                for position, leaf in enumerate(leaves)
                if isinstance(leaf, (torch.Tensor, TracedList, TracedNumbers, *SYMBOLIC))
            ] or [  # a model may answer yes or no alone, and tensors of other shapes are never equal
                (position, tracer.output_node(torch.tensor(leaf)))
                for position, leaf in enumerate(leaves)
                if isinstance(leaf, bool)
            ]
            state = [tracer.output_node(each) for each in state_after(tracer, request.model, call, traced)]
            replaced = assigned(request.model, request.weights)
    except (ExportError, CannotThaw, CannotExplore, KeyboardInterrupt):
        raise
    except Exception as raised_last:
        error = tracer.elsewhere.swallowed or raised_last
        less = tracer.elsewhere.data_sizes.without_conversions() or tracer.elsewhere.data_sizes.without_numbers()
        if less is not None and not isinstance(error, ProbeRejected):
            raise ProbeRejected("item(), int() or float()", user_source(), "", str(error), less) from error
        is_own = not isinstance(error, (ProbeRejected, ExportError)) and request.plain_error() is not None
        if tracer.decisions.freezes and pen is None and not is_own:
            raise Frozen(tracer.decisions.freezes, plan.freedom) from error
        if isinstance(error, (ProbeRejected, ExportError)):
            raise error from error.__cause__
        raised = model_raised(name, error, request.plain_error(), request.model, call)
        if plan.sizes:
            raise Stuck(raised) from error
        raise raised from raised.__cause__
    request.watch.changes.update(tracer.changes)
    request.watch.moved.update(tracer.moved)
    request.watch.asked.update(tracer.asked)
    if pen is not None:
        pen.finish()
    elif tracer.decisions.freezes:
        raise Frozen(tracer.decisions.freezes, plan.freedom)
    if not results:
        raise CaptureError(f"{name} returned no tensor", hint="return at least one tensor from forward")
    _note_updates(tracer)
    check_state(call, inputs, [fact for _, fact, _ in state if isinstance(fact, TensorFact)])  # buffers are tensors
    tracer.graph.output(tuple(node for node, _, _ in (*(each for _, each in results), *state)))
    assumptions, sides = tracer.decisions.branches.assumptions(), tracer.decisions.branches.sides()
    _settle_points(tracer)
    _drop_unused(tracer)
    note_lost_writes(tracer, request.model, call, replaced)
    request.watch.writes.update(parameter_writes(tracer, replaced))
    positions = tuple(position for position, _ in results)
    names = name_outputs([structure.paths[i] for i in positions], request.output_names, call.names)
    facts = [fact for _, (_, fact, _) in results]
    named = dict(zip(names, facts, strict=True))
    named |= dict(zip(state_names(call, names), (fact for _, fact, _ in state), strict=True))
    name_output_axes(tracer.dims, tracer.decisions, named, request.output_axes, call.names)
    _note_ties(tracer, plan, request)
    program = CapturedProgram(
        graph=tracer.graph,
        constants=tracer.plain.constants,
        inputs=tuple(_port(label, fact, space) for label, fact in zip(call.names, inputs, strict=True)),
        outputs=tuple(_port(label, fact, space) for label, fact in named.items()),
        call=call,
        results=Results(
            tuple(None if i in positions else leaf for i, leaf in enumerate(leaves)),
            structure,
            positions,
            _lists(structure, leaves, results),
            tracer.has_vectors,
            frozenset(position for position in positions if isinstance(leaves[position], (bool, *SYMBOLIC))),
        ),
        example_inputs=examples,
        example_outputs=tuple(real for _, _, real in (*(each for _, each in results), *state)),
        model_name=name,
        axes=leaders,
        warnings=tuple(tracer.decisions.warnings),
        assumptions=tuple(assumptions),
        sides=tuple(sides),
        other_way=tracer.decisions.branches.other_way(),
        as_traced=() if pen is not None else tracer.decisions.branches.as_traced(),
        weights=request.weights,
        derived=tracer.plain.derivations.derived(tracer.plain.constants),
        space=space,
        turning_points=tuple(sizes for each in (*sides, *assumptions) for sizes in each.elsewhere),
        counts_data=tracer.elsewhere.data_sizes.has_sizes,
        changed=frozenset(
            key
            for each in request.weights.state
            if storage(each.tensor) in tracer.plain.written()
            for key in (each.key, *each.aliases)
        ),
        read_at=tuple(tracer.decisions.read_at),
        born_at=tracer.plain.born_at(),
        decided_by_data=tracer.decisions.by_data,
    )
    if tracer.copies_into_lists and not tracer.draws_numbers:
        _check_lists(request, program, plan)
    return program


def _check_lists(request: Request, program: CapturedProgram, plan: Plan) -> None:
    """A list of unknown length holds copies: a later write to a tensor that went in, or came out, does not reach it.

    Whether that matters is seen in the model's own answer. A loop that turns once at the example may turn more often at
    other sizes and for other numbers, and write to what earlier turns put into the list.
    """
    try:
        wanted = answers(request.model, request.call, program.results, program.example_inputs)
    except Exception as error:
        raise model_raised(request.name, error, error, request.model, request.call) from error
    seen = alike(wanted, program.example_outputs)
    others: list[tuple[torch.Tensor, ...]] = []
    if not program.warnings:  # which may say that a number was read, and kept as it is
        others.append(tuple(map(_raised, program.example_inputs)))
    if plan.sizes:
        others.append(request.at_sizes({axis: sizes[1] for axis, sizes in plan.sizes.items()}))
    for inputs in others:
        with contextlib.suppress(Exception):  # the model refuses these values, or the sizes: that is no matter of lists
            wanted = answers(request.model, request.call, program.results, inputs)
            seen = seen and alike(wanted, execute(program, inputs))
    if not seen:
        raise CaptureError(
            f"{request.name} writes in place to a tensor of a list whose length depends on data, and the list would "
            "not see it",
            hint="put a copy into the list (x.clone()), or compute a new tensor in place of the write (x = x + 1)",
        )


def _raised(value: torch.Tensor) -> torch.Tensor:
    """A single whole number, which may be how often a loop turns, plus 2; any other tensor as it is."""
    whole = value.dtype in (torch.int64, torch.int32) and value.numel() == 1
    return value + 2 if whole else value


@contextlib.contextmanager
def followed_model(tracer: Tracer, model: Any) -> Iterator[None]:
    """Inside, the model is traced, and afterwards it is as it was."""
    with (
        caches_emptied(model, wanted=tracer.pen is not None),
        session(tracer, model),
        state_kept(model, tracer),
    ):
        yield


def _lists(
    structure: Structure, leaves: Sequence[Any], results: Sequence[tuple[int, tuple[Any, Any, Any]]]
) -> dict[Path, torch.dtype | None]:
    """Where the model returns lists of unknown length: of tensors, or of numbers of a dtype."""
    return {
        structure.paths[position]: None if isinstance(leaves[position], TracedList) else fact.dtype
        for position, (_, fact, _) in results
        if isinstance(leaves[position], (TracedList, TracedNumbers))
    }


def _port(name: str, fact: TensorFact | ListFact, space: AxisSpace) -> Port:
    """An input or output with the bounds of its axes, as far as the user gave some."""
    bounds: dict[int, Bounds] = {}
    for axis, dim in enumerate(fact.shape):
        limits = space.bounds_of(dim.name) if isinstance(dim, SymDim) else None
        if limits is not None:
            bounds[axis] = limits
    return Port(name, fact, bounds)


def tracer_for(
    request: Request,
    axes: dict[str, tuple[int, ...]],
    probes: int,
    space: AxisSpace | None = None,
    freedom: Freedom | None = None,
) -> Tracer:
    return Tracer(
        axes,
        probes,
        model=request.model if isinstance(request.model, torch.nn.Module) else None,
        model_name=request.name,
        is_primitive=request.is_primitive,
        kernels=request.kernels,
        weights=request.weights,
        space=space,
        freedom=freedom,
        points=points_for({name: values[0] for name, values in axes.items()}, space or AxisSpace()),
    )


def _settle_points(tracer: Tracer) -> None:
    """Leave out of all facts what points say that died in the course of the trace."""
    if not tracer.dims.dead:
        return
    graphs = [tracer.graph]
    for graph in graphs:
        for node in graph.nodes:
            fact = node.meta.get("val")
            if isinstance(fact, SizeFact):
                node.meta["val"] = SizeFact(tracer.dims.live(fact.values))
            graphs += [each.graph for each in node.args if isinstance(each, Body)]


def _drop_unused(tracer: Tracer) -> None:
    """Nodes that nothing reads: checks, sizes that were only compared, old contents of overwritten tensors."""
    for node in reversed(tracer.graph.nodes):
        if not node.users and node.op in ("call_function", "get_attr"):
            tracer.graph.erase_node(node)
            if node.op == "get_attr":
                del tracer.plain.constants[str(node.target)]


def layout_at(tensor: torch.Tensor, axes: AxisNames, sizes: Mapping[str, int]) -> Layout:
    size = list(tensor.size())
    for axis, label in axes.items():
        size[axis] = sizes[label]
    if tuple(size) == tuple(tensor.size()):
        return Layout.of(tensor)
    return dense_like(tuple(size), tensor)


def _note_updates(tracer: Tracer) -> None:
    """In training a model keeps statistics; the file normalises by each batch, and keeps none."""
    modules = list(tracer.plain.updated)
    if modules:
        some = ", ".join(modules[:3]) + (f" and {len(modules) - 3} more" if len(modules) > 3 else "")
        tracer.decisions.note(
            caution(
                f"the running statistics of {some} are updated by the model in training, and not by the file",
                "It normalises by the statistics of each batch",
                "put these modules in eval mode and export with training=onward.TrainingMode.PRESERVE",
            )
        )


def _note_ties(tracer: Tracer, plan: Plan, request: Request) -> None:
    """Axes that got one name because the model refuses or compares different sizes: nobody asked for that."""
    axes = request.axes
    for axis, leader in plan.tied.items():
        size = plan.sizes[axis][0]
        text = caution(
            f"{places_of(axis, axes)} is written as {leader!r} ({places_of(leader, axes)}): the model refuses "
            f"different sizes or goes another way there, and both are {size} in the example",
            "The file takes inputs in which they are equal",
            "give them one name if they are the same, or use an example in which they differ",
        )
        if {axis, leader} <= request.space.made_up:  # nobody named them, so nobody is contradicted
            tracer.decisions.warnings.append(text)
            continue
        tracer.decisions.note(text)
