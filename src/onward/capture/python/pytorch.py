"""What of PyTorch is another function or another value while a model is traced. Other threads notice nothing.

Not all of PyTorch's switches can be told apart by thread: `torch.compiler.set_stance` is one for the process
(`compiling.without_compiling`), so what is compiled runs as it is written in every thread meanwhile.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Iterator
from typing import Any

import torch
import torch.onnx

from ..bodies.higher_order import associative_scan_of, call_at_once
from ..decompose.packed import DETOURS
from ..frontends.graph_modules import call_graph, has_origins
from ..frontends.script import call_script
from ..functions.autograd_functions import LEVEL, interception
from ..ground.threads import current, is_tracing, runs_as_exported
from ..state.state_changes import noting
from .detours import detour
from .patches import Patch


def pytorch() -> list[Patch]:
    """Everything of PyTorch's that a trace replaces. Some of it is in modules that are loaded only if needed."""
    return [
        Patch(torch.nn.Module, "__call__", _module_call),
        Patch(torch.nn.Module, "__setattr__", noting),
        Patch(torch._C.ScriptFunction, "__call__", _script_call),
        Patch(torch._C.ScriptMethod, "__call__", _script_call),
        Patch(LEVEL, "apply", interception),
        *exporting(),
        *(detour(function, functools.partial(_packing, followed)) for function, followed in DETOURS),
        *_if_loaded(),
    ]


def exporting() -> list[Patch]:
    """PyTorch's own functions that say whether a model is being exported."""
    return [
        detour(torch.compiler.is_exporting, _true_while_exporting),
        detour(torch.onnx.is_in_onnx_export, _true_while_exporting),
    ]


def _if_loaded() -> Iterator[Patch]:
    higher_order = sys.modules.get("torch._higher_order_ops.utils")
    if hasattr(higher_order, "_hop_compile_and_call"):
        yield Patch(higher_order, "_hop_compile_and_call", _called_at_once)
    scans = sys.modules.get("torch._higher_order_ops.associative_scan")
    if hasattr(scans, "generic_associative_scan"):
        yield Patch(scans, "generic_associative_scan", associative_scan_of)


def _module_call(original: Any) -> Any:
    @functools.wraps(original)
    def scoped_call(module: torch.nn.Module, /, *args: Any, **kwargs: Any) -> Any:
        tracer = current()
        if tracer is None:
            return original(module, *args, **kwargs)
        tracer.scopes.enter(module)
        try:
            if isinstance(module, torch.jit.ScriptModule):
                return call_script(tracer, module, args, kwargs)
            if has_origins(module):
                return call_graph(tracer, module, args, kwargs)
            return original(module, *args, **kwargs)
        finally:
            tracer.scopes.leave()

    return scoped_call


def _script_call(original: Any) -> Any:
    def script_call(script: Any, /, *args: Any, **kwargs: Any) -> Any:
        tracer = current()
        return original(script, *args, **kwargs) if tracer is None else call_script(tracer, script, args, kwargs)

    return script_call


def _called_at_once(original: Any) -> Any:
    """torch.cond and its kin hand their functions to the compiler first; while tracing they come to us at once."""

    def called(function: Any, args: Any, kwargs: Any = None) -> Any:
        tracer = current()
        return original(function, args, kwargs) if tracer is None else call_at_once(tracer, function, args, kwargs)

    return called


def _true_while_exporting(original: Any) -> Any:
    return True if is_tracing() or runs_as_exported() is not None else original()


def _packing(followed: Any, original: Any, *args: Any, **kwargs: Any) -> Any:
    tracer = current()
    return original(*args, **kwargs) if tracer is None else followed(tracer, original, *args, **kwargs)
