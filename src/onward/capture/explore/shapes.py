"""How large the results of a run are, for another run to follow.

A run with a forced answer to a question about sizes computes with sizes that would not have come this way: where the
model pads what is odd, an even size becomes odd, and nothing behind it fits any more. So results get the sizes that the
same operators gave at the same places of the run that it is compared with, at every probe and point. Values mean
nothing in such a run, and neither do sizes: only its operators and their arguments count.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

import torch

from ..memory.tensor import Traced, computed
from ..program.facts import TensorFact
from ..record.tracer import Tracer
from .items import At

Key = tuple[Any, ...]  # the operator, the module, the place, and the turns of the loops around it
# A dtype, each size (one number, or those at probes and points), and the points that say nothing.
Known = tuple[torch.dtype, tuple[Any, ...], frozenset[int]] | None


@functools.cache
def is_in_place(op: Any) -> bool:
    """Whether an operator gives back its first argument, which it has written to."""
    schema = getattr(op, "_schema", None)
    if schema is None or not schema.arguments or len(schema.returns) != 1:
        return False
    given, returned = schema.arguments[0].alias_info, schema.returns[0].alias_info
    return given is not None and given.is_write and returned is not None


def _key(op: Any, at: At, turns: tuple[int, ...]) -> Key:
    return op, at.scope.path, at.place, turns


class Shapes:
    """The sizes of what one run makes, and those of another run that it is to follow."""

    def __init__(self, tracer: Tracer, wanted: Mapping[Key, list[Known]] | None) -> None:
        self._tracer, self._wanted = tracer, {key: list(known) for key, known in (wanted or {}).items()}
        self.made: dict[Key, list[Known]] = {}
        self._dead: frozenset[int] = frozenset()

    def computed(self, op: Any, at: At, turns: tuple[int, ...], call: Callable[[], Any], *, astray: bool) -> Any:
        """What an operator gives; where it refuses sizes that would not have come this way, something of that size."""
        try:
            return call()
        except Exception:
            wanted = self._wanted.get(_key(op, at, turns))
            if not wanted or wanted[0] is None or not astray:
                raise
            return self._as(wanted[0], None)

    def followed(self, op: Any, at: At, turns: tuple[int, ...], result: Any, *, astray: bool) -> Any:
        """A result in the size that the other run has seen, if this run has left the example's way."""
        key = _key(op, at, turns)
        wanted = self._wanted.get(key)
        known = wanted.pop(0) if wanted else None
        if isinstance(result, Traced) and astray and known is not None and not is_in_place(op):
            now = self._known(result)
            if now is not None and len(known[1]) == result.dim() and now[:2] != known[:2]:
                result = self._as(known, result)
        self.made.setdefault(key, []).append(self._known(result) if isinstance(result, Traced) else None)
        return result

    def _known(self, tensor: Traced) -> Known:
        """None where a size depends on data: what it is in another run says nothing."""
        fact, dims = tensor.fact, self._tracer.dims
        if any(not isinstance(dim, int) and dims.is_of_data(dim.values) for dim in fact.shape):
            return None
        if self._dead != dims.dead:
            self._dead = frozenset(dims.dead)
        return fact.dtype, tuple(dim if isinstance(dim, int) else dim.values for dim in fact.shape), self._dead

    def _as(self, known: tuple[torch.dtype, tuple[Any, ...], frozenset[int]], result: Traced | None) -> Traced:
        dtype, sizes, dead = known
        dims = self._tracer.dims
        dims.refuse(dead)
        fact = TensorFact(dtype, tuple(each if isinstance(each, int) else dims.dim(each) for each in sizes))
        example = torch.zeros([each if isinstance(each, int) else each[0] for each in sizes], dtype=dtype)
        tracer = self._tracer
        node = tracer.graph.create_node("call_function", torch.zeros, ()) if result is None else result.node
        node.meta.update(val=fact, scope=tracer.scopes.current, source=None)
        return computed(tracer, node, fact, example)
