"""The default front end: run a live model once, and follow it."""

from __future__ import annotations

import dataclasses
import traceback
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch._ops import OpOverload

from ..errors import CaptureError, ExportError, FrozenAxisError
from .decisions import CaptureWarning, Freeze
from .facts import CapturedProgram, Port, Results
from .inputs import AxisNames, Call, example_sizes
from .layouts import Layout, LayoutKernels, dense_like
from .outputs import name_output_axes, name_outputs
from .probes import PROBES, Plan, plans
from .session import session
from .sizes import SYMBOLIC
from .source import _is_library
from .tracer import ProbeRejected, Tracer
from .tree import flatten


class _Frozen(Exception):
    """A trace went through, but it froze a dynamic axis."""

    def __init__(self, freezes: list[Freeze], rejected: ProbeRejected | None) -> None:
        super().__init__(freezes[0].expression)
        self.freezes, self.rejected = freezes, rejected


def trace(
    model: Any,
    call: Call,
    axes: dict[str, AxisNames],
    *,
    output_names: Sequence[str] | None = None,
    output_axes: Mapping[str, AxisNames] | None = None,
    is_primitive: Callable[[OpOverload], bool],
    allow_static_axes: bool = False,
) -> CapturedProgram:
    """Capture `model` called with `call`, with the named axes dynamic."""
    kernels = LayoutKernels()
    fixed: set[str] = set()
    notes: list[str] = []
    while True:
        wanted = {name: {i: a for i, a in named.items() if a not in fixed} for name, named in axes.items()}
        try:
            program = _first_that_works(model, call, wanted, kernels, is_primitive, output_names, output_axes or {})
            return dataclasses.replace(program, warnings=(*notes, *program.warnings))
        except FrozenAxisError as error:
            newly = set(error.axes) - fixed
            if not allow_static_axes or not newly:
                raise
            fixed |= newly
            notes.append("\n  ".join((f"written as fixed: {error.what}", *error.details)))
            warnings.warn(notes[-1], CaptureWarning, stacklevel=3)


def _first_that_works(
    model: Any,
    call: Call,
    axes: dict[str, AxisNames],
    kernels: LayoutKernels,
    is_primitive: Callable[[OpOverload], bool],
    output_names: Sequence[str] | None,
    output_axes: Mapping[str, AxisNames],
) -> CapturedProgram:
    """Try one plan of probe sizes after the other; what the model refuses at one may work at the next."""
    example = example_sizes(call, axes)
    frozen: _Frozen | None = None
    rejected: list[tuple[Plan, ProbeRejected]] = []
    for plan in plans(example) if example else [Plan("example", {}, {})]:
        if frozen and not _worth_another(frozen, plan):
            continue
        try:
            return _run(model, call, axes, plan, kernels, is_primitive, output_names, output_axes)
        except ProbeRejected as error:
            rejected.append((plan, error))
        except _Frozen as error:
            frozen = frozen or error
    if frozen:
        raise _frozen_error(frozen, example, axes)
    raise _rejected_error(rejected)


def _worth_another(frozen: _Frozen, plan: Plan) -> bool:
    """After a freeze, only another kind of size helps: an example larger than 1, or sizes that stay below a limit."""
    if plan.enlarged:
        return True
    return any(isinstance(freeze.value, bool) for freeze in frozen.freezes) and plan.label.startswith("smaller")


def _run(
    model: Any,
    call: Call,
    axes: dict[str, AxisNames],
    plan: Plan,
    kernels: LayoutKernels,
    is_primitive: Callable[[OpOverload], bool],
    output_names: Sequence[str] | None,
    output_axes: Mapping[str, AxisNames],
) -> CapturedProgram:
    name = type(model).__name__ if isinstance(model, torch.nn.Module) else getattr(model, "__name__", "function")
    probes = PROBES if plan.sizes else 1
    leaders = {axis: values for axis, values in plan.sizes.items() if axis not in plan.tied}
    tracer = Tracer(
        leaders,
        probes,
        model=model if isinstance(model, torch.nn.Module) else None,
        model_name=name,
        is_primitive=is_primitive,
        kernels=kernels,
    )
    examples = tuple(
        _example(tensor, axes.get(label, {}), plan) for label, tensor in zip(call.names, call.tensors, strict=True)
    )
    traced = []
    for label, tensor in zip(call.names, examples, strict=True):
        layouts = [_layout(tensor, axes.get(label, {}), plan, probe) for probe in range(1, probes)]
        traced.append(tracer.input(label, tensor.detach().clone(), layouts))
    args, kwargs = call.arguments(traced)
    try:
        with session(tracer):
            result = model(*args, **kwargs)
            leaves, structure = flatten(result)
            results = [
                (position, tracer.output_node(leaf))
                for position, leaf in enumerate(leaves)
                if isinstance(leaf, (torch.Tensor, *SYMBOLIC))
            ]
    except ProbeRejected as error:
        if tracer.decisions.freezes:
            raise _Frozen(tracer.decisions.freezes, error) from error
        raise
    except (ExportError, KeyboardInterrupt):
        raise
    except Exception as error:
        if tracer.decisions.freezes:
            raise _Frozen(tracer.decisions.freezes, None) from error
        raise _model_error(name, error, model, call) from error
    if tracer.decisions.freezes:
        raise _Frozen(tracer.decisions.freezes, None)
    if not results:
        raise CaptureError(f"{name} returned no tensor", hint="return at least one tensor from forward")
    tracer.graph.output(tuple(node for _, (node, _, _) in results))
    _drop_unused(tracer)
    positions = tuple(position for position, _ in results)
    names = name_outputs([structure.paths[i] for i in positions], output_names, call.names)
    facts = [fact for _, (_, fact, _) in results]
    name_output_axes(tracer.dims, tracer.decisions, dict(zip(names, facts, strict=True)), output_axes, call.names)
    _note_ties(tracer, plan, axes)
    return CapturedProgram(
        graph=tracer.graph,
        constants=tracer.plain.constants,
        inputs=tuple(Port(label, each.fact) for label, each in zip(call.names, traced, strict=True)),
        outputs=tuple(Port(label, fact) for label, fact in zip(names, facts, strict=True)),
        call=call,
        results=Results(tuple(None if i in positions else leaf for i, leaf in enumerate(leaves)), structure, positions),
        example_inputs=examples,
        example_outputs=tuple(real for _, (_, _, real) in results),
        model_name=name,
        axes=leaders,
        warnings=tuple(tracer.decisions.warnings),
    )


def _drop_unused(tracer: Tracer) -> None:
    """Nodes that nothing reads: checks, sizes that were only compared, old contents of overwritten tensors."""
    for node in reversed(tracer.graph.nodes):
        if not node.users and node.op in ("call_function", "get_attr"):
            tracer.graph.erase_node(node)
            if node.op == "get_attr":
                del tracer.plain.constants[str(node.target)]


def _example(tensor: torch.Tensor, axes: AxisNames, plan: Plan) -> torch.Tensor:
    """What the traced run sees: a copy, so that verification later does not depend on what the caller does to his."""
    for axis, label in axes.items():
        if label in plan.enlarged:
            tensor = torch.cat([tensor] * plan.sizes[label][0], dim=axis)
    return tensor.detach().clone()


def _layout(tensor: torch.Tensor, axes: AxisNames, plan: Plan, probe: int) -> Layout:
    size = list(tensor.size())
    for axis, label in axes.items():
        size[axis] = plan.sizes[label][probe]
    if tuple(size) == tuple(tensor.size()):
        return Layout.of(tensor)
    return dense_like(tuple(size), tensor)


def _note_ties(tracer: Tracer, plan: Plan, axes: dict[str, AxisNames]) -> None:
    """Axes that got one name because the model refuses different sizes: the user did not ask for that, so say it."""
    for axis, leader in plan.tied.items():
        size = plan.sizes[axis][0]
        tracer.decisions.note(
            f"{_places(axis, axes)} is written as {leader!r} ({_places(leader, axes)}): the model refuses different "
            f"sizes, and both are {size} in the example. If they are the same, give them one name; if not, use an "
            "example in which they differ"
        )


def _places(label: str, axes: dict[str, AxisNames]) -> str:
    """`axis 0 of 'x', axis 0 of 'mask'`: where an axis of this name is."""
    return ", ".join(f"axis {i} of {name!r}" for name, named in axes.items() for i, a in named.items() if a == label)


def _frozen_error(frozen: _Frozen, example: dict[str, int], places: dict[str, AxisNames]) -> FrozenAxisError:
    seen = set()
    details: list[str] = []
    for freeze in frozen.freezes:
        key = (freeze.expression, freeze.source)
        if key not in seen and len(details) < 8:
            seen.add(key)
            place = f"{freeze.source}" if freeze.source else "an unknown line"
            details.append(f"{place}: `{freeze.expression}` became {freeze.value!r}")
    first = frozen.freezes[0]
    axes = sorted(frozenset().union(*(freeze.axes for freeze in frozen.freezes)))
    named = ", ".join(f"{axis!r} (= {example.get(axis)})" for axis in axes)
    error = FrozenAxisError(
        f"dynamic axis {named} is frozen by the model: a plain Python number is made from the size of "
        + ", ".join(_places(axis, places) for axis in axes),
        source=str(first.source) if first.source else None,
        module=first.scope or None,
        details=details,
        hint="compute with the size itself (no int(), range() or if on it), leave the axis out of dynamic_axes, "
        "or pass allow_static_axes=True to write it as fixed",
    )
    error.axes = tuple(axes)
    return error


def _rejected_error(rejected: list[tuple[Plan, ProbeRejected]]) -> CaptureError:
    plan, error = rejected[0]
    tried = [
        ", ".join(f"{axis} = {'/'.join(map(str, values))}" for axis, values in p.sizes.items()) for p, _ in rejected
    ]
    return CaptureError(
        f"the model works on the example but not at other sizes of {', '.join(map(repr, plan.sizes))}: "
        f"{error.op}: {error.reason}",
        op=error.op,
        source=str(error.source) if error.source else None,
        module=error.scope or None,
        details=[f"tried {each}" for each in tried],
        hint="leave the axis out of dynamic_axes if it cannot vary, or give axes that must be equal one name",
    )


def _model_error(name: str, error: Exception, model: Any, call: Call) -> CaptureError:
    """The model's own error, with the line of the user's code and the module that it came from."""
    steps = list(traceback.walk_tb(error.__traceback__))
    lines = [f"{frame.f_code.co_filename}:{line}" for frame, line in steps if not _is_library(frame.f_code)]
    paths = {id(module): path for path, module in model.named_modules()} if isinstance(model, torch.nn.Module) else {}
    modules = [paths[id(owner)] for frame, _ in steps if id(owner := frame.f_locals.get("self")) in paths]
    message = (str(error).strip() or "no message").splitlines()[0]
    return CaptureError(
        f"{name} raised {type(error).__name__} in forward: {message}",
        source=lines[-1] if lines else None,
        module=(modules[-1] or None) if modules else None,
        details=call.remarks,
        hint="call the model with the same arguments to see the error without the export",
    )
