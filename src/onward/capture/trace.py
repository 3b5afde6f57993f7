"""The default front end: run a live model once, and follow it."""

from __future__ import annotations

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
    while True:
        wanted = {name: {i: a for i, a in named.items() if a not in fixed} for name, named in axes.items()}
        try:
            return _first_that_works(model, call, wanted, kernels, is_primitive, output_names, output_axes or {})
        except FrozenAxisError as error:
            newly = set(error.axes) - fixed
            if not allow_static_axes or not newly:
                raise
            fixed |= newly
            warnings.warn(f"written as fixed: {error}", CaptureWarning, stacklevel=3)


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
        raise _frozen_error(frozen, example)
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
        raise _model_error(name, error) from error
    if tracer.decisions.freezes:
        raise _Frozen(tracer.decisions.freezes, None)
    if not results:
        raise CaptureError(f"{name} returned no tensor", hint="return at least one tensor from forward")
    tracer.graph.output(tuple(node for _, (node, _, _) in results))
    _drop_unused(tracer)
    positions = tuple(position for position, _ in results)
    names = name_outputs([structure.paths[i] for i in positions], output_names, call.names)
    facts = [fact for _, (_, fact, _) in results]
    name_output_axes(tracer.dims, tracer.decisions, dict(zip(names, facts, strict=True)), output_axes)
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
    for axis, label in axes.items():
        if label in plan.enlarged:
            tensor = torch.cat([tensor] * plan.sizes[label][0], dim=axis)
    return tensor


def _layout(tensor: torch.Tensor, axes: AxisNames, plan: Plan, probe: int) -> Layout:
    size = list(tensor.size())
    for axis, label in axes.items():
        size[axis] = plan.sizes[label][probe]
    if tuple(size) == tuple(tensor.size()):
        return Layout.of(tensor)
    return dense_like(tuple(size), tensor)


def _frozen_error(frozen: _Frozen, example: dict[str, int]) -> FrozenAxisError:
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
        f"dynamic axis {named} is frozen by the model: a plain Python number is made from its size",
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


def _model_error(name: str, error: Exception) -> CaptureError:
    """The model's own error, with the line of the user's code it came from."""
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__) if not _is_library(frame.f_code)]
    lines = [line for frame, line in traceback.walk_tb(error.__traceback__) if not _is_library(frame.f_code)]
    source = f"{frames[-1].f_code.co_filename}:{lines[-1]}" if frames else None
    message = (str(error).strip() or "no message").splitlines()[0]
    return CaptureError(
        f"{name} raised {type(error).__name__} in forward: {message}",
        source=source,
        hint="call the model with the same arguments to see the error without the export",
    )
