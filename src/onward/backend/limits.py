"""How much a model may take: a file of a hundred bytes can ask for a terabyte, or for a loop without an end.

Sizes are known before memory is taken. An operator whose inputs are small cannot make anything large unless it reads
sizes from them (Expand, Range, ...); all others run under a watch that asks PyTorch's shape rules for the size of every
tensor that is about to be made. An operator that has been watched once runs freely on inputs of the same shapes, so in
the second run of a model little is left of this.
"""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map_only

from ..errors import BackendError, InputError
from ._by_shapes import BY_SHAPES, NESTED
from ._memory import available_bytes, resident_bytes

_SMALL = 2**24  # elements: what needs no watch
_MUCH = 2**26  # bytes: what is compared with the memory that is left
_CHARACTER = 16  # elements that a character counts for
FOR_EACH = 1024  # elements that a step of a Python loop counts for
_MOST_REMEMBERED = 100_000


@dataclass(frozen=True)
class Limits:
    """What `prepare` and `run` allow a model. Exceeding one is a BackendError that names the node.

    max_elements     of one tensor; each character of a string counts for 16
    max_bytes        that a run may add to the process's memory, and that the weights may have; None is four fifths of
                     what the machine has left
    max_nodes        that are run, with every call of a function written out
    max_loop_turns   of all loops together
    max_seconds      of one run; looked at between nodes. None is no limit
    """

    max_elements: int = 2**33
    max_bytes: int | None = None
    max_nodes: int = 500_000
    max_loop_turns: int = 1_000_000
    max_seconds: float | None = None

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            whole = field.name != "max_seconds"
            if value is None and field.name in ("max_bytes", "max_seconds"):
                continue
            if isinstance(value, bool) or not isinstance(value, int if whole else (int, float)) or value <= 0:
                raise InputError(f"{field.name} is a positive number, not {value!r}")

    def check_weight(self, name: str, elements: int, total_bytes: int) -> None:
        """One weight's elements, and the bytes of all up to it."""
        if elements > self.max_elements:
            raise _exceeded(f"the weight {name!r} has {elements} elements{_allowed(self.max_elements)}")
        most = self.max_bytes if self.max_bytes is not None else available_bytes()
        if total_bytes > most:
            raise _exceeded(f"the weights up to {name!r} have {total_bytes} bytes{_allowed(most)}")


DEFAULT = Limits()
_HINT = "if it is meant to, allow more: prepare(model, limits=onward.backend.Limits(...))"


def _exceeded(what: str) -> BackendError:
    error = BackendError(what, hint=_HINT)
    error.exceeds_limit = True
    return error


def _allowed(most: int) -> str:
    return f", more than the {most} that are allowed"


class Guard:
    """One run's account. `remembered` are the calls that have been watched, kept from run to run."""

    def __init__(self, limits: Limits, remembered: set[Any]) -> None:
        self._limits, self._remembered = limits, remembered
        self._turns = 0
        self._fresh = 0  # bytes of results since memory was looked at
        self._most_bytes: int | None = None
        self._before = 0
        self._until = None if limits.max_seconds is None else time.monotonic() + limits.max_seconds

    def call(self, step: Any, arguments: Sequence[Any], attributes: Mapping[str, Any]) -> Any:
        """What the step's function gives."""
        self._check_time()
        if step.bodies or step.op == NESTED:
            result = step.function(*arguments, **attributes)
        else:
            key = _signature(step, arguments) if step.op in BY_SHAPES else None
            if key is not None and (key in self._remembered or _is_small(step, arguments)):
                result = step.function(*arguments, **attributes)
            else:
                _check_strings(arguments, self)
                with _Watch(self) as watch:
                    result = step.function(*arguments, **attributes)
                if key is not None and watch.largest < _MUCH:
                    self._remember(key)
        for each in result if isinstance(result, tuple) else (result,):
            self._account(each)
        return result

    def turn(self, count: int = 1) -> None:
        """A loop goes round."""
        self._turns += count
        if self._turns > self._limits.max_loop_turns:
            raise _exceeded(f"the loops take more than {self._limits.max_loop_turns} turns")
        self._check_time()

    def turns_ahead(self, count: float) -> None:
        """A loop is known to go round so often: there is no need to wait for it."""
        if self._turns + count > self._limits.max_loop_turns:
            raise _exceeded(f"the loops take more than {self._limits.max_loop_turns} turns")

    def check_elements(self, count: float) -> None:
        if count > self._limits.max_elements:
            raise _exceeded(f"a tensor of {int(count)} elements{_allowed(self._limits.max_elements)}")

    def check_bytes(self, more: int) -> None:
        """Compare with the memory that the run may take; `more` are about to be taken."""
        if self._most_bytes is None:
            given = self._limits.max_bytes
            self._before = resident_bytes()
            self._most_bytes = available_bytes() if given is None else given
        taken = max(0, resident_bytes() - self._before)
        if taken + more > self._most_bytes:
            raise _exceeded(f"the run takes {taken + more} bytes{_allowed(self._most_bytes)}")
        self._fresh = 0

    def _check_time(self) -> None:
        if self._until is not None and time.monotonic() > self._until:
            raise _exceeded(f"the run takes more than {self._limits.max_seconds} seconds")

    def _remember(self, key: Any) -> None:
        if len(self._remembered) >= _MOST_REMEMBERED:
            self._remembered.clear()
        self._remembered.add(key)

    def _account(self, value: Any) -> None:
        if isinstance(value, torch.Tensor):
            self.check_elements(value.numel())
            self._fresh += value.nbytes
            if self._fresh > 4 * _MUCH:
                self.check_bytes(0)
        elif isinstance(value, np.ndarray) and value.dtype == object:
            self.check_elements(_CHARACTER * sum(map(len, value.ravel().tolist())) + value.size)
        elif isinstance(value, list):
            self.check_elements(len(value))


_ACTIVE: ContextVar[Guard | None] = ContextVar("onward_backend_guard", default=None)


def active() -> Guard | None:
    """The guard of the run that is going on; none where the module is called, compiled or exported as it is."""
    return None if torch.compiler.is_compiling() else _ACTIVE.get()


@contextlib.contextmanager
def guarded(guard: Guard) -> Iterator[None]:
    token = _ACTIVE.set(guard)
    try:
        yield
    finally:
        _ACTIVE.reset(token)


def turn(count: int = 1) -> None:
    """Called by operators that loop."""
    guard = active()
    if guard is not None:
        guard.turn(count)


def turns_ahead(count: float) -> None:
    """Called by loops that are known to go on for so many turns."""
    guard = active()
    if guard is not None:
        guard.turns_ahead(count)


def about_to_make(*sizes: Any) -> None:
    """Called by operators before they take memory that is not PyTorch's, or do something for each of many elements."""
    guard = active()
    if guard is not None:
        count = math.prod(max(0, size) for size in sizes)
        guard.check_elements(count)
        if count * 8 > _MUCH:
            guard.check_bytes(int(count) * 8)


# Whether a call can be large at all


def _signature(step: Any, arguments: Sequence[Any]) -> Any:
    """What the sizes of the results depend on; None where shapes do not say it."""
    found: list[Any] = [id(step)]
    for each in arguments:
        if isinstance(each, torch.Tensor):
            found.append(each.shape)
        elif each is None or isinstance(each, (int, float, tuple)):
            found.append(each)
        else:
            return None
    return tuple(found)


def _is_small(step: Any, arguments: Sequence[Any]) -> bool:
    """Whether even every element of one input with every element of all others would not be much."""
    count = step.growth
    for each in arguments:
        if isinstance(each, torch.Tensor):
            count *= each.numel() or 1
    return count <= _SMALL and all(each is None or isinstance(each, torch.Tensor) for each in arguments)


def growth(attributes: Mapping[str, Any]) -> float:
    """By how much attributes (pads, kernels, scales) can make results larger than the inputs are."""
    total = 1.0
    for value in attributes.values():
        for item in value if isinstance(value, (list, tuple)) else (value,):
            if isinstance(item, (int, float)):
                total *= 1 + min(abs(item), 2.0**64) if item == item else 1
        if total > _SMALL:
            return math.inf
    return total


def _check_strings(arguments: Sequence[Any], guard: Guard) -> None:
    """numpy takes the memory for strings, and tells nobody before."""
    arrays = [each for each in arguments if isinstance(each, np.ndarray)]
    if len(arrays) < 2:
        return
    with contextlib.suppress(ValueError):
        count = math.prod(np.broadcast_shapes(*(each.shape for each in arrays)))
        longest = sum(max(map(len, each.ravel().tolist()), default=0) for each in arrays)
        guard.check_elements(count * (1 + _CHARACTER * longest))


class _Watch(TorchDispatchMode):
    """Every tensor's size, before it is made."""

    def __init__(self, guard: Guard) -> None:
        super().__init__()
        self._guard = guard
        self.largest = 0

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # otherwise PyTorch 2.13 imports all of torch._dynamo with the first call, which takes seconds

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        elements, size = _result_of(func, args, kwargs)
        self._guard.check_elements(elements)
        self.largest = max(self.largest, size)
        if size > _MUCH:
            self._guard.check_bytes(size)
        return func(*args, **kwargs)


def _result_of(func: Any, args: Any, kwargs: Any) -> tuple[int, int]:
    """Elements of the largest result, bytes of all: by PyTorch's rules for tensors without content."""
    name = func._schema.name
    if name in _COUNTED:
        count = _COUNTED[name](*args, **kwargs)
        return count, count * 8
    if func._schema.is_mutable:
        return 0, 0
    try:
        given, named = tree_map_only(torch.Tensor, _without_content, (args, kwargs))
        makes = not any(isinstance(each, torch.Tensor) for each in tree_leaves(given))
        if "device" in named or (makes and any(each.name == "device" for each in func._schema.arguments)):
            named["device"] = torch.device("meta")
        named.update((name, None) for name in ("generator", "pin_memory") if name in named)
        results = tree_leaves(func(*given, **named))
    except Exception:  # there is no rule, or the call is wrong, which the call itself says better
        return 0, 0
    tensors = [each for each in results if isinstance(each, torch.Tensor)]
    elements = max((each.numel() for each in tensors), default=0)
    return elements, 0 if func.is_view else sum(each.nbytes for each in tensors)


def _without_content(x: torch.Tensor) -> torch.Tensor:
    return torch.empty_strided(x.size(), x.stride(), dtype=x.dtype, device="meta")


def _bincount(x: torch.Tensor, weights: Any = None, minlength: int = 0) -> int:
    return max(minlength, int(x.max()) + 1 if x.numel() else 0)


def _repeated(x: torch.Tensor, *rest: Any, output_size: int | None = None) -> int:
    repeats = rest[0] if rest and isinstance(rest[0], torch.Tensor) else x
    return int(repeats.sum())


_COUNTED: dict[str, Callable[..., int]] = {
    "aten::bincount": _bincount,
    "aten::repeat_interleave": _repeated,
    "aten::histc": lambda x, bins=100, *rest, **named: bins,
    "aten::unbind": lambda x, dim=0: 1024 * x.shape[dim] if x.dim() else 0,
    "aten::split": lambda x, size, dim=0: 1024 * (x.shape[dim] // max(1, size)) if isinstance(size, int) else 0,
}
