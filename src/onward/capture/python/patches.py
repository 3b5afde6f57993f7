"""Replacements of functions and values that belong to others, put in place for a while.

A place is patched once, however many ask for it: the first one puts the replacement there, the last one puts back what
was there before. If somebody else has replaced ours meanwhile, theirs stays: it may call ours, which then calls the
original.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

_MISSING: Any = object()


@dataclass(frozen=True, eq=False)
class Patch:
    """One place, and what shall stand there.

    owner   a module, a class, a function, or a dict (the globals of a file)
    name    the attribute, or the key
    make    the replacement, given what stands there otherwise; None if nothing does
    """

    owner: Any
    name: str
    make: Callable[[Any], Any]

    @property
    def key(self) -> tuple[int, str]:
        return id(self.owner), self.name

    def stored(self) -> Any:
        """What the owner itself has there: a descriptor where a class has one."""
        space: Mapping[str, Any] = self.owner if isinstance(self.owner, dict) else getattr(self.owner, "__dict__", {})
        if self.name == "__code__":  # a slot of every function
            return self.owner.__code__
        return space.get(self.name, _MISSING)

    def present(self) -> Any:
        """What one gets who asks for it; None if there is nothing."""
        return self.owner.get(self.name) if isinstance(self.owner, dict) else getattr(self.owner, self.name, None)

    def put(self, value: Any) -> None:
        if isinstance(self.owner, dict):
            if value is _MISSING:
                self.owner.pop(self.name, None)
            else:
                self.owner[self.name] = value
        elif value is _MISSING:
            delattr(self.owner, self.name)
        else:
            setattr(self.owner, self.name, value)


@dataclass
class _Entry:
    """A place that is patched at the moment."""

    patch: Patch  # it keeps the owner alive, so that its id is nobody else's
    before: Any
    ours: Any
    users: set[object] = field(default_factory=set)


_PLACES: dict[tuple[int, str], _Entry] = {}
_LOCK = threading.RLock()


@contextlib.contextmanager
def patched(patches: Iterable[Patch]) -> Iterator[None]:
    """Inside, the replacements are in place. Everything is as it was on any exit, an interrupt among them."""
    user, chosen = object(), list(patches)
    try:
        with _LOCK:
            for patch in chosen:
                _install(patch, user)
        yield
    finally:
        with _LOCK:
            for patch in reversed(chosen):
                _uninstall(patch, user)


def _install(patch: Patch, user: object) -> None:
    entry = _PLACES.get(patch.key)
    if entry is not None and not entry.users:  # an interrupt came while it was taken out
        _take_out(entry)
        entry = None
    if entry is None:
        entry = _Entry(patch, patch.stored(), patch.make(patch.present()), {user})
        _PLACES[patch.key] = entry
        patch.put(entry.ours)
    entry.users.add(user)


def _uninstall(patch: Patch, user: object) -> None:
    entry = _PLACES.get(patch.key)
    if entry is not None and user in entry.users:
        entry.users.discard(user)
        if not entry.users:
            _take_out(entry)


def _take_out(entry: _Entry) -> None:
    if entry.patch.stored() is entry.ours:
        entry.patch.put(entry.before)
    del _PLACES[entry.patch.key]


class ReplacedForGood:
    """Attributes of others' modules that a user asked us to replace, until he asks us to put them back."""

    def __init__(self) -> None:
        self._before: list[tuple[Patch, Any]] = []

    def put(self, owner: Any, name: str, value: Any) -> None:
        patch = Patch(owner, name, lambda _: value)
        self._before.append((patch, patch.stored()))
        patch.put(value)

    def put_back(self) -> None:
        while self._before:
            patch, value = self._before.pop()
            patch.put(value)
