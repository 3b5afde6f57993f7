"""Run the graph of a `torch.fx.GraphModule` on traced tensors, each node where the original model has it.

Generated code has no lines and no modules of its own. But its nodes say which line and which module they were made of
(`stack_trace`, `nn_module_stack`), so they are run one by one, with that said to the tracer.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeGuard

import torch
from torch import fx
from torch._ops import HigherOrderOperator
from torch.fx.graph import _PyTreeCodeGen
from torch.utils import _pytree as pytree

from ...errors import CaptureError
from ..ground.module_kinds import is_generated
from ..ground.source import NOWHERE, at_source, in_python, is_library_file
from ..program.facts import ModuleCall, Scope, Source
from ..record.tracer import Tracer
from .front_end import PythonModel, Run

aten = torch.ops.aten
GUARDS = "_guards_fn"  # the module in which torch.export keeps its checks of the inputs
_CHECKS = (
    "_assert_async", "_assert_scalar", "_assert_tensor_metadata", "sym_constrain_range", "sym_constrain_range_for_size",
)  # fmt: skip
_ROOT = "_export_root"  # what torch.export(strict=True) calls the model inside of branches and loops
_FRAME = re.compile(r'File "([^"]+)", line (\d+), in (\S+)')


class GraphModule(PythonModel):
    """A `torch.fx.GraphModule`: its graph is run instead of its code, if the graph says where the code came from."""

    is_slow_to_copy = True

    def takes(self, model: Any) -> bool:
        return is_generated(model)

    def run(self, module: Any) -> Run | None:
        return call_graph if has_origins(module) else None


def has_origins(module: Any) -> TypeGuard[fx.GraphModule]:
    """A module of generated code, nothing around it, whose nodes say what they were made of."""
    if not is_generated(module) or not _has_generated_code(module):
        return False
    hooks = [*module._forward_hooks.values(), *module._forward_pre_hooks.values()]
    if any(not hook.__module__.startswith("torch.") for hook in hooks):
        return False
    return any("stack_trace" in node.meta or "nn_module_stack" in node.meta for node in module.graph.nodes)


def _has_generated_code(module: fx.GraphModule) -> bool:
    code = getattr(module.forward, "__code__", None)
    return code is not None and code.co_filename.startswith("<")


def call_graph(tracer: Tracer, module: fx.GraphModule, args: tuple, kwargs: dict[str, Any]) -> Any:
    """Run a module's graph in place of its generated code."""
    bound = inspect.signature(module.forward).bind(*args, **kwargs)
    bound.apply_defaults()
    codegen = module.graph._codegen
    inputs = list(bound.args)
    if isinstance(codegen, _PyTreeCodeGen):
        inputs = pytree.tree_leaves(nested_like(codegen.pytree_info.in_spec, inputs))
    with at_source(NOWHERE):
        return GraphRun(tracer).run(module, inputs)


def nested_like(spec: pytree.TreeSpec, arguments: Sequence[Any]) -> Any:
    """Arguments in order, as (args, kwargs) where a program knows its arguments so."""
    parts = spec.children()
    if spec.type is not tuple or [part.type for part in parts] != [tuple, dict]:
        return tuple(arguments)
    count = parts[0].num_children
    return tuple(arguments[:count]), dict(zip(parts[1].context, arguments[count:], strict=True))


class GraphRun:
    """One call of a graph, and of the graphs inside it."""

    def __init__(self, tracer: Tracer) -> None:
        self._tracer = tracer
        self._outside, self._outer_call = tracer.scopes.current, tracer.scopes.call
        self._known: dict[tuple[str, ...], tuple[Scope, ModuleCall | None]] = {}

    def run(self, module: fx.GraphModule, inputs: Sequence[Any]) -> Any:
        """The results for inputs in the order of the placeholders."""
        given = iter(inputs)
        values: dict[fx.Node, Any] = {}
        waiting = {node: len(node.users) for node in module.graph.nodes}
        for node in module.graph.nodes:
            if node.op == "placeholder":
                values[node] = next(given, *node.args)
            elif node.op == "output":
                return module.graph.process_outputs(fx.map_arg(node.args[0], values.__getitem__))
            else:
                with self._where(node):
                    values[node] = self._step(module, node, values)
            for each in node.all_input_nodes:
                waiting[each] -= 1
                if not waiting[each]:
                    del values[each]
        raise ValueError("the graph has no output")

    def _step(self, module: fx.GraphModule, node: fx.Node, values: dict[fx.Node, Any]) -> Any:
        args, kwargs = fx.map_arg((node.args, node.kwargs), values.__getitem__)
        if node.op == "get_attr":
            found: Any = functools.reduce(getattr, str(node.target).split("."), module)
            return functools.partial(self._body, found) if isinstance(found, fx.GraphModule) else found
        if node.op == "call_method":
            return getattr(args[0], str(node.target))(*args[1:], **kwargs)
        if node.op == "call_module":
            if node.target == GUARDS:
                return None
            called = module.get_submodule(str(node.target))
            own_code = not type(called).__module__.startswith("torch.")
            with in_python() if own_code else contextlib.nullcontext():
                return called(*args, **kwargs)
        if _is_check(node.target):
            return None
        if isinstance(node.target, HigherOrderOperator):
            return self._higher_order(node.target, args, kwargs)
        return node.target(*args, **kwargs)  # type: ignore[operator]

    def _higher_order(self, op: HigherOrderOperator, args: tuple, kwargs: dict[str, Any]) -> Any:
        if op.name() in _WRAPPERS:
            return _WRAPPERS[op.name()](*args, **kwargs)
        if op.name().startswith("auto_functionalized"):
            raise CaptureError(
                f"{args[0]} changes a tensor in place and has no functional form",
                op=str(args[0]),
                source=self._tracer.where(),
                module=self._tracer.scopes.path or None,
                hint="use an operator that returns the changed tensor in the model",
            )
        return op(*args, **kwargs)

    def _body(self, module: fx.GraphModule, *inputs: Any) -> Any:
        """A graph inside: its nodes say where they were, counted from the same place."""
        return self.run(module, module.graph.process_inputs(*inputs))

    # --- where a node comes from -----------------------------------------------------------------------------------
    @contextlib.contextmanager
    def _where(self, node: fx.Node) -> Iterator[None]:
        stack = node.meta.get("nn_module_stack")
        if not stack or any(key.startswith("_empty") for key in stack):
            with at_source(source_of(node)):
                yield
            return
        entries = list(stack.items())
        if node.op == "call_module":
            entries.pop()  # the module itself, which comes by being called
        scope, call = self._scope(entries)
        with at_source(source_of(node)), self._tracer.scopes.inside(scope, call):
            yield

    def _scope(self, entries: list[tuple[str, tuple[str, Any]]]) -> tuple[Scope, ModuleCall | None]:
        key = tuple(name for name, _ in entries)
        if not entries:
            return self._outside, self._outer_call
        if key not in self._known:
            outer, outer_call = self._scope(entries[:-1])
            path, kind = entries[-1][1]
            path = path.split("@")[0].removeprefix(_ROOT).lstrip(".")
            if path:
                whole = f"{self._outside.path}.{path}".lstrip(".")
                local = whole.removeprefix(f"{outer.path}.") if outer.path else whole
                outer = Scope(whole, (*outer.classes, (local, class_name(kind))))
                outer_call = ModuleCall(outer, _class(kind), outer_call)
            self._known[key] = outer, outer_call
        return self._known[key]


def source_of(node: fx.Node) -> Source | None:
    """The innermost line of the user's own that a node was made at."""
    for file, line, function in reversed(_FRAME.findall(node.meta.get("stack_trace") or "")):
        if not is_library_file(file):
            return Source(file, int(line), function)
    return None


def class_name(kind: Any) -> str:
    """`torch.nn.modules.linear.Linear`, as text or as the class itself."""
    return str(getattr(kind, "__name__", kind)).rsplit(".", 1)[-1]


@functools.cache
def _class(kind: Any) -> type:
    """The class of that name, if it is known in this process; a stand-in otherwise."""
    if isinstance(kind, type):
        return kind
    home, _, name = str(kind).rpartition(".")
    found = getattr(sys.modules.get(home), name, None)
    return found if isinstance(found, type) else type(name, (torch.nn.Module,), {})


# Operators around a graph that only matter to a compiler or to gradients: what they mean for the values.
_WRAPPERS: dict[str, Callable[..., Any]] = {
    "invoke_subgraph": lambda body, identifier, *operands: body(*operands),
    "strict_mode": lambda body, operands: body(*operands),
    "hints_wrapper": lambda body, operands, named, hints: body(*operands, **named),
    "tag_activation_checkpoint": lambda body, *operands, **options: body(*operands),
    "wrap_activation_checkpoint": lambda body, *operands, **options: body(*operands),
    "with_effects": lambda token, op, *args, **kwargs: (token, *_as_tuple(op(*args, **kwargs))),
}


def _as_tuple(value: Any) -> tuple[Any, ...]:
    return value if isinstance(value, tuple) else (value,)


def _is_check(target: Any) -> bool:
    """Checks of sizes and numbers: they hold for whoever keeps to the program's bounds."""
    name = getattr(target, "_opname", None) or getattr(target, "__name__", "")
    return name in _CHECKS or target is torch._check
