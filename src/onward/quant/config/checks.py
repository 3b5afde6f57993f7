"""Checks of single fields, with one form of error: which field, which value, what is allowed, the nearest spelling."""

from __future__ import annotations

import difflib
import math
from collections.abc import Collection, Iterable
from typing import Any

from ...errors import InputError


class QuantizationWarning(UserWarning):
    """Something about a quantized model that its owner should know."""


def nearest(word: object, known: Iterable[str]) -> str | None:
    """The known word that was probably meant."""
    close = difflib.get_close_matches(str(word).lower(), list(known), n=1, cutoff=0.5)
    return close[0] if close else None


def listed(words: Collection[object]) -> str:
    """`"a", "b" or "c"`."""
    texts = [f'"{word}"' if isinstance(word, str) else str(word) for word in words]
    return texts[0] if len(texts) == 1 else f"{', '.join(texts[:-1])} or {texts[-1]}"


def unknown_field(owner: str, name: object, known: Collection[str]) -> InputError:
    close = nearest(name, known)
    return InputError(
        f"{owner} has no field {name!r}",
        hint=f"did you mean {close!r}?" if close else f"its fields are {', '.join(known)}",
    )


def check_flag(field: str, value: Any) -> None:
    if not isinstance(value, bool):
        raise InputError(f"{field} must be True or False, not {value!r}")


def check_choice(field: str, value: Any, allowed: Collection[str], hint: str | None = None) -> None:
    if not isinstance(value, str) or value not in allowed:
        close = nearest(value, allowed) if isinstance(value, str) else None
        raise InputError(
            f"{field} must be {listed(allowed)}, not {value!r}", hint=f'did you mean "{close}"?' if close else hint
        )


def check_whole(field: str, value: Any, low: int, high: int | None = None) -> None:
    """An integer; True and 8.0 are not meant as one."""
    bounds = f"from {low} to {high}" if high is not None else f"from {low} on"
    if not isinstance(value, int) or isinstance(value, bool) or value < low or (high is not None and value > high):
        raise InputError(f"{field} must be a whole number {bounds}, not {value!r}")


def check_number(field: str, value: Any, low: float, high: float) -> None:
    """A number above `low` and not above `high`."""
    if not _is_number(value) or not low < value <= high:
        most = "" if math.isinf(high) else f" and at most {high:g}"
        raise InputError(f"{field} must be a number above {low:g}{most}, not {value!r}")


def check_share(field: str, value: Any) -> None:
    """A number from 0 to 1."""
    if not _is_number(value) or not 0 <= value <= 1:
        raise InputError(f"{field} must be a number from 0 to 1, not {value!r}")


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


class Section(dict[str, Any]):
    """A mapping of a file that knows the line of each of its keys, and its own."""

    def __init__(self, line: int) -> None:
        super().__init__()
        self.line = line
        self.lines: dict[str, int] = {}
