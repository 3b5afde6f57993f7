"""What a study asks of handlers: to round some things alone, and to show the weights."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from torch import Tensor

if TYPE_CHECKING:
    from .session import Session


def siteless(path: str) -> str:
    """What a module rounds at no site: its weights, and results of a range that is known beforehand."""
    return f"{path}:siteless"


def is_rounded(session: Session, path: str) -> bool:
    """Whether a study in float arithmetic wants this of a module rounded."""
    return session.study is not None and siteless(path) in session.study.only


def show_weight(
    session: Session, path: str, name: str, weight: Tensor, rounded: Callable[[], Tensor], axis: int = 0
) -> None:
    """A weight and what is made of it, to a study that wants to see it."""
    if session.study is not None and session.study.weighed is not None:
        session.study.weighed(path, name, weight.detach(), rounded(), axis)
