"""One declaration for each exact step of evaluation: its schema, its kernel, the form of its result and its lowering.

    @exact
    def conv(x: Tensor, x_grid: Grid, w: Tensor, w_grid: Grid, bias: Tensor | None, at: Sliding) -> Tensor:
        ...                                                # the kernel: what evaluation computes

    @conv.shape
    def _(x, x_grid, w, w_grid, bias, at): ...             # an empty tensor of the form of the result; or a lambda

    @conv.lowers()
    def _(g, x, x_grid, w, w_grid, bias, at): ...          # the nodes that a file has for it

`conv` is then called like the kernel, and is one node of a captured program: an operator `torch.ops.onward.conv`, whose
schema follows from the annotations of the kernel. A dataclass such as `Grid` is several arguments of that operator,
one for each of its fields; kernel, shape and lowering get it whole. Lowerings get a `GridValues` for a `Grid`.
"""

from __future__ import annotations

import dataclasses
import inspect
import typing
from collections.abc import Callable
from typing import Any, Generic, NamedTuple, ParamSpec, TypeVar

import torch
from torch import Tensor

from ...lower import lowers
from ...lower.emitter import Value
from ..grids.grid import Grid

P = ParamSpec("P")
R = TypeVar("R")

_LIBRARY = torch.library.Library("onward", "DEF")
_TYPES: dict[Any, str] = {
    Tensor: "Tensor", Tensor | None: "Tensor?", int: "int", int | None: "int?", float: "float", bool: "bool",
    str: "str", list[int]: "int[]", list[Any]: "SymInt[]", tuple[Tensor, Tensor, Tensor]: "(Tensor, Tensor, Tensor)",
}  # fmt: skip


class GridValues(NamedTuple):
    """A grid in a graph: its scale is a value there. The form of a result is computed from such a grid, too, because a
    `Grid` looks into its scale."""

    scale: Value
    zero_point: int
    dtype: str
    low: int
    high: int
    axis: int | None


class Exact(Generic[P, R]):
    """A declared step. It is called like its kernel."""

    def __init__(self, kernel: Callable[P, R]) -> None:
        hints = typing.get_type_hints(kernel)
        self.kernel, self.name, self.__doc__ = kernel, kernel.__name__, kernel.__doc__
        self._defaults = {name: each.default for name, each in inspect.signature(kernel).parameters.items()}
        result = _TYPES[hints.pop("return")]
        self._parts = {name: _fields(kind) for name, kind in hints.items()}
        self._kinds = hints
        arguments = [
            f"{_TYPES[kind]} {name}{f'_{field}' if field else ''}"
            for name, parts in self._parts.items()
            for field, kind in parts.items()
        ]
        _LIBRARY.define(f"{self.name}({', '.join(arguments)}) -> {result}")
        run: Callable[..., R] = kernel
        _LIBRARY.impl(self.name, lambda *flat: run(*self._whole(flat)), "CompositeExplicitAutograd")
        self._operator = getattr(torch.ops.onward, self.name)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        flat: list[Any] = []
        for place, (name, fields) in enumerate(self._parts.items()):
            value = args[place] if place < len(args) else kwargs.get(name, self._defaults[name])
            flat += [value] if "" in fields else [getattr(value, field) for field in fields]
        result: R = self._operator(*flat)
        return result

    def shape(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Say what form the result has, where nothing is computed."""
        fake = lambda *flat: function(*self._whole(flat, GridValues))  # noqa: E731
        torch.library.register_fake(f"onward::{self.name}", fake, lib=_LIBRARY)
        return function

    def lowers(self, since: int = 9) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        """Say which nodes a file has for the step, from an opset on."""

        def register(function: Callable[..., Any]) -> Callable[..., Any]:
            def lower(g: Any, *flat: Any) -> Any:
                return function(g, *self._whole(flat, GridValues))

            lower.__name__, lower.__module__ = self.name, function.__module__
            lowers(self._operator.default, since=since)(lower)
            return function

        return register

    def _whole(self, flat: tuple[Any, ...], grid: type[Grid] | type[GridValues] = Grid) -> list[Any]:
        """The arguments of the kernel, made of those of the operator."""
        rest, found = iter(flat), []
        for name, fields in self._parts.items():
            values = [next(rest) for _ in fields]
            kind = grid if self._kinds[name] is Grid else self._kinds[name]
            found.append(values[0] if "" in fields else kind(*values))
        return found


def _fields(kind: Any) -> dict[str, Any]:
    """The arguments that an operator has for one argument of the kernel, by the ends of their names."""
    if not dataclasses.is_dataclass(kind):
        return {"": kind}
    hints = typing.get_type_hints(kind)
    return {field.name: hints[field.name] for field in dataclasses.fields(kind)}


def exact(kernel: Callable[P, R]) -> Exact[P, R]:
    """Declare a step by its kernel."""
    return Exact(kernel)
