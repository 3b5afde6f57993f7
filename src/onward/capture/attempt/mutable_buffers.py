"""Buffers that a model changes: the state of a KV cache, of a counter, of running statistics.

By default a file starts every run from the buffers as they were when the model was exported, and says so. With
`mutable_buffers=True` each buffer that the model changes is an input of the graph, after the arguments, and its new
content an output, after the results. An `ExportedProgram` changes its inputs just so (`user_inputs_to_mutate`): their
new content is an output as well.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch

from ...errors import CaptureError, InputError
from ..call.inputs import Call, unique_names
from ..call.weights import Weight, Weights, owner, weights_of
from ..decompose.linalg import with_signs
from ..frontends.front_ends import front_end_of
from ..frontends.twins import Twin, on_copies
from ..ground.memory import geometry, storage
from ..ground.module_kinds import is_interpreted
from ..memory.tensor import Traced
from ..program.facts import Output, Results, Source, TensorFact, caution
from ..python.fast_path import without_fast_path
from ..record.tracer import Tracer
from ..state.state import run_guarded


def with_mutable_buffers(model: Any, call: Call) -> Call:
    """The call with every buffer as an input that the model changes on it, and the inputs that a program changes."""
    if owner(model) is None:
        raise InputError(
            f"mutable_buffers=True makes inputs of a model's buffers, and {getattr(model, '__name__', 'the model')!r} "
            "is a function, which has none of its own",
            hint="export the nn.Module that it calls, or leave out mutable_buffers",
        )
    state, written = _changed(model, call)
    _check_memory(model, state)
    names = unique_names([*call.names, *(each.key for each in state)])
    return dataclasses.replace(call, names=tuple(names), state=tuple(state), written=tuple(written))


def _changed(model: Any, call: Call) -> tuple[list[Weight], list[int]]:
    """The buffers that one call of the model writes to or assigns, and the inputs, by number, that a program does."""
    buffers = [each for each in weights_of(model).state if each.kind == "buffer"]
    given = [each.clone() for each in call.tensors]
    args, kwargs = call.arguments(given)
    found = []
    with on_copies(model) as twin, run_guarded(twin.model), torch.no_grad():
        tensors = [present_buffer(twin.model, each) for each in buffers]
        before = [(tensor, _version(tensor), tensor.clone()) for tensor in tensors]
        versions = [_version(each) for each in given]
        try:
            twin.model(*args, **kwargs)
        except Exception:  # the trace meets it too, and tells where
            return [], []
        for each, (tensor, version, content) in zip(buffers, before, strict=True):
            now = present_buffer(twin.model, each)
            if now is not tensor or _version(now) != version or not _same(now, content):
                found.append(each)
    written = [i for i, (each, version) in enumerate(zip(given, versions, strict=True)) if _version(each) != version]
    return found, written if front_end_of(model).has_changed_inputs else []


def _version(tensor: torch.Tensor) -> int:
    return -1 if tensor.is_inference() else tensor._version


def _same(first: torch.Tensor, second: torch.Tensor) -> bool:
    return first.shape == second.shape and torch.equal(first.nan_to_num(), second.nan_to_num())


def _check_memory(model: Any, state: Sequence[Weight]) -> None:
    """An input is memory of its own."""
    everything = weights_of(model).state
    for each in state:
        tensor = each.tensor
        whole = tensor.numel() * tensor.element_size() == tensor.untyped_storage().nbytes() and tensor.is_contiguous()
        shared = [
            other.key for other in everything if other is not each and storage(other.tensor) == storage(tensor)
            and geometry(other.tensor) != geometry(tensor)
        ]  # fmt: skip
        if shared or not whole:
            raise InputError(
                f"the buffer {each.key!r} cannot be an input of the graph: it shares its memory"
                + (f" with {', '.join(map(repr, shared))}" if shared else ", or a part of it, with something else"),
                hint="if one is to see what is written to the other, keep one buffer and take the part of it in "
                "forward (self.cache[1]); if not, register a copy: "
                f"register_buffer({each.key.rpartition('.')[2]!r}, tensor.clone())",
            )


# --- while the model is traced ---------------------------------------------------------------------------------------
def place_state(tracer: Tracer, model: Any, call: Call, traced: Sequence[Traced]) -> None:
    """Let the model find the inputs in the place of its buffers; whoever called puts these back."""
    for weight, stand_in in zip(call.state, traced[len(call.positions) :], strict=True):
        tracer.plain.adopt(weight.tensor, stand_in)
        for home, name in _homes(model, weight):
            if not is_interpreted(home):
                home._buffers[name] = stand_in


def state_after(tracer: Tracer, model: Any, call: Call, traced: Sequence[Traced]) -> list[Any]:
    """What the inputs and the buffers are at the end of a trace, of which the new content is an output."""
    found: list[Any] = [traced[i] for i in call.written]
    for weight, stand_in in zip(call.state, traced[len(call.positions) :], strict=True):
        home, name = _homes(model, weight)[0]
        if is_interpreted(home):
            found.append(tracer.script_attributes.get((home._c, name), stand_in))
        else:
            found.append(getattr(home, name))
    return found


def check_state(call: Call, inputs: Sequence[TensorFact], facts: Sequence[TensorFact]) -> None:
    """What comes out must go in again."""
    for weight, before, after in zip(
        call.state, inputs[len(call.positions) :], facts[len(call.written) :], strict=True
    ):
        axes = [
            axis
            for axis, (old, new) in enumerate(zip(before.shape, after.shape, strict=False))
            if isinstance(old, int) and old != new
        ]
        if before.dtype != after.dtype or before.rank != after.rank:
            raise CaptureError(
                f"the model makes another kind of tensor of its buffer {weight.key!r}: {_text(before)} becomes "
                f"{_text(after)}",
                hint="keep its dtype and its number of axes, so that what comes out can go in again",
            )
        if axes:
            raise CaptureError(
                f"the buffer {weight.key!r} changes its size: {_text(before)} becomes {_text(after)}",
                hint=f"say which axis varies, dynamic_axes={{{weight.key!r}: {{{axes[0]}: 'past'}}}}, or write into a "
                "buffer of the largest size",
            )


def _text(fact: TensorFact) -> str:
    return f"{str(fact.dtype).removeprefix('torch.')}[{', '.join(map(str, fact.shape))}]"


def state_names(call: Call, outputs: Sequence[str]) -> list[str]:
    """`cache` goes in, `cache_out` comes out."""
    own = (*(call.names[i] for i in call.written), *call.names[len(call.positions) :])
    taken = [*call.names, *outputs]
    return unique_names([*taken, *(f"{name}_out" for name in own)])[len(taken) :]


def assigned(model: Any, weights: Weights) -> list[str]:
    """The buffers and parameters that the model has put another tensor in place of."""
    module = owner(model)
    if module is None:
        return []
    parameters = {id(each) for part in module.modules() for each in part._parameters.values()}
    gone = [each for each in weights.state if each.kind == "parameter" and id(each.tensor) not in parameters]
    buffers = [each for each in weights.state if each.kind == "buffer" and not _in_script(model, each)]
    other = [each for each in buffers if present_buffer(model, each) is not each.tensor]
    return [each.name for each in (*other, *gone) if not _in_script(model, each)]


aten = torch.ops.aten

# What they write does not depend on what was there.
_OVERWRITES = frozenset({
    aten.copy.default, aten.fill.Scalar, aten.fill.Tensor, aten.zero.default, aten.uniform.default,
    aten.normal_functional.default, aten.view_as.default,
})  # fmt: skip


def _is_read(tracer: Tracer, name: str) -> bool:
    """Whether the graph depends on what a constant holds."""
    nodes = [node for node in tracer.graph.nodes if node.op == "get_attr" and node.target == name]
    for user in (user for node in nodes for user in node.users):
        place = 1 if user.target is aten.view_as.default else 0  # only its shape
        if user.target not in _OVERWRITES or any(each in nodes for i, each in enumerate(user.args) if i != place):
            return True
    return False


def note_lost_writes(tracer: Tracer, model: Any, call: Call, assigned: Sequence[str]) -> None:
    """A buffer that the graph reads and the model changes: the next run of the file does not see the change."""
    for name in [] if call.written else front_end_of(model).changed_inputs(model):
        tracer.decisions.note(
            caution(
                f"the ExportedProgram changes its input {name!r}, and the file does not return the change",
                "The new content is lost",
                "export with mutable_buffers=True, which makes an output of it",
            )
        )
    plain = tracer.plain
    written = plain.written()
    for name, constant in plain.constants.items():
        changed = storage(constant.tensor) in written and not tracer.plain.is_born(constant.tensor)
        if constant.kind == "constant" and changed and _is_read(tracer, name):
            what = f"the model changes a tensor that is no buffer ({_attribute_of(model, constant.tensor)})"
            tracer.decisions.note(
                caution(
                    f"{what}, and the file does not keep the change",
                    "Every run starts from what the tensor holds now",
                    "make it a buffer (self.register_buffer) and export with mutable_buffers=True",
                )
            )
    for name, tensor in tracer.plain.state("buffer"):
        if (name in assigned or storage(tensor) in written) and _is_used(tracer, name, tensor):
            tracer.decisions.note(
                caution(
                    f"the model changes its buffer {name!r}, and the file does not keep the change",
                    "Every run starts from what the buffer holds now",
                    "export with mutable_buffers=True, which makes an input and an output of it",
                )
            )


def _is_used(tracer: Tracer, name: str, tensor: torch.Tensor) -> bool:
    """Whether the graph reads a tensor of the model, or what Python computed from it: of the mean, the code
    `self.mean = self.mean * 0.9 + x.mean()` reads the product alone."""
    if name in tracer.plain.constants and _is_read(tracer, name):
        return True
    plain = tracer.plain
    made, is_read = plain.made_of(storage(tensor))
    others = plain.constants.items()
    return is_read or any(
        storage(each.tensor) in made and each.kind == "constant" and _is_read(tracer, other) for other, each in others
    )


def parameter_writes(tracer: Tracer, assigned: Sequence[str]) -> dict[str, Source | None]:
    """The parameters that the graph reads and the model writes to or assigns, and the line of the first write.

    Whether that matters is another question: an embedding with a `max_norm` does so in every run, to the same effect.
    """
    written, plain = tracer.plain.written(), tracer.plain
    return {
        name: plain.write_lines.get(storage(tensor))
        for name, tensor in plain.state("parameter")
        if (name in assigned or storage(tensor) in written) and _is_used(tracer, name, tensor)
    }


def _attribute_of(model: Any, tensor: torch.Tensor) -> str:
    """Where the model has a tensor, as far as its modules' attributes tell."""
    root = owner(model)
    for path, module in root.named_modules() if root is not None else []:
        for name, value in vars(module).items():
            if isinstance(value, torch.Tensor) and not isinstance(value, Traced) and storage(value) == storage(tensor):
                return f"{path}.{name}" if path else name
    return f"{str(tensor.dtype).removeprefix('torch.')}{list(tensor.shape)}"


# --- the model itself ------------------------------------------------------------------------------------------------
def answers(
    model: Any,
    call: Call,
    results: Results,
    inputs: Sequence[torch.Tensor],
    weights: Mapping[str, torch.Tensor] | None = None,
    on_write: Callable[[int], Any] | None = None,
) -> list[Output]:
    """What the model returns for these inputs, buffers among them, and what its buffers are then; it stays as it is.

    `on_write` is told the memory of every plain tensor that is written to.
    """
    given = [each.clone() for each in inputs]
    args, kwargs = call.arguments(given)
    with _twin(model, call, inputs, weights, on_write) as twin, with_signs(results.has_vectors):
        outputs = results.select(twin.model(*args, **kwargs))
        written = [given[i] for i in call.written]
        return [*outputs, *written, *(present_buffer(twin.model, each).detach().clone() for each in call.state)]


def called(model: Any, call: Call, inputs: Sequence[torch.Tensor]) -> Any:
    """All that the model returns for these inputs; it stays as it is."""
    args, kwargs = call.arguments([each.clone() for each in inputs])
    with _twin(model, call, inputs) as twin:
        return twin.model(*args, **kwargs)


@contextlib.contextmanager
def _twin(
    model: Any,
    call: Call,
    inputs: Sequence[torch.Tensor],
    weights: Mapping[str, torch.Tensor] | None = None,
    on_write: Callable[[int], Any] | None = None,
) -> Iterator[Twin]:
    state = dict(zip((each.key for each in call.state), inputs[len(call.positions) :], strict=True))
    with (
        on_copies(model, {**(weights or {}), **state}, often=True) as twin,
        run_guarded(twin.model, on_write),
        torch.no_grad(),
        without_fast_path(),
    ):
        yield twin


def error_when_called(model: Any, call: Call) -> Exception | None:
    """What the model raises when it is simply called with copies of these arguments, with gradients and without; None
    if it works in one of the two ways. It stays as it is."""
    return _error_with(model, call, gradients=True) and _error_with(model, call, gradients=False)


def _error_with(model: Any, call: Call, *, gradients: bool) -> Exception | None:
    given = [each.detach().clone() for each in call.tensors]
    args, kwargs = call.arguments(given)
    state = dict(zip((each.key for each in call.state), given[len(call.positions) :], strict=True))
    try:
        with (
            on_copies(model, state) as twin,
            run_guarded(twin.model),
            torch.set_grad_enabled(gradients),
            without_fast_path(),
        ):
            twin.model(*args, **kwargs)
    except Exception as error:
        return error
    return None


def _homes(model: Any, weight: Weight) -> list[tuple[torch.nn.Module, str]]:
    """The modules that have a buffer, and its name there."""
    module = owner(model)
    assert module is not None
    paths = [key.rpartition(".") for key in (weight.key, *weight.aliases)]
    return [(functools.reduce(getattr, path.split("."), module) if path else module, name) for path, _, name in paths]


def present_buffer(model: Any, weight: Weight) -> torch.Tensor:
    home, name = _homes(model, weight)[0]
    return getattr(home, name)


def _in_script(model: Any, weight: Weight) -> bool:
    return any(is_interpreted(home) for home, _ in _homes(model, weight))
