"""Which function lowers which operator, and how the operator's arguments reach it.

    @lowers(aten.add.Tensor, aten.add.Scalar)          # from opset 9 on
    def add(g: Emitter, x: Value, y: Value | Number, alpha: Number = 1) -> Value: ...

    @lowers(aten.gelu.default, since=20)                # the newer opset sits just below the older one

Arguments are bound by the operator's schema, defaults filled in. What the schema allows by position is passed by
position (the lowering names its parameters as it likes); keyword-only arguments are passed by their schema name. A
lowering may leave out trailing or keyword-only arguments: a call that gives one of those a value other than its default
is refused by name, except for those that do not change the numbers (`memory_format`, `device`, ...).
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from onward.capture.program.facts import FunctionCall
from onward.errors import LoweringError
from onward.tables import place_of

__all__ = ["Lowering", "Registry", "lowers", "op_name", "registry"]

FIRST_OPSET = 9

# Arguments that say where a tensor lives, never what is in it.
IGNORABLE = frozenset({
    "memory_format", "layout", "device", "pin_memory", "non_blocking", "generator", "copy", "implicit", "is_coalesced",
})  # fmt: skip

Key = Any  # an operator's name "ns::name.overload", or a plain callable


def op_key(op: Any) -> Key:
    """One key per operator, however it is given."""
    if isinstance(op, torch._ops.OpOverload):
        return op._name if "." in op._name else f"{op._name}.default"
    if isinstance(op, torch._ops.OpOverloadPacket):
        overloads = ", ".join(f"{op}.{name}" for name in op.overloads())
        raise TypeError(f"{op} has several overloads; name the one you mean: {overloads}")
    if isinstance(op, str):
        if "::" not in op:
            raise ValueError(f'an operator\'s name looks like "aten::add.Tensor", not {op!r}')
        return op if "." in op.split("::", 1)[1] else f"{op}.default"
    if isinstance(op, torch._ops.HigherOrderOperator):
        return f"higher_order::{op.name()}.default"
    if callable(op):
        return op
    raise TypeError(f"expected an operator overload, a function or a name, not {op!r}")


def op_name(op: Any) -> str:
    """How messages and metadata call an operator: `aten.add.Tensor`, `operator.mul`."""
    if isinstance(op, FunctionCall):
        return op.__name__
    key = op_key(op)
    if isinstance(key, str):
        return key.replace("::", ".", 1)
    module = getattr(key, "__module__", None) or ""
    if module.startswith("onward."):  # what capture has beside ATen's operators
        return str(key.__name__)
    return f"{module.lstrip('_')}.{key.__name__}".lstrip(".")


@dataclass(frozen=True, slots=True)
class Argument:
    name: str
    default: Any  # inspect.Parameter.empty if required


@functools.cache
def _schema_arguments(op: torch._ops.OpOverload) -> tuple[tuple[Argument, ...], tuple[Argument, ...]]:
    """The arguments of a schema: by position, by keyword only."""
    positional: list[Argument] = []
    keyword: list[Argument] = []
    for argument in op._schema.arguments:
        default = argument.default_value if argument.has_default_value() else inspect.Parameter.empty
        (keyword if argument.kwarg_only else positional).append(Argument(argument.name, default))
    return tuple(positional), tuple(keyword)


@dataclass(frozen=True, slots=True)
class Signature:
    """What a lowering's own parameters accept, after the emitter."""

    names: tuple[str, ...]
    takes_rest: bool  # *args
    keywords: frozenset[str]
    takes_keywords: bool  # **kwargs


@functools.cache
def _signature(function: Callable[..., Any]) -> Signature:
    parameters = list(inspect.signature(function).parameters.values())[1:]
    kinds = inspect.Parameter
    return Signature(
        names=tuple(p.name for p in parameters if p.kind in (kinds.POSITIONAL_ONLY, kinds.POSITIONAL_OR_KEYWORD)),
        takes_rest=any(p.kind is kinds.VAR_POSITIONAL for p in parameters),
        keywords=frozenset(p.name for p in parameters if p.kind is kinds.KEYWORD_ONLY),
        takes_keywords=any(p.kind is kinds.VAR_KEYWORD for p in parameters),
    )


@dataclass(frozen=True, slots=True)
class Lowering:
    """A registered function: for opsets from `since` on, defined at `place`."""

    function: Callable[..., Any]
    since: int
    place: str

    def bind(self, op: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
        """The arguments as the function takes them, defaults filled in."""
        if not isinstance(op, torch._ops.OpOverload):
            return list(args), dict(kwargs)
        positional, keyword = _schema_arguments(op)
        signature = _signature(self.function)
        by_keyword = {argument.name for argument in keyword}
        own = [name for name in signature.names if name not in by_keyword]
        taken = len(positional) if signature.takes_rest else len(own)

        values: list[Any] = []
        for place, argument in enumerate(positional):
            value = args[place] if place < len(args) else kwargs.get(argument.name, argument.default)
            if value is inspect.Parameter.empty:
                raise LoweringError(f"{op_name(op)} is called without its argument {argument.name}")
            if place < taken:
                values.append(value)
            else:
                _refuse_unless_default(op, argument, value)

        named: dict[str, Any] = {}
        for argument in keyword:
            value = kwargs.get(argument.name, argument.default)
            if value is inspect.Parameter.empty:
                raise LoweringError(f"{op_name(op)} is called without its argument {argument.name}")
            if signature.takes_keywords or argument.name in signature.keywords or argument.name in signature.names:
                named[argument.name] = value
            else:
                _refuse_unless_default(op, argument, value)
        return values, named


def _refuse_unless_default(op: Any, argument: Argument, value: Any) -> None:
    if argument.name in IGNORABLE or value is argument.default:
        return
    if type(value) is type(argument.default) and value == argument.default:
        return
    if isinstance(value, (list, tuple)) and isinstance(argument.default, (list, tuple)):
        if list(value) == list(argument.default):
            return
    elif isinstance(value, (int, float)) and isinstance(argument.default, (int, float)) and value == argument.default:
        return
    raise LoweringError(f"{op_name(op)}: argument {argument.name}={value!r} is not supported", op=op_name(op))


class Registry:
    """Lowerings by operator and opset. A child's registrations come before its parent's.

    `of_complex` has those for calls with complex numbers; what a child registers is for real and complex ones.
    """

    def __init__(self, parent: Registry | None = None, of_complex: Registry | None = None) -> None:
        self.parent, self.of_complex = parent, of_complex
        self._table: dict[Key, dict[int, Lowering]] = {}

    def child(self) -> Registry:
        """A layer above this one, for registrations that concern one export."""
        return Registry(self)

    def register(
        self, op: Any, function: Callable[..., Any], since: int = FIRST_OPSET, *, replace: bool = False
    ) -> None:
        """Add a lowering. The same (operator, since) twice is an error unless `replace` says it is meant."""
        place = place_of(function)
        versions = self._table.setdefault(op_key(op), {})
        if since in versions and not replace:
            raise ValueError(
                f"{op_name(op)} has two lowerings since opset {since}: {versions[since].place} and {place}"
            )
        versions[since] = Lowering(function, since, place)

    def unregister(self, op: Any, since: int | None = None) -> None:
        """Remove what was registered in this layer: one version, or all of an operator."""
        versions = self._table.get(op_key(op), {})
        for version in [since] if since is not None else list(versions):
            versions.pop(version, None)

    def find(self, op: Any, opset: int, of_complex: bool = False) -> Lowering | None:
        """The lowering with the highest `since` not above the opset, from the nearest layer that has one."""
        if of_complex and self.of_complex is not None:
            return self.of_complex.find(op, opset)
        versions = self.versions(op)
        usable = [since for since in versions if since <= opset]
        if usable:
            return versions[max(usable)]
        return self.parent.find(op, opset, of_complex) if self.parent is not None else None

    def versions(self, op: Any) -> Mapping[int, Lowering]:
        """The lowerings of an operator in this layer alone, by the opset at which they begin."""
        return self._table.get(op_key(op), {})

    def has_lowering(self, op: Any, opset: int, of_complex: bool = False) -> bool:
        return self.find(op, opset, of_complex) is not None

    def available_since(self, op: Any) -> list[int]:
        """Every opset at which a lowering of the operator begins, in all layers."""
        own = set(self.versions(op))
        return sorted(own.union(self.parent.available_since(op) if self.parent else ()))

    def operators(self) -> list[str]:
        """The names of all operators with a lowering."""
        own = {op_name(key) for key, versions in self._table.items() if versions}
        return sorted(own.union(self.parent.operators() if self.parent else ()))

    def made_in(self, module: str) -> list[str]:
        """The operators whose lowerings are functions of a module, as "ns::name.overload"."""
        return [
            key
            for key, versions in self._table.items()
            if isinstance(key, str) and any(each.function.__module__ == module for each in versions.values())
        ]


complex_registry = Registry()  # filled by complex.py
registry = Registry(of_complex=complex_registry)


def lowers(*ops: Any, since: int = FIRST_OPSET) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register a function of onward itself as the lowering of operators, for opsets from `since` on.

    Functions of users go into a layer above: `onward.lowers`.
    """

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        for op in ops:
            registry.register(op, function, since)
        return function

    return decorate
