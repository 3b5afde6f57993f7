"""The model as its user calls it: by plain PyTorch, outside of the tracer and of every patch and hook of ours.

While other threads run, a mode looks on that notes which tensors the call makes, so that tables which the call fills
can be emptied again without taking anything from those threads (`state.tables_kept`). It changes nothing.
This is the reference of every verification. It runs on a copy of the model that shares the parameters, so that nothing
a run writes reaches the model, or another thread that is using it. A model that cannot be copied runs itself, with
copies of its buffers and of whatever else the trace saw it write to, and is as it was afterwards.
"""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import torch

from .exported import ExportedModel
from .facts import Output, Results
from .inputs import Call
from .linalg import with_signs
from .mutable import present_buffer
from .python import ONE_AT_A_TIME
from .python.fast_path import without_fast_path
from .state import named_tensors, plain_attributes, tables_kept
from .weights import owner

_WITH_FAST_PATH = (torch.nn.TransformerEncoder, torch.nn.TransformerEncoderLayer, torch.nn.MultiheadAttention)
_HAVE_GRAPHS = (torch.jit.ScriptModule, torch.fx.GraphModule, ExportedModel)  # a copy of these takes a compiler's time
_MOST_MODULES = 2000  # of a model that is copied for every run
_HOOKS = ("_forward_pre_hooks", "_forward_hooks")


def plain_answers(
    model: Any,
    call: Call,
    results: Results,
    inputs: Sequence[torch.Tensor],
    weights: Mapping[str, torch.Tensor] | None = None,
    changed: Collection[str] = (),
) -> list[Output]:
    """What the model returns for these inputs, buffers among them, and what its buffers are then.

    `weights` are other weights by their names in the state dict; `changed` are the names of those that it writes to.

    Two settings of PyTorch are not the user's. Transformer layers run without their fast path, which leaves other
    numbers where a mask hides them. Eigenvectors and singular vectors, whose signs are a matter of choice, get the
    signs that the file gives them. No other thread traces a model meanwhile, because it would find the tables that the
    call fills.
    """
    state = dict(zip((each.key for each in call.state), inputs[len(call.positions) :], strict=True))
    signed = with_signs(results.has_vectors)
    slowly = without_fast_path() if _has_fast_path(model) else contextlib.nullcontext()
    with ONE_AT_A_TIME, _on_copies(model, {**(weights or {}), **state}, changed) as runnable, slowly, signed:
        given = [each.clone() for each in inputs]
        outputs = results.select(_called(runnable, call, given))
        written = [given[i] for i in call.written]
        return [*outputs, *written, *(present_buffer(runnable, each).detach().clone() for each in call.state)]


def _called(model: Any, call: Call, given: list[torch.Tensor]) -> Any:
    """Call the model without gradients; a model that computes gradients itself may need them."""
    again = [each.clone() for each in given]
    try:
        with torch.no_grad():
            args, kwargs = call.arguments(given)
            return model(*args, **kwargs)
    except RuntimeError as error:
        if "grad" not in str(error):
            raise
        with torch.enable_grad():
            args, kwargs = call.arguments(again)
            return model(*args, **kwargs)


def _has_fast_path(model: Any) -> bool:
    module = owner(model)
    return module is None or any(isinstance(each, _WITH_FAST_PATH) for each in module.modules())


@contextlib.contextmanager
def _on_copies(model: Any, weights: Mapping[str, torch.Tensor], changed: Collection[str]) -> Iterator[Any]:
    """The model, or a copy of it, so that everything it writes to is a copy."""
    module = owner(model)
    twin = None if module is None else _twin(module, weights, changed)
    if twin is not None:
        with tables_kept(twin):
            yield twin if model is module else getattr(twin, model.__name__)
    elif module is None:
        with tables_kept(model):
            yield model
    else:
        with _own_memory(module, weights, changed), tables_kept(model):
            yield model


def _twin(
    module: torch.nn.Module, weights: Mapping[str, torch.Tensor], changed: Collection[str]
) -> torch.nn.Module | None:
    """A copy that shares the parameters that the model does not write to; None if it cannot be copied."""
    modules = list(module.modules())
    if len(modules) > _MOST_MODULES or any(isinstance(each, _HAVE_GRAPHS) or _has_our_hooks(each) for each in modules):
        return None
    chosen, written = _chosen(module, weights), _written(module, changed)
    known: dict[int, Any] = {}
    for tensor in (*(tensor for _, tensor in named_tensors(module)), *plain_attributes(module)):
        key = id(tensor)
        if key not in chosen and key not in written:
            known[key] = tensor
        elif key not in known:
            other = chosen.get(key, tensor).detach()
            other = other.clone() if key in written else other
            is_parameter = isinstance(tensor, torch.nn.Parameter)
            known[key] = torch.nn.Parameter(other, tensor.requires_grad) if is_parameter else other
    try:
        return copy.deepcopy(module, known)
    except Exception:  # a lock, a file, a tensor that cannot be copied: the model itself is run
        return None


def _chosen(module: torch.nn.Module, weights: Mapping[str, torch.Tensor]) -> dict[int, torch.Tensor]:
    """The tensors that are replaced by others, by identity: a tied one has several names."""
    return {id(tensor): weights[name] for name, tensor in named_tensors(module) if name in weights}


def _written(module: torch.nn.Module, changed: Collection[str]) -> set[int]:
    """What the model may write to, by identity: its buffers, its other tensors, and the parameters that the trace saw
    it write to."""
    found = {id(tensor) for name, tensor in named_tensors(module) if name in changed}
    return found | {id(each) for each in (*module.buffers(), *plain_attributes(module))}


def _has_our_hooks(module: torch.nn.Module) -> bool:
    """Whether the module is quantized: the hooks know it by its identity."""
    hooks = [hook for name in _HOOKS for hook in getattr(module, name).values()]
    return any(type(hook).__module__.split(".")[0] == "onward" for hook in hooks)


@contextlib.contextmanager
def _own_memory(
    module: torch.nn.Module, weights: Mapping[str, torch.Tensor], changed: Collection[str]
) -> Iterator[None]:
    """Inside, what the model writes to is a copy. The tensors stay the same objects with other memory, so that whatever
    else refers to them (tied modules, the flat weights of an LSTM) sees the same."""
    tensors = {id(each): each for each in (*(tensor for _, tensor in named_tensors(module)), *plain_attributes(module))}
    chosen, written = _chosen(module, weights), _written(module, changed)
    kept = [(tensor, tensor.data) for key, tensor in tensors.items() if key in written or key in chosen]
    try:
        for tensor, data in kept:
            other = chosen.get(id(tensor), data).detach()
            tensor.data = other.clone() if id(tensor) in written else other
        yield
    finally:
        for tensor, data in kept:
            tensor.data = data
