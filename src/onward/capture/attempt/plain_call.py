"""The model as its user calls it: by plain PyTorch, outside of the tracer and of every patch and hook of ours.

While other threads run, a mode looks on that notes which tensors the call makes, so that tables which the call fills
can be emptied again without taking anything from those threads (`state.tables_kept`). It changes nothing.
This is the reference of every verification. It runs on a copy of the model that shares the parameters (`twins`), so
that nothing a run writes reaches the model, or another thread that is using it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import torch

from ..call.inputs import Call
from ..call.weights import owner
from ..decompose.linalg import with_signs
from ..frontends.twins import on_copies
from ..ground.threads import ONE_AT_A_TIME
from ..program.facts import Output, Results
from ..python.fast_path import without_fast_path
from ..python.watchdog import at_most
from ..state.state import tables_kept
from .mutable_buffers import present_buffer

_WITH_FAST_PATH = (torch.nn.TransformerEncoder, torch.nn.TransformerEncoderLayer, torch.nn.MultiheadAttention)


def plain_answers(
    model: Any,
    call: Call,
    results: Results,
    inputs: Sequence[torch.Tensor],
    weights: Mapping[str, torch.Tensor] | None = None,
    changed: Collection[str] = (),
    *,
    seconds: float | None = None,
) -> list[Output]:
    """What the model returns for these inputs, buffers among them, and what its buffers are then.

    `weights` are other weights by their names in the state dict; `changed` are the names of those that it writes to.
    After some seconds, if a number of them is given, the call ends with TookTooLong.

    Two settings of PyTorch are not the user's. Transformer layers run without their fast path, which leaves other
    numbers where a mask hides them. Eigenvectors and singular vectors, whose signs are a matter of choice, get the
    signs that the file gives them. No other thread traces a model meanwhile, because it would find the tables that the
    call fills.
    """
    state = dict(zip((each.key for each in call.state), inputs[len(call.positions) :], strict=True))
    signed = with_signs(results.has_vectors)
    slowly = without_fast_path() if _has_fast_path(model) else contextlib.nullcontext()
    with (
        ONE_AT_A_TIME,
        on_copies(model, {**(weights or {}), **state}, changed) as twin,
        tables_kept(owner(twin.model) or twin.model),
        slowly,
        signed,
    ):
        given = [each.clone() for each in inputs]
        with contextlib.nullcontext() if seconds is None else at_most(seconds):
            outputs = results.select(_called(twin.model, call, given))
        written = [given[i] for i in call.written]
        return [*outputs, *written, *(present_buffer(twin.model, each).detach().clone() for each in call.state)]


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
