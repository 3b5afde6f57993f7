"""Everything that must be in place while a model is traced, put in place and taken back by one context manager.

Thread-local: the dispatch mode, the function mode, the excluded dispatch keys. Process-wide: `is_exporting`, the hook
on `Module.__call__`, the attention fast path, `min` and `max`, `apply` of autograd Functions. A lock admits one trace
at a time, and the process-wide parts look at the thread, or at their arguments, before they act: a model in another
thread is not disturbed.
"""

from __future__ import annotations

import builtins
import contextlib
import importlib
import sys
import threading
from collections.abc import Iterator
from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes

from . import counts, multihead, python_side  # noqa: F401  (they register their interceptions)
from .autograd_functions import intercepted
from .graph_modules import call_graph, has_origins
from .higher_order import associative_scan_of, call_at_once
from .intercepts import INTERCEPTS
from .model import without_fast_path
from .numbers_of_sizes import number_extremes
from .script import call_script
from .sizes import symbolic_divmod, symbolic_extremes
from .tensor import Traced
from .tracer import Tracer

_LOCK = threading.RLock()
_ACTIVE = threading.local()


def is_capturing() -> bool:
    """Whether this thread is tracing a model at this moment."""
    return getattr(_ACTIVE, "tracer", None) is not None


def followed(tensor: torch.Tensor) -> torch.Tensor:
    """A constant that is followed like an input while a model is traced: what is computed from it is recorded.

    For what shall stay in the file as it is, where folding would lose something: weights of few bits.
    """
    tracer = getattr(_ACTIVE, "tracer", None)
    if tracer is None or isinstance(tensor, Traced):
        return tensor
    with _disable_current_modes():
        return tracer.plain.lift(tensor)


def writes_in_trace(tensor: torch.Tensor) -> int | None:
    """How often the memory of a tensor was written to since this thread traces a model, as far as that is recorded;
    None if it does not. Autograd's own count, `tensor._version`, stands still meanwhile."""
    tracer = getattr(_ACTIVE, "tracer", None)
    if tracer is None:
        return None
    if isinstance(tensor, Traced):
        return tensor.cell.version
    writes: int = tracer.plain.writes_to(tensor)
    return writes


class _Follow(TorchDispatchMode):
    """Brings every op to the tracer, also those with nothing traced among their arguments."""

    def __init__(self, tracer: Tracer) -> None:
        super().__init__()
        self._tracer = tracer

    supports_higher_order_operators = True

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """No guard against torch.compile around our handler: it would import the compiler, seconds of it."""
        return False

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple = (), kwargs: dict[str, Any] | None = None) -> Any:
        return self._tracer.dispatch(func, args, kwargs or {})


class _Intercept(TorchFunctionMode):
    """A level above the dispatcher: the few calls that have lost information by the time they reach it."""

    def __init__(self, tracer: Tracer) -> None:
        super().__init__()
        self._tracer = tracer

    def __torch_function__(self, func: Any, types: Any, args: tuple = (), kwargs: dict[str, Any] | None = None) -> Any:
        kwargs = kwargs or {}
        intercept = INTERCEPTS.get(func)
        if intercept is not None:
            result = intercept(self._tracer, func, args, kwargs)
            if result is not NotImplemented:
                return result
        return func(*args, **kwargs)


@contextlib.contextmanager
def _both(tracer: Tracer) -> Iterator[None]:
    with _Follow(tracer), _Intercept(tracer):
        yield


def _pytorchs_export_flags() -> Any:
    """The module in which PyTorch's exporter notes that it is at work, if this version has it."""
    try:
        return importlib.import_module("torch.onnx._internal.exporter._flags")
    except ImportError:
        return None


class _Here:
    """True in the thread that is tracing: what `torch.onnx.is_in_onnx_export()` finds in PyTorch's flag meanwhile."""

    def __bool__(self) -> bool:
        return is_capturing()


def _below_autograd() -> Any:
    """Skip autograd and version counting, so that composite ops (conv2d, linear, lstm) arrive whole."""
    keys = torch._C.DispatchKeySet(torch._C.DispatchKey.ADInplaceOrView)
    for name in ("AutogradCPU", "AutogradCUDA", "AutogradMeta", "AutogradOther", "AutogradFunctionality"):
        keys = keys | torch._C.DispatchKeySet(getattr(torch._C.DispatchKey, name))
    return torch._C._ExcludeDispatchKeyGuard(keys)


@contextlib.contextmanager
def _process_wide(tracer: Tracer) -> Iterator[None]:
    thread = threading.get_ident()
    call = torch.nn.Module.__call__
    exporting = torch.compiler._is_exporting_flag
    flags = _pytorchs_export_flags()
    in_onnx_export = getattr(flags, "_is_onnx_exporting", False)

    def scoped_call(module: torch.nn.Module, /, *args: Any, **kwargs: Any) -> Any:
        if threading.get_ident() != thread:
            return call(module, *args, **kwargs)
        tracer.scopes.enter(module)
        try:
            if isinstance(module, torch.jit.ScriptModule):
                return call_script(tracer, module, args, kwargs)
            if has_origins(module):
                return call_graph(tracer, module, args, kwargs)
            return call(module, *args, **kwargs)
        finally:
            tracer.scopes.leave()

    def scripted(kind: Any) -> Any:
        original = kind.__call__

        def script_call(script: Any, /, *args: Any, **kwargs: Any) -> Any:
            if threading.get_ident() != thread:
                return original(script, *args, **kwargs)
            return call_script(tracer, script, args, kwargs)

        return original, script_call

    functions, methods = scripted(torch._C.ScriptFunction), scripted(torch._C.ScriptMethod)

    higher_order = sys.modules.get("torch._higher_order_ops.utils")
    compile_first = getattr(higher_order, "_hop_compile_and_call", None)

    def called_at_once(function: Any, args: Any, kwargs: Any = None) -> Any:
        """torch.cond and its kin hand their functions to the compiler first; while tracing they come to us at once."""
        if threading.get_ident() != thread:
            return compile_first(function, args, kwargs)  # type: ignore[misc]
        return call_at_once(tracer, function, args, kwargs)

    scans = sys.modules.get("torch._higher_order_ops.associative_scan")
    scan = getattr(scans, "generic_associative_scan", None)
    smallest, largest, divide = builtins.min, builtins.max, builtins.divmod
    try:
        if scan is not None:
            scans.generic_associative_scan = associative_scan_of(tracer, scan)  # type: ignore[union-attr]
        if compile_first is not None:
            higher_order._hop_compile_and_call = called_at_once  # type: ignore[union-attr]
        builtins.min, builtins.max = symbolic_extremes(smallest, largest)
        if tracer.sizes_as_numbers:
            builtins.min, builtins.max = number_extremes(builtins.min, builtins.max)
        builtins.divmod = symbolic_divmod(divide)
        torch.nn.Module.__call__ = scoped_call  # type: ignore[method-assign]
        torch._C.ScriptFunction.__call__, torch._C.ScriptMethod.__call__ = functions[1], methods[1]  # type: ignore[method-assign]
        torch.compiler._is_exporting_flag = True
        if flags is not None:
            flags._is_onnx_exporting = _Here()
        yield
    finally:
        if scan is not None:
            scans.generic_associative_scan = scan  # type: ignore[union-attr]
        if compile_first is not None:
            higher_order._hop_compile_and_call = compile_first  # type: ignore[union-attr]
        builtins.min, builtins.max, builtins.divmod = smallest, largest, divide
        torch.nn.Module.__call__ = call  # type: ignore[method-assign]
        torch._C.ScriptFunction.__call__, torch._C.ScriptMethod.__call__ = functions[0], methods[0]  # type: ignore[method-assign]
        torch.compiler._is_exporting_flag = exporting
        if flags is not None:
            flags._is_onnx_exporting = in_onnx_export


@contextlib.contextmanager
def session(tracer: Tracer) -> Iterator[None]:
    """Inside, ops that touch the tracer's tensors are recorded. Everything is undone on any exit."""
    with _LOCK:
        outer = getattr(_ACTIVE, "tracer", None)
        _ACTIVE.tracer = tracer
        tracer.mode_again = lambda: _Follow(tracer)  # type: ignore[method-assign]
        tracer.model_again = lambda: _both(tracer)  # type: ignore[method-assign]
        try:
            with (
                _process_wide(tracer),
                without_fast_path(),
                intercepted(tracer),
                torch.no_grad(),
                _below_autograd(),
                _Follow(tracer),
                _Intercept(tracer),
            ):
                yield
        finally:
            _ACTIVE.tracer = outer
