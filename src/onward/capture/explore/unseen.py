"""What the other side of a later decision takes from before it: a branch has to know what stands for it."""

from __future__ import annotations

from typing import Any

from .branches import Meeting, meet
from .items import CannotExplore, Decision, Op, Raw, Ref, SizeOf, Turn, leaf_key, refs_in, replaced


def is_seen(run: Raw, at: int, other: Raw, known: set[int], meeting: Meeting) -> bool:
    """Whether all that the other side of a decision takes is known to stand for something.

    `other` is the run that takes that side, `known` are the values from before the meeting of an earlier branch, and
    `meeting` says what stands for them there. If so, nothing new is to be seen on that side.
    """
    try:
        side = meet(run, other, at)
    except CannotExplore:
        return False
    items = other.items[at + 1 : len(other.items) - side.common]
    taken = [leaf for item in items if isinstance(item, Op) for leaf in _leaves((item.args, item.kwargs))]
    taken += [leaf for item in items if isinstance(item, Decision) for leaf in _leaves(item.predicate)]
    taken += [leaf for item in items if isinstance(item, Turn) for leaf in _leaves(item.count)]
    taken += [there for key, there in side.values.items() if leaf_key(there) != key]
    return all(leaf_key(leaf) in meeting.values or any(value not in known for value in refs_in(leaf)) for leaf in taken)


def _leaves(template: Any) -> list[Any]:
    """The leaves of a template that stand for tensors or numbers."""
    found: list[Any] = []

    def note(leaf: Any) -> Any:
        leaf = Ref(leaf.value) if type(leaf) is SizeOf else leaf
        if leaf_key(leaf) is None:
            return None
        found.append(leaf)
        return leaf

    replaced(template, note)
    return found
