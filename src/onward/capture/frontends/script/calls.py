"""Calls of scripted functions and modules while a model is traced."""

from __future__ import annotations

from typing import Any

import torch

from ....errors import CaptureError
from ...bodies.traced_list import TracedNumbers
from ...ground.tree import flatten
from ...record.tracer import Tracer
from .columns import as_list
from .interpreter import Interpreter
from .lists import ScriptList, plain
from .named_tuples import with_names
from .optionals import Maybe


def call_script(tracer: Tracer, called: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
    """Run a script's graph in place of the script: `called` is a module, a function, or a module's method."""
    method = called._c._get_method("forward") if isinstance(called, torch.jit.ScriptModule) else called
    result = _given_back(tracer, _run(tracer, called, args, kwargs))
    returned = method.schema.returns
    return with_names(result, returned[0].type) if len(returned) == 1 else result


def _run(tracer: Tracer, called: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
    interpreter = Interpreter(tracer, tracer.script_attributes)
    if isinstance(called, torch.jit.ScriptModule):
        owner = called._c
        method = owner._get_method("forward")
        return interpreter.run(method.graph, [owner, *_bound(method.schema, args, kwargs, skip=1)])
    if isinstance(called, torch._C.ScriptMethod):
        return interpreter.run(called.graph, [called.owner, *_bound(called.schema, args, kwargs, skip=1)])
    return interpreter.run(called.graph, _bound(called.schema, args, kwargs, skip=0))


def _given_back(tracer: Tracer, result: Any) -> Any:
    """What Python gets: lists of the script become Python's, or the graph's own."""
    leaves, structure = flatten(plain(result))
    return structure.unflatten([_leaf(tracer, each) for each in leaves])


def _leaf(tracer: Tracer, value: Any) -> Any:
    if isinstance(value, ScriptList):
        rows = value.rows
        if rows is not None and rows.element.is_single:
            kind, column = rows.element.leaves[0], rows.only
            return TracedNumbers(kind, column) if isinstance(kind, type) else as_list(column, tracer)
        what, hint = "a list of tuples whose length depends on data", "return a list for every item of the tuples"
    elif isinstance(value, Maybe):
        what, hint = "a value that is None or not, depending on data", "return a tensor, and whether it counts"
    else:
        return value
    module = tracer.scopes.path or None
    raise CaptureError(f"a script returns {what}", source=tracer.where(), module=module, hint=hint)


def _bound(schema: Any, args: tuple, kwargs: dict[str, Any], skip: int) -> list[Any]:
    """All arguments in order, defaults filled in."""
    parameters = schema.arguments[skip:]
    values = list(args)
    for parameter in parameters[len(args) :]:
        if parameter.name in kwargs:
            values.append(kwargs[parameter.name])
        elif parameter.has_default_value():
            values.append(parameter.default_value)
        else:
            raise TypeError(f"{schema.name}() is missing the argument {parameter.name!r}")
    unknown = set(kwargs) - {parameter.name for parameter in parameters}
    if unknown or len(args) > len(parameters):
        raise TypeError(
            f"{schema.name}() got arguments that it does not take: {', '.join(sorted(unknown)) or len(args)}"
        )
    return values
